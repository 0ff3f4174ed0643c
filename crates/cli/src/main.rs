//! The program `backstop`.
fn main() {}
