//! One job: what its ledger, its record and the journals say of each other.

use std::time::Duration;

use backstop::bulk::BulkJob;
use backstop::{Cause, State, TerminalReason};
use backstop_core::Lease;
use backstop_core::failure::Verdict;
use backstop_core::job::{Attempt, Record};

use super::kept::Kept;
use super::summary::JournalSummary;
use super::{bulk, steps};
use crate::branches;
use crate::together::BulkCampaignJob;

/// Two transactions may read the clock in one order and commit in the other; this is more than one of them takes.
const CLOCK_ORDER: Duration = Duration::from_secs(1);

/// Adds what is wrong with one job.
pub(super) fn check(kept: &Kept, summary: &JournalSummary, violations: &mut Vec<String>) {
    let id = kept.view.job.spec.id;
    let mut found = Vec::new();
    check_origin(kept, summary, &mut found);
    check_record(kept, &mut found);
    check_order(kept, &mut found);
    check_finality(kept, summary, &mut found);
    check_expiry(kept, &mut found);
    for row in &kept.rows {
        let lease = Lease { job: id, worker: row.worker, fence: row.fence };
        check_reports(row, &lease, summary, &mut found);
        check_lease(row, summary, &mut found);
    }
    check_promises(kept, summary, &mut found);
    check_handlers(kept, summary, &mut found);
    steps::check(kept, summary, &mut found);
    bulk::check(kept, summary, &mut found);
    violations.extend(found.into_iter().map(|what| format!("job {id}: {what}")));
}

/// It was submitted, and is stored as it was.
fn check_origin(kept: &Kept, summary: &JournalSummary, found: &mut Vec<String>) {
    let spec = &kept.view.job.spec;
    let Some(tried) = summary.tried.get(&spec.id) else {
        return found.push("it is in the store, and nobody submitted it".to_owned());
    };
    if *tried.payload != *spec.payload
        || tried.idempotency_key != spec.idempotency_key
        || tried.business_key != spec.business_key
    {
        found.push("it is not stored as it was submitted".to_owned());
    }
    let due = kept.rows.first().map_or(kept.view.record.run_at, |row| row.due_at);
    let waited = due.since(kept.view.job.created_at);
    if waited < Duration::from_millis(tried.delay_ms) {
        found.push(format!("it asked to wait {} ms and was due after {waited:?}", tried.delay_ms));
    }
}

/// Record and ledger tell the same story.
fn check_record(kept: &Kept, found: &mut Vec<String>) {
    let (record, rows): (&Record, _) = (&kept.view.record, &kept.rows);
    if !record.state.is_terminal() {
        found.push(format!("it is stuck in {}", record.state));
    }
    if record.state.is_terminal() && record.hold.is_some() {
        found.push("it has ended, and a worker still holds it".to_owned());
    }
    let numbers: Vec<u32> = rows.iter().map(|row| row.number).collect();
    if !numbers.iter().copied().eq(1..=record.runs) {
        found.push(format!("its {} runs left the ledger rows {numbers:?}", record.runs));
    }
    let count = |test: &dyn Fn(&Attempt) -> bool| kept.since_driven().iter().filter(|row| test(row)).count();
    let crashes = count(&|row| row.cause == Cause::Crash);
    if crashes != record.crashes as usize {
        found.push(format!("{crashes} crashes in the ledger, {} counted", record.crashes));
    }
    let charged = count(&|row| row.cause.charges_attempt());
    if charged != record.attempt as usize {
        found.push(format!("{charged} charged runs in the ledger, {} counted", record.attempt));
    }
    let policy = &kept.view.job.spec.policy;
    if record.attempt > policy.max_retries.saturating_add(1)
        || record.crashes > policy.max_crashes.saturating_add(1)
    {
        found.push(format!(
            "its budget is used up, and it ran again: {charged} charged runs, {crashes} crashes"
        ));
    }
}

/// Fences grow, runs do not overlap, and none is early.
fn check_order(kept: &Kept, found: &mut Vec<String>) {
    for row in kept.rows.iter().filter(|row| row.started_at < row.due_at) {
        found.push(format!(
            "run {} started at {}, before it was due at {}",
            row.number, row.started_at, row.due_at
        ));
    }
    for pair in kept.rows.windows(2) {
        let (earlier, later) = (&pair[0], &pair[1]);
        if earlier.fence >= later.fence {
            found.push(format!("the fence of run {} does not grow", later.number));
        }
        if later.started_at < earlier.finished_at {
            found.push(format!(
                "run {} started at {}, before run {} had ended at {}",
                later.number, later.started_at, earlier.number, earlier.finished_at
            ));
        }
        if let Some(Verdict::Retry { delay } | Verdict::Defer { delay }) =
            earlier.decision.as_ref().map(|decision| &decision.verdict)
            && later.due_at < earlier.finished_at.after(*delay)
        {
            found.push(format!("run {} was due earlier than run {} asked for", later.number, earlier.number));
        }
    }
}

/// Succeeded and canceled are final.
fn check_finality(kept: &Kept, summary: &JournalSummary, found: &mut Vec<String>) {
    let (record, rows) = (&kept.view.record, &kept.rows);
    let successes = rows.iter().filter(|row| row.cause == Cause::Succeeded).count();
    let last_succeeded = rows.last().is_some_and(|row| row.cause == Cause::Succeeded);
    if successes > 1 || (record.state == State::Succeeded) != last_succeeded {
        found.push(format!("it is {} with {successes} successful runs", record.state));
    }
    let id = kept.view.job.spec.id;
    if let Some(told) = summary.canceled.get(&id) {
        if record.state != State::Canceled {
            found.push(format!("its cancel was acknowledged, and it is {}", record.state));
        }
        // One that was handed out before may begin at any time: its worker hears of the cancel later.
        if summary.asked.get(&id).is_some_and(|claims| claims.iter().any(|asked| asked > told)) {
            found.push("a claim that was made after its cancel was acknowledged has it".to_owned());
        }
    }
    if let (State::Canceled, Some(end)) = (record.state, record.finished_at)
        && rows.iter().any(|row| row.started_at > end.after(CLOCK_ORDER))
    {
        found.push("a run started after it had been canceled".to_owned());
    }
}

/// What could not start in time fails, and nothing else does for that reason (C7).
fn check_expiry(kept: &Kept, found: &mut Vec<String>) {
    let (spec, record) = (&kept.view.job.spec, &kept.view.record);
    let expired = record.reason == Some(TerminalReason::Expired);
    if expired && record.finished_at <= record.expires_at {
        found.push(format!("it expired at {:?}, and had until {:?}", record.finished_at, record.expires_at));
    }
    for row in &kept.rows {
        if let Some(limit) =
            spec.start_by(row.due_at).filter(|limit| row.started_at > limit.after(CLOCK_ORDER))
        {
            found.push(format!("run {} started at {}, and had until {limit}", row.number, row.started_at));
        }
    }
}

/// A ledger row is what whoever held that fence, or its rescuer, reported: once.
fn check_reports(row: &Attempt, lease: &Lease, summary: &JournalSummary, found: &mut Vec<String>) {
    let run = row.number;
    let reports = summary.reports.get(lease);
    let verdict = row.decision.as_ref().map_or(Verdict::Succeed, |decision| decision.verdict.clone());
    let matches = reports.is_some_and(|reports| {
        reports.tries.iter().any(|(cause, tried)| *cause == row.cause && same_move(tried, &verdict))
    });
    // A cancel ends a run without a report of its worker.
    if !matches && row.cause != Cause::Canceled {
        found.push(format!("the ledger ends run {run} by {}, which nobody reported", row.cause));
    }
    let Some(reports) = reports else { return };
    // The same report again is answered as the first time (L5); no other is.
    let alike = reports.tries.iter().filter(|(cause, _)| *cause == row.cause).count();
    if reports.accepted.len() > alike {
        found.push(format!("{} ends of run {run} were accepted, {alike} were right", reports.accepted.len()));
    }
    if reports.accepted.iter().any(|state| *state != reports.accepted[0]) {
        found.push(format!("the end of run {run} was answered in different ways: {:?}", reports.accepted));
    }
    if reports.refused > 0 && reports.tries.len() == reports.refused && row.cause != Cause::Canceled {
        found.push(format!("every report about run {run} was refused, and the ledger has one"));
    }
}

/// True when two verdicts send a job the same way; delays are kept to the millisecond.
fn same_move(a: &Verdict, b: &Verdict) -> bool {
    match (a, b) {
        (Verdict::Retry { delay: a }, Verdict::Retry { delay: b })
        | (Verdict::Defer { delay: a }, Verdict::Defer { delay: b }) => a.as_millis() == b.as_millis(),
        (a, b) => a == b,
    }
}

/// A worker's own report came while its lease ran; a rescue came after it had run out.
fn check_lease(row: &Attempt, summary: &JournalSummary, found: &mut Vec<String>) {
    let Some(lease) = summary.leases.get(&row.worker) else { return };
    let moment = row.finished_at;
    if row.cause == Cause::Crash && moment < lease.surely {
        found.push(format!(
            "run {} was rescued at {moment} from a worker whose lease ran until {}",
            row.number, lease.surely
        ));
    }
    let own = !matches!(row.cause, Cause::Crash | Cause::LeaseLost | Cause::Canceled);
    if let (true, Some(limit)) = (own, lease.at_most())
        && moment > limit
    {
        found.push(format!(
            "run {} was ended at {moment} by a worker whose lease ran out at {limit}",
            row.number
        ));
    }
}

/// What was acknowledged to workers is in the ledger, under their fence.
fn check_promises(kept: &Kept, summary: &JournalSummary, found: &mut Vec<String>) {
    let id = kept.view.job.spec.id;
    for began in summary.began.get(&id).into_iter().flatten() {
        let Some(reports) = summary.reports.get(&began.lease) else { continue };
        if reports.accepted.is_empty() {
            continue;
        }
        let row =
            kept.rows.iter().find(|row| row.fence == began.lease.fence && row.worker == began.lease.worker);
        let kept_so = row.is_some_and(|row| {
            row.cause == Cause::Canceled || reports.tries.iter().any(|(cause, _)| *cause == row.cause)
        });
        if !kept_so {
            found.push(format!("the end of run {} was acknowledged and is not in the ledger", began.run));
        }
        if reports.accepted.contains(&State::Succeeded) && kept.view.record.state != State::Succeeded {
            found.push(format!("its success was acknowledged, and it is {}", kept.view.record.state));
        }
    }
}

/// What handlers did: each run once, counted before it began, and under the fence of the ledger.
fn check_handlers(kept: &Kept, summary: &JournalSummary, found: &mut Vec<String>) {
    let (id, kind) = (kept.view.job.spec.id, &*kept.view.job.spec.kind);
    // Whoever asks a predicate writes nothing down, and bulk handlers write something else.
    if kind.starts_with(branches::ASKING) || kind == <BulkCampaignJob as BulkJob>::KIND {
        return;
    }
    let began = summary.began.get(&id).map_or(&[][..], Vec::as_slice);
    for row in &kept.rows {
        let runs: Vec<_> = began.iter().filter(|run| run.run == row.number).collect();
        if runs.len() > 1 {
            found.push(format!("run {} was begun {} times", row.number, runs.len()));
        }
        let ended = runs.iter().any(|run| summary.ended.contains(&(run.lease, run.run)));
        let cut_off = matches!(row.cause, Cause::Crash | Cause::Interrupted | Cause::Canceled);
        // Whoever knew better put it back before its handler was called.
        let held_back = row.cause == Cause::CircuitOpen;
        if held_back && !runs.is_empty() {
            found.push(format!("run {} was begun, and the ledger says {}", row.number, row.cause));
        }
        if !ended && !cut_off && !held_back {
            let what = if runs.is_empty() { "never began" } else { "was cut off" };
            found.push(format!("run {} {what}, and the ledger says {}", row.number, row.cause));
        }
        if runs.iter().any(|run| run.lease.fence != row.fence || run.lease.worker != row.worker) {
            found.push(format!("run {} was begun under another hold than the ledger says", row.number));
        }
    }
    for run in began.iter().filter(|run| run.run > kept.view.record.runs) {
        found.push(format!("a handler began run {}, which was never counted (C5)", run.run));
    }
}
