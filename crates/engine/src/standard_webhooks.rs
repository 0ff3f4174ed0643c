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

    fn mac(&self, id: &str, seconds: u64, body: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length does");
        mac.update(format!("{id}.{seconds}.").as_bytes());
        mac.update(body);
        mac
    }

    fn sign(&self, id: &str, seconds: u64, body: &[u8]) -> String {
        format!("v1,{}", STANDARD.encode(self.mac(id, seconds, body).finalize().into_bytes()))
    }

    /// Compares in a time that does not depend on where the first difference is.
    fn made(&self, id: &str, seconds: u64, body: &[u8], signature: &[u8]) -> bool {
        self.mac(id, seconds, body).verify_slice(signature).is_ok()
    }
}

/// Signatures of one message that are looked at: a sender has as many as it has secrets.
const SIGNATURES: usize = 10;

/// True when one of the signatures in the header [`SIGNATURE`] was made by one of these secrets.
///
/// Whether `seconds` is a moment ago is for the caller to say: only it knows its clock.
#[must_use]
pub fn is_signed(secrets: &[Secret], id: &str, seconds: u64, body: &[u8], header: &str) -> bool {
    let each = header.split(' ').take(SIGNATURES).filter_map(|one| one.strip_prefix("v1,"));
    let decoded: Vec<Vec<u8>> = each.filter_map(|text| STANDARD.decode(text).ok()).collect();
    secrets.iter().any(|secret| decoded.iter().any(|made| secret.made(id, seconds, body, made)))
}

/// What stands in [`SIGNATURE`]: one signature by each secret.
///
/// ```
/// use backstop::standard_webhooks::{Secret, is_signed, signatures};
///
/// let secrets = [Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a key in base64")];
/// let header = signatures(&secrets, "msg_1", 1_614_265_330, b"{}");
/// assert!(header.starts_with("v1,"));
/// // At the receiver, which looks first whether that was a moment ago:
/// assert!(is_signed(&secrets, "msg_1", 1_614_265_330, b"{}", &header));
/// assert!(!is_signed(&secrets, "msg_1", 1_614_265_330, b"[]", &header));
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

    #[test]
    fn a_signature_holds_for_what_was_signed_and_for_nothing_else() {
        // B7
        let secret = |text: &str| Secret::parse(text).expect("a secret");
        let ours = secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let old = secret("whsec_NfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let made = signatures(&[old.clone(), ours.clone()], "m1", 7, b"{}");
        let ring = std::slice::from_ref(&ours);
        assert!(is_signed(ring, "m1", 7, b"{}", &made), "one of them is known");
        assert!(is_signed(&[old.clone(), ours.clone()], "m1", 7, b"{}", &signatures(ring, "m1", 7, b"{}")));
        for (id, seconds, body) in [("m2", 7, &b"{}"[..]), ("m1", 8, b"{}"), ("m1", 7, b"{ }")] {
            assert!(!is_signed(ring, id, seconds, body, &made), "{id} {seconds} {body:?}");
        }
        for header in ["", "v1,", "v2,AAAA", "v1,!!!", &signatures(&[old], "m1", 7, b"{}")] {
            assert!(!is_signed(ring, "m1", 7, b"{}", header), "{header}");
        }
        assert!(!is_signed(&[], "m1", 7, b"{}", &made));
    }
}
