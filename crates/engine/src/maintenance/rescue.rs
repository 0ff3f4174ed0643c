//! Takes back what dead workers held (L15): started runs by the crash rules, the rest without blame.

use backstop_core::failure::{Cause, Decision, Failure, HookAnswer, Situation, decide};
use backstop_core::job::Ending;
use backstop_store::{Error as StoreError, Finish, Orphan, Term};

use super::BATCH;
use crate::config::Config;
use crate::engine::Backstop;
use crate::worker::conclude::{evidence, follow_up};

pub(super) async fn rescue(engine: &Backstop, term: Term) -> Result<(), StoreError> {
    let store = &engine.inner.store;
    loop {
        let orphans = store.orphans(BATCH).await?;
        let found = orphans.len();
        if found == 0 {
            return Ok(());
        }
        let endings = orphans.iter().map(|orphan| judge(&engine.inner.config, orphan)).collect();
        let answers = store.rescue(term, endings).await?;
        let rescued = answers.iter().filter(|answer| answer.is_ok()).count();
        tracing::warn!(rescued, "jobs of a worker that stopped renewing were taken back");
        // When every one was refused, somebody else has dealt with them; looking again would only spin.
        if found < BATCH || rescued == 0 {
            return Ok(());
        }
    }
}

fn judge(config: &Config, orphan: &Orphan) -> Finish {
    let header = orphan.job.spec.header();
    let ending = match orphan.record.hold.and_then(|hold| hold.started_at) {
        None => Ending::plain(header, Cause::LeaseLost, Decision::handed_back()),
        Some(_) => crashed(config, orphan),
    };
    Finish { lease: orphan.lease, ending }
}

/// The process of a started run died, or was away so long that it counts as dead (C1).
fn crashed(config: &Config, orphan: &Orphan) -> Ending {
    let (job, record) = (&orphan.job, &orphan.record);
    let message = "the worker's process died or stopped renewing its lease while the handler ran";
    let failure = Failure::new(Cause::Crash, "Crash", message);
    let situation = Situation {
        policy: &job.spec.policy,
        attempt: record.attempt,
        crashes: record.crashes,
        deferrals: record.deferrals,
        hook: HookAnswer::default(),
        jitter: fastrand::f64(),
    };
    let decision = decide(&failure, &situation);
    let mut ending = Ending::plain(job.spec.header(), Cause::Crash, decision);
    ending.failure = Some(evidence(config, job, &failure));
    ending.code_version = orphan.code_version.clone();
    ending.follow_up = follow_up(job, record, &ending.decision.verdict);
    ending
}
