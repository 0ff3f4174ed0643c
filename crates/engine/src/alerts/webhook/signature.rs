//! The signature of a message: HMAC-SHA256 over its id, the moment of the delivery and its body.

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

/// A key to sign with. It has no way to be shown.
#[derive(Clone)]
pub(super) struct Secret(Vec<u8>);

impl Secret {
    /// Reads `whsec_` and the key in base64.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let key = LENIENT.decode(text.trim().strip_prefix(PREFIX)?).ok()?;
        BYTES.contains(&key.len()).then_some(Self(key))
    }

    fn sign(&self, id: &str, seconds: u64, body: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length does");
        for part in [id, ".", &seconds.to_string(), ".", body] {
            mac.update(part.as_bytes());
        }
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

/// The header: one signature by each secret.
pub(super) fn signatures(secrets: &[Secret], id: &str, seconds: u64, body: &str) -> String {
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
        let (id, body) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", r#"{"test": 2432232314}"#);
        let signed = signatures(std::slice::from_ref(&secret), id, 1_614_265_330, body);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let both = signatures(&[secret.clone(), secret], id, 1_614_265_330, body);
        assert_eq!(both, format!("{signed} {signed}"));
    }
}
