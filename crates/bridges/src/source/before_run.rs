//! Whether the jobs of a source are still wanted when they are about to run: one may have waited for long.
//!
//! It is asked as it was before the message became a job, by the same rules and with the same answers.

use std::sync::Arc;

use backstop::{Backstop, Outcome, RunCheck, RunCheckAnswer};
use backstop_core::job::{Spec, StoredJob};
use serde_json::Value;

use super::status::SourceStatus;
use super::tracked::{TrackedJobs, now_ms};
use crate::profile::{MessageProfile, RunDecision};
use crate::shared_status::SharedStatus;

/// See the module.
#[derive(Debug)]
pub(super) struct RunStatusCheck {
    pub(super) kind: Arc<str>,
    pub(super) profile: MessageProfile,
    pub(super) tracked: Arc<TrackedJobs>,
    pub(super) board: Arc<SharedStatus<SourceStatus>>,
}

impl RunStatusCheck {
    /// Lets runs of this process be asked about; none where nobody could be asked.
    pub(super) fn start(self, engine: &Backstop) -> Option<Arc<Self>> {
        if !self.profile.asks_before_runs() {
            return None;
        }
        let check = Arc::new(self);
        let asked: Arc<dyn RunCheck> = check.clone();
        engine.check_runs(&asked);
        Some(check)
    }
}

impl RunCheck for RunStatusCheck {
    fn is_for(&self, job: &Spec) -> bool {
        job.kind == self.kind && job.params.is_some()
    }

    fn check<'a>(&'a self, job: &'a StoredJob) -> RunCheckAnswer<'a> {
        Box::pin(async move {
            let Self { profile, tracked, board, .. } = self;
            let params = job.spec.params.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
            let now_ms = now_ms();
            let question = params.and_then(|params| profile.question_before_run(&params, now_ms));
            let Some(answer) = tracked.answers(profile, vec![question], now_ms).await.pop().flatten() else {
                return Ok(());
            };
            match profile.before_run(answer) {
                RunDecision::Run => Ok(()),
                RunDecision::CallOff(reason) => {
                    board.write(|status| status.discarded += 1);
                    Err(Outcome::cancel(reason).into())
                }
                RunDecision::Wait(span) => Err(Outcome::snooze(span).into()),
            }
        })
    }
}
