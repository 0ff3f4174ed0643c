//! Texts that are never shown: keys, passwords, addresses with both.

use std::fmt;

use serde::Deserialize;

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct SecretText(pub(crate) String);

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}
