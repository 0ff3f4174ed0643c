//! Tests of access.
