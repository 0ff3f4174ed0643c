//! Tests of resources.
