//! The record through every verb, step by step.

use std::time::Duration;

use super::*;
use crate::failure::{Cause, Decision, Fingerprint, TerminalReason, Verdict};
use crate::id::{Fence, JobId, Lease, WorkerId};
use crate::time::Timestamp;

const ID: JobId = JobId::from_u128(7);
const WORKER: WorkerId = WorkerId::from_u128(1);

fn at(seconds: u64) -> Timestamp {
    Timestamp::EPOCH.after(Duration::from_secs(seconds))
}

fn job() -> StoredJob {
    StoredJob { spec: Spec::new(ID, "send_email", "{}"), created_at: at(0) }
}

fn lease(fence: i64) -> Lease {
    Lease { job: ID, worker: WORKER, fence: Fence(fence) }
}

fn running(fence: i64, started: bool) -> Record {
    let mut record = Record::new(&job().spec, at(0));
    record.claim(WORKER, Fence(fence), at(1), started).expect("pending, and the fence grows");
    record
}

fn ending(cause: Cause, verdict: Verdict) -> Ending {
    let mut ending = Ending::plain(job().spec.header(), cause, Decision::plain(verdict));
    if cause.is_failure() {
        let fingerprint: Fingerprint = crate::failure::fingerprint::fingerprint("k", "E", "m");
        ending.failure = Some(FailureRecord { error_type: "E".into(), message: "m".into(), fingerprint });
    }
    ending
}

#[test]
fn only_the_current_hold_may_write() {
    // L5
    let mut record = running(5, true);
    let done = ending(Cause::Succeeded, Verdict::Succeed);
    let other = Lease { worker: WorkerId::from_u128(2), ..lease(5) };
    for stale in [lease(4), lease(6), other] {
        let before = record.clone();
        assert!(record.finish(&job().spec, &stale, &done, at(2)).is_err());
        assert!(record.start(&stale, at(2)).is_err());
        assert_eq!(record, before, "a stale write changes nothing");
    }
    assert!(record.finish(&job().spec, &lease(5), &done, at(2)).is_ok());
    assert!(record.finish(&job().spec, &lease(5), &done, at(2)).is_err(), "and only once");
}

#[test]
fn what_cannot_be_claimed_is_an_answer_and_changes_nothing() {
    // L5
    let mut waiting = running(5, true);
    let snoozed = ending(Cause::Snoozed, Verdict::Defer { delay: Duration::ZERO });
    waiting.finish(&job().spec, &lease(5), &snoozed, at(2)).expect("current");
    for drawn in [i64::MIN, 0, 4, 5] {
        let mut record = waiting.clone();
        let refused = record.claim(WORKER, Fence(drawn), at(3), true);
        assert_eq!(refused, Err(Unclaimable::FenceWentBack { drawn: Fence(drawn), seen: Fence(5) }));
        assert_eq!(record, waiting);
    }
    for state in State::ALL.into_iter().filter(|state| *state != State::Pending) {
        let stored = Record { state, ..waiting.clone() };
        let mut record = stored.clone();
        assert_eq!(record.claim(WORKER, Fence(6), at(3), true), Err(Unclaimable::State(state)));
        assert_eq!(record, stored);
    }
}

#[test]
fn a_stored_hold_on_a_job_that_does_not_run_ends_nothing() {
    // L5: no row of a store can make this panic.
    let done = ending(Cause::Succeeded, Verdict::Succeed);
    for state in State::ALL {
        let stored = Record { state, runs: u32::MAX, attempt: u32::MAX, ..running(5, true) };
        let mut record = stored.clone();
        let ended = record.finish(&job().spec, &lease(5), &done, Timestamp::MIN);
        assert_eq!(ended.is_ok(), state == State::Running, "{state}");
        assert!(ended.is_ok() || record == stored);
    }
}

#[test]
fn each_cause_moves_its_own_counter() {
    // F3
    let defer = || Verdict::Defer { delay: Duration::ZERO };
    let retry = || Verdict::Retry { delay: Duration::ZERO };
    let cases = [
        (Cause::Error, retry(), (1, 0, 0)),
        (Cause::Timeout, retry(), (1, 0, 0)),
        (Cause::Panic, retry(), (1, 0, 0)),
        (Cause::Crash, retry(), (0, 1, 0)),
        (Cause::Snoozed, defer(), (0, 0, 1)),
        (Cause::Interrupted, defer(), (0, 0, 1)),
        (Cause::Rejected, defer(), (0, 0, 1)),
        (Cause::Succeeded, Verdict::Succeed, (0, 0, 0)),
    ];
    for (cause, verdict, counters) in cases {
        let mut record = running(1, true);
        let row = record.finish(&job().spec, &lease(1), &ending(cause, verdict), at(2)).expect("current");
        assert_eq!((record.attempt, record.crashes, record.deferrals), counters, "{cause}");
        assert_eq!(row.expect("it ran").number, 1);
    }
}

#[test]
fn a_prefetched_job_returns_without_a_trace() {
    // C2
    let mut record = running(1, false);
    assert_eq!(record.runs, 0, "a claim does not start a run");
    let back = Ending::plain(job().spec.header(), Cause::LeaseLost, Decision::handed_back());
    assert_eq!(record.finish(&job().spec, &lease(1), &back, at(2)), Ok(None));
    assert_eq!(
        (record.state, record.runs, record.attempt, record.crashes, record.deferrals),
        (State::Pending, 0, 0, 0, 0)
    );
}

#[test]
fn a_start_is_counted_once_before_the_handler() {
    // C5
    let mut record = running(1, false);
    record.start(&lease(1), at(2)).expect("current");
    record.start(&lease(1), at(3)).expect("repeated after a lost answer");
    assert_eq!(record.runs, 1);
    assert_eq!(record.hold.and_then(|hold| hold.started_at), Some(at(2)));
}

#[test]
fn progress_is_kept_for_the_current_run_only() {
    // L5, E1
    let half = || Progress { percent: 50, note: "half".into() };
    assert!(running(1, false).note(&lease(1), &Remark::Progress(half())).is_err(), "it has not started");
    let mut record = running(1, true);
    assert!(record.note(&lease(2), &Remark::Progress(half())).is_err(), "another hold");
    assert_eq!(record.progress, None);
    record.note(&lease(1), &Remark::Progress(half())).expect("current and started");
    assert_eq!(record.progress, Some(half()));
}

#[test]
fn cancel_ends_everything_that_has_not_ended() {
    // L7
    let cancel = Operation::Cancel { reason: "changed my mind".into() };
    let mut pending = Record::new(&job().spec, at(0));
    assert!(pending.operate(&job(), &cancel, at(1)).expect("allowed").changed);
    assert_eq!(pending.state, State::Canceled);
    assert!(!pending.operate(&job(), &cancel, at(2)).expect("answers").changed, "terminal answers false");

    let mut record = running(1, true);
    let operated = record.operate(&job(), &cancel, at(5)).expect("allowed");
    let run = operated.ended_run.expect("a run was under way");
    assert_eq!((run.cause, run.number, run.finished_at), (Cause::Canceled, 1, at(5)));
    let late = record.finish(&job().spec, &lease(1), &ending(Cause::Succeeded, Verdict::Succeed), at(6));
    assert!(late.is_err(), "the handler's result is discarded");
    assert_eq!(record.state, State::Canceled);
}

#[test]
fn pause_remembers_where_from_and_resume_restores_it() {
    // L8
    let dead = Verdict::Dead { reason: TerminalReason::RetryExhausted };
    let mut failed = running(1, true);
    failed.finish(&job().spec, &lease(1), &ending(Cause::Error, dead), at(2)).expect("current");
    for record in [Record::new(&job().spec, at(9)), failed] {
        let mut paused = record.clone();
        for _ in 0..2 {
            assert!(paused.operate(&job(), &Operation::Pause, at(3)).expect("allowed").changed);
        }
        assert_eq!(paused.state, State::Paused);
        paused.operate(&job(), &Operation::Resume, at(4)).expect("allowed");
        assert_eq!(paused, record);
    }
}

#[test]
fn a_running_job_cannot_be_paused_and_the_answer_says_what_to_do() {
    // L8
    let refusal = running(1, true).operate(&job(), &Operation::Pause, at(2)).expect_err("running");
    assert_eq!((refusal.code(), refusal.hint()), ("wrong_state", "cancel it instead"));
}

#[test]
fn retry_by_hand_starts_afresh_and_keeps_the_lineage() {
    // L9
    let dead = Verdict::Dead { reason: TerminalReason::RetryExhausted };
    let mut record = running(1, true);
    record.finish(&job().spec, &lease(1), &ending(Cause::Error, dead), at(2)).expect("current");
    assert_eq!((record.state, record.last_failed_run), (State::Failed, Some(1)));
    record.operate(&job(), &Operation::Retry, at(50)).expect("failed can be retried");
    assert_eq!((record.state, record.attempt, record.redrives, record.runs), (State::Pending, 0, 1, 1));
    assert_eq!((record.run_at, record.reason, record.last_failed_run), (at(50), None, None));
    assert!(record.operate(&job(), &Operation::Retry, at(51)).is_err(), "only failed");
}

#[test]
fn expiry_and_queue_wait_bound_the_start() {
    // L19
    let mut spec = job().spec;
    spec.expires_at = Some(at(100));
    spec.policy.max_wait = Some(Duration::from_secs(10));
    assert_eq!(Record::new(&spec, at(0)).expires_at, Some(at(10)));
    assert_eq!(Record::new(&spec, at(95)).expires_at, Some(at(100)));
    let mut record = Record::new(&spec, at(0));
    assert!(!record.expire(&spec, at(10)), "the last moment still counts");
    assert!(record.expire(&spec, at(11)));
    assert_eq!((record.state, record.reason), (State::Failed, Some(TerminalReason::Expired)));
}

#[test]
fn only_an_unstarted_job_is_superseded() {
    // L22
    let successor = JobId::from_u128(8);
    let mut pending = Record::new(&job().spec, at(0));
    pending.supersede(ID, successor, at(1)).expect("unstarted");
    assert_eq!((pending.state, pending.superseded_by), (State::Canceled, Some(successor)));
    assert_eq!(
        running(1, true).supersede(ID, successor, at(1)).expect_err("started").code(),
        "not_replaceable"
    );
}

#[test]
fn callbacks_follow_from_their_parent_and_exist_once() {
    // F14
    let callback = |kind: &str| Callback {
        kind: kind.into(),
        version: 1,
        queue: "default".into(),
        payload: "{}".into(),
    };
    let mut job = job();
    job.spec.on_success = Some(callback("cheer"));
    job.spec.on_failure = Some(callback("mourn"));
    let record = Record::new(&job.spec, at(0));
    let good = job.follow_up(&record, true).expect("asked for");
    assert_eq!(good, job.follow_up(&record, true).expect("asked for"), "the same twice");
    assert_eq!((&*good.spec.kind, good.spec.callback_of), ("cheer", Some(ID)));
    let bad = job.follow_up(&record, false).expect("asked for");
    let again = job.follow_up(&Record { redrives: 1, ..record }, false).expect("asked for");
    assert!(
        bad.spec.id != good.spec.id && bad.spec.id != again.spec.id,
        "a re-drive that fails again calls again"
    );
}

#[test]
fn a_job_declares_its_callbacks_and_no_other() {
    // E9, F14
    let mut job = job();
    let callback = Callback { kind: "mourn".into(), version: 2, queue: "after".into(), payload: "{}".into() };
    job.spec.on_failure = Some(callback);
    job.spec.provenance_mut().trace = Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into());
    let first = Record::new(&job.spec, at(0));
    let later = Record { redrives: 3, ..first.clone() };
    let mut made = job.follow_up(&Record { redrives: 1, ..first.clone() }, false).expect("asked for").spec;
    assert!(job.declares(&later, &made), "also one of an earlier round");
    assert!(!job.declares(&first, &made), "there was no such round yet");
    made.provenance_mut().signature = Some(crate::job::Signature { key: "k".into(), mac: "m".into() });
    assert!(job.declares(&later, &made), "whatever signature it carries");
    let changes: [fn(&mut Spec); 9] = [
        |spec| spec.id = JobId::from_u128(9),
        |spec| spec.kind = "evil".into(),
        |spec| spec.version = 1,
        |spec| spec.queue = "other".into(),
        |spec| spec.payload = "{ }".into(),
        |spec| spec.params = None,
        |spec| spec.policy.max_retries += 1,
        |spec| spec.callback_of = None,
        |spec| spec.provenance = None,
    ];
    for (at, change) in changes.iter().enumerate() {
        let mut changed = made.clone();
        change(&mut changed);
        assert!(!job.declares(&later, &changed), "change {at}");
    }
    let endless = Record { redrives: u32::MAX, ..first };
    assert!(!job.declares(&endless, &made), "and it does not take for ever");
}

#[test]
fn a_job_is_kept_from_running_no_longer_than_it_says() {
    // H7
    let mut spec = job().spec;
    assert_eq!(Record::new(&spec, at(0)).expires_at, None, "for ever, unless it says otherwise");
    spec.policy.max_deferral = Some(Duration::from_secs(60));
    let job = StoredJob { spec: spec.clone(), created_at: at(0) };
    let mut record = Record::new(&spec, at(0));
    assert_eq!(record.expires_at, Some(at(60)), "held by a limit, it never runs");
    // What charges nothing does not begin the time again; a charged failure does.
    let mut fence = 0;
    let mut cut_short = |record: &mut Record, cause, verdict, now| {
        fence += 1;
        record.claim(WORKER, Fence(fence), now, true).expect("it is pending");
        record.finish(&job.spec, &lease(fence), &ending(cause, verdict), now).expect("it is held");
    };
    let delay = Duration::from_secs(10);
    cut_short(&mut record, Cause::Rejected, Verdict::Defer { delay }, at(20));
    assert_eq!((record.run_at, record.expires_at), (at(30), Some(at(60))));
    cut_short(&mut record, Cause::Error, Verdict::Retry { delay }, at(40));
    assert_eq!((record.run_at, record.expires_at), (at(50), Some(at(110))));
    cut_short(&mut record, Cause::Rejected, Verdict::Defer { delay }, at(55));
    cut_short(&mut record, Cause::Rejected, Verdict::Defer { delay }, at(70));
    assert_eq!((record.run_at, record.expires_at), (at(80), Some(at(110))));
    assert!(!record.expire(&spec, at(110)));
    assert!(record.expire(&spec, at(111)));
    assert_eq!((record.state, record.reason), (State::Failed, Some(TerminalReason::DeferralExhausted)));
    record.operate(&job, &Operation::Retry, at(200)).expect("a dead letter");
    assert_eq!(record.expires_at, Some(at(260)), "driven again, it has all its time");
}
