//! Which rows each way through a job's life writes.

use std::sync::Arc;

use backstop_core::failure::{Cause, Decision};
use backstop_core::job::{Ending, NewJob, OnConflict, Operation, Progress, Spec, State, StoredJob};
use backstop_core::{Fence, JobId, Lease, Timestamp, WorkerId};

use super::grip::{Grip, Slot};
use super::{Desk, File, Wants, Writes};
use crate::{Finish, Note, Submit};

const NOW: Timestamp = Timestamp::from_micros(1_000_000);
const LATER: Timestamp = Timestamp::from_micros(2_000_000);
const TELL: Wants = Wants { events: true, alerts: false };
const WORKER: WorkerId = WorkerId::from_u128(9);

fn spec(number: u128) -> Spec {
    Spec::new(JobId::from_u128(number), "work", "{}")
}

fn fresh(number: u128) -> File {
    File::fresh(Arc::new(StoredJob { spec: spec(number), created_at: NOW }), NOW)
}

/// A desk with one running job, as a store lays it there.
fn desk_with_a_run(file: File, slot: Slot) -> (Desk, Lease) {
    let id = file.job.spec.id;
    let grip = Grip {
        fence: Fence(5),
        worker: WORKER,
        claimed_at: NOW,
        jobs: vec![JobId::from_u128(77), id],
        slots: vec![Slot::Open, slot],
        edits: 0,
    };
    let lease = grip.lease(id);
    let record = grip.replay(id, slot, file.record.clone()).expect("it waits");
    let mut desk = Desk::new(LATER, TELL);
    desk.lay(File { record, ..file });
    desk.lay_grip(grip);
    (desk, lease)
}

fn ending(cause: Cause, decision: Decision) -> Ending {
    Ending::plain(spec(1).header(), cause, decision)
}

fn tally(writes: &Writes) -> Vec<i64> {
    writes.tally.values().next().map(|counts| counts.to_vec()).unwrap_or_default()
}

#[test]
fn a_new_job_is_two_thin_rows() {
    let mut desk = Desk::new(NOW, TELL);
    let answers = desk.submit(&Submit { jobs: vec![NewJob::new(spec(1))], atomic: true }).expect("small");
    assert!(answers[0].as_ref().is_ok_and(|answer| !answer.deduplicated));
    let writes = desk.into_writes();
    assert_eq!((writes.jobs.len(), writes.ready_in.len(), writes.records_in.len()), (1, 1, 0));
    assert!(!writes.ready_in[0].rowed);
    assert_eq!(tally(&writes), [1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(writes.events.len(), 1);
    assert!(writes.work_arrived);
}

#[test]
fn a_success_is_one_row_which_is_its_ledger_too() {
    // L5, L6
    let (mut desk, lease) = desk_with_a_run(fresh(1), Slot::Started(NOW));
    let state = desk.finish(&Finish { lease, ending: ending(Cause::Succeeded, Decision::succeeded()) });
    assert_eq!(state, Ok(State::Succeeded));
    let writes = desk.into_writes();
    assert_eq!((writes.done.len(), writes.attempts.len(), writes.records_in.len()), (1, 0, 0));
    assert_eq!(writes.records_out, []);
    let run = writes.done[0].run.as_ref().expect("the run");
    assert_eq!((run.number, run.fence, run.started_at), (1, Fence(5), NOW));
    assert_eq!(writes.grips[0].slots, [Slot::Open, Slot::Closed]);
    assert_eq!(tally(&writes), [0, -1, 1, 0, 0, 0, 0]);
}

#[test]
fn a_job_that_goes_back_has_a_past() {
    let (mut desk, lease) = desk_with_a_run(fresh(1), Slot::Open);
    let handed_back = ending(Cause::Interrupted, Decision::handed_back());
    assert_eq!(desk.finish(&Finish { lease, ending: handed_back }), Ok(State::Pending));
    let writes = desk.into_writes();
    assert_eq!((writes.ready_in.len(), writes.records_in.len(), writes.attempts.len()), (1, 1, 0));
    assert!(writes.ready_in[0].rowed);
    assert_eq!(writes.ready_out, [], "it was not there while it ran");
}

#[test]
fn a_stale_lease_changes_nothing() {
    // L5
    let (mut desk, lease) = desk_with_a_run(fresh(1), Slot::Started(NOW));
    let old = Lease { fence: Fence(4), ..lease };
    assert!(
        desk.finish(&Finish { lease: old, ending: ending(Cause::Succeeded, Decision::succeeded()) }).is_err()
    );
    assert!(desk.start(&old).is_err());
    let writes = desk.into_writes();
    assert!(writes.is_empty() && writes.events.is_empty());
}

#[test]
fn progress_is_written_without_the_hold() {
    let (mut desk, lease) = desk_with_a_run(fresh(1), Slot::Started(NOW));
    let progress = Progress { percent: 40, note: "half".into() };
    desk.annotate(&Note::progress(lease, progress.clone())).expect("held");
    let writes = desk.into_writes();
    let row = &writes.records_in[0].record;
    assert_eq!((row.state, row.hold, row.runs), (State::Pending, None, 0));
    assert_eq!(row.progress, Some(progress));
    assert_eq!(writes.grips.len(), 1, "so that nobody believes what he remembers of this claim");
    assert!(writes.tally.is_empty());
}

#[test]
fn a_cancel_of_a_running_job_closes_its_slot() {
    // L7
    let (mut desk, lease) = desk_with_a_run(fresh(1), Slot::Started(NOW));
    let operated = desk.operate(lease.job, &Operation::Cancel { reason: "no more".into() }).expect("allowed");
    assert!(operated.changed);
    assert!(desk.finish(&Finish { lease, ending: ending(Cause::Succeeded, Decision::succeeded()) }).is_err());
    let writes = desk.into_writes();
    assert_eq!(writes.attempts.len(), 1);
    assert_eq!(writes.records_in[0].record.state, State::Canceled);
    assert_eq!(writes.grips[0].slots, [Slot::Open, Slot::Closed]);
}

#[test]
fn a_paused_job_leaves_ready_and_comes_back_with_a_past() {
    // L8
    let mut desk = Desk::new(LATER, Wants::default());
    desk.lay(fresh(1));
    desk.operate(JobId::from_u128(1), &Operation::Pause).expect("allowed");
    let writes = desk.into_writes();
    assert_eq!((writes.ready_out.len(), writes.records_in.len()), (1, 1));
    let paused = File { record: writes.records_in[0].record.clone(), rowed: true, ..fresh(1) };
    let mut desk = Desk::new(LATER, Wants::default());
    desk.lay(paused);
    desk.operate(JobId::from_u128(1), &Operation::Resume).expect("allowed");
    let writes = desk.into_writes();
    assert_eq!((writes.ready_in.len(), writes.ready_out.len()), (1, 0));
    assert!(writes.ready_in[0].rowed && writes.ready_in[0].run_at == NOW);
}

#[test]
fn a_refused_batch_writes_nothing() {
    // L11
    let mut keyed = NewJob::new(spec(2));
    keyed.spec.business_key = Some("order-1".into());
    keyed.on_conflict = OnConflict::Reject;
    let mut holder = fresh(1);
    Arc::make_mut(&mut holder.job).spec.business_key = Some("order-1".into());
    let mut desk = Desk::new(LATER, TELL);
    desk.lay(holder);
    desk.lay_business_key("order-1".into(), JobId::from_u128(1));
    let answers =
        desk.submit(&Submit { jobs: vec![NewJob::new(spec(3)), keyed], atomic: true }).expect("small");
    assert!(answers.iter().all(Result::is_err));
    let writes = desk.into_writes();
    assert!(writes.is_empty() && writes.events.is_empty() && !writes.work_arrived);
}

#[test]
fn a_key_that_leads_nowhere_is_told_and_not_made_up_for() {
    // L10
    let mut keyed = NewJob::new(spec(2));
    keyed.spec.idempotency_key = Some("order-1".into());
    let mut desk = Desk::new(NOW, Wants::default());
    desk.lay_idempotency_key("order-1".into(), JobId::from_u128(1));
    let submit = Submit { jobs: vec![keyed], atomic: true };
    assert_eq!(desk.submit(&submit).expect_err("nobody has the job").code(), "store_corrupt");
    desk.lay_archived(JobId::from_u128(1), State::Canceled);
    let answer = desk.submit(&submit).expect("it is archived").remove(0).expect("deduplicated");
    assert_eq!((answer.state, answer.deduplicated), (State::Canceled, true));
}
