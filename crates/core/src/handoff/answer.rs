//! What the answers of a receiver mean.

use serde::{Deserialize, Serialize};

/// What the answer to a whole request means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestAnswer {
    /// Each job has an answer of its own.
    Each,
    /// The receiver takes nothing now: what waits is backlog, and it is tried again when the receiver says.
    Pressure,
    /// The receiver failed, or somebody in between did: tried again.
    Away,
    /// The request is too large: fewer jobs at a time.
    Smaller,
    /// It will say the same again until a person changes something.
    Refused,
}

impl RequestAnswer {
    /// What a status means.
    #[must_use]
    pub const fn of(status: u16) -> Self {
        match status {
            200..300 => Self::Each,
            413 => Self::Smaller,
            429 | 503 => Self::Pressure,
            // Nothing was wrong with the request: whoever answered was slow, not ready, or broken.
            408 | 425 | 500..600 => Self::Away,
            _ => Self::Refused,
        }
    }
}

/// What the answer to one job means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemAnswer {
    /// It is a job there now.
    Admitted,
    /// Its key was seen before: nothing was made, and that is as it should be.
    Duplicate,
    /// There is no room for it now.
    Pressure,
    /// It will never be taken like this.
    Refused,
}

impl ItemAnswer {
    /// What the code of a refused job means.
    #[must_use]
    pub fn of_code(code: &str) -> Self {
        match code {
            "queue_full" | "tenant_limit" => Self::Pressure,
            _ => Self::Refused,
        }
    }
}

/// A refusal that lasts until a person does something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOffRefusal {
    /// The status of the answer.
    pub status: u16,
    /// The code of the error, where there was one.
    pub code: String,
    /// What the receiver said, in one line.
    pub message: String,
    /// The job that was refused, when it was that one alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

impl HandOffRefusal {
    /// What a person can do about it, before `backstop handoff retry`.
    #[must_use]
    pub fn way_out(&self) -> &'static str {
        match (self.status, self.code.as_str()) {
            (_, "signature") => {
                "give both ends the same secrets, and check that their clocks show the same time"
            }
            (401, _) => "the receiver does not know the token: make one there with `backstop token new`",
            (_, "forbidden") | (403, _) => {
                "the token may not submit there: give one with the right `submit` for that queue"
            }
            (_, "not_backstop") => "something else answers at that address: correct `to`",
            (300..=399, _) => {
                "the receiver is elsewhere: redirects are not followed, set `to` to the new address"
            }
            (404 | 405, _) => "there is no Backstop at that address: correct `to`",
            (413, _) | (_, "too_large") => "raise the receiver's limit, or return less from the job",
            (_, "kind_not_allowed") => "allow the kind on the receiver's queue, or hand off to another queue",
            (_, "key_held") => "use a token that sees the queue on which that key was used before",
            (_, "reserved_name") => "choose another kind or queue for the receiver",
            _ => "correct what the receiver names",
        }
    }
}
