//! The signature of an outgoing message after the Standard Webhooks conventions: HMAC-SHA256 over its id, the moment of
//! the delivery and its body. Alerts sign with it, and so may handlers. It must not let a secret be shown.

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

const PREFIX: &str = "whsec_";

/// What the conventions allow.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Secrets are copied by hand, and their padding gets lost.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The header that holds the id of a message; it stays the same over every delivery.
pub const ID: &str = "webhook-id";
/// The header that holds the moment of a delivery, in seconds.
pub const TIMESTAMP: &str = "webhook-timestamp";
/// The header that holds the signatures.
pub const SIGNATURE: &str = "webhook-signature";

/// A key to sign with. It has no way to be shown.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// Reads `whsec_` and the key of 24 to 64 bytes in base64; none when it is anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let key = LENIENT.decode(text.trim().strip_prefix(PREFIX)?).ok()?;
        BYTES.contains(&key.len()).then_some(Self(key))
    }

    fn sign(&self, id: &str, seconds: u64, body: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length does");
        mac.update(format!("{id}.{seconds}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

/// What stands in [`SIGNATURE`]: one signature by each secret.
///
/// ```
/// use backstop::standard_webhooks::{Secret, signatures};
///
/// let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a key in base64");
/// let header = signatures(&[secret], "msg_1", 1_614_265_330, b"{}");
/// assert!(header.starts_with("v1,"));
/// ```
#[must_use]
pub fn signatures(secrets: &[Secret], id: &str, seconds: u64, body: &[u8]) -> String {
    let each: Vec<String> = secrets.iter().map(|secret| secret.sign(id, seconds, body)).collect();
    each.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_example_is_signed_as_published() {
        // D3
        let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a secret");
        let (id, body) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", br#"{"test": 2432232314}"#);
        let signed = signatures(std::slice::from_ref(&secret), id, 1_614_265_330, body);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let both = signatures(&[secret.clone(), secret], id, 1_614_265_330, body);
        assert_eq!(both, format!("{signed} {signed}"));
    }
}
