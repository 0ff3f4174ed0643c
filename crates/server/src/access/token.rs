//! API tokens: `bks_` and 43 characters that carry 256 random bits; and what is kept of them, a SHA-256.
//!
//! A slow hash (Argon2, bcrypt) is for secrets that people choose, where guesses are few enough to try. There are 2^256
//! tokens: no number of guesses finds one, however fast each is, so a fast hash protects a stolen store as well as a
//! slow one would, and a request costs a microsecond instead of a tenth of a second that anybody could make us spend.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// How every token begins, so that scanners for leaked secrets know it.
pub(super) const PREFIX: &str = "bks_";

/// Random bytes of a token.
const RANDOM_BYTES: usize = 32;

/// What stands before the hash in the configuration, so that a later kind of hash can be told from this one.
const HASH_MARK: &str = "sha256:";

/// A token in the clear: shown once, kept nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A new one, of the system's own randomness.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub fn generate() -> Result<Self, NoRandomness> {
        let mut bytes = [0; RANDOM_BYTES];
        getrandom::fill(&mut bytes).map_err(|error| NoRandomness(error.to_string()))?;
        Ok(Self(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))))
    }

    /// The text that its holder sends.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// What is kept of it.
    #[must_use]
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(&self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(bks_…)")
    }
}

/// The system gave no random bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the system returned no random bytes: {0}; nothing was created")]
pub struct NoRandomness(String);

/// True for a text that has the shape of a token.
#[must_use]
pub fn looks_like_token(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(PREFIX) else { return false };
    URL_SAFE_NO_PAD.decode(rest).is_ok_and(|bytes| bytes.len() == RANDOM_BYTES)
}

/// The SHA-256 of a token.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// That of a text, whether it is a token or not.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// True when both are of the same token. It takes as long for one that differs in the first byte as for one that
    /// differs in the last.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    /// The first bytes, under which it is looked up. They tell nothing: whoever sends a token does not choose its hash.
    pub(super) fn head(&self) -> [u8; 8] {
        let mut head = [0; 8];
        head.copy_from_slice(&self.0[..8]);
        head
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HASH_MARK)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl From<TokenHash> for String {
    fn from(hash: TokenHash) -> Self {
        hash.to_string()
    }
}

/// A text is no hash of a token. It is not quoted: it may be the token itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HashError {
    /// Somebody wrote the token down.
    #[error(
        "this is a token itself, not its hash: `backstop token new --for-config` makes a token with its hash"
    )]
    Token,
    /// It is something else.
    #[error("this is not the hash of a token: write `sha256:` and 64 hexadecimal digits")]
    Shape,
}

impl FromStr for TokenHash {
    type Err = HashError;

    fn from_str(text: &str) -> Result<Self, HashError> {
        if text.starts_with(PREFIX) {
            return Err(HashError::Token);
        }
        let digits = text.strip_prefix(HASH_MARK).unwrap_or(text).as_bytes();
        if digits.len() != 64 {
            return Err(HashError::Shape);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

fn nibble(digit: u8) -> Result<u8, HashError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        b'A'..=b'F' => Ok(digit - b'A' + 10),
        _ => Err(HashError::Shape),
    }
}

impl TryFrom<String> for TokenHash {
    type Error = HashError;

    fn try_from(text: String) -> Result<Self, HashError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_its_prefix_and_256_bits_and_never_shown_by_accident() {
        let token = Token::generate().expect("randomness");
        assert_eq!(token.reveal().len(), PREFIX.len() + 43);
        assert!(looks_like_token(token.reveal()));
        assert_ne!(token, Token::generate().expect("randomness"));
        assert_eq!(format!("{token:?}"), "Token(bks_…)");
        for text in ["", "bks_", "bks_abc", &token.reveal()[..46], &format!("{}a", token.reveal())] {
            assert!(!looks_like_token(text), "{text}");
        }
    }

    #[test]
    fn a_hash_is_known_by_its_text_and_equal_only_to_itself() {
        // The published SHA-256 of "abc".
        let abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let hash = TokenHash::of("abc");
        assert_eq!(hash.to_string(), abc);
        assert!(hash.is(&abc.to_uppercase().replace("SHA256:", "").parse().expect("digits alone")));
        for at in 0..32 {
            let mut other = hash;
            other.0[at] ^= 1;
            assert!(!hash.is(&other), "byte {at}");
        }
        let token = Token::generate().expect("randomness");
        assert_eq!(token.reveal().parse::<TokenHash>().unwrap_err(), HashError::Token);
        for text in ["", "sha256:", "sha256:zz", &abc[..70], &abc.replace('b', "g")] {
            assert_eq!(text.parse::<TokenHash>().unwrap_err(), HashError::Shape, "{text}");
        }
    }
}
