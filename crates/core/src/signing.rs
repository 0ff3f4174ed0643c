//! Signatures over jobs: HMAC-SHA256 over everything about a job that never changes (E9).
//!
//! Whoever can write into the database and has no key can neither make a job that is run nor change one that is there.
//! Owns what is signed, in which order and with which bytes, and the ring of keys. It must not decide where signatures
//! are required, and it makes no keys: they come in as values.
//!
//! The encoding is fixed: `FORM` stands at its beginning, every text has its length before it, every option a byte
//! that says whether it is there. So no two different jobs have the same bytes. A change of it is a new form.

mod encode;
mod ring;

#[cfg(test)]
mod tests;

pub(crate) use ring::checked;
pub use ring::{KeyError, SecretKey, SigningKeys};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::digest::hexadecimal;
use crate::job::{Signature, Spec};

/// The form of what is signed. A later form has another name, and another key could sign it.
const FORM: &str = "backstop job 1";

/// Why a job is not vouched for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// It has no signature.
    #[error("it has no signature; submit it through a program that has the signing keys")]
    Missing,
    /// Its signature was made with a key that is not in the ring.
    #[error("its signature names the key `{key}`, which is not among the signing keys")]
    UnknownKey {
        /// The key it names, made safe to print.
        key: String,
    },
    /// Its signature is not what the key makes of it: the job or the signature was changed after it was submitted.
    #[error("its signature by the key `{key}` is wrong: the job is not what was submitted")]
    Wrong {
        /// The key it names.
        key: String,
    },
}

impl SigningKeys {
    /// Signs a job with the first key.
    #[must_use]
    pub fn sign(&self, spec: &Spec) -> Signature {
        let key = self.first();
        Signature {
            key: key.id().into(),
            mac: hexadecimal(&mac_of(key, spec).finalize().into_bytes()).into(),
        }
    }

    /// Checks the signature that a job carries, with whichever key of the ring made it.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn verify(&self, spec: &Spec) -> Result<(), SignatureError> {
        let Some(signature) = spec.signature() else {
            return Err(SignatureError::Missing);
        };
        let Some(key) = self.find(&signature.key) else {
            let key = crate::text::one_line(crate::text::head_chars(&signature.key, 64)).into_owned();
            return Err(SignatureError::UnknownKey { key });
        };
        let wrong = || SignatureError::Wrong { key: key.id().to_owned() };
        let claimed = bytes(&signature.mac).ok_or_else(wrong)?;
        // Compares in a time that does not depend on where the first difference is.
        mac_of(key, spec).verify_slice(&claimed).map_err(|_| wrong())
    }
}

/// Puts the signature of a job into its provenance.
pub fn sign(keys: &SigningKeys, spec: &mut Spec) {
    let signature = keys.sign(spec);
    spec.provenance_mut().signature = Some(signature);
}

fn mac_of(key: &SecretKey, spec: &Spec) -> Hmac<Sha256> {
    let mut mac = key.mac();
    encode::job(spec, &mut |part: &[u8]| mac.update(part));
    mac
}

impl SecretKey {
    fn mac(&self) -> Hmac<Sha256> {
        // HMAC takes keys of every length; those that are too short never become a `SecretKey`.
        Hmac::new_from_slice(self.secret()).unwrap_or_else(|_| Hmac::new(&Default::default()))
    }
}

/// The 32 bytes that 64 lower-case digits stand for.
fn bytes(text: &str) -> Option<[u8; 32]> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let pairs: [[u8; 2]; 32] = text.as_bytes().as_chunks::<2>().0.try_into().ok()?;
    if text.len() != 64 {
        return None;
    }
    let mut out = [0; 32];
    for (byte, [high, low]) in out.iter_mut().zip(pairs) {
        *byte = digit(high)? << 4 | digit(low)?;
    }
    Some(out)
}
