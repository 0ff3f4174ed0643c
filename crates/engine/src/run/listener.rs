//! Who hears at once what a handler says of its run: the worker, when the run has a process of its own (E2).

use std::time::Duration;

use backstop_core::Lease;
use backstop_core::job::Stale;
use backstop_store::Answer;
use serde_json::Value;

use crate::job_signals::wait::{WaitRequest, WaitStart};

/// See the module.
pub(crate) trait RunListener: Send + Sync {
    /// It logged a line (F15).
    fn logged(&self, line: &str);
    /// It asks for time to tidy up after it was told to stop.
    fn tidies_up_within(&self, time: Duration);
    /// It is about to complete its job in a transaction of its own (L14).
    fn completes(&self);
    /// It publishes an event (E6).
    fn published(&self, name: &str, data: Value);
    /// It is about to wait for a signal (W10).
    fn waits(&self, lease: Lease, request: WaitRequest) -> Answer<'_, Result<WaitStart, Stale>>;
}
