//! Signature Version 4 of AWS: who asks, and that nobody has changed it on the way.
//!
//! Pure: the moment comes in as a value.

use backstop_core::digest::hexadecimal;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::message::digest;
use crate::secret::SecretText;

/// Who asks.
#[derive(Debug, Clone)]
pub(super) struct AccessKeys {
    pub(super) access: String,
    pub(super) secret: SecretText,
    pub(super) token: Option<SecretText>,
}

/// One request to sign.
pub(super) struct UnsignedRequest<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    /// Names in lower case, in the order of the alphabet; all are signed.
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: &'a [u8],
    /// Such as `20150830T123600Z`.
    pub(super) moment: &'a str,
    pub(super) region: &'a str,
    pub(super) service: &'a str,
}

/// The value of the header `authorization`.
pub(super) fn authorization(request: &UnsignedRequest<'_>, keys: &AccessKeys) -> String {
    let UnsignedRequest { method, path, headers, body, moment, region, service } = request;
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let lines: String = headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    let canonical = format!("{method}\n{path}\n\n{lines}\n{names}\n{}", digest(body));
    let day = moment.get(..8).unwrap_or_default();
    let scope = format!("{day}/{region}/{service}/aws4_request");
    let text = format!("AWS4-HMAC-SHA256\n{moment}\n{scope}\n{}", digest(canonical.as_bytes()));
    let first = format!("AWS4{}", keys.secret.0).into_bytes();
    let key =
        [day, region, service, "aws4_request"].iter().fold(first, |key, part| mac(&key, part.as_bytes()));
    let signature = hexadecimal(&mac(&key, text.as_bytes()));
    format!(
        "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
        keys.access
    )
}

fn mac(key: &[u8], data: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length does");
    mac.update(data);
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_aws_has_the_signature_that_aws_says() {
        // "get-vanilla" of the test suite that AWS publishes for Signature Version 4.
        let request = UnsignedRequest {
            method: "GET",
            path: "/",
            headers: &[("host", "example.amazonaws.com"), ("x-amz-date", "20150830T123600Z")],
            body: b"",
            moment: "20150830T123600Z",
            region: "us-east-1",
            service: "service",
        };
        let keys = AccessKeys {
            access: "AKIDEXAMPLE".into(),
            secret: SecretText("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into()),
            token: None,
        };
        assert_eq!(
            authorization(&request, &keys),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders=host;x-amz-date, \
             Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
        );
        assert!(!format!("{keys:?}").contains("wJalr"));
    }
}
