//! What the loop of a hand-off tells of itself. What all processes have counted is in the store.

use serde::Serialize;

/// How the loop of a hand-off is, in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HandOffRunState {
    /// It has not reached its store yet.
    #[default]
    Starting,
    /// It publishes.
    Publishing,
    /// Another process publishes.
    Standby,
    /// It waits for its next try.
    Waiting,
    /// The receiver refused for good, and a person has to act.
    Stopped,
    /// It has ended.
    Ended,
}

/// How the loop of a hand-off is, and what it has done in this process since it was started.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct HandOffStatus {
    /// How it is.
    pub state: HandOffRunState,
    /// Requests that were posted.
    pub requests: u64,
    /// Jobs that the receiver has made.
    pub admitted: u64,
    /// Jobs whose keys it had seen before.
    pub duplicates: u64,
    /// Requests that the receiver refused, for now or for good: one line of the log for each.
    pub refusals: u64,
    /// Rounds that failed otherwise.
    pub failures: u64,
    /// What went wrong last, in words.
    pub last_error: Option<String>,
}
