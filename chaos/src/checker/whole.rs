//! What concerns many jobs: acknowledgements, keys, holds, counts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use backstop::{JobId, Timestamp};
use backstop_core::job::State;
use backstop_store::QueueView;

use super::kept::Kept;
use super::summary::JournalSummary;

/// As in `job`: clocks are read before commits.
const CLOCK_ORDER: Duration = Duration::from_secs(1);

/// Adds what is wrong among the jobs.
pub(super) fn check(jobs: &BTreeMap<JobId, Kept>, summary: &JournalSummary, violations: &mut Vec<String>) {
    for (job, answers) in &summary.acked {
        for answer in answers.iter().filter(|answer| !jobs.contains_key(*answer)) {
            violations.push(format!("job {job} was acknowledged as {answer}, which is lost"));
        }
    }
    for (lease, times) in summary.held.iter().filter(|(_, times)| **times > 1) {
        violations.push(format!("job {} was handed out {times} times with fence {}", lease.job, lease.fence));
    }
    violations.extend(summary.broken.iter().map(|error| format!("the store failed for no reason: {error}")));
    check_holders(summary, violations);
    check_idempotency(jobs, summary, violations);
    check_business(jobs, summary, violations);
    check_lines(jobs, summary, violations);
}

/// One fence of one job has one holder.
fn check_holders(summary: &JournalSummary, violations: &mut Vec<String>) {
    let mut holders = HashMap::new();
    for lease in summary.held.keys() {
        if let Some(other) = holders.insert((lease.job, lease.fence), lease.worker) {
            violations.push(format!(
                "job {} was held by {other} and {} with the same fence {}",
                lease.job, lease.worker, lease.fence
            ));
        }
    }
}

/// One idempotency key is one job, and everybody was told its id.
fn check_idempotency(jobs: &BTreeMap<JobId, Kept>, summary: &JournalSummary, violations: &mut Vec<String>) {
    for (key, answers) in summary.keys.iter().filter(|(_, answers)| answers.len() > 1) {
        violations.push(format!("idempotency key {key} was answered with the jobs {answers:?}"));
    }
    let mut by_key: HashMap<&str, Vec<JobId>> = HashMap::new();
    for (id, kept) in jobs {
        if let Some(key) = &kept.view.job.spec.idempotency_key {
            by_key.entry(key).or_default().push(*id);
        }
    }
    for (key, ids) in by_key.iter().filter(|(_, ids)| ids.len() > 1) {
        violations.push(format!("idempotency key {key} has the jobs {ids:?}"));
    }
}

/// No two live jobs share a business key: at no moment that somebody looked, and at none that the store remembers.
fn check_business(jobs: &BTreeMap<JobId, Kept>, summary: &JournalSummary, violations: &mut Vec<String>) {
    for (key, live) in summary.live.iter().filter(|(_, live)| live.len() > 1) {
        violations.push(format!("business key {key} had the live jobs {live:?} at once"));
    }
    let mut lives: HashMap<&str, Vec<(Timestamp, Timestamp, JobId)>> = HashMap::new();
    for (id, kept) in jobs {
        if let (Some(key), Some(end)) = (&kept.view.job.spec.business_key, kept.view.record.finished_at) {
            lives.entry(key).or_default().push((kept.view.job.created_at, end, *id));
        }
    }
    for (key, lives) in &mut lives {
        lives.sort();
        for pair in lives.windows(2) {
            if pair[1].0.after(CLOCK_ORDER) < pair[0].1 {
                violations.push(format!("business key {key}: {} and {} lived at once", pair[0].2, pair[1].2));
            }
        }
    }
}

/// Jobs with one ordering key run one at a time, and one that was stored before another was tried runs before it (L21).
fn check_lines(jobs: &BTreeMap<JobId, Kept>, summary: &JournalSummary, violations: &mut Vec<String>) {
    let mut lines: HashMap<&str, Vec<(Timestamp, Timestamp, JobId)>> = HashMap::new();
    for (id, kept) in jobs {
        let tried = summary.tried.get(id);
        if let Some(key) = tried.and_then(|tried| tried.ordering_key.as_deref()) {
            lines
                .entry(key)
                .or_default()
                .extend(kept.rows.iter().map(|row| (row.started_at, row.finished_at, *id)));
        }
    }
    for (key, runs) in &mut lines {
        runs.sort();
        for pair in runs.windows(2) {
            let ((_, ended, one), (started, _, other)) = (pair[0], pair[1]);
            if started < ended {
                violations.push(format!("ordering key {key}: {one} and {other} ran at once"));
            }
        }
        let mut order: Vec<JobId> = runs.iter().map(|(_, _, id)| *id).collect();
        order.dedup();
        let seen: HashSet<JobId> = order.iter().copied().collect();
        if seen.len() < order.len() {
            violations.push(format!("ordering key {key}: others ran between two runs of one job"));
        }
        for (place, later) in order.iter().enumerate() {
            let Some(stored) = summary.stored_at.get(later) else { continue };
            let before =
                order[..place].iter().find(|id| summary.tried_at.get(*id).is_some_and(|at| at > stored));
            if let Some(before) = before {
                violations.push(format!(
                    "ordering key {key}: {before} was submitted after {later}, and ran before"
                ));
            }
        }
    }
}

/// The kept counts of queues are what a recount finds.
pub(super) fn check_counts(jobs: &BTreeMap<JobId, Kept>, queues: &[QueueView], violations: &mut Vec<String>) {
    for queue in queues {
        let count = |state: State| {
            let here = jobs.values().filter(|kept| *kept.view.job.spec.queue == *queue.name);
            // Those that wait for their turn are counted with those that wait for a worker.
            let shown = |kept: &&Kept| match kept.view.record.state {
                State::Waiting => State::Pending,
                other => other,
            };
            here.filter(|kept| shown(kept) == state).count() as u64
        };
        let kept = [
            queue.pending + queue.waiting,
            queue.running,
            queue.paused_jobs,
            queue.succeeded,
            queue.failed,
            queue.canceled,
        ];
        let states =
            [State::Pending, State::Running, State::Paused, State::Succeeded, State::Failed, State::Canceled];
        let found = states.map(count);
        if kept != found {
            violations.push(format!("queue {} counts {kept:?}, and there are {found:?}", queue.name));
        }
    }
    let known = |name: &str| queues.iter().any(|queue| queue.name == name);
    if let Some(kept) = jobs.values().find(|kept| !known(&kept.view.job.spec.queue)) {
        violations.push(format!("queue {} has jobs and is not known", kept.view.job.spec.queue));
    }
}
