//! What others know of a job right before its run, wherever its handler is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use backstop::prelude::*;
use backstop::{Cause, JobId, RemoteWorker, RunCheck, RunCheckAnswer, WorkRequest};
use backstop_core::job::{Spec, State, StoredJob};
use backstop_store::KnownKind;
use tokio::time::Instant;

use crate::fixture::*;

/// Says what the correlation id of a job asks for.
#[derive(Default)]
struct CheckByCorrelation {
    asked: AtomicU32,
}

impl RunCheck for CheckByCorrelation {
    fn is_for(&self, job: &Spec) -> bool {
        job.correlation_id.is_some()
    }

    fn check<'a>(&'a self, job: &'a StoredJob) -> RunCheckAnswer<'a> {
        Box::pin(async move {
            let before = self.asked.fetch_add(1, Ordering::SeqCst);
            match job.spec.correlation_id.as_deref() {
                Some("gone") => Err(Outcome::cancel("nobody wants it").into()),
                Some("later") if before == 0 => Err(Outcome::snooze(Duration::from_secs(60)).into()),
                Some("panic") => panic!("out of cheese"),
                Some("hang") => std::future::pending().await,
                _ => Ok(()),
            }
        })
    }
}

fn checked(engine: &Backstop) -> Arc<CheckByCorrelation> {
    let check = Arc::new(CheckByCorrelation::default());
    let asked: Arc<dyn RunCheck> = check.clone();
    engine.check_runs(&asked);
    check
}

async fn submit(engine: &Backstop, word: &str) -> JobId {
    let job = engine.enqueue(act(&["ok"])).max_retries(0).correlation_id(word);
    job.submit().await.expect("admitted").id
}

#[tokio::test(start_paused = true)]
async fn a_check_calls_a_run_off_or_lets_it_wait_and_costs_it_nothing() {
    // B3, F3
    for (word, wanted, asked, causes) in [
        ("gone", State::Canceled, 1, vec![Cause::Canceled]),
        ("later", State::Succeeded, 2, vec![Cause::Snoozed, Cause::Succeeded]),
        ("fine", State::Succeeded, 1, vec![Cause::Succeeded]),
        ("panic", State::Succeeded, 1, vec![Cause::Succeeded]),
        ("hang", State::Succeeded, 1, vec![Cause::Succeeded]),
    ] {
        let engine = engine();
        let check = checked(&engine);
        let id = submit(&engine, word).await;
        let other = engine.enqueue(act(&["ok"])).submit().await.expect("admitted").id;
        let running = worker(&engine).start().await.expect("started");
        reach(&engine, id, wanted).await;
        reach(&engine, other, State::Succeeded).await;
        running.stop().await;
        assert_eq!(check.asked.load(Ordering::SeqCst), asked, "{word}: the other one is not its business");
        let runs = ledger(&engine, id).await;
        assert_eq!(runs.iter().map(|run| run.cause).collect::<Vec<_>>(), causes, "{word}");
        let record = detail(&engine, id).await.view.record;
        let reason = (word == "gone").then_some("nobody wants it");
        assert_eq!(record.cancel_reason.as_deref(), reason, "{word}");
    }
}

/// The jobs that a worker elsewhere gets.
async fn claimed_far_away(engine: &Backstop, lease: Duration) -> Vec<JobId> {
    let request = WorkRequest {
        worker: RemoteWorker { realm: String::new(), name: "far-away".into(), instance: None },
        queues: vec!["default".into()],
        kinds: [KnownKind { kind: "act".into(), version: 1 }].into(),
        limit: 10,
        wait: Duration::ZERO,
        lease,
        code_version: None,
    };
    let taken = engine.remote().claim(request).await.expect("the model is there");
    taken.iter().map(|handed| handed.grant.lease.job).collect()
}

const LEASE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_check_is_asked_for_workers_elsewhere_too_and_only_while_it_is_there() {
    // B3, E7
    let engine = engine();
    let check = checked(&engine);
    let (gone, fine) = (submit(&engine, "gone").await, submit(&engine, "fine").await);
    assert_eq!(claimed_far_away(&engine, LEASE).await, [fine]);
    assert_eq!((state(&engine, gone).await, check.asked.load(Ordering::SeqCst)), (State::Canceled, 2));
    drop(check);
    let again = submit(&engine, "gone").await;
    assert_eq!(claimed_far_away(&engine, LEASE).await, [again]);
}

#[tokio::test(start_paused = true)]
async fn a_check_that_takes_long_keeps_no_other_job_from_a_worker_elsewhere() {
    // B3, E7
    let engine = engine();
    let check = checked(&engine);
    let slow = submit(&engine, "hang").await;
    let other = engine.enqueue(act(&["ok"])).submit().await.expect("admitted").id;
    let begin = Instant::now();
    assert_eq!(claimed_far_away(&engine, LEASE).await, [other]);
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(claimed_far_away(&engine, LEASE).await.is_empty(), "there is no answer yet");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(
        claimed_far_away(&engine, LEASE).await,
        [slow],
        "whoever takes so long has nothing against it"
    );
    assert_eq!(check.asked.load(Ordering::SeqCst), 1, "it was asked once");
    let causes: Vec<Cause> = ledger(&engine, slow).await.iter().map(|run| run.cause).collect();
    assert_eq!(causes, [Cause::Snoozed, Cause::Snoozed]);
    assert_eq!(detail(&engine, slow).await.view.record.attempt, 0, "and it cost the job nothing");
}

#[tokio::test(start_paused = true)]
async fn a_check_takes_less_time_than_the_lease_of_a_worker_elsewhere() {
    // B3, E7
    let engine = engine();
    let _check = checked(&engine);
    submit(&engine, "hang").await;
    let begin = Instant::now();
    assert!(claimed_far_away(&engine, Duration::from_secs(1)).await.is_empty());
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
}
