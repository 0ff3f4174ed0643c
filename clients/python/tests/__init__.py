"""Tests against a server whose address is in BACKSTOP_SERVER."""
