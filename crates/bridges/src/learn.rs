//! The code of docs/learn/bridges.md and docs/learn/handoff.md as doc tests.

/// docs/learn/bridges.md
#[doc = include_str!("../../../docs/learn/bridges.md")]
pub struct BridgesPage;

/// docs/learn/handoff.md
#[cfg(feature = "handoff")]
#[doc = include_str!("../../../docs/learn/handoff.md")]
pub struct HandOffText;
