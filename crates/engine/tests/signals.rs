//! Signals through the library, on every store (W10).
#![allow(missing_docs, reason = "a test")]

#[path = "signals/costs.rs"]
mod costs;
#[path = "stores/counted.rs"]
mod counted;
#[path = "signals/dead_senders.rs"]
mod dead_senders;
mod stores;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use backstop::job_signals::SignalSent;
use backstop::prelude::*;
use backstop::{Cause, Config, InlineWorker, JobId, SignalSettings, Signaled, State};
use backstop_core::WorkerId;
use backstop_core::job::WaitReason;
use backstop_store::{
    Amend, Amended, Answer, DocumentRange, Drawer, Error as StoreError, Layer, PageRequest, Store,
};

/// What handlers share.
#[derive(Default)]
struct Site {
    drafts: AtomicU32,
}

#[job]
async fn publish(cx: JobContext<Site>, key: String, wait_ms: u64) -> JobResult<String> {
    let draft: u32 = cx
        .step("draft", || async { JobResult::Ok(cx.app().drafts.fetch_add(1, Ordering::SeqCst) + 1) })
        .await?;
    let wait = cx.signal::<String>(key).timeout(Duration::from_millis(wait_ms));
    Ok(match wait.await? {
        Signaled::Received(by) => format!("draft {draft}, approved by {by}"),
        Signaled::TimedOut => format!("draft {draft}, nobody answered"),
    })
}

/// Waits twice for one key and once for another, one after the other.
#[job]
async fn three_waits(cx: JobContext<Site>, key: String) -> JobResult<Vec<u32>> {
    let mut all = Vec::new();
    for nth in 0..3 {
        let name = if nth == 1 { format!("{key}/other") } else { key.clone() };
        all.extend(cx.signal::<u32>(name).await?.received());
        cx.step(format!("after {nth}"), || async { JobResult::Ok(()) }).await?;
    }
    Ok(all)
}

/// What its handler makes of the answer does not keep it from waiting.
#[job]
async fn stubborn(cx: JobContext<Site>, key: String) -> JobResult<bool> {
    Ok(cx.signal::<serde_json::Value>(key).await.is_ok())
}

struct Stage {
    engine: Backstop,
    site: Arc<Site>,
    worker: InlineWorker,
}

const HOUR: u64 = 60 * 60 * 1_000;

impl Stage {
    fn on(store: &Arc<dyn Store>) -> Self {
        Self::with(store, Config::default())
    }

    fn with(store: &Arc<dyn Store>, config: Config) -> Self {
        let engine = Backstop::on(store.clone(), config);
        let site = Arc::new(Site::default());
        let worker = engine.worker_sharing(site.clone()).register_all();
        let worker = worker.queue("default", 4).queue("acme/default", 4).inline().expect("it has kinds");
        Self { engine, site, worker }
    }

    async fn drain(&self) -> usize {
        self.worker.drain(50_000).await.expect("the store is there").len()
    }

    /// Has a worker with many slots until its queue is like this.
    async fn work_until(&self, is_so: impl Fn(&backstop_store::QueueView) -> bool) {
        let worker = self.engine.worker_sharing(self.site.clone()).register_all().queue("default", 500);
        let worker = worker.start().await.expect("it has kinds");
        let looked = async {
            let mut looks = tokio::time::interval(Duration::from_millis(20));
            // A look that takes longer than that must leave room for the work, too.
            looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            while !self.engine.queues().list().await.expect("the store is there").iter().any(&is_so) {
                // Looking without a pause would keep the worker from its work.
                looks.tick().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(300), looked).await.expect("in time");
        worker.stop().await;
    }

    /// What whoever leads does.
    async fn maintain(&self) {
        let (node, term) = (WorkerId::from_u128(9), Duration::from_secs(60));
        self.engine.maintain(node, term).await.expect("the store is there");
    }

    async fn state(&self, id: JobId) -> State {
        self.engine.job(id).await.expect("the store is there").expect("it is stored").view.state()
    }

    async fn send(&self, key: &str, payload: &str) -> SignalSent {
        self.engine.signals().send(key, &payload).await.expect("it is sent")
    }

    async fn count(&self, drawer: Drawer) -> usize {
        let store = self.engine.store();
        store.documents(DocumentRange::first(drawer, 1_000)).await.expect("documents").items.len()
    }

    /// Everything that is stored about signals.
    async fn left(&self) -> Vec<usize> {
        let mut left = Vec::new();
        for drawer in [
            Drawer::Signals,
            Drawer::SignalIds,
            Drawer::SignalWaits,
            Drawer::SignalTimes,
            Drawer::SignalCounts,
        ] {
            left.push(self.count(drawer).await);
        }
        left
    }
}

/// W10: a job waits without anything, goes on with what came, and does nothing again that it did before.
async fn a_job_waits_and_goes_on(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let engine = &stage.engine;
    let job = engine.enqueue(Publish { key: "post/1".into(), wait_ms: HOUR }).submit().await.expect("stored");
    assert_eq!(stage.drain().await, 1);
    let detail = engine.job(job.id).await.expect("the store is there").expect("stored");
    let (waiting, record) = (detail.waiting_for().expect("it waits"), &detail.view.record);
    assert_eq!((waiting.reason, &*waiting.key), (WaitReason::Signal, "post/1"));
    assert!(waiting.until.is_some());
    assert_eq!((record.state, record.hold, record.attempt, record.crashes), (State::Waiting, None, 0, 0));
    let (_, told) = engine.explain(job.id).await.expect("the store is there").expect("stored");
    assert!(told.because.contains("signal `post/1`"), "{told:?}");
    assert_eq!(stage.drain().await, 0, "nothing takes it");
    let who = engine.signals().waiting(None, 10).await.expect("a page").items;
    assert_eq!(who.iter().map(|one| (&*one.key, one.job)).collect::<Vec<_>>(), [("post/1", job.id)]);
    let sent = stage.send("post/1", "ann").await;
    assert_eq!((sent.delivered, sent.kept, sent.repeated), (1, false, false));
    assert_eq!(stage.drain().await, 1);
    assert_eq!(job.result().await.expect("it succeeded"), "draft 1, approved by ann");
    assert_eq!(stage.site.drafts.load(Ordering::SeqCst), 1, "what was done before is not done again");
    let causes: Vec<Cause> = engine
        .attempts(job.id, PageRequest::first(10))
        .await
        .expect("runs")
        .items
        .iter()
        .map(|run| run.cause)
        .collect();
    assert_eq!(causes, [Cause::Succeeded, Cause::Waiting]);
    assert_eq!(stage.left().await, [0; 5], "nothing is left behind");
}

/// W10: a signal that comes first is kept, and the job does not even stop for it.
async fn an_early_signal_is_kept(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let sent = stage.send("post/2", "ann").await;
    assert_eq!((sent.delivered, sent.kept), (0, true));
    let kept = stage.engine.signals().kept(None, 10).await.expect("a page").items;
    assert_eq!(kept.iter().map(|one| &*one.key).collect::<Vec<_>>(), ["post/2"]);
    let one = Publish { key: "post/2".into(), wait_ms: HOUR };
    let job = stage.engine.enqueue(one).submit().await.expect("stored");
    assert_eq!(stage.drain().await, 1, "in its first run");
    assert_eq!(job.result().await.expect("it succeeded"), "draft 1, approved by ann");
    let second = Publish { key: "post/2".into(), wait_ms: HOUR };
    let second = stage.engine.enqueue(second).submit().await.expect("stored");
    stage.drain().await;
    assert_eq!(stage.state(second.id).await, State::Waiting, "a signal goes to one that comes later, once");
    stage.engine.cancel(second.id, "enough").await.expect("it waits");
    let sent = stage.send("post/2", "bob").await;
    assert_eq!((sent.delivered, sent.kept), (0, true), "nobody waits any more");
    stage.engine.signals().send("post/2", &"late").await.expect("sent");
    let third = Publish { key: "post/2".into(), wait_ms: HOUR };
    let third = stage.engine.enqueue(third).submit().await.expect("stored");
    stage.drain().await;
    assert_eq!(third.result().await.expect("it succeeded"), "draft 3, approved by bob", "the oldest first");
    assert_eq!(stage.count(Drawer::Signals).await, 1);
}

/// W10: the same id twice is one signal, early, delivered or on its way; other ids are others.
async fn the_same_id_counts_once(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let signals = stage.engine.signals();
    let send = |id: &'static str| signals.send("post/3", &id).id(id).into_future();
    let first = send("a").await.expect("sent");
    let again = send("a").await.expect("sent");
    assert_eq!((first.kept, first.repeated, again.kept, again.repeated), (true, false, true, true));
    let ids: Vec<JobId> = {
        let mut ids = Vec::new();
        for _ in 0..2 {
            let one = Publish { key: "post/3".into(), wait_ms: HOUR };
            ids.push(stage.engine.enqueue(one).submit().await.expect("stored").id);
        }
        ids
    };
    stage.drain().await;
    let states = [stage.state(ids[0]).await, stage.state(ids[1]).await];
    assert_eq!(states.iter().filter(|state| **state == State::Succeeded).count(), 1, "{states:?}");
    let answered = send("a").await.expect("sent");
    assert_eq!(
        (answered.delivered, answered.kept, answered.repeated),
        (1, false, true),
        "it was taken meanwhile"
    );
    let other = send("b").await.expect("sent");
    let again = send("b").await.expect("sent");
    assert_eq!((other.delivered, other.repeated, again.delivered, again.repeated), (1, false, 1, true));
    stage.drain().await;
    assert_eq!([stage.state(ids[0]).await, stage.state(ids[1]).await], [State::Succeeded; 2]);
}

/// W10: when the time is up, the job goes on and is told so. (Its time is up at once: a round of maintenance sees it.)
async fn the_time_is_up(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let one = Publish { key: "post/4".into(), wait_ms: 0 };
    let job = stage.engine.enqueue(one).submit().await.expect("stored");
    stage.drain().await;
    stage.maintain().await;
    assert_eq!(stage.drain().await, 1);
    assert_eq!(job.result().await.expect("it succeeded"), "draft 1, nobody answered");
    let late = stage.send("post/4", "ann").await;
    assert_eq!((late.delivered, late.kept), (0, true), "the wait is over, so it is kept for the next one");
}

/// A store that refuses to write anything of one job.
struct Refuses {
    below: Arc<dyn Store>,
    job: JobId,
    refused: AtomicUsize,
}

impl Layer for Refuses {
    fn below(&self) -> &dyn Store {
        &*self.below
    }

    fn amend(&self, amend: Amend) -> Answer<'_, Amended> {
        Box::pin(async move {
            if amend.operations.iter().any(|(job, _)| *job == self.job) {
                self.refused.fetch_add(1, Ordering::SeqCst);
                let (location, problem) = ("here".to_owned(), "its row is damaged".to_owned());
                return Err(StoreError::Corrupt { location, problem });
            }
            self.below.amend(amend).await
        })
    }
}

/// W10, C7: a wait whose end the store refuses to write holds up none of the others whose time is up.
async fn one_that_is_refused_holds_up_no_other(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let mut jobs = Vec::new();
    for number in 0..7 {
        let one = Publish { key: format!("refused/{number}"), wait_ms: 0 };
        jobs.push(stage.engine.enqueue(one).submit().await.expect("stored").id);
    }
    stage.drain().await;
    let refuses = Arc::new(Refuses { below: store, job: jobs[3], refused: AtomicUsize::default() });
    let engine = Backstop::on(refuses.clone(), Config::default());
    engine.maintain(WorkerId::from_u128(9), Duration::from_secs(60)).await.expect("it goes on");
    assert!(refuses.refused.load(Ordering::SeqCst) > 1, "it was looked for");
    for job in &jobs {
        let expected = if *job == jobs[3] { State::Waiting } else { State::Pending };
        assert_eq!(stage.state(*job).await, expected);
    }
    assert_eq!(stage.drain().await, 6);
    stage.maintain().await;
    assert_eq!(stage.drain().await, 1, "when the store takes it, it goes on too");
}

/// W10: kept signals leave when their time is up, and so do ids; and there are no more of them than may be.
async fn nothing_is_kept_for_ever(store: Arc<dyn Store>) {
    let mut config = Config::default();
    config.signals = SignalSettings::default().max_kept(2);
    let stage = Stage::with(&store, config);
    let signals = stage.engine.signals().of_tenant("acme");
    let short = |id: &'static str| signals.send("short", &1).id(id).keep(Duration::ZERO).into_future();
    short("a").await.expect("sent");
    short("b").await.expect("sent");
    let refused = short("c").await.expect_err("there are two already");
    assert_eq!(refused.code(), "too_large");
    assert!(refused.to_string().contains("kept signals"), "{refused}");
    stage
        .engine
        .signals()
        .of_tenant("beta")
        .send("short", &1)
        .await
        .expect("others have room of their own (E13)");
    stage.maintain().await;
    assert_eq!(signals.kept(None, 10).await.expect("a page").items, []);
    assert!(!short("a").await.expect("there is room again").repeated, "its id was removed too");
    stage.maintain().await;
}

/// W10: what is kept up to a moment counts up to it, however short a time one may plan ahead.
async fn an_id_counts_up_to_its_moment(store: Arc<dyn Store>) {
    let mut config = Config::default();
    config.limits.delay = Duration::ZERO;
    let stage = Stage::with(&store, config);
    let until = store.now().await.expect("the store is there").after(Duration::from_secs(600));
    let token = || stage.engine.signals().send("token", &1).id("token").keep_until(until).into_future();
    assert!(!token().await.expect("sent").repeated);
    stage.maintain().await;
    assert!(token().await.expect("sent").repeated, "it is used once");
}

/// W10, E13: nobody signals the jobs of another tenant.
async fn tenants_are_apart(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let one = Publish { key: "post/5".into(), wait_ms: HOUR };
    let job = stage.engine.enqueue(one).queue("acme/default").submit().await.expect("stored");
    stage.drain().await;
    assert_eq!(stage.send("post/5", "eve").await.delivered, 0);
    let other = stage.engine.signals().of_tenant("other").send("post/5", &"eve").await.expect("sent");
    assert_eq!((other.delivered, stage.state(job.id).await), (0, State::Waiting));
    let acme = stage.engine.signals().of_tenant("acme");
    assert_eq!(acme.waiting(None, 10).await.expect("a page").items.len(), 1);
    assert_eq!(acme.kept(None, 10).await.expect("a page").items.len(), 0);
    assert_eq!(acme.send("post/5", &"ann").await.expect("sent").delivered, 1);
    stage.drain().await;
    assert_eq!(job.result().await.expect("it succeeded"), "draft 1, approved by ann");
}

/// W10, W7: several waits in one job, each answered by its own signal, and a handler that ignores the answer.
async fn several_waits_one_after_the_other(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let job = stage.engine.enqueue(ThreeWaits { key: "k".into() }).submit().await.expect("stored");
    stage.drain().await;
    for (key, number) in [("k", 1), ("k/other", 2), ("k", 3)] {
        assert_eq!(stage.state(job.id).await, State::Waiting);
        assert_eq!(stage.engine.signals().send(key, &number).await.expect("sent").delivered, 1);
        assert_eq!(stage.drain().await, 1);
    }
    assert_eq!(job.result().await.expect("it succeeded"), [1, 2, 3]);
    let stubborn = stage.engine.enqueue(Stubborn { key: "s".into() }).submit().await.expect("stored");
    stage.drain().await;
    assert_eq!(stage.state(stubborn.id).await, State::Waiting, "whatever its handler makes of it");
    stage.send("s", "x").await;
    stage.drain().await;
    assert!(stubborn.result().await.expect("it succeeded"));
}

/// Every case, on one store.
async fn everything(store: Arc<dyn Store>) {
    // First, on a store that has nothing else to look at.
    costs::waiting_costs_nothing(store.clone()).await;
    a_job_waits_and_goes_on(store.clone()).await;
    an_early_signal_is_kept(store.clone()).await;
    the_same_id_counts_once(store.clone()).await;
    the_time_is_up(store.clone()).await;
    one_that_is_refused_holds_up_no_other(store.clone()).await;
    nothing_is_kept_for_ever(store.clone()).await;
    tenants_are_apart(store.clone()).await;
    several_waits_one_after_the_other(store.clone()).await;
    dead_senders::all_that_wait_go_on(store.clone()).await;
    costs::a_long_wait_is_looked_at(store.clone()).await;
    dead_senders::a_wait_may_be_told_again(store.clone()).await;
    dead_senders::what_a_dead_sender_left_is_delivered(store.clone()).await;
    an_id_counts_up_to_its_moment(store).await;
}

#[tokio::test]
async fn in_memory() {
    // W10
    stores::in_memory(everything).await;
}

#[tokio::test]
async fn on_sqlite() {
    // W10
    stores::on_sqlite("signals", everything).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn on_postgres() {
    // W10
    stores::on_postgres("signals", everything).await;
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn on_mysql() {
    // W10
    stores::on_mysql("signals", everything).await;
}
