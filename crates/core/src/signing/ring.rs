//! Secret keys by name, several valid at once, so that one can follow another without a gap.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Bytes that a secret has at least: as many as the digest, fewer would be easier to guess than the signature.
const LEAST_BYTES: usize = 32;

/// Characters of a key's name at most.
const MOST_NAME: usize = 64;

/// A secret with a name. The name is stored with what the key made; the secret is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey {
    id: Arc<str>,
    secret: Arc<[u8]>,
}

impl SecretKey {
    /// A key of these bytes.
    ///
    /// # Errors
    /// When the name or the secret cannot be used.
    pub fn new(id: impl Into<Arc<str>>, secret: impl Into<Arc<[u8]>>) -> Result<Self, KeyError> {
        let (id, secret) = (id.into(), secret.into());
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if id.is_empty() || id.len() > MOST_NAME || !id.chars().all(plain) {
            return Err(KeyError::Name);
        }
        if secret.len() < LEAST_BYTES {
            return Err(KeyError::Short { id: id.to_string(), bytes: secret.len() });
        }
        Ok(Self { id, secret })
    }

    /// A key of the bytes that this base64 text stands for.
    ///
    /// # Errors
    /// When it is no base64, or as [`SecretKey::new`].
    pub fn from_base64(id: impl Into<Arc<str>>, text: &str) -> Result<Self, KeyError> {
        let id = id.into();
        // What the decoder says would repeat a part of the secret.
        let secret = STANDARD.decode(text.trim()).map_err(|_| KeyError::NotBase64 { id: id.to_string() })?;
        Self::new(id, secret)
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn secret(&self) -> &[u8] {
        &self.secret
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Keys for signatures: the first one signs, all of them verify.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningKeys(Arc<[SecretKey]>);

impl SigningKeys {
    /// A ring of these keys.
    ///
    /// # Errors
    /// When there is none, or two have the same name.
    pub fn new(keys: impl Into<Vec<SecretKey>>) -> Result<Self, KeyError> {
        checked(keys.into()).map(|keys| Self(keys.into()))
    }

    /// The names of the keys, the one that signs first.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(SecretKey::id)
    }

    pub(super) fn first(&self) -> &SecretKey {
        &self.0[0]
    }

    pub(super) fn find(&self, id: &str) -> Option<&SecretKey> {
        self.0.iter().find(|key| key.id() == id)
    }
}

/// Keys that can be told apart, one at least.
pub(crate) fn checked(keys: Vec<SecretKey>) -> Result<Vec<SecretKey>, KeyError> {
    if keys.is_empty() {
        return Err(KeyError::None);
    }
    for (at, key) in keys.iter().enumerate() {
        if keys[..at].iter().any(|earlier| earlier.id() == key.id()) {
            return Err(KeyError::Twice { id: key.id().to_owned() });
        }
    }
    Ok(keys)
}

/// Why keys cannot be used. Never names a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// There is no key.
    #[error("there is no key; give at least one, and first the one to use")]
    None,
    /// Its name cannot be stored.
    #[error("the name of a key has 1 to {MOST_NAME} letters, digits, `-`, `_` or `.`")]
    Name,
    /// Two keys have the same name.
    #[error("two keys are called `{id}`; give each its own name")]
    Twice {
        /// The name.
        id: String,
    },
    /// It is no base64.
    #[error("the secret of the key `{id}` is not valid base64; `openssl rand -base64 32` makes a good one")]
    NotBase64 {
        /// The name.
        id: String,
    },
    /// It is too short.
    #[error(
        "the secret of the key `{id}` has {bytes} bytes and needs at least {LEAST_BYTES}; \
             `openssl rand -base64 32` makes a good one"
    )]
    Short {
        /// The name.
        id: String,
        /// Its bytes.
        bytes: usize,
    },
    /// It has another length than the cipher takes.
    #[error(
        "the secret of the key `{id}` has {bytes} bytes, and the cipher takes {LEAST_BYTES}; \
             `openssl rand -base64 32` makes a good one"
    )]
    Length {
        /// The name.
        id: String,
        /// Its bytes.
        bytes: usize,
    },
}
