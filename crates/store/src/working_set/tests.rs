//! Which rows each way through a job's life writes.

use std::sync::Arc;

use backstop_core::failure::{Cause, Decision};
use backstop_core::job::{Ending, NewJob, OnConflict, Operation, PartOf, Progress, Spec, State, StoredJob};
use backstop_core::{Fence, JobId, Lease, Timestamp, WorkerId, WorkflowId};

use super::claim_row::{ClaimRow, Slot};
use super::{LoadedJob, Wants, WorkingSet, Writes};
use crate::{Finish, Note, Submit};

const NOW: Timestamp = Timestamp::from_micros(1_000_000);
const LATER: Timestamp = Timestamp::from_micros(2_000_000);
fn tell() -> Wants {
    Wants { events: true, ..Wants::default() }
}
const WORKER: WorkerId = WorkerId::from_u128(9);

fn spec(number: u128) -> Spec {
    Spec::new(JobId::from_u128(number), "work", "{}")
}

fn fresh(number: u128) -> LoadedJob {
    LoadedJob::fresh(Arc::new(StoredJob { spec: spec(number), created_at: NOW }), NOW)
}

/// A working set with one running job, as a store fills it.
fn set_with_a_run(loaded: LoadedJob, slot: Slot) -> (WorkingSet, Lease) {
    let id = loaded.job.spec.id;
    let claim = ClaimRow {
        fence: Fence(5),
        worker: WORKER,
        claimed_at: NOW,
        jobs: vec![JobId::from_u128(77), id],
        slots: vec![Slot::Open, slot],
        edits: 0,
    };
    let lease = claim.lease(id);
    let record = claim.replay(id, slot, loaded.record.clone()).expect("it waits");
    let mut set = WorkingSet::new(LATER, tell());
    set.put(LoadedJob { record, ..loaded });
    set.put_claim(claim);
    (set, lease)
}

fn ending(cause: Cause, decision: Decision) -> Ending {
    Ending::plain(spec(1).header(), cause, decision)
}

fn tally(writes: &Writes) -> Vec<i64> {
    writes.tally.values().next().map(|counts| counts.to_vec()).unwrap_or_default()
}

#[test]
fn a_new_job_is_two_thin_rows() {
    let mut set = WorkingSet::new(NOW, tell());
    let answers = set.submit(&Submit { jobs: vec![NewJob::new(spec(1))], atomic: true }).expect("small");
    assert!(answers[0].as_ref().is_ok_and(|answer| !answer.deduplicated));
    let writes = set.into_writes();
    assert_eq!((writes.jobs.len(), writes.ready_in.len(), writes.records_in.len()), (1, 1, 0));
    assert!(!writes.ready_in[0].rowed);
    assert_eq!(tally(&writes), [1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(writes.events.len(), 1);
    assert!(writes.work_arrived);
}

#[test]
fn a_success_is_one_row_which_is_its_ledger_too() {
    // L5, L6
    let (mut set, lease) = set_with_a_run(fresh(1), Slot::Started(NOW));
    let state = set.finish(&Finish { lease, ending: ending(Cause::Succeeded, Decision::succeeded()) });
    assert_eq!(state, Ok(State::Succeeded));
    let writes = set.into_writes();
    assert_eq!((writes.done.len(), writes.attempts.len(), writes.records_in.len()), (1, 0, 0));
    assert_eq!(writes.records_out, []);
    let run = writes.done[0].run.as_ref().expect("the run");
    assert_eq!((run.number, run.fence, run.started_at), (1, Fence(5), NOW));
    assert_eq!(writes.claims[0].slots, [Slot::Open, Slot::Closed]);
    assert_eq!(tally(&writes), [0, -1, 1, 0, 0, 0, 0]);
}

#[test]
fn a_part_that_ends_well_is_plain_but_for_its_note() {
    // W1
    let mut spec = spec(1);
    let id = WorkflowId::from_u128(7);
    let part = PartOf { id, node: None, number: 0, follows: false, renewed: false, payload_from: None };
    spec.provenance_mut().part_of = Some(part);
    let job = Arc::new(StoredJob { spec, created_at: NOW });
    let run =
        |rowed| set_with_a_run(LoadedJob { rowed, ..LoadedJob::fresh(job.clone(), NOW) }, Slot::Started(NOW));
    for rowed in [false, true] {
        let (mut set, lease) = run(rowed);
        let finish = Finish { lease, ending: ending(Cause::Succeeded, Decision::succeeded()) };
        assert_eq!(set.finish(&finish), Ok(State::Succeeded));
        let plain = set.into_writes().into_plain_ends().expect("nothing else is written");
        assert_eq!((plain.done.len(), plain.claims.len(), plain.ended.len()), (1, 1, 1));
        assert_eq!(plain.records_out, if rowed { vec![lease.job] } else { Vec::new() });
    }
    let (mut set, lease) = run(true);
    set.operate(lease.job, &Operation::Cancel { reason: "no more".into() }).expect("allowed");
    let writes = set.into_writes();
    assert_eq!(writes.ended.len(), 1, "it has ended");
    assert!(writes.into_plain_ends().is_none(), "and not well");
}

#[test]
fn a_job_that_goes_back_has_a_past() {
    let (mut set, lease) = set_with_a_run(fresh(1), Slot::Open);
    let handed_back = ending(Cause::Interrupted, Decision::handed_back());
    assert_eq!(set.finish(&Finish { lease, ending: handed_back }), Ok(State::Pending));
    let writes = set.into_writes();
    assert_eq!((writes.ready_in.len(), writes.records_in.len(), writes.attempts.len()), (1, 1, 0));
    assert!(writes.ready_in[0].rowed);
    assert_eq!(writes.ready_out, [], "it was not there while it ran");
}

#[test]
fn a_stale_lease_changes_nothing() {
    // L5
    let (mut set, lease) = set_with_a_run(fresh(1), Slot::Started(NOW));
    let old = Lease { fence: Fence(4), ..lease };
    assert!(
        set.finish(&Finish { lease: old, ending: ending(Cause::Succeeded, Decision::succeeded()) }).is_err()
    );
    assert!(set.start(&old).is_err());
    let writes = set.into_writes();
    assert!(writes.is_empty() && writes.events.is_empty());
}

#[test]
fn progress_is_written_without_the_hold() {
    let (mut set, lease) = set_with_a_run(fresh(1), Slot::Started(NOW));
    let progress = Progress { percent: 40, note: "half".into() };
    set.annotate(&Note::progress(lease, progress.clone())).expect("held");
    let writes = set.into_writes();
    let row = &writes.records_in[0].record;
    assert_eq!((row.state, row.hold, row.runs), (State::Pending, None, 0));
    assert_eq!(row.progress, Some(progress));
    assert_eq!(writes.claims.len(), 1, "so that nobody believes what he remembers of this claim");
    assert!(writes.tally.is_empty());
}

#[test]
fn a_cancel_of_a_running_job_closes_its_slot() {
    // L7
    let (mut set, lease) = set_with_a_run(fresh(1), Slot::Started(NOW));
    let operated = set.operate(lease.job, &Operation::Cancel { reason: "no more".into() }).expect("allowed");
    assert!(operated.changed);
    assert!(set.finish(&Finish { lease, ending: ending(Cause::Succeeded, Decision::succeeded()) }).is_err());
    let writes = set.into_writes();
    assert_eq!(writes.attempts.len(), 1);
    assert_eq!(writes.records_in[0].record.state, State::Canceled);
    assert_eq!(writes.claims[0].slots, [Slot::Open, Slot::Closed]);
}

#[test]
fn a_paused_job_leaves_ready_and_comes_back_with_a_past() {
    // L8
    let mut set = WorkingSet::new(LATER, Wants::default());
    set.put(fresh(1));
    set.operate(JobId::from_u128(1), &Operation::Pause).expect("allowed");
    let writes = set.into_writes();
    assert_eq!((writes.ready_out.len(), writes.records_in.len()), (1, 1));
    let paused = LoadedJob { record: writes.records_in[0].record.clone(), rowed: true, ..fresh(1) };
    let mut set = WorkingSet::new(LATER, Wants::default());
    set.put(paused);
    set.operate(JobId::from_u128(1), &Operation::Resume).expect("allowed");
    let writes = set.into_writes();
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
    let mut set = WorkingSet::new(LATER, tell());
    set.put(holder);
    set.put_business_key("order-1".into(), JobId::from_u128(1));
    let answers =
        set.submit(&Submit { jobs: vec![NewJob::new(spec(3)), keyed], atomic: true }).expect("small");
    assert!(answers.iter().all(Result::is_err));
    let writes = set.into_writes();
    assert!(writes.is_empty() && writes.events.is_empty() && !writes.work_arrived);
}

#[test]
fn a_key_that_leads_nowhere_is_told_and_not_made_up_for() {
    // L10
    let mut keyed = NewJob::new(spec(2));
    keyed.spec.idempotency_key = Some("order-1".into());
    let mut set = WorkingSet::new(NOW, Wants::default());
    set.put_idempotency_key("order-1".into(), JobId::from_u128(1));
    let submit = Submit { jobs: vec![keyed], atomic: true };
    assert_eq!(set.submit(&submit).expect_err("nobody has the job").code(), "store_corrupt");
    set.put_archived(JobId::from_u128(1), State::Canceled);
    let answer = set.submit(&submit).expect("it is archived").remove(0).expect("deduplicated");
    assert_eq!((answer.state, answer.deduplicated), (State::Canceled, true));
}
