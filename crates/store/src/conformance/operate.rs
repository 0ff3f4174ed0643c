//! Cases about what people ask of jobs and queues, in every state a job can be in.

use backstop_core::failure::Cause;
use backstop_core::job::{Operated, Operation, PausedFrom, State};
use backstop_core::{JobId, Refusal};

use super::build::{ends_by, id, job, success};
use super::fixture::{Fixture, secs};

/// One job in each state that people can meet, by what it is.
async fn one_of_each(w: &Fixture) -> [(&'static str, JobId); 7] {
    let taken = w.running(job(1)).await;
    w.finish(&taken, success(&taken)).await;
    for number in [2, 3] {
        let taken = w.running(job(number)).await;
        w.finish(&taken, ends_by(&taken, Cause::Permanent)).await;
    }
    w.operate(id(3), Operation::Pause).await.expect("failed");
    w.running(job(4)).await;
    w.offer_all(false, [job(5), job(6), job(7)]).await;
    w.operate(id(6), Operation::Pause).await.expect("pending");
    w.cancel(id(7)).await;
    let names = ["succeeded", "failed", "paused dead letter", "running", "pending", "paused", "canceled"];
    let mut numbers = 1..;
    names.map(|name| (name, id(numbers.next().expect("endless"))))
}

/// What an operation answers in each state: `+state` changed, `=state` did not, `!state` was refused.
async fn table(w: &Fixture, operation: Operation) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    for (name, job) in one_of_each(w).await {
        let said = match w.operate(job, operation.clone()).await {
            Ok(Operated { changed: true, state, .. }) => format!("+{state}"),
            Ok(Operated { changed: false, state, .. }) => format!("={state}"),
            Err(Refusal::WrongState { job: named, state, .. }) if named == job => format!("!{state}"),
            Err(other) => format!("{other}"),
        };
        assert!(said.ends_with(w.state(job).await.as_str()), "{name}: the answer is what is stored");
        rows.push((name, said));
    }
    rows
}

fn rows(said: [&str; 7]) -> Vec<(&'static str, String)> {
    let names = ["succeeded", "failed", "paused dead letter", "running", "pending", "paused", "canceled"];
    names.into_iter().zip(said.map(str::to_owned)).collect()
}

/// L1, L7: cancel ends whatever has not ended, and answers false for the rest.
pub async fn cancel_in_every_state(w: Fixture) {
    let said = table(&w, Operation::Cancel { reason: "enough".into() }).await;
    let expected =
        rows(["=succeeded", "=failed", "+canceled", "+canceled", "+canceled", "+canceled", "=canceled"]);
    assert_eq!(said, expected);
}

/// L1, L8: pending and failed jobs can be paused; pausing a paused job is fine; the rest is refused.
pub async fn pause_in_every_state(w: Fixture) {
    let said = table(&w, Operation::Pause).await;
    let expected = rows(["!succeeded", "+paused", "+paused", "!running", "+paused", "+paused", "!canceled"]);
    assert_eq!(said, expected);
}

/// L1, L8: only a paused job resumes, to exactly where it was.
pub async fn resume_in_every_state(w: Fixture) {
    let said = table(&w, Operation::Resume).await;
    let expected =
        rows(["!succeeded", "!failed", "+failed", "!running", "!pending", "+pending", "!canceled"]);
    assert_eq!(said, expected);
}

/// L1, L9: only a dead letter is retried.
pub async fn retry_in_every_state(w: Fixture) {
    let said = table(&w, Operation::Retry).await;
    let expected =
        rows(["!succeeded", "+pending", "!paused", "!running", "!pending", "!paused", "!canceled"]);
    assert_eq!(said, expected);
}

/// L7: canceling a running job ends its run in the ledger at once, and its handler's result is discarded.
pub async fn canceling_ends_the_run(w: Fixture) {
    let taken = w.running(job(1)).await;
    w.pass(secs(4));
    let operated = w.cancel(id(1)).await;
    let run = operated.ended_run.expect("a run was under way");
    assert_eq!((run.number, run.cause, run.fence), (1, Cause::Canceled, taken.lease.fence));
    assert_eq!(w.runs(id(1)).await, [*run]);
    w.try_finish(taken.lease, success(&taken)).await.expect_err("discarded");
    let detail = w.detail(id(1)).await;
    let record = &detail.view.record;
    assert_eq!((record.state, record.finished_at, record.hold), (State::Canceled, Some(w.now()), None));
    assert_eq!(record.cancel_reason.as_deref(), Some("enough"));
    assert_eq!((detail.counters[&Cause::Canceled], record.attempt), (1, 0));
}

/// L7, C2: canceling what was only prefetched ends no run.
pub async fn canceling_a_prefetched_job_ends_no_run(w: Fixture) {
    let worker = w.worker(1).await;
    w.submit(job(1)).await;
    let taken = w.prefetch(worker).await;
    assert_eq!(w.cancel(id(1)).await.ended_run, None);
    assert!(w.runs(id(1)).await.is_empty());
    w.start(taken.lease).await.expect_err("canceled");
}

/// L7: canceling twice changes nothing, not even the reason.
pub async fn canceling_twice_changes_nothing(w: Fixture) {
    w.submit(job(1)).await;
    w.cancel(id(1)).await;
    let before = w.record(id(1)).await;
    w.pass(secs(1));
    let again = w.operate(id(1), Operation::Cancel { reason: "again".into() }).await.expect("never refused");
    assert_eq!((again.changed, again.state), (false, State::Canceled));
    assert_eq!(w.record(id(1)).await, before);
}

/// L8: a pause remembers from where, and a resume restores every field.
pub async fn resume_restores_the_earlier_state(w: Fixture) {
    w.submit(job(1).after(secs(60))).await;
    let pending = w.record(id(1)).await;
    w.operate(id(1), Operation::Pause).await.expect("pending");
    assert_eq!(w.record(id(1)).await.paused_from, Some(PausedFrom::Pending));
    w.operate(id(1), Operation::Resume).await.expect("paused");
    assert_eq!(w.record(id(1)).await, pending);
    let taken = w.running(job(2)).await;
    w.finish(&taken, ends_by(&taken, Cause::Invalid)).await;
    let dead = w.detail(id(2)).await;
    w.operate(id(2), Operation::Pause).await.expect("failed");
    assert_eq!(w.record(id(2)).await.paused_from, Some(PausedFrom::Failed));
    w.operate(id(2), Operation::Resume).await.expect("paused");
    assert_eq!(w.detail(id(2)).await, dead);
}

/// L9: a retry starts the budgets over, clears the error, and keeps the lineage.
pub async fn a_retry_starts_over_and_keeps_the_lineage(w: Fixture) {
    let taken = w.running(job(1)).await;
    w.finish(&taken, ends_by(&taken, Cause::Permanent)).await;
    w.pass(secs(30));
    w.worker(1).await;
    let operated = w.operate(id(1), Operation::Retry).await.expect("failed");
    assert_eq!((operated.changed, operated.state), (true, State::Pending));
    let view = w.detail(id(1)).await.view;
    let record = &view.record;
    assert_eq!((record.attempt, record.crashes, record.deferrals, record.redrives), (0, 0, 0, 1));
    assert_eq!((record.run_at, record.reason, record.finished_at), (w.now(), None, None));
    assert_eq!((view.last_failure, record.runs), (None, 1));
    let taken = w.take(taken.lease.worker).await;
    w.finish(&taken, success(&taken)).await;
    let numbers: Vec<_> = w.runs(id(1)).await.iter().map(|run| (run.number, run.cause)).collect();
    assert_eq!(numbers, [(2, Cause::Succeeded), (1, Cause::Permanent)], "earlier runs stay readable");
}

/// L9: after a retry the full budget is there again.
pub async fn a_retried_job_has_its_budget_again(w: Fixture) {
    let mut taken = w.running(job(1)).await;
    for _ in 0..2 {
        assert_eq!(w.finish(&taken, ends_by(&taken, Cause::Error)).await, State::Pending);
        taken = w.take(taken.lease.worker).await;
        assert_eq!(w.finish(&taken, ends_by(&taken, Cause::Error)).await, State::Failed);
        w.operate(id(1), Operation::Retry).await.expect("failed");
        taken = w.take(taken.lease.worker).await;
    }
    assert_eq!(w.record(id(1)).await.runs, 5);
}

/// L7, L8: a batch is handled in order, ids may repeat, and an unknown one is named.
pub async fn operations_come_in_order(w: Fixture) {
    w.submit(job(1)).await;
    let batch = vec![id(1), id(9), id(1)];
    let answers = w.store.operate(batch.clone(), Operation::Pause).await.expect("operate");
    assert_eq!(answers[1], Err(Refusal::NoSuchJob { job: id(9) }));
    assert!(answers[0].is_ok() && answers[2].is_ok(), "pausing a paused job is fine");
    let answers = w.store.operate(batch, Operation::Resume).await.expect("operate");
    assert!(answers[0].is_ok());
    assert!(matches!(answers[2], Err(Refusal::WrongState { state: State::Pending, .. })));
}

/// L8: pausing a queue answers whether that changed anything, and pauses no job of it.
pub async fn pausing_a_queue_answers_whether_it_changed(w: Fixture) {
    w.submit(job(1)).await;
    for (paused, changed) in [(false, false), (true, true), (true, false), (false, true), (false, false)] {
        assert_eq!(w.store.pause_queue("default", paused, None).await.expect("pause"), changed);
        assert_eq!(w.queue("default").await.paused, paused);
    }
    assert_eq!(w.state(id(1)).await, State::Pending);
}

/// L8: a queue may be paused before it has a job, and stays so in a store that was closed and opened.
pub async fn a_paused_queue_survives_a_reopened_store(w: Fixture) {
    assert!(!w.store.pause_queue("unknown", false, None).await.expect("resume"));
    assert!(w.store.queues().await.expect("queues").is_empty(), "resuming makes no queue known");
    assert!(w.store.pause_queue("default", true, None).await.expect("pause"));
    let w = w.reopen().await;
    assert!(w.queue("default").await.paused);
    let worker = w.worker(1).await;
    w.submit(job(1)).await;
    assert!(w.claim(worker, 1).await.is_empty());
}
