//! Looks for readable pieces of planted secrets in any bytes: text, JSON, the raw file of a database.
//!
//! A piece is enough: half a password in a log is a leak too, and escapes or line breaks may cut a secret in two.

use std::collections::{BTreeSet, HashMap};

use super::PlantedSecret;

/// How many bits tell quickly that no piece begins here, as a power of two.
const BITS: u32 = 24;

/// The bytes that the quick answer looks at; every piece is longer.
const HEAD: usize = 8;

/// Every piece of every secret, ready to be looked up.
#[derive(Debug)]
pub struct SecretFinder {
    /// Whose piece it is; none when several secrets have it.
    pieces: HashMap<Vec<u8>, Option<usize>>,
    lengths: BTreeSet<usize>,
    quick: Vec<bool>,
}

impl SecretFinder {
    /// Prepares the search for these.
    ///
    /// # Panics
    /// When a secret is so short that it would be found by chance.
    #[must_use]
    pub fn new(secrets: &[PlantedSecret]) -> Self {
        let mut finder =
            Self { pieces: HashMap::new(), lengths: BTreeSet::new(), quick: vec![false; 1 << BITS] };
        for (index, secret) in secrets.iter().enumerate() {
            let length = piece_len(&secret.hidden);
            assert!(secret.hidden.len() >= length, "{secret:?} is too short to look for");
            finder.lengths.insert(length);
            for piece in secret.hidden.as_bytes().windows(length) {
                finder.quick[slot(piece)] = true;
                // What two secrets have in common is the prefix of their issuer, and no secret.
                let known = finder.pieces.entry(piece.to_vec()).or_insert(Some(index));
                *known = known.filter(|known| *known == index);
            }
        }
        finder
    }

    /// The numbers of the secrets of which a piece stands in `bytes`.
    #[must_use]
    pub fn found(&self, bytes: &[u8]) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        for at in 0..bytes.len().saturating_sub(HEAD) {
            if self.quick[slot(&bytes[at..])] {
                let pieces = self.lengths.iter().filter_map(|length| bytes.get(at..at + length));
                found.extend(pieces.filter_map(|piece| self.pieces.get(piece).copied().flatten()));
            }
        }
        found
    }
}

/// Long enough that no other number, digest or word of the store is taken for a piece.
fn piece_len(hidden: &str) -> usize {
    if hidden.bytes().all(|b| b.is_ascii_digit() || b == b' ') { 12 } else { 10 }
}

fn slot(bytes: &[u8]) -> usize {
    let head = bytes.first_chunk::<HEAD>().map_or(0, |head| u64::from_le_bytes(*head));
    // Multiplying by a large odd number spreads the bytes over the high bits.
    let spread = head.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BITS);
    usize::try_from(spread).unwrap_or_default()
}
