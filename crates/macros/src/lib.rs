//! Derive and attribute macros of Backstop.
