//! Jobs that another Backstop hands off to this one (B7): who vouches for them, and how many were known already.
//!
//! They come in like all others, through `/api/v1/jobs`: there is no second way in. They are known by their idempotency
//! keys, which name their publication.

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use backstop::figures::{Family, Labelled, Sort};
use backstop::handoffs::publication_of;
use backstop::standard_webhooks::{ID, SIGNATURE, Secret, TIMESTAMP, is_signed};
use serde_json::json;

use crate::api::Api;
use crate::error::ApiError;

/// How far the clocks of both ends may be apart.
const TOLERANCE: Duration = Duration::from_secs(5 * 60);

/// What is counted of jobs that were handed off to this process.
#[derive(Debug)]
pub(crate) struct HandedIn {
    admitted: Labelled<AtomicU64>,
    duplicates: Labelled<AtomicU64>,
}

impl Default for HandedIn {
    fn default() -> Self {
        let by_name = || Labelled::new(["publication", ""]);
        Self { admitted: by_name(), duplicates: by_name() }
    }
}

impl HandedIn {
    /// Counts a job of a publication; of others nothing.
    pub(crate) fn count(&self, publication: Option<&str>, deduplicated: bool) {
        let counts = if deduplicated { &self.duplicates } else { &self.admitted };
        if let Some(publication) = publication {
            counts.add(publication, "", 1);
        }
    }

    pub(crate) fn families(&self) -> Vec<Family> {
        vec![
            Family::new(
                "backstop_handoff_received_total",
                "Jobs that other Backstops have handed off to this process, by publication.",
                Sort::Counter,
                self.admitted.samples(),
            ),
            Family::new(
                "backstop_handoff_received_duplicates_total",
                "Jobs handed off to this process whose keys were seen before: nothing was made of them.",
                Sort::Counter,
                self.duplicates.samples(),
            ),
        ]
    }
}

/// The signature of a request, after the Standard Webhooks conventions, and for which publications it was found right.
pub(crate) struct RequestSignature {
    signed: Option<(String, u64, String)>,
    right: Mutex<Vec<String>>,
}

impl<S: Sync> FromRequestParts<S> for RequestSignature {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let seconds = text(TIMESTAMP).and_then(|text| text.parse().ok());
        let signed = match (text(ID), seconds, text(SIGNATURE)) {
            (Some(id), Some(seconds), Some(signature)) => {
                Some((id.to_owned(), seconds, signature.to_owned()))
            }
            _ => None,
        };
        Ok(Self { signed, right: Mutex::default() })
    }
}

impl RequestSignature {
    /// The publication that a job with this key belongs to, if it is one that was handed off.
    ///
    /// # Errors
    /// When its publication has secrets here, and none of them signed this body a moment ago.
    pub(crate) fn check(
        &self,
        api: &Api,
        key: Option<&str>,
        body: &[u8],
    ) -> Result<Option<String>, ApiError> {
        let Some(publication) = key.and_then(publication_of) else { return Ok(None) };
        let Some(secrets) = api.settings().publications.get(publication) else {
            return Ok(Some(publication.to_owned()));
        };
        let mut right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
        // A body is looked at once for each publication, however many jobs are in it.
        if !right.iter().any(|known| known == publication) {
            if !self.holds(secrets, body) {
                return Err(unsigned(publication));
            }
            right.push(publication.to_owned());
        }
        Ok(Some(publication.to_owned()))
    }

    fn holds(&self, secrets: &[Secret], body: &[u8]) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.signed.as_ref().is_some_and(|(id, seconds, signature)| {
            seconds.abs_diff(now) <= TOLERANCE.as_secs() && is_signed(secrets, id, *seconds, body, signature)
        })
    }
}

fn unsigned(publication: &str) -> ApiError {
    let message =
        format!("what is published as `{publication}` must be signed, and this request is not, or wrongly");
    ApiError::new(StatusCode::FORBIDDEN, "signature", message)
        .hint("give both ends the same secrets under [handoff.NAME], and check their clocks")
        .details(json!({ "publication": publication }))
}
