//! Signals (W10).

use backstop::{JobId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::cursor;
use crate::body::PageLimit;

/// A signal to send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SendSignal)]
pub struct NewSignal {
    /// Its key: what jobs wait for.
    #[schema(min_length = 1, max_length = 255)]
    pub key: String,
    /// What it brings; null unless it is said.
    #[serde(default)]
    #[schema(value_type = Value)]
    pub payload: Value,
    /// The same signal again with the same id is delivered once, and answered as the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255)]
    pub id: Option<String>,
    /// The tenant whose jobs it is for; only with a token without a tenant, whose signals are for jobs of no tenant
    /// otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// What became of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SignalSent)]
pub struct SentSignal {
    /// Jobs that have it and go on.
    pub delivered: u64,
    /// True when nobody waited for it: it is kept for the first that will, until its time is up.
    pub kept: bool,
}

/// What to list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SignalSort {
    /// Signals that nobody waited for.
    #[default]
    Kept,
    /// Jobs that wait for a signal.
    Waiting,
}

/// Which signals, and which page of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SignalsQuery {
    /// What to list; kept signals unless it is said.
    #[param(inline)]
    pub state: SignalSort,
    /// Rows of the page at most.
    #[param(inline)]
    pub limit: Option<PageLimit>,
    /// Go on after this row: `next_cursor` of the page before.
    #[param(max_length = 300)]
    #[serde(deserialize_with = "cursor")]
    pub cursor: Option<String>,
}

/// A signal that is kept, or a job that waits for one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Signal)]
pub struct SignalJson {
    /// The key of the signal.
    pub key: String,
    /// Which of both it is.
    pub state: SignalSort,
    /// The id of a kept signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The job that waits, or the only one that a kept signal is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub job: Option<JobId>,
    /// When a kept signal was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub sent_at: Option<Timestamp>,
    /// When it is removed, or when the job goes on without.
    #[schema(value_type = String, format = DateTime)]
    pub until: Timestamp,
}

/// What a resume token is to be for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = MakeResumeToken)]
pub struct NewResumeToken {
    /// The key of the signal that it sends.
    #[schema(min_length = 1, max_length = 255)]
    pub signal: String,
    /// How long it can be used; seven days unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1000, maximum = 31_536_000_000_u64)]
    pub expires_in_ms: Option<u64>,
}

/// A token that sends one signal to one job, once, by whoever has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ResumeToken)]
pub struct ResumeTokenJson {
    /// The token.
    pub token: String,
    /// Where a program POSTs to: from the root of this server, or whole where `[server] public_url` is set.
    pub url: String,
    /// The page where a person lets the job go on, in the same way.
    pub page: String,
    /// When it is worth nothing any more.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}

/// What a resume token is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResumeHint {
    /// The key of the signal.
    pub signal: String,
    /// When it is worth nothing any more.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
    /// What to do with it.
    pub hint: String,
}
