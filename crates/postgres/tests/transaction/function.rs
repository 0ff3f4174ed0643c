//! The SQL function.
