//! Short names for texts of any length.

use sha2::{Digest, Sha256};

/// The first half of the SHA-256 of a text, in 32 hexadecimal digits: the same for the same text, in every version.
///
/// ```
/// assert_eq!(backstop_core::digest::short("order-7"), backstop_core::digest::short("order-7"));
/// assert_ne!(backstop_core::digest::short("order-7"), backstop_core::digest::short("order-8"));
/// ```
#[must_use]
pub fn short(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
