//! Batches that people call off and hold back while they are filled, and streams that are repeated.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use backstop::prelude::*;
use backstop::workflows::{BatchHandle, WorkflowProblem, WorkflowStatus};
use backstop::{Config, Enqueue, OnConflict, State};
use backstop_store::{JobFilter, PageRequest, Store};

use super::{Add, Badly, NODE, Stage, TERM, Well};

/// The sums of all jobs of a batch, in order.
async fn summands(stage: &Stage, batch: &BatchHandle) -> Vec<u64> {
    let filter = JobFilter { tag: Some(format!("batch:{}", batch.id)), ..JobFilter::default() };
    let (mut summands, mut page) = (Vec::new(), PageRequest::first(1_000));
    loop {
        let found = stage.engine.jobs(filter.clone(), page).await.expect("the store is there");
        for view in found.items {
            let payload: serde_json::Value = serde_json::from_str(&view.job.spec.payload).expect("JSON");
            summands.push(payload["a"].as_u64().expect("a number"));
        }
        match found.next {
            Some(next) => page = PageRequest { limit: 1_000, after: Some(next) },
            None => break,
        }
    }
    summands.sort_unstable();
    summands
}

/// W3: a stream that is stopped in the middle is repeated under its key, and each of its jobs is stored once.
pub(super) async fn a_stream_that_was_stopped_is_repeated(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let engine = &stage.engine;
    let submit = |most: u32| {
        let builder = engine.batch("repeated").key("nightly").then_on_success(Well {});
        builder.for_each(0..2_500, move |a| {
            // What cannot be stored stops it, as the end of its process would.
            let job = engine.enqueue(Add { a, b: 1 });
            if a < most { job } else { job.idempotency_key("not in a batch") }
        })
    };
    submit(1_500).await.expect_err("it is stopped after its first thousand");
    let second = submit(2_200).await.expect_err("and after its second");
    assert!(matches!(second, WorkflowProblem::Job { .. }), "{second}");
    let batch = submit(2_500).await.expect("all of it");
    assert!(!batch.deduplicated, "the rest was added now");
    assert_eq!(summands(&stage, &batch).await, (0..2_500).collect::<Vec<_>>(), "each once");
    let again = submit(2_500).await.expect("it is known");
    assert!(again.deduplicated && again.id == batch.id);
    stage.drain_together(2_500).await;
    let view = batch.view().await.expect("it is there");
    assert_eq!((view.status, view.counts.total), (WorkflowStatus::Succeeded, 2_500));
    assert_eq!(stage.site.ended_well.load(Ordering::SeqCst), 1);

    let thousand = |key: &str| {
        let builder = engine.batch("a thousand").key(key);
        builder.for_each(0..1_000, |a| {
            let job = engine.enqueue(Add { a, b: 1 });
            if a < 999 { job } else { job.business_key("held") }
        })
    };
    let holder = engine.enqueue(Well {}).business_key("held").submit().await.expect("stored");
    thousand("t").await.expect_err("its last job is refused");
    engine.cancel(holder.id, "room").await.expect("it waits");
    assert!(!thousand("t").await.expect("stored").deduplicated, "nothing of it was stored before");
    stage.drain_together(1_000).await;
}

/// A stream that runs what is stored so far before it gives the next jobs.
struct Counting<'s> {
    stage: &'s Stage,
    next: u32,
    running: Option<Pin<Box<dyn Future<Output = ()> + 's>>>,
    looked: bool,
}

impl futures_core::Stream for Counting<'_> {
    type Item = Enqueue<u32>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let stage = self.stage;
        if self.next == 1_500 && !self.looked {
            let drained = self.running.get_or_insert_with(|| {
                // They run while others still come.
                Box::pin(stage.drain_together(1_000))
            });
            std::task::ready!(drained.as_mut().poll(cx));
            self.looked = true;
        }
        self.next += 1;
        let a = self.next - 1;
        Poll::Ready((a < 2_300).then(|| stage.engine.enqueue(Add { a, b: 1 })))
    }
}

/// W3: the first jobs of a stream run while its last ones are not there yet.
pub(super) async fn the_first_jobs_of_a_stream_run_while_others_come(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let jobs = || Counting { stage: &stage, next: 0, running: None, looked: false };
    let batch = stage.engine.batch("stream").key("stream").then_on_success(Well {});
    let batch = batch.from_stream(jobs()).await.expect("stored");
    assert_eq!(batch.view().await.expect("it is there").counts.succeeded, 1_000, "and are counted");
    stage.drain_together(1_300).await;
    let view = batch.view().await.expect("it is there");
    assert_eq!((view.status, view.counts.succeeded), (WorkflowStatus::Succeeded, 2_300));
    assert_eq!(stage.site.ended_well.load(Ordering::SeqCst), 1, "its callback");
    let again = stage.engine.batch("stream").key("stream");
    let again = again.from_stream(Counting { looked: true, ..jobs() }).await.expect("it is known");
    assert!(again.deduplicated && again.id == batch.id);
    assert_eq!(stage.drain().await, 0);
}

/// W4: cancel seals an open batch, which has failed; what is added to it then is refused by name.
pub(super) async fn an_open_batch_that_is_called_off_is_over(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let engine = &stage.engine;
    let add = |a| vec![engine.enqueue(Add { a, b: 1 })];
    let lax = || engine.batch("off").failures_at_most(100).then_on_success(Well {}).then_on_failure(Badly {});
    for jobs in [0, 3] {
        let batch = lax().open_with((0..jobs).flat_map(add).collect()).await.expect("stored");
        assert_eq!(batch.cancel("not needed").await.expect("it is there"), u64::from(jobs));
        let refused = batch.add(add(9)).await.expect_err("it is over");
        assert!(matches!(refused, WorkflowProblem::Canceled(id) if id == batch.id), "{refused}");
        batch.seal().await.expect("it is sealed");
        assert_eq!(batch.cancel("again").await.expect("it is there"), 0);
        assert_eq!(stage.drain().await, 1, "its callback");
        let view = batch.view().await.expect("it is there");
        assert_eq!((view.status, view.counts.total), (WorkflowStatus::Failed, u64::from(jobs)));
        assert!(view.finished_at.is_some(), "it is removed when its time comes");
    }
    let calls = [&stage.site.ended_well, &stage.site.ended_badly].map(|count| count.load(Ordering::SeqCst));
    assert_eq!(calls, [0, 2], "it never got all of its jobs");
    let hasty = Config::default().retirement(backstop::Retirement::default().workflows(Some(Duration::ZERO)));
    let batch = lax().open().await.expect("stored");
    batch.cancel("not needed").await.expect("it is there");
    Backstop::on(store.clone(), hasty).maintain(NODE, TERM).await.expect("the store is there");
    assert!(matches!(batch.view().await, Err(WorkflowProblem::Unknown(_))));
    stage.drain().await;
}

/// W4: what is added to a batch that is held back is held back too, and goes on with it.
pub(super) async fn what_is_added_to_a_paused_batch_waits_with_it(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let engine = &stage.engine;
    let add = |a| vec![engine.enqueue(Add { a, b: 1 })];
    let batch = engine.batch("held").then_on_success(Well {}).open_with(add(1)).await.expect("stored");
    assert_eq!(engine.workflows().pause(batch.id).await.expect("it is there"), 1);
    batch.add(add(2)).await.expect("it is open");
    assert_eq!(stage.drain().await, 0);
    let filter = JobFilter { tag: Some(format!("batch:{}", batch.id)), ..JobFilter::default() };
    let jobs = engine.jobs(filter, PageRequest::first(10)).await.expect("the store is there").items;
    assert!(jobs.len() == 2 && jobs.iter().all(|view| view.state() == State::Paused), "{jobs:?}");
    assert_eq!(engine.workflows().resume(batch.id).await.expect("it is there"), 2);
    batch.add(add(3)).await.expect("it is open");
    batch.seal().await.expect("it is open");
    assert_eq!(stage.drain().await, 4, "three jobs, and the callback");
    assert_eq!(batch.view().await.expect("it is there").status, WorkflowStatus::Succeeded);
}

/// W3, W6, L11: a job that may be skipped would never end for its workflow or batch.
pub(super) async fn a_part_that_may_be_skipped_is_refused(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let engine = &stage.engine;
    let keyed = |policy| engine.enqueue(Well {}).business_key("same").on_conflict(policy);
    let twice = engine.batch("skips").for_each(0..2, |_| keyed(OnConflict::Skip)).await;
    let refused = twice.expect_err("one of them would be skipped").to_string();
    assert!(refused.starts_with("job 0: on_conflict"), "{refused}");
    let mut flow = engine.workflow("skips");
    flow.step("a", keyed(OnConflict::Skip)).add();
    let refused = flow.submit().await.expect_err("it might be skipped").to_string();
    assert!(refused.starts_with("a: on_conflict"), "{refused}");
    let replaced = engine.batch("replaces").for_each(0..2, |_| keyed(OnConflict::Replace)).await;
    let replaced = replaced.expect("the first one is canceled");
    stage.drain().await;
    let view = replaced.view().await.expect("it is there");
    assert_eq!((view.counts.succeeded, view.counts.canceled, view.status.is_over()), (1, 1, true));
}

/// Fails the first time, and again unless it ends well.
#[job(max_retries = 1)]
async fn waver(cx: JobContext<super::Site>, ends_well: bool) -> JobResult<u32> {
    if ends_well && cx.run_number() > 1 { Ok(1) } else { Err("it wavers".into()) }
}

/// W3: children have retries of their own and count when they have ended for good, and a share of successes is enough
/// or it is not.
pub(super) async fn children_are_retried_and_judged_by_their_share(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let engine = &stage.engine;
    for (share, status, told) in
        [(0.75, WorkflowStatus::Succeeded, [1, 0]), (0.76, WorkflowStatus::Failed, [1, 1])]
    {
        let batch = engine.batch("wavering").success_rate_at_least(share);
        let batch = batch.then_on_success(Well {}).then_on_failure(Badly {});
        let child = |n: u32| engine.enqueue(Waver { ends_well: n > 0 }).backoff(Backoff::none());
        let batch = batch.for_each(0..4, child).await.expect("stored");
        let mut runs = 0;
        for _ in 0..4 {
            runs += stage.drain().await;
        }
        assert_eq!(runs, 9, "two of each child, and what follows");
        let view = batch.view().await.expect("it is there");
        assert_eq!((view.status, view.counts.succeeded, view.counts.failed), (status, 3, 1));
        let ended = [&stage.site.ended_well, &stage.site.ended_badly];
        assert_eq!(ended.map(|count| count.load(Ordering::SeqCst)), told);
    }
}
