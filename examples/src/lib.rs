//! One idea per example; each is run by its own test.
