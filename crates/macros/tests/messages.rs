//! What the compiler shows for wrong attributes: the message and the place it points at.
//!
//! These files end at the macros' own errors, so they need no engine, and their text does not change with the compiler.

#[test]
fn wrong_attributes_are_explained_where_they_are() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
