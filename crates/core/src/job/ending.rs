//! How a run ended, ready to be written: the cause, the verdict, and the evidence.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Header, NewJob};
use crate::failure::{Cause, Decision, Fingerprint, TerminalReason, Verdict};

/// The sanitized evidence of a failed run (F11).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureRecord {
    /// The error's type, such as `MailError::BadAddress`.
    pub error_type: String,
    /// The sanitized text.
    pub message: String,
    /// What groups it with others like it (D2).
    pub fingerprint: Fingerprint,
}

/// All that is written when a run ends. Stores apply it; they decide nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Ending {
    /// Which job it was, for the events that follow.
    pub job: Header,
    /// The version of the code that ran it.
    pub code_version: Option<Arc<str>>,
    /// The one cause (F2).
    pub cause: Cause,
    /// Where the job goes now, and the checks that led there.
    pub decision: Decision,
    /// What went wrong, if anything did.
    pub failure: Option<FailureRecord>,
    /// The index of the step that it came from (W7).
    pub step: Option<u32>,
    /// What the handler returned, as JSON text.
    pub result: Option<Arc<str>>,
    /// Something a person should know although the job succeeded (L6).
    pub warning: Option<String>,
    /// What the run logged or printed (F15).
    pub output: Option<String>,
    /// The callback to store in the same transaction (F14).
    pub follow_up: Option<Box<NewJob>>,
    /// Jobs that the handler submitted with its completion, to store in the same transaction (L23). Their ids are new
    /// and they have no keys, so that nothing can stand in their way.
    pub children: Vec<NewJob>,
}

impl Ending {
    /// An ending with nothing but its cause and its decision.
    #[must_use]
    pub fn plain(job: Header, cause: Cause, decision: Decision) -> Self {
        Self {
            job,
            code_version: None,
            cause,
            decision,
            failure: None,
            step: None,
            result: None,
            warning: None,
            output: None,
            follow_up: None,
            children: Vec::new(),
        }
    }

    /// The failure to count as an incident (D2): every failed run, except a failure reported as a result (F16).
    #[must_use]
    pub fn incident(&self) -> Option<&FailureRecord> {
        let reported = Verdict::Dead { reason: TerminalReason::ReportedFailure };
        self.failure.as_ref().filter(|_| self.cause.is_failure() && self.decision.verdict != reported)
    }
}
