//! Cases about callbacks and incidents: what the end of a run brings besides.

use backstop_core::JobId;
use backstop_core::failure::{Cause, TerminalReason};
use backstop_core::job::{Operation, State};

use super::build::{ending, ends_by, failure, fingerprint, id, job, success};
use super::fixture::{Fixture, secs};
use crate::{ClaimedJob, Incident, JobFilter};

/// The callbacks that are stored for a job, newest id first.
async fn callbacks(w: &Fixture, of: JobId) -> Vec<(String, JobId)> {
    let filter = JobFilter { queue: Some("after".into()), ..JobFilter::default() };
    let page = w.store.list(filter, crate::PageRequest::first(100)).await.expect("list");
    let mine = page.items.into_iter().filter(|view| view.job.spec.callback_of == Some(of));
    mine.map(|view| (view.job.spec.kind.to_string(), view.job.spec.id)).collect()
}

/// F14: the callback of the final outcome is stored with it, as a job of its own.
pub async fn a_callback_is_a_job_of_its_own(w: Fixture) {
    let draft = job(1).callbacks().with(|new| new.spec.correlation_id = Some("trace".into()));
    let taken = w.running(draft).await;
    w.pass(secs(3));
    w.finish(&taken, success(&taken)).await;
    let expected = id(1).callback("on_success", 0);
    let view = w.detail(expected).await.view;
    assert_eq!(
        (&*view.job.spec.kind, view.job.spec.version, &*view.job.spec.queue),
        ("celebrate", 2, "after")
    );
    assert_eq!(
        (view.job.spec.callback_of, view.job.spec.correlation_id.as_deref()),
        (Some(id(1)), Some("trace"))
    );
    assert_eq!((view.record.state, view.record.run_at), (State::Pending, w.now()));
    assert_eq!(callbacks(&w, id(1)).await.len(), 1);
}

/// F14: a failure that is retried fires nothing; the last one fires once.
pub async fn only_the_final_outcome_fires(w: Fixture) {
    let taken = w.running(job(1).callbacks()).await;
    w.finish(&taken, ends_by(&taken, Cause::Error)).await;
    assert_eq!(callbacks(&w, id(1)).await, []);
    let taken = w.take(taken.lease.worker).await;
    w.finish(&taken, ends_by(&taken, Cause::Error)).await;
    assert_eq!(callbacks(&w, id(1)).await, [("mourn".to_owned(), id(1).callback("on_failure", 0))]);
}

/// F14: a repeated report fires nothing more; a callback that already exists is left alone.
pub async fn a_callback_is_stored_exactly_once(w: Fixture) {
    let taken = w.running(job(1).callbacks()).await;
    let callback = taken.job.follow_up(&taken.record, true).expect("it asked for one");
    let mut early = job(50);
    early.0 = callback;
    w.submit(early).await;
    w.cancel(id(1).callback("on_success", 0)).await;
    assert_eq!(w.finish(&taken, success(&taken)).await, State::Succeeded, "not refused for that");
    w.try_finish(taken.lease, success(&taken)).await.expect("the same again");
    let stored = callbacks(&w, id(1)).await;
    assert_eq!(stored.len(), 1);
    assert_eq!(w.state(stored[0].1).await, State::Canceled, "left as it was");
}

/// F14: a dead letter that is driven again and dies again fires again.
pub async fn a_redrive_fires_anew(w: Fixture) {
    let mut taken = w.running(job(1).callbacks()).await;
    for redrive in 0..2 {
        w.finish(&taken, ends_by(&taken, Cause::Permanent)).await;
        assert!(w.exists(id(1).callback("on_failure", redrive)).await);
        w.operate(id(1), Operation::Retry).await.expect("failed");
        taken = w.take(taken.lease.worker).await;
    }
    w.finish(&taken, success(&taken)).await;
    assert_eq!(callbacks(&w, id(1)).await.len(), 3);
}

/// F14: being canceled by a person is no failure, so nobody mourns.
pub async fn a_canceled_job_fires_nothing(w: Fixture) {
    w.running(job(1).callbacks()).await;
    w.cancel(id(1)).await;
    assert_eq!(callbacks(&w, id(1)).await, []);
}

async fn incident(w: &Fixture) -> Incident {
    let mut all = w.store.incidents(10).await.expect("incidents");
    assert_eq!(all.len(), 1);
    all.remove(0)
}

async fn dies(w: &Fixture, number: u64, cause: Cause) -> ClaimedJob {
    let taken = w.running(job(number)).await;
    let failed = backstop_core::failure::Failure::new(cause, "Boom", "it broke");
    w.finish(&taken, ending(&taken, &failed)).await;
    taken
}

/// F12: failures with one fingerprint are counted as one incident while they are written.
pub async fn failures_are_counted_as_incidents(w: Fixture) {
    let first_seen = w.now();
    dies(&w, 1, Cause::Error).await;
    w.cancel(id(1)).await;
    w.pass(secs(10));
    dies(&w, 2, Cause::Permanent).await;
    let found = incident(&w).await;
    assert_eq!((found.failures, found.dead, found.sample_job), (2, 1, id(2)));
    assert_eq!((found.first_seen, found.last_seen), (first_seen, w.now()));
    assert_eq!((&*found.kind, &*found.error_type, &*found.message), ("work", "Boom", "it broke"));
    assert_eq!(found.fingerprint, fingerprint("it broke"));
}

/// F12: an ending that was refused as stale is counted nowhere.
pub async fn a_stale_ending_is_no_incident(w: Fixture) {
    let taken = dies(&w, 1, Cause::Permanent).await;
    w.try_finish(taken.lease, ends_by(&taken, Cause::Permanent)).await.expect_err("stale");
    assert_eq!(incident(&w).await.failures, 1);
}

/// F13: a failure that its handler reported as a result is a dead letter and no incident.
pub async fn a_reported_failure_is_no_incident(w: Fixture) {
    let taken = w.running(job(1)).await;
    let mut reported = failure(Cause::Permanent);
    reported.reported = true;
    assert_eq!(w.finish(&taken, ending(&taken, &reported)).await, State::Failed);
    assert_eq!(w.record(id(1)).await.reason, Some(TerminalReason::ReportedFailure));
    assert!(w.store.incidents(10).await.expect("incidents").is_empty());
}
