//! Endings that are told of more than once: the same one is answered as the first time, any other is stale (L5).

use backstop_core::failure::Cause;
use backstop_core::job::{Ending, Operation, State};
use backstop_core::{JobId, Lease};

use super::Fixture;
use super::build::{JobDraft, ending, ends_by, failure, handed_back, id, job, success, worker_id};
use crate::{ClaimedJob, Finish};

/// Jobs that may fail often.
fn patient(number: u64) -> JobDraft {
    job(number).policy(|policy| policy.max_retries = 9)
}

/// Ways for a run to end, no two of them alike, and where each of them leads.
fn endings(taken: &ClaimedJob) -> Vec<(Ending, State)> {
    let returned = |text: &str| Ending { result: Some(text.into()), ..success(taken) };
    let mut other = ends_by(taken, Cause::Error);
    if let Some(failure) = &mut other.failure {
        failure.message = "something else".into();
    }
    let asking = |cause, secs| ending(taken, &failure(cause).retry_in(std::time::Duration::from_secs(secs)));
    let later = |secs| asking(Cause::Snoozed, secs);
    vec![
        (success(taken), State::Succeeded),
        (returned("1"), State::Succeeded),
        (returned("2"), State::Succeeded),
        (Ending { warning: Some("too large".into()), ..success(taken) }, State::Succeeded),
        (ends_by(taken, Cause::Error), State::Pending),
        (other, State::Pending),
        (ends_by(taken, Cause::Timeout), State::Pending),
        (asking(Cause::Error, 60), State::Pending),
        (ends_by(taken, Cause::Permanent), State::Failed),
        // What it asked for is part of what it said, also where no wait follows.
        (asking(Cause::Permanent, 60), State::Failed),
        (ends_by(taken, Cause::Canceled), State::Canceled),
        (later(60), State::Pending),
        (later(61), State::Pending),
    ]
}

async fn nothing_changes(w: &Fixture, job: JobId, lease: Lease, ending: Ending, answer: Option<State>) {
    let before = (w.detail(job).await, w.runs(job).await);
    assert_eq!(w.try_finish(lease, ending).await.ok(), answer);
    assert_eq!((w.detail(job).await, w.runs(job).await), before);
}

/// L5: the same ending of the same run again, whatever it was.
pub async fn the_same_ending_is_answered_as_the_first_time(w: Fixture) {
    for at in 0..13 {
        let number = u64::try_from(at + 1).expect("small");
        let taken = w.running(patient(number)).await;
        let (ending, state) = endings(&taken).swap_remove(at);
        assert_eq!(w.finish(&taken, ending.clone()).await, state);
        nothing_changes(&w, id(number), taken.lease, ending.clone(), Some(state)).await;
        nothing_changes(&w, id(number), taken.lease, ending, Some(state)).await;
        w.cancel(id(number)).await;
    }
}

/// L5: every ending after every other one.
pub async fn another_ending_of_the_same_run_is_stale(w: Fixture) {
    for at in 0..13 {
        let number = u64::try_from(at + 1).expect("small");
        let taken = w.running(patient(number)).await;
        let mut others = endings(&taken);
        let (first, state) = others.swap_remove(at);
        assert_eq!(w.finish(&taken, first).await, state);
        for (other, _) in others {
            nothing_changes(&w, id(number), taken.lease, other, None).await;
        }
        w.cancel(id(number)).await;
    }
}

/// L5: while a new lease runs the job, the old one is answered for its own run and changes nothing of this one.
pub async fn an_old_lease_speaks_of_its_own_run(w: Fixture) {
    let first = w.running(patient(1)).await;
    w.finish(&first, ends_by(&first, Cause::Error)).await;
    let second = w.take(first.lease.worker).await;
    let (job, failed) = (id(1), ends_by(&first, Cause::Error));
    nothing_changes(&w, job, first.lease, success(&first), None).await;
    nothing_changes(&w, job, first.lease, ends_by(&first, Cause::Timeout), None).await;
    nothing_changes(&w, job, first.lease, failed.clone(), Some(State::Pending)).await;
    assert_eq!(w.state(job).await, State::Running);
    w.finish(&second, success(&second)).await;
    nothing_changes(&w, job, first.lease, failed, Some(State::Pending)).await;
    nothing_changes(&w, job, first.lease, success(&first), None).await;
    nothing_changes(&w, job, second.lease, success(&second), Some(State::Succeeded)).await;
}

/// L5: within one call the first ending counts.
pub async fn the_same_and_other_endings_in_one_batch(w: Fixture) {
    let worker = w.worker(1).await;
    w.offer_all(false, (1..=3).map(patient)).await;
    let taken = w.claim(worker, 3).await;
    let (good, bad) = (|at: usize| success(&taken[at]), |at: usize| ends_by(&taken[at], Cause::Error));
    let finish = |at: usize, ending| Finish { lease: taken[at].lease, ending };
    let batch = vec![
        finish(0, good(0)),
        finish(0, bad(0)),
        finish(0, good(0)),
        finish(1, bad(1)),
        finish(1, good(1)),
        finish(1, bad(1)),
        finish(2, good(2)),
    ];
    let answers = w.store.finish(batch.clone()).await.expect("finish");
    let (done, retried) = (Some(State::Succeeded), Some(State::Pending));
    let expected = [done, None, done, retried, None, retried, done];
    assert_eq!(answers.iter().map(|answer| answer.ok()).collect::<Vec<_>>(), expected);
    let again = w.store.finish(batch).await.expect("finish");
    assert_eq!(again, answers, "and the whole call again is answered alike");
    for number in 1..=3 {
        assert_eq!(w.runs(id(number)).await.len(), 1, "job {number}");
    }
}

/// L5: the answer to what has ended does not depend on the worker, who may have gone since.
pub async fn an_answer_outlives_its_worker(w: Fixture) {
    let taken = w.running(patient(1)).await;
    w.finish(&taken, ends_by(&taken, Cause::Error)).await;
    w.store.retire(taken.lease.worker).await.expect("retire");
    nothing_changes(&w, id(1), taken.lease, ends_by(&taken, Cause::Error), Some(State::Pending)).await;
    nothing_changes(&w, id(1), taken.lease, success(&taken), None).await;
    let stranger = Lease { worker: worker_id(77), ..taken.lease };
    nothing_changes(&w, id(1), stranger, ends_by(&taken, Cause::Error), None).await;
}

/// L5, L7, L15: a run that others have ended did not end as its worker says.
pub async fn what_others_ended_is_stale(w: Fixture) {
    let taken = w.running(patient(1)).await;
    w.operate(id(1), Operation::Cancel { reason: "it ended by canceled".into() }).await.expect("running");
    for ending in [success(&taken), ends_by(&taken, Cause::Error), ends_by(&taken, Cause::Canceled)] {
        nothing_changes(&w, id(1), taken.lease, ending, None).await;
    }
    let taken = w.running(patient(2)).await;
    w.store.retire(taken.lease.worker).await.expect("retire");
    w.rescue(taken.lease, ends_by(&taken, Cause::Crash)).await.expect("an orphan");
    w.worker(1).await;
    nothing_changes(&w, id(2), taken.lease, success(&taken), None).await;
    assert!(w.rescue(taken.lease, ends_by(&taken, Cause::Crash)).await.is_err(), "no longer an orphan");
}

/// L5: a repeated ending counts, tells and starts nothing.
pub async fn a_repeated_ending_leaves_no_trace(w: Fixture) {
    let taken = w.running(job(1).callbacks()).await;
    let dead = ends_by(&taken, Cause::Permanent);
    let made = id(1).callback("on_failure", 0);
    w.finish(&taken, dead.clone()).await;
    let incidents = w.store.incidents(10).await.expect("incidents");
    w.cancel(made).await;
    w.told.take();
    assert_eq!(w.try_finish(taken.lease, dead).await, Ok(State::Failed));
    assert!(w.told.take().is_empty());
    assert_eq!(w.store.incidents(10).await.expect("incidents"), incidents);
    assert_eq!(w.state(made).await, State::Canceled);
}

/// L5: also after the store was closed and opened, and for a hold that went back unstarted there is no run to speak of.
pub async fn endings_are_known_after_a_reopening(w: Fixture) {
    let taken = w.running(patient(1)).await;
    w.finish(&taken, ends_by(&taken, Cause::Error)).await;
    let w = w.reopen().await;
    nothing_changes(&w, id(1), taken.lease, ends_by(&taken, Cause::Error), Some(State::Pending)).await;
    nothing_changes(&w, id(1), taken.lease, success(&taken), None).await;
    let held = w.prefetch(taken.lease.worker).await;
    assert_eq!(w.finish(&held, handed_back(&held)).await, State::Pending);
    nothing_changes(&w, id(1), held.lease, handed_back(&held), None).await;
}
