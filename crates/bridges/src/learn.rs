//! The code of docs/learn/bridges.md as doc tests.

/// docs/learn/bridges.md
#[doc = include_str!("../../../docs/learn/bridges.md")]
pub struct BridgesPage;
