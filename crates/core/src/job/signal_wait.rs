//! What a job waits for and what ends the wait, as they are stored (W10); what they do to a record is in `signal`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::time::Timestamp;

/// How the names of steps that wait for signals begin.
const STEP: &str = "signal";

/// What a parked job waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalWait {
    /// The key of the signal.
    pub signal: String,
    /// The name of the step that keeps what comes.
    pub step: String,
    /// When it goes on without one.
    pub until: Timestamp,
}

/// What ended a wait, as the step keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignalAnswer {
    /// A signal came with this payload; null when it had none.
    Received(Value),
    /// The time was up.
    TimedOut,
}

impl SignalAnswer {
    /// As it is stored.
    #[must_use]
    pub fn to_text(&self) -> Arc<str> {
        // A value of JSON has no way to fail.
        serde_json::to_string(self).unwrap_or_default().into()
    }
}

/// The name of the step that waits for a signal, the `nth` time in one job, from 1.
#[must_use]
pub fn signal_step(signal: &str, nth: usize) -> String {
    if nth <= 1 { format!("{STEP}:{signal}") } else { format!("{STEP}#{nth}:{signal}") }
}

/// The signal that a step of this name waits for; none when it is another step.
#[must_use]
pub fn signal_of_step(name: &str) -> Option<&str> {
    let (before, signal) = name.strip_prefix(STEP)?.split_once(':')?;
    let is_wait = before.strip_prefix('#').map_or(before.is_empty(), |nth| nth.parse::<usize>().is_ok());
    is_wait.then_some(signal)
}
