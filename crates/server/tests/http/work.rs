//! Tests of work.
