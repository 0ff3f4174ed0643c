//! The jobs of the contest: they do nothing but report that they ran.

use std::time::Duration;

use backstop::prelude::*;
use backstop_contest::{RunCount, filling};

/// The job of every phase; how it ends is up to the mood of its worker.
#[derive(Serialize, Deserialize)]
pub(crate) struct Work {
    sent: u64,
    filling: String,
}

impl Work {
    /// The job that is due to be sent at this moment, in microseconds.
    pub(crate) fn due_at(sent: u64) -> Self {
        Self { sent, filling: filling() }
    }
}

impl Job for Work {
    const KIND: &'static str = "work";
    type Context = HandlerState;
    type Output = JobResult;
    async fn run(self, cx: JobContext<HandlerState>) -> JobResult {
        cx.app().tally.started(self.sent);
        match cx.app().mood {
            HandlerBehaviour::Well => Ok(()),
            HandlerBehaviour::Broken => Err(Outcome::permanent("the recipient does not exist").into()),
            HandlerBehaviour::Stumbling if cx.run_number() > 1 => Ok(()),
            HandlerBehaviour::Stumbling => {
                Err(Outcome::retry_in(Duration::ZERO, "the connection was reset").into())
            }
        }
    }
}

/// A job of the storm: it fails in every run, and may be tried again as its policy says.
#[derive(Serialize, Deserialize)]
pub(crate) struct StormJob {
    filling: String,
}

impl StormJob {
    /// One of many.
    pub(crate) fn one() -> Self {
        Self { filling: filling() }
    }
}

impl Job for StormJob {
    const KIND: &'static str = "doomed";
    type Context = HandlerState;
    type Output = JobResult;
    async fn run(self, cx: JobContext<HandlerState>) -> JobResult {
        cx.app().failures.count();
        Err("the connection was reset".into())
    }
}

/// What handlers do.
#[derive(Clone, Copy)]
pub(crate) enum HandlerBehaviour {
    /// They succeed.
    Well,
    /// They fail for good.
    Broken,
    /// They fail once.
    Stumbling,
}

/// What handlers share.
pub(crate) struct HandlerState {
    pub(crate) tally: RunCount,
    /// Runs of [`StormJob`].
    pub(crate) failures: RunCount,
    pub(crate) mood: HandlerBehaviour,
}

impl HandlerState {
    /// Handlers in this mood that report to `tally`.
    pub(crate) fn new(tally: &RunCount, mood: HandlerBehaviour) -> Self {
        Self { tally: tally.clone(), failures: RunCount::default(), mood }
    }
}
