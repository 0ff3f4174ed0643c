//! Takes back what dead workers held (L15): started runs by the crash rules, the rest without blame.

use backstop_core::failure::{Cause, Decision, Failure, HookAnswer, RuleBook};
use backstop_core::job::Ending;
use backstop_store::{Error as StoreError, Finish, Orphan, Term};

use super::BATCH;
use crate::config::Config;
use crate::engine::Backstop;
use crate::worker::conclude::{self, Concluded, follow_up};

pub(super) async fn rescue(engine: &Backstop, term: Term) -> Result<(), StoreError> {
    let store = &engine.inner.store;
    loop {
        let orphans = store.orphans(BATCH).await?;
        let found = orphans.len();
        if found == 0 {
            return Ok(());
        }
        let book = engine.inner.rules.book(&**store).await;
        let mut endings = Vec::with_capacity(found);
        for orphan in &orphans {
            let Concluded { ending, pauses } = judge(&engine.inner.config, &book, orphan);
            if let Some(rule) = pauses {
                engine.pause_by_rule(&orphan.job.spec.queue, &rule).await;
            }
            endings.push(Finish { lease: orphan.lease, ending });
        }
        engine.inner.budgets.smear(&**store, &engine.inner.config, &mut endings).await;
        let answers = store.rescue(term, endings).await?;
        let rescued = answers.iter().filter(|answer| answer.is_ok()).count();
        tracing::warn!(rescued, "jobs of a worker that stopped renewing were taken back");
        // When every one was refused, somebody else has dealt with them; looking again would only spin.
        if found < BATCH || rescued == 0 {
            return Ok(());
        }
    }
}

fn judge(config: &Config, book: &RuleBook, orphan: &Orphan) -> Concluded {
    if orphan.record.hold.is_some_and(|hold| hold.started_at.is_some()) {
        return crashed(config, book, orphan);
    }
    let header = orphan.job.spec.header();
    let ending = Ending::plain(header, Cause::LeaseLost, Decision::handed_back());
    Concluded { ending, pauses: None }
}

/// The process of a started run died, or was away so long that it counts as dead (C1).
fn crashed(config: &Config, book: &RuleBook, orphan: &Orphan) -> Concluded {
    let (job, record) = (&orphan.job, &orphan.record);
    let message = "the worker's process died or stopped renewing its lease while the handler ran";
    let failure = Failure::new(Cause::Crash, "Crash", message);
    let mut concluded = conclude::judge(config, book, job, record, &failure, HookAnswer::default());
    let ending = &mut concluded.ending;
    ending.code_version = orphan.code_version.clone();
    ending.follow_up = follow_up(config, job, record, ending);
    concluded
}
