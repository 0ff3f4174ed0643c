//! Sealed data: payloads and results that stand in the store encrypted and authenticated (E12).
//!
//! XChaCha20-Poly1305 with a nonce of 24 random bytes, which never repeat by chance. The job's id, its kind and what
//! the data is are authenticated with it: sealed text that is moved to another job, or from a result into a payload,
//! opens nowhere. Owns the form of sealed text and the ring of keys. It must not make nonces: they come in as values;
//! and no error of it holds a word of what was sealed.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use serde::{Deserialize, Serialize};

use crate::id::JobId;
use crate::job::Spec;
use crate::signing::{KeyError, SecretKey};

/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 24;

/// Bytes of a key.
const KEY_BYTES: usize = 32;

/// What is shown in place of sealed data.
pub const SHOWN: &str = "[encrypted]";

/// The name of the one field of sealed JSON text.
const MARK: &str = "$sealed";

/// Keys for sealing: the first one seals, all of them open.
#[derive(Clone)]
pub struct SealingKeys(Arc<[(SecretKey, XChaCha20Poly1305)]>);

/// What sealed data is, beside whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealedPart {
    /// What a job is submitted with.
    Payload,
    /// What a run returned.
    Result,
    /// What a step of it returned (W7).
    Step,
    /// An item that a run of it rejected (W9).
    Reject,
}

/// Whose data it is: what is authenticated with it.
#[derive(Debug, Clone, Copy)]
pub struct Owner<'a> {
    job: JobId,
    kind: &'a str,
    part: SealedPart,
}

impl<'a> Owner<'a> {
    /// The payload of a job of this id and kind.
    #[must_use]
    pub const fn payload(job: JobId, kind: &'a str) -> Self {
        Self { job, kind, part: SealedPart::Payload }
    }

    /// The payload of a stored job. That of a callback was sealed with the job that declares it: its own id is made
    /// when that job ends.
    #[must_use]
    pub fn payload_of(spec: &'a Spec) -> Self {
        Self::payload(spec.callback_of.unwrap_or(spec.id), &spec.kind)
    }

    /// The result of a stored job.
    #[must_use]
    pub fn result_of(spec: &'a Spec) -> Self {
        Self { job: spec.id, kind: &spec.kind, part: SealedPart::Result }
    }

    /// The result of a step of a stored job.
    #[must_use]
    pub fn step_of(spec: &'a Spec) -> Self {
        Self::step(spec.id, &spec.kind)
    }

    /// The result of a step of a job of this id and kind.
    #[must_use]
    pub const fn step(job: JobId, kind: &'a str) -> Self {
        Self { job, kind, part: SealedPart::Step }
    }

    /// An item that a run of a job of this id and kind rejected.
    #[must_use]
    pub const fn reject(job: JobId, kind: &'a str) -> Self {
        Self { job, kind, part: SealedPart::Reject }
    }

    fn bytes(self) -> Vec<u8> {
        let part: &[u8] = match self.part {
            SealedPart::Payload => b"backstop payload 1",
            SealedPart::Result => b"backstop result 1",
            SealedPart::Step => b"backstop step 1",
            SealedPart::Reject => b"backstop reject 1",
        };
        // The first two have their lengths fixed by the words themselves; the kind is last and needs none.
        [part, &[0], self.job.as_bytes(), self.kind.as_bytes()].concat()
    }
}

/// Why sealed data does not open. Never holds a word of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// It looks sealed and does not have the form.
    #[error("this does not have the form of sealed data: it was changed after it was stored")]
    Form,
    /// The key is not in the ring.
    #[error(
        "the data is sealed with the key `{key}`, which is not among the encryption keys of this program"
    )]
    UnknownKey {
        /// The key it names, made safe to print.
        key: String,
    },
    /// The key does not open it.
    #[error("the data does not open with the key `{key}`: it was changed, or it is another job's")]
    Wrong {
        /// The key it names.
        key: String,
    },
    /// The cipher refused: more data than it takes.
    #[error("the data is larger than the cipher takes")]
    TooLarge,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed<'a> {
    #[serde(rename = "$sealed", borrow)]
    sealed: Inner<'a>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Inner<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow)]
    nonce: Cow<'a, str>,
    #[serde(borrow)]
    data: Cow<'a, str>,
}

impl SealingKeys {
    /// A ring of these keys, each of 32 bytes.
    ///
    /// # Errors
    /// When there is none, two have the same name, or one has another length.
    pub fn new(keys: impl Into<Vec<SecretKey>>) -> Result<Self, KeyError> {
        let ready = |key: SecretKey| {
            let bytes = key.secret().len();
            match XChaCha20Poly1305::new_from_slice(key.secret()) {
                Ok(cipher) if bytes == KEY_BYTES => Ok((key, cipher)),
                _ => Err(KeyError::Length { id: key.id().to_owned(), bytes }),
            }
        };
        let keys = crate::signing::checked(keys.into())?;
        Ok(Self(keys.into_iter().map(ready).collect::<Result<Vec<_>, _>>()?.into()))
    }

    /// The names of the keys, the one that seals first.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(key, _)| key.id())
    }

    /// Seals JSON text with the first key. `nonce` is random and used once.
    ///
    /// # Errors
    /// When there is more of it than the cipher takes.
    pub fn seal(&self, owner: Owner<'_>, text: &str, nonce: [u8; NONCE_BYTES]) -> Result<String, SealError> {
        let (key, cipher) = &self.0[0];
        let payload = Payload { msg: text.as_bytes(), aad: &owner.bytes() };
        let data = cipher.encrypt(&XNonce::from(nonce), payload).map_err(|_| SealError::TooLarge)?;
        let sealed = Inner {
            key: key.id().into(),
            nonce: STANDARD.encode(nonce).into(),
            data: STANDARD.encode(data).into(),
        };
        serde_json::to_string(&Sealed { sealed }).map_err(|_| SealError::Form)
    }

    /// Opens what was sealed for this owner.
    ///
    /// # Errors
    /// Says why it does not open.
    pub fn open(&self, owner: Owner<'_>, text: &str) -> Result<String, SealError> {
        let Sealed { sealed } = serde_json::from_str(text).map_err(|_| SealError::Form)?;
        let Some((key, cipher)) = self.0.iter().find(|(key, _)| key.id() == sealed.key) else {
            return Err(SealError::UnknownKey { key: named(&sealed.key) });
        };
        let nonce = STANDARD.decode(sealed.nonce.as_bytes()).map_err(|_| SealError::Form)?;
        let nonce: [u8; NONCE_BYTES] = nonce.try_into().map_err(|_| SealError::Form)?;
        let data = STANDARD.decode(sealed.data.as_bytes()).map_err(|_| SealError::Form)?;
        let payload = Payload { msg: &data, aad: &owner.bytes() };
        let wrong = || SealError::Wrong { key: key.id().to_owned() };
        let opened = cipher.decrypt(&XNonce::from(nonce), payload).map_err(|_| wrong())?;
        String::from_utf8(opened).map_err(|_| wrong())
    }
}

impl fmt::Debug for SealingKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ids()).finish()
    }
}

fn named(key: &str) -> String {
    crate::text::one_line(crate::text::head_chars(key, 64)).into_owned()
}

/// True when stored text is sealed: an object whose first field is the mark, as [`SealingKeys::seal`] writes it.
///
/// Also for data that only looks like it: what is not ours does not open, and is not shown.
#[must_use]
pub fn is_sealed(text: &str) -> bool {
    let Some(inside) = text.trim_start().strip_prefix('{') else { return false };
    inside.trim_start().strip_prefix('"').is_some_and(|field| field.starts_with(MARK))
}

/// True when a decoded value is sealed data.
#[must_use]
pub fn is_sealed_value(value: &serde_json::Value) -> bool {
    value.as_object().is_some_and(|fields| fields.contains_key(MARK))
}

/// The name of the key in text that has the whole form of sealed text; none for any other.
#[must_use]
pub fn key_of(text: &str) -> Option<String> {
    let Sealed { sealed } = serde_json::from_str(text).ok()?;
    Some(named(&sealed.key))
}

#[cfg(test)]
mod tests;
