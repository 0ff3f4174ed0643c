//! Takes back what dead workers held (L15): started runs by the crash rules, the rest without blame. In the same loop
//! and less often what could not start in time is failed (L19): both are what jobs wait for.

use std::time::Duration;

use backstop_core::JobId;
use backstop_core::failure::{Cause, Decision, Failure, HookAnswer, RuleSet};
use backstop_core::job::Ending;
use backstop_store::{Duty, Error as StoreError, Finish, Orphan, Term};
use tokio::time::Instant;

use super::expire::PassedBy;
use super::state::MaintenanceState;
use super::{BATCH, expire};
use crate::circuits::stored::DeadTries;
use crate::config::Config;
use crate::loops::LoopHeartbeat;
use crate::parts::EngineParts;
use crate::remote::Remote;
use crate::run::conclude::{self, DecidedEnding, follow_up};
use crate::run::end::pause_by_rule;
use crate::run::write::{log_end, write_apart};

/// How often the node that leads looks for orphans. Leases of any length may end at any moment, and none of them may be
/// over for two seconds before it is found; the look itself is one cheap statement.
const LOOK: Duration = Duration::from_millis(1_500);

/// How often it looks for remote runs that are over their time (F10).
const OVERTIME: Duration = Duration::from_secs(3);

/// Looks until it is told to stop, while it leads.
pub(super) async fn run(
    parts: &EngineParts,
    remote: &Remote,
    state: &MaintenanceState,
    heartbeat: &LoopHeartbeat,
) {
    let mut changes = state.leadership.changes();
    let (mut expiry_due, mut overtime_due) = (Instant::now(), Instant::now());
    let mut passed_by = PassedBy::default();
    while !state.stop.is_cancelled() {
        heartbeat.record();
        let (now, third) = (Instant::now(), state.lease() / 3);
        if let Some(term) = state.leadership.term(Duty::Rescue) {
            state.heed(rescue(parts, term, heartbeat).await, heartbeat);
            if overtime_due <= now {
                overtime_due = now + OVERTIME;
                state.heed(remote.keep_time().await, heartbeat);
            }
        }
        if let Some(term) = state.leadership.term(Duty::Expire).filter(|_| expiry_due <= now) {
            expiry_due = now + third;
            state.heed(expire::expire(&*parts.store, term, &mut passed_by, heartbeat).await, heartbeat);
        }
        state.pause(now + third.min(LOOK), &mut changes).await;
    }
}

pub(super) async fn rescue(
    parts: &EngineParts,
    term: Term,
    heartbeat: &LoopHeartbeat,
) -> Result<(), StoreError> {
    let EngineParts { store, config, .. } = parts;
    loop {
        heartbeat.record();
        let orphans = store.orphans(BATCH).await?;
        let found = orphans.len();
        if found == 0 {
            return Ok(());
        }
        let rules = parts.rules.in_force(&**store).await;
        let mut endings = Vec::with_capacity(found);
        for orphan in &orphans {
            let DecidedEnding { ending, pauses } = judge(config, &rules, orphan, &silent());
            if let Some(rule) = pauses {
                pause_by_rule(&**store, &orphan.job.spec.queue, &rule).await;
            }
            endings.push(Finish { lease: orphan.lease, ending });
        }
        parts.place(&mut endings).await;
        let jobs: Vec<JobId> = orphans.iter().map(|orphan| orphan.lease.job).collect();
        let tries = DeadTries::of(&**store, &jobs).await?;
        let answers = write_apart(endings, |endings| store.rescue(term, endings)).await?;
        let ended: Vec<&Finish> =
            answers.iter().filter(|(_, answer)| answer.is_ok()).map(|(finish, _)| finish).collect();
        let rescued = ended.len();
        // A job that this poisons is a dead letter like any other (F12).
        ended.iter().for_each(|finish| log_end(finish, false));
        let ended: Vec<JobId> = ended.iter().map(|finish| finish.lease.job).collect();
        tries.take_back(&**store, &ended).await?;
        tracing::warn!(rescued, "took back the jobs of a worker that stopped renewing its lease");
        // When every one was refused, somebody else has dealt with them; looking again would only spin.
        if found < BATCH || rescued == 0 {
            return Ok(());
        }
    }
}

/// What is known of a worker that nobody has seen die.
fn silent() -> Failure {
    let message = "the worker's process died or stopped renewing its lease while the handler ran";
    Failure::new(Cause::Crash, "Crash", message)
}

/// How a run ends whose worker is dead: a started one by `failure`, any other without a trace.
pub(super) fn judge(config: &Config, rules: &RuleSet, orphan: &Orphan, failure: &Failure) -> DecidedEnding {
    if orphan.record.hold.is_some_and(|hold| hold.started_at.is_some()) {
        return crashed(config, rules, orphan, failure);
    }
    let header = orphan.job.spec.header();
    let ending = Ending::plain(header, Cause::LeaseLost, Decision::handed_back());
    DecidedEnding { ending, pauses: None }
}

/// The process of a started run died, or was away so long that it counts as dead (C1).
fn crashed(config: &Config, rules: &RuleSet, orphan: &Orphan, failure: &Failure) -> DecidedEnding {
    let (job, record) = (&orphan.job, &orphan.record);
    let mut concluded = conclude::judge(config, rules, job, record, failure, HookAnswer::default());
    let ending = &mut concluded.ending;
    ending.code_version = orphan.code_version.clone();
    ending.follow_up = follow_up(config, job, record, ending);
    concluded
}
