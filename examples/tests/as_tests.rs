//! The checks of the example `testing`, as the tests that they are in an application.

#[path = "../examples/testing.rs"]
mod testing;
