//! Alerts as signed HTTP requests, after the Standard Webhooks conventions (D3).
//!
//! Owns one request: its body, its signature and what its answer means. It must not follow redirects, because a signed
//! message goes to the address that was configured and nowhere else, and it must not let the secrets, or the path of
//! the address, which often is one, into any error.

mod request;

use base64::Engine as _;
use hyper::Uri;
use hyper::http::uri::Scheme;
use serde::Serialize;

use super::{AlertChannel, AlertError, AlertFuture, AlertMessage};
use crate::standard_webhooks::Secret;

/// What receivers tell messages apart by.
const TYPE: &str = "backstop.alert";

/// Secrets that may be valid at once: the one in use, and those that go in and out.
const SECRETS: usize = 5;

/// Why a webhook cannot be used as it is described. No message repeats the address or a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// The address is no URL.
    #[error("the webhook's address is not a URL: write https://HOST/PATH")]
    Address,
    /// It is one of another scheme.
    #[error("the webhook's address must begin with https:// or http://")]
    Scheme,
    /// It has a user or a password in it.
    #[error(
        "the webhook's address has a user or a password in it: leave them out, the signature says who sends"
    )]
    Credentials,
    /// There is no secret to sign with.
    #[error("the webhook has no secret to sign with: give one that begins with whsec_")]
    NoSecret,
    /// There are too many.
    #[error("the webhook has more than {SECRETS} secrets: keep those that receivers still know")]
    TooManySecrets,
    /// One is no secret.
    #[error("secret {number} of the webhook is not whsec_ followed by 24 to 64 bytes in base64")]
    Secret {
        /// Which one, counted from 1.
        number: usize,
    },
}

/// Posts each alert as JSON to an address, signed (`webhook-id`, `webhook-timestamp`, `webhook-signature`).
///
/// Any answer of the 200s is a delivery, everything else is tried again later. While a secret is being changed, give
/// both: each message then carries one signature of each.
///
/// ```
/// # use backstop::{Alerts, Webhook};
/// let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// let webhook = Webhook::new("https://ops.example.com/alerts", &[secret])?;
/// assert_eq!(webhook.shown(), "https://ops.example.com");
/// let alerts = Alerts::default().channel(webhook);
/// # Ok::<(), backstop::WebhookError>(())
/// ```
#[derive(Clone)]
pub struct Webhook {
    address: Uri,
    secrets: Vec<Secret>,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook").field("address", &self.shown()).finish_non_exhaustive()
    }
}

impl Webhook {
    /// A webhook at this address that signs with these secrets.
    ///
    /// # Errors
    /// When the address is no http or https URL, or a secret is none.
    pub fn new(address: &str, secrets: &[impl AsRef<str>]) -> Result<Self, WebhookError> {
        let address: Uri = address.trim().parse().map_err(|_| WebhookError::Address)?;
        let authority = address.authority().ok_or(WebhookError::Address)?;
        if !address.scheme().is_some_and(|scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS) {
            return Err(WebhookError::Scheme);
        }
        if authority.as_str().contains('@') {
            return Err(WebhookError::Credentials);
        }
        if authority.host().is_empty() {
            return Err(WebhookError::Address);
        }
        let parsed = secrets.iter().enumerate().map(|(at, secret)| {
            Secret::parse(secret.as_ref()).ok_or(WebhookError::Secret { number: at + 1 })
        });
        let secrets: Vec<Secret> = parsed.collect::<Result<_, _>>()?;
        match secrets.len() {
            0 => Err(WebhookError::NoSecret),
            1..=SECRETS => Ok(Self { address, secrets }),
            _ => Err(WebhookError::TooManySecrets),
        }
    }

    /// Where it sends to, as it may be shown: without the path, which is a secret of its own with many receivers.
    #[must_use]
    pub fn shown(&self) -> String {
        let scheme = self.address.scheme_str().unwrap_or_default();
        let authority = self.address.authority().map_or("", |authority| authority.as_str());
        format!("{scheme}://{authority}")
    }

    /// A new secret: `whsec_` and 32 random bytes in base64; none when this machine returned no random bytes.
    #[must_use]
    pub fn new_secret() -> Option<String> {
        let mut key = [0; 32];
        tokio_rustls::rustls::crypto::ring::default_provider().secure_random.fill(&mut key).ok()?;
        Some(format!("whsec_{}", base64::engine::general_purpose::STANDARD.encode(key)))
    }

    /// Posts a text, signed under `id`, and answers the status of the answer; what that means is the caller's.
    ///
    /// # Errors
    /// When no answer came. The words name the host and never the path.
    pub async fn post(&self, id: &str, body: String) -> Result<u16, AlertError> {
        request::post(&self.address, &self.secrets, id, body, request::machine)
            .await
            .map(|status| status.as_u16())
            .map_err(|problem| AlertError::new(format!("{}: {problem}", self.shown())))
    }

    /// The text that is posted: the same for every delivery of a message.
    fn body(message: &AlertMessage) -> Result<String, AlertError> {
        #[derive(Serialize)]
        struct Body<'a> {
            r#type: &'static str,
            timestamp: backstop_core::Timestamp,
            data: &'a AlertMessage,
        }
        let body = Body { r#type: TYPE, timestamp: message.last_at, data: message };
        serde_json::to_string(&body).map_err(|error| AlertError::new(error.to_string()))
    }
}

impl AlertChannel for Webhook {
    fn name(&self) -> &'static str {
        "webhook"
    }

    fn deliver<'a>(&'a self, message: &'a AlertMessage) -> AlertFuture<'a> {
        Box::pin(async move {
            match self.post(&message.id, Self::body(message)?).await? {
                200..300 => Ok(()),
                code @ 300..400 => {
                    let problem = format!("{} answered {code}: redirects are not followed", self.shown());
                    Err(AlertError::new(problem))
                }
                code => Err(AlertError::new(format!("{} answered {code}", self.shown()))),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn an_address_is_checked_and_never_repeated() {
        // D3
        for (address, expected) in [
            ("https://ops.example.com/T0/secretpath", None),
            ("http://127.0.0.1:8080", None),
            ("http://[::1]:8080/x?token=1", None),
            ("", Some(WebhookError::Address)),
            ("ops.example.com/secretpath", Some(WebhookError::Address)),
            ("/secretpath", Some(WebhookError::Address)),
            ("ftp://ops.example.com/secretpath", Some(WebhookError::Scheme)),
            ("https://ann:secretpath@ops.example.com/", Some(WebhookError::Credentials)),
            ("https:// ops", Some(WebhookError::Address)),
        ] {
            let made = Webhook::new(address, &[SECRET]);
            assert_eq!(made.as_ref().err(), expected.as_ref(), "{address}");
            let shown = made.map_or_else(|error| error.to_string(), |made| format!("{made:?}"));
            assert!(!shown.contains("secretpath") && !shown.contains("token"), "{shown}");
        }
    }

    #[test]
    fn secrets_are_checked_and_never_repeated() {
        // D3
        let short = format!("whsec_{}", "QUJD");
        let refused = |secrets: &[&str]| Webhook::new("https://a.example", secrets).expect_err("refused");
        assert_eq!(refused(&[]), WebhookError::NoSecret);
        assert_eq!(refused(&[SECRET; 6]), WebhookError::TooManySecrets);
        for wrong in ["", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_!!!", short.as_str()] {
            let error = refused(&[SECRET, wrong]);
            assert_eq!(error, WebhookError::Secret { number: 2 }, "{wrong}");
            assert!(wrong.len() < 7 || !error.to_string().contains(wrong));
        }
    }
}
