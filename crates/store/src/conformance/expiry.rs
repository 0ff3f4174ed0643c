//! Cases about jobs that could not start in time.

use std::time::Duration;

use backstop_core::failure::TerminalReason;
use backstop_core::job::{Operation, State};

use super::build::{Crew, id, job, success};
use super::fixture::{World, secs};
use crate::Duty;

async fn expire(w: &World, limit: usize) -> usize {
    let term = w.leader(Duty::Expire).await;
    w.store.expire(term, limit).await.expect("the term runs")
}

/// L19, F13: a job that may not start any more is failed with reason `expired`; one that just may is left.
pub async fn an_overdue_job_is_failed(w: World) {
    w.submit(job(1).expires(w.now().after(secs(5)))).await;
    w.pass(secs(5));
    assert_eq!(expire(&w, 10).await, 0, "it may start at that very moment");
    w.pass(Duration::from_micros(1));
    assert_eq!(expire(&w, 10).await, 1);
    let record = w.record(id(1)).await;
    assert_eq!((record.state, record.reason), (State::Failed, Some(TerminalReason::Expired)));
    assert_eq!((record.finished_at, record.runs), (Some(w.now()), 0));
    assert_eq!(expire(&w, 10).await, 0);
}

/// L19: the longest overdue go first, up to the limit.
pub async fn the_longest_overdue_go_first(w: World) {
    for (number, span) in [(1, 3), (2, 1), (3, 2), (4, 1)] {
        w.submit(job(number).expires(w.now().after(secs(span)))).await;
    }
    w.pass(secs(10));
    assert_eq!(expire(&w, 3).await, 3);
    assert_eq!(w.state(id(1)).await, State::Pending);
    assert_eq!(expire(&w, 0).await, 0);
    assert_eq!(expire(&w, 3).await, 1);
}

/// L19: a running job has started in time, a paused one is held back by a person; neither expires.
pub async fn running_and_paused_jobs_do_not_expire(w: World) {
    let taken = w.running(job(1).expires(w.now().after(secs(1)))).await;
    w.submit(job(2).expires(w.now().after(secs(1)))).await;
    w.operate(id(2), Operation::Pause).await.expect("pending");
    w.pass(secs(5));
    assert_eq!(expire(&w, 10).await, 0);
    assert_eq!(w.finish(&taken, success(&taken)).await, State::Succeeded);
    w.operate(id(2), Operation::Resume).await.expect("paused");
    assert_eq!(expire(&w, 10).await, 1, "resumed, it is overdue");
}

/// L19: jobs expire in paused queues, in lanes without code, and before they are due.
pub async fn jobs_expire_wherever_they_wait(w: World) {
    w.enlist(Crew::new(1).queues(&["strange"])).await;
    w.store.pause_queue("paused", true, None).await.expect("pause");
    let soon = w.now().after(secs(1));
    w.submit(job(1).queue("paused").expires(soon)).await;
    w.submit(job(2).queue("strange").kind("unheard", 1).expires(soon)).await;
    w.submit(job(3).after(secs(3_600)).expires(soon)).await;
    w.pass(secs(2));
    assert_eq!(expire(&w, 10).await, 3);
}

/// L19: a job waits no longer than its patience, counted from its due time.
pub async fn a_job_waits_no_longer_than_its_patience(w: World) {
    w.submit(job(1).after(secs(60)).policy(|policy| policy.max_wait = Some(secs(5)))).await;
    w.pass(secs(64));
    assert_eq!(expire(&w, 10).await, 0);
    w.pass(secs(2));
    assert_eq!(expire(&w, 10).await, 1);
}

/// F14, L19: an expired job has failed for good, so its callback is stored.
pub async fn an_expired_job_fires_its_callback(w: World) {
    w.submit(job(1).callbacks().expires(w.now())).await;
    w.pass(secs(1));
    expire(&w, 10).await;
    let callback = w.detail(id(1).callback("on_failure", 0)).await.view;
    assert_eq!((&*callback.job.spec.kind, callback.record.run_at), ("mourn", w.now()));
}

/// L9, L19: an expired job that is driven again may run: only its patience counts anew.
pub async fn an_expired_job_can_be_driven_again(w: World) {
    let draft = job(1).policy(|policy| policy.max_wait = Some(secs(9)));
    w.submit(draft.expires(w.now().after(secs(1)))).await;
    w.pass(secs(2));
    expire(&w, 10).await;
    w.operate(id(1), Operation::Retry).await.expect("failed");
    let record = w.record(id(1)).await;
    assert_eq!((record.expires_at, record.reason), (Some(w.now().after(secs(9))), None));
    let worker = w.worker(1).await;
    assert_eq!(w.take(worker).await.job.spec.id, id(1));
}

/// F12: an expired job was never run, so it is no incident and has no ledger row.
pub async fn an_expired_job_is_no_incident(w: World) {
    w.submit(job(1).expires(w.now())).await;
    w.pass(secs(1));
    expire(&w, 10).await;
    assert!(w.runs(id(1)).await.is_empty());
    assert!(w.store.incidents(10).await.expect("incidents").is_empty());
    let queue = w.queue("default").await;
    assert_eq!((queue.pending, queue.failed), (0, 1));
}
