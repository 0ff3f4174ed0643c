//! The one shape of every refusal: `{"error": {"code", "message", "hint", "details"}}`.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use backstop::{OperateError, Refusal, StepError, SubmitError};
use backstop_store::Error as StoreError;
use serde_json::{Value, json};

/// Why a request was not answered as asked. It never carries internals: what only the operator should know is logged.
#[derive(Debug, Clone)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    hint: Option<String>,
    details: Value,
    /// Seconds after which to try again.
    retry_after: Option<u64>,
}

impl ApiError {
    /// A refusal.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), hint: None, details: Value::Null, retry_after: None }
    }

    /// The request can never be answered as it is.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", message)
    }

    /// The request cannot be read: a query, a path or a body that is none.
    pub fn unreadable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "unreadable", message)
    }

    /// There is no such thing, or not for this caller: both look the same.
    pub fn not_found(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, message)
    }

    /// The caller has shown no valid token.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "this needs a valid token")
            .hint("send it as `Authorization: Bearer TOKEN`; `backstop token new` makes one")
    }

    /// The caller is known and may not.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// The same with a way out.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same with facts for machines.
    #[must_use]
    pub fn details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }

    /// The same with the time after which to try again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Its HTTP status.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// The stable code that machines switch on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.code
    }

    /// As it is sent, and as an item of a batch answer carries it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let (code, message, hint, details) = (&self.code, &self.message, &self.hint, &self.details);
        json!({ "code": code, "message": message, "hint": hint, "details": details })
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(json!({ "error": self.to_json() }))).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(axum::http::header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = axum::http::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(axum::http::header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let status = match &refusal {
            Refusal::TooLarge { .. }
            | Refusal::Invalid { .. }
            | Refusal::Signature(_)
            | Refusal::KindNotAllowed { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Refusal::NoSuchJob { .. } => StatusCode::NOT_FOUND,
            Refusal::QueueFull { .. } => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::CONFLICT,
        };
        let error = Self::new(status, refusal.code(), refusal.to_string())
            .hint(refusal.hint())
            .details(refusal.details());
        if status == StatusCode::TOO_MANY_REQUESTS {
            return error.retry_after(Refusal::WHEN_FULL.as_secs());
        }
        error
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::TooMany { what, actual, limit } => {
                let message = format!("{what} has {actual} items, the limit is {limit}");
                return Self::invalid(message).hint("ask for fewer at a time");
            }
            StoreError::NotEnlisted { .. } => {
                let status = StatusCode::CONFLICT;
                return Self::new(status, error.code(), "the worker's lease has run out").hint("claim again");
            }
            StoreError::Busy { waits_for, .. } => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                return Self::new(status, error.code(), format!("busy: {waits_for}"))
                    .hint("nothing was stored; try again when that transaction has ended")
                    .retry_after(1);
            }
            _ => {}
        }
        // Where the store is and what its driver says is for the operator alone.
        tracing::error!(%error, code = error.code(), "a request failed because the store did");
        if error.is_transient() {
            return Self::new(StatusCode::SERVICE_UNAVAILABLE, error.code(), "the store is unavailable")
                .hint("try again; a submit with an idempotency key can be repeated safely")
                .retry_after(1);
        }
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.code(), "the store failed")
            .hint("see the server's log")
    }
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Refused(refusal) => refusal.into(),
            SubmitError::Store(error) => error.into(),
            other => internal(&other),
        }
    }
}

impl From<OperateError> for ApiError {
    fn from(error: OperateError) -> Self {
        match error {
            OperateError::Refused(refusal) => refusal.into(),
            OperateError::Store(error) => error.into(),
            other => internal(&other),
        }
    }
}

impl From<StepError> for ApiError {
    fn from(error: StepError) -> Self {
        let conflict = |code| Self::new(StatusCode::CONFLICT, code, error.to_string());
        match &error {
            StepError::Changed(changed) => {
                let details = json!({ "stored": changed.stored(), "called": changed.called() });
                conflict("steps_changed")
                    .hint("end the run as `permanent`: no retry mends it")
                    .details(details)
            }
            StepError::Unknown { name, key, run } => conflict("effect_unknown")
                .hint("end the run as `permanent` with the error type `EffectUnknown`")
                .details(json!({ "name": name, "key": key, "run": run })),
            StepError::Unreadable { name, .. } => conflict("step_unreadable")
                .hint("end the run as `permanent`: no retry mends it")
                .details(json!({ "name": name })),
            StepError::Refused(refusal) => refusal.clone().into(),
            _ => match error {
                StepError::Store(error) => error.into(),
                other => internal(&other),
            },
        }
    }
}

/// Something that this version does not know: the log has it, the caller has not.
pub(crate) fn internal(error: &dyn std::fmt::Display) -> ApiError {
    tracing::error!(%error, "a request failed with an unexpected error");
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "the request failed")
        .hint("see the server's log")
}
