//! Cases about what the observer is told: after the commit, in order, and nothing of what was refused.

use std::sync::Arc;

use backstop_core::event::EventKind;
use backstop_core::failure::{Cause, TerminalReason};
use backstop_core::job::{OnConflict, Operation};

use super::build::{WorkerDraft, ending, ends_by, failure, id, job, other_fence, success};
use super::fixture::{Fixture, secs};
use super::told::ObservedEvents;
use crate::Duty;

/// V1: the life of a job is told in order.
pub async fn a_life_is_told_in_order(w: Fixture) {
    let taken = w.running(job(1)).await;
    w.finish(&taken, ends_by(&taken, Cause::Error)).await;
    let taken = w.take(taken.lease.worker).await;
    w.finish(&taken, ends_by(&taken, Cause::Timeout)).await;
    w.operate(id(1), Operation::Retry).await.expect("failed");
    let taken = w.take(taken.lease.worker).await;
    w.finish(&taken, success(&taken)).await;
    let expected = [
        "enqueued",
        "started",
        "failed",
        "retrying",
        "started",
        "timed_out",
        "failed",
        "dead",
        "alert",
        "retried",
        "started",
        "succeeded",
    ];
    assert_eq!(w.told.names(id(1)), expected);
}

/// V1: each event says when, which job, and what a listener needs.
pub async fn events_say_which_job_and_when(w: Fixture) {
    let draft =
        job(1).key("order 7", OnConflict::Reject).with(|new| new.spec.correlation_id = Some("c".into()));
    let header = draft.0.spec.header();
    let taken = w.running(draft).await;
    w.pass(secs(2));
    let failed = failure(Cause::Error).retry_in(secs(7));
    w.finish(&taken, ending(&taken, &failed)).await;
    let mut events = w.told.take();
    assert_eq!(events.pop().map(|event| event.what.name()), Some("incident_opened"));
    assert!(events.iter().all(|event| event.job.as_ref() == Some(&header)));
    assert_eq!(events[1].what, EventKind::Started { run: 1 });
    let next = w.now().after(secs(7));
    let error = "it ended by error".to_owned();
    assert_eq!(
        events[2].what,
        EventKind::Failed { cause: Cause::Error, error: error.clone(), r#final: false }
    );
    assert_eq!(events[3].what, EventKind::Retrying { error, attempt: 1, next });
    assert_eq!((events[0].at, events[3].at), (w.now().before(secs(2)), w.now()));
}

/// V1: nothing is told of what was refused, deduplicated or stale.
pub async fn nothing_is_told_of_what_was_refused(w: Fixture) {
    let taken = w.running(job(1).once("o").key("k", OnConflict::Reject)).await;
    w.told.take();
    w.offer(job(1)).await.expect("deduplicated");
    w.offer(job(2).once("o")).await.expect("deduplicated");
    w.offer(job(3).key("k", OnConflict::Skip)).await.expect("skipped");
    w.offer(job(4).key("k", OnConflict::Reject)).await.expect_err("held");
    w.offer(job(5).supersedes(1)).await.expect_err("running");
    w.operate(id(1), Operation::Pause).await.expect_err("running");
    w.operate(id(1), Operation::Retry).await.expect_err("running");
    w.try_finish(other_fence(taken.lease, 1), success(&taken)).await.expect_err("stale");
    w.start(taken.lease).await.expect("started already");
    assert_eq!(w.told.take(), []);
}

/// V1, L7, L8: operations are told once, and only when the job really moved.
pub async fn operations_are_told_when_they_move_the_job(w: Fixture) {
    w.submit(job(1)).await;
    for operation in [Operation::Pause, Operation::Pause, Operation::Resume] {
        w.operate(id(1), operation).await.expect("allowed");
    }
    w.cancel(id(1)).await;
    w.cancel(id(1)).await;
    assert_eq!(w.told.names(id(1)), ["enqueued", "paused", "resumed", "canceled"]);
}

/// V1, L22: the old job's end is told before the new one's beginning.
pub async fn a_replaced_job_is_told_first(w: Fixture) {
    w.submit(job(1).key("k", OnConflict::Reject)).await;
    w.told.take();
    w.submit(job(2).key("k", OnConflict::Replace)).await;
    let events = w.told.take();
    let reason = format!("superseded by job {}", id(2));
    assert_eq!(events[0].what, EventKind::Canceled { reason });
    assert_eq!((events[1].what.name(), events.len()), ("enqueued", 2));
}

/// V1, C5: a prefetched run is told when it is started, once.
pub async fn a_prefetched_start_is_told_once(w: Fixture) {
    let worker = w.worker(1).await;
    w.submit(job(1)).await;
    let taken = w.prefetch(worker).await;
    assert_eq!(w.told.names(id(1)), ["enqueued"]);
    w.start(taken.lease).await.expect("held");
    w.start(taken.lease).await.expect("held");
    assert_eq!(w.told.names(id(1)), ["started"]);
}

/// V1, L19: an expired job is told as dead, and its callback as enqueued.
pub async fn an_expired_job_is_told_as_dead(w: Fixture) {
    w.submit(job(1).callbacks().expires(w.now())).await;
    w.pass(secs(1));
    w.told.take();
    let term = w.leader(Duty::Expire).await;
    w.expire(term, 10).await.expect("the term runs");
    let events = w.told.take();
    let dead = EventKind::Dead { error: None, attempts: 0, reason: TerminalReason::Expired };
    let names: Vec<_> = events.iter().map(|event| event.what.name()).collect();
    assert_eq!((&events[0].what, names.as_slice()), (&dead, ["dead", "alert", "enqueued"].as_slice()));
}

/// V1, F14: a callback is told after the end that fired it.
pub async fn a_callback_is_told_after_the_end(w: Fixture) {
    let taken = w.running(job(1).callbacks()).await;
    w.told.take();
    w.finish(&taken, success(&taken)).await;
    let events = w.told.take();
    let told: Vec<_> =
        events.iter().map(|event| (event.what.name(), event.job.as_ref().map(|job| job.id))).collect();
    let callback = id(1).callback("on_success", 0);
    assert_eq!(told, [("succeeded", Some(id(1))), ("enqueued", Some(callback))]);
}

/// V1: deferrals and interruptions have events of their own.
pub async fn deferrals_are_told_as_such(w: Fixture) {
    let taken = w.running(job(1)).await;
    w.finish(&taken, ends_by(&taken, Cause::Interrupted)).await;
    let taken = w.take(taken.lease.worker).await;
    w.finish(&taken, ends_by(&taken, Cause::RateLimited)).await;
    assert_eq!(w.told.names(id(1)), ["enqueued", "started", "interrupted", "started", "deferred"]);
}

/// V1: a later observer replaces the earlier one, and one that wants no events gets none.
pub async fn observers_are_replaced_and_asked(w: Fixture) {
    let deaf = Arc::new(ObservedEvents::deaf());
    w.store.observe(deaf.clone());
    w.submit(job(1)).await;
    assert_eq!((w.told.take(), deaf.take()), (vec![], vec![]));
    assert!(deaf.hints() > 0, "hints are not events");
    w.store.observe(w.told.clone());
    w.submit(job(2)).await;
    assert_eq!(w.told.names(id(2)), ["enqueued"]);
    assert_eq!(deaf.hints(), 0);
}

/// F12: a job that expires is told of also when nobody listens to events.
pub async fn expired_jobs_are_told_of_whoever_listens(w: Fixture) {
    w.submit(job(1).expires(w.now())).await;
    let deaf = Arc::new(ObservedEvents::deaf());
    w.store.observe(deaf.clone());
    w.pass(super::fixture::secs(1));
    let term = w.leader(crate::Duty::Expire).await;
    assert_eq!(w.expire(term, 1).await.expect("the term runs"), 1);
    assert_eq!(deaf.names(id(1)), ["dead", "alert"]);
}

/// L13: whatever makes work claimable gives a hint at once.
pub async fn work_that_arrives_gives_a_hint(w: Fixture) {
    w.worker(1).await;
    assert!(w.told.hints() > 0, "a worker's queues may hold work for it");
    w.submit(job(1)).await;
    assert!(w.told.hints() > 0, "submit");
    let taken = w.take(super::build::worker_id(1)).await;
    w.told.hints();
    w.finish(&taken, ends_by(&taken, Cause::Error)).await;
    assert!(w.told.hints() > 0, "retry");
    let taken = w.take(super::build::worker_id(1)).await;
    w.finish(&taken, ends_by(&taken, Cause::Error)).await;
    w.told.hints();
    w.operate(id(1), Operation::Retry).await.expect("failed");
    assert!(w.told.hints() > 0, "re-drive");
    w.operate(id(1), Operation::Pause).await.expect("pending");
    w.told.hints();
    w.operate(id(1), Operation::Resume).await.expect("paused");
    assert!(w.told.hints() > 0, "resume");
    w.store.pause_queue("default", true, None).await.expect("pause");
    w.told.hints();
    w.store.pause_queue("default", false, None).await.expect("resume");
    assert!(w.told.hints() > 0, "queue resume");
    w.enlist(WorkerDraft::new(2)).await;
    assert!(w.told.hints() > 0, "enlist");
}
