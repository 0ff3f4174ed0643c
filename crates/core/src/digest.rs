//! Short names for texts of any length, and bytes as text.

use sha2::{Digest, Sha256};

/// The first half of the SHA-256 of a text, in 32 hexadecimal digits: the same for the same text, in every version.
///
/// ```
/// assert_eq!(backstop_core::digest::short("order-7"), backstop_core::digest::short("order-7"));
/// assert_ne!(backstop_core::digest::short("order-7"), backstop_core::digest::short("order-8"));
/// ```
#[must_use]
pub fn short(text: &str) -> String {
    hexadecimal(&Sha256::digest(text.as_bytes())[..16])
}

/// Bytes in lower-case hexadecimal digits.
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
