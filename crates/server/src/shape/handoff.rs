//! Hand-offs to another Backstop (B7).

use backstop::Timestamp;
use backstop::handoffs::{HandOffState, HandOffStop, HandOffView};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A hand-off, and how it stands in all processes together. It never holds a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = HandOff)]
pub struct HandOffJson {
    /// The publication: what it is called at both ends.
    pub name: String,
    /// Where the receiver is.
    pub to: String,
    /// The kinds of the jobs that are handed off; of all when there are none.
    pub kinds: Vec<String>,
    /// The fields that the hand-off key is made of; none for the incoming id.
    pub key: Vec<String>,
    /// Whose jobs are handed off.
    pub tenant: String,
    /// The kind of the jobs at the receiver.
    pub kind: String,
    /// Their queue there; absent for what is usual there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Whether its requests are signed.
    pub signed: bool,
    /// publishing, pressure, unreachable, stopped or unserved.
    #[schema(value_type = String)]
    pub state: HandOffState,
    /// Finished jobs that wait to be handed off.
    pub backlog: u64,
    /// How long the oldest of them has waited.
    pub lag_ms: u64,
    /// Jobs that the receiver has made.
    pub admitted: u64,
    /// Jobs whose keys the receiver had seen before: suppressed, and no errors.
    pub duplicates: u64,
    /// Jobs that lacked a field of the key, and had the incoming id as theirs.
    pub keyless: u64,
    /// Requests that the receiver refused because it takes nothing now.
    pub pressure: u64,
    /// Requests that the receiver refused for good.
    pub refused: u64,
    /// Requests that were not answered.
    pub unreachable: u64,
    /// How long the oldest job of the last request took from its end to its admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    /// When a job was last admitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_at: Option<Timestamp>,
    /// When it is tried again, while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub next_try: Option<Timestamp>,
    /// Why the last try failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Why it stands still, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<HandOffStopJson>,
    /// The node that publishes; absent when nobody does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    /// Who let it go on last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retried_by: Option<String>,
}

/// Why a hand-off stands still until a person lets it go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = HandOffStop)]
pub struct HandOffStopJson {
    /// Since when.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// The status of the receiver's answer.
    pub status: u16,
    /// The code of its error.
    pub code: String,
    /// What it said.
    pub message: String,
    /// The job that was refused, when it was that one alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// What to do before it is let go on.
    pub way_out: String,
}

impl From<HandOffStop> for HandOffStopJson {
    fn from(stop: HandOffStop) -> Self {
        let way_out = stop.refused.way_out().to_owned();
        let HandOffStop { at, refused } = stop;
        let (status, code, message, job) = (refused.status, refused.code, refused.message, refused.job);
        Self { at, status, code, message, job, way_out }
    }
}

impl From<HandOffView> for HandOffJson {
    fn from(view: HandOffView) -> Self {
        let (lag, next_try) = (view.lag(), view.next_try());
        let HandOffView { hand_off, state, backlog, tally, stop, publisher, last_error, retried_by, .. } =
            view;
        Self {
            name: hand_off.name,
            to: hand_off.to,
            kinds: hand_off.kinds.iter().map(ToString::to_string).collect(),
            key: hand_off.key.iter().map(ToString::to_string).collect(),
            tenant: hand_off.tenant,
            kind: hand_off.kind,
            queue: hand_off.queue,
            signed: hand_off.signed,
            state,
            backlog: backlog.messages,
            lag_ms: u64::try_from(lag.as_millis()).unwrap_or(u64::MAX),
            admitted: tally.admitted,
            duplicates: tally.duplicates,
            keyless: tally.keyless,
            pressure: tally.pressure,
            refused: tally.refused,
            unreachable: tally.unreachable,
            latency_ms: tally.last_latency_ms,
            last_at: tally.last_at,
            next_try,
            last_error,
            stopped: stop.map(Into::into),
            publisher,
            retried_by,
        }
    }
}
