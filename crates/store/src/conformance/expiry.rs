//! Cases about jobs that could not start in time.

use std::time::Duration;

use backstop_core::failure::TerminalReason;
use backstop_core::job::{Operation, State};

use super::build::{WorkerDraft, id, job, success};
use super::fixture::{Fixture, secs};
use crate::{Duty, Overdue};

async fn expire(w: &Fixture, limit: usize) -> usize {
    let term = w.leader(Duty::Expire).await;
    w.expire(term, limit).await.expect("the term runs")
}

/// L19, F13: a job that may not start any more is failed with reason `expired`; one that just may is left.
pub async fn an_overdue_job_is_failed(w: Fixture) {
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
pub async fn the_longest_overdue_go_first(w: Fixture) {
    for (number, span) in [(1, 3), (2, 1), (3, 2), (4, 1)] {
        w.submit(job(number).expires(w.now().after(secs(span)))).await;
    }
    w.pass(secs(10));
    assert_eq!(expire(&w, 3).await, 3);
    assert_eq!(w.state(id(1)).await, State::Pending);
    assert_eq!(expire(&w, 0).await, 0);
    assert_eq!(expire(&w, 3).await, 1);
}

/// L19, C7: what is overdue is told in pages, so that one that cannot be failed does not hide those behind it.
pub async fn what_is_overdue_is_told_in_pages(w: Fixture) {
    let moments = [(1, 3), (2, 1), (3, 2), (4, 1), (5, 99)];
    for (number, span) in moments {
        w.submit(job(number).expires(w.now().after(secs(span)))).await;
    }
    let began = w.now();
    w.pass(secs(10));
    let overdue = |number, span| Overdue { expires_at: began.after(secs(span)), job: id(number) };
    let all = [overdue(2, 1), overdue(4, 1), overdue(3, 2), overdue(1, 3)];
    assert_eq!(w.store.overdue(None, 10).await.expect("told"), all);
    assert_eq!(w.store.overdue(None, 2).await.expect("told"), all[..2]);
    for (place, one) in all.iter().enumerate() {
        assert_eq!(w.store.overdue(Some(*one), 10).await.expect("told"), all[place + 1..]);
    }
}

/// L19: only what is still unclaimed and overdue by the moment that was told is failed, and that once.
pub async fn what_changed_meanwhile_does_not_expire(w: Fixture) {
    let soon = w.now().after(secs(1));
    for number in 1..=4 {
        w.submit(job(number).expires(soon).policy(|policy| policy.max_wait = Some(secs(60)))).await;
    }
    w.pass(secs(2));
    let mut told = w.store.overdue(None, 10).await.expect("told");
    assert_eq!(told.len(), 4);
    w.operate(id(1), Operation::Pause).await.expect("pending");
    w.operate(id(2), Operation::Cancel { reason: "enough".to_owned() }).await.expect("pending");
    let term = w.leader(Duty::Expire).await;
    assert_eq!(w.store.expire(term, vec![told[2]]).await.expect("the term runs"), 1);
    w.operate(id(3), Operation::Retry).await.expect("failed");
    told.push(told[3]);
    told.push(Overdue { expires_at: soon, job: id(9) });
    assert_eq!(w.store.expire(term, told).await.expect("the term runs"), 1, "the fourth");
    let states = [State::Paused, State::Canceled, State::Pending, State::Failed];
    for (number, state) in (1..).zip(states) {
        assert_eq!(w.state(id(number)).await, state, "{number}");
    }
    assert_eq!(w.store.expire(term, Vec::new()).await.expect("the term runs"), 0);
}

/// L19: a running job has started in time, a paused one is held back by a person; neither expires.
pub async fn running_and_paused_jobs_do_not_expire(w: Fixture) {
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
pub async fn jobs_expire_wherever_they_wait(w: Fixture) {
    w.enlist(WorkerDraft::new(1).queues(&["strange"])).await;
    w.store.pause_queue("paused", true, None).await.expect("pause");
    let soon = w.now().after(secs(1));
    w.submit(job(1).queue("paused").expires(soon)).await;
    w.submit(job(2).queue("strange").kind("unheard", 1).expires(soon)).await;
    w.submit(job(3).after(secs(3_600)).expires(soon)).await;
    w.pass(secs(2));
    assert_eq!(expire(&w, 10).await, 3);
}

/// L19: a job waits no longer than its patience, counted from its due time.
pub async fn a_job_waits_no_longer_than_its_patience(w: Fixture) {
    w.submit(job(1).after(secs(60)).policy(|policy| policy.max_wait = Some(secs(5)))).await;
    w.pass(secs(64));
    assert_eq!(expire(&w, 10).await, 0);
    w.pass(secs(2));
    assert_eq!(expire(&w, 10).await, 1);
}

/// F14, L19: an expired job has failed for good, so its callback is stored.
pub async fn an_expired_job_fires_its_callback(w: Fixture) {
    w.submit(job(1).callbacks().expires(w.now())).await;
    w.pass(secs(1));
    expire(&w, 10).await;
    let callback = w.detail(id(1).callback("on_failure", 0)).await.view;
    assert_eq!((&*callback.job.spec.kind, callback.record.run_at), ("mourn", w.now()));
}

/// L9, L19: an expired job that is driven again may run: only its patience counts again.
pub async fn an_expired_job_can_be_driven_again(w: Fixture) {
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
pub async fn an_expired_job_is_no_incident(w: Fixture) {
    w.submit(job(1).expires(w.now())).await;
    w.pass(secs(1));
    expire(&w, 10).await;
    assert!(w.runs(id(1)).await.is_empty());
    assert!(w.store.incidents(10).await.expect("incidents").is_empty());
    let queue = w.queue("default").await;
    assert_eq!((queue.pending, queue.failed), (0, 1));
}
