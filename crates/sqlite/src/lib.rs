//! Backstop's embedded store: SQLite with one writer thread and group commit.
