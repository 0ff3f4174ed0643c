//! Signals through the library, on every store (W10).
#![allow(missing_docs, reason = "a test")]

mod stores;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use backstop::job_signals::SignalSent;
use backstop::prelude::*;
use backstop::{
    Cause, Config, Ended, Finished, InlineWorker, JobId, RemoteWorker, SignalSettings, Signaled, State,
    WorkRequest,
};
use backstop_core::WorkerId;
use backstop_core::job::WaitReason;
use backstop_store::{
    Amend, Amended, Answer, DocumentRange, Drawer, Edit, Error as StoreError, Expect, KnownKind, Layer,
    PageRequest, Store,
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

/// Jobs that wait for one signal: 10,000 under `cargo xtask torture`.
fn many() -> u64 {
    if std::env::var_os("BACKSTOP_TORTURE").is_some() { 10_000 } else { 1_000 }
}

/// Jobs that were canceled while they waited, more than a signal tries for, and those that wait still, more than one
/// transaction holds the payloads of.
const CANCELED: usize = 250;
const LEFT: usize = 150;

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

/// The way to the store of a process that dies when it has written something to jobs.
struct DiesAfterOne {
    below: Arc<dyn Store>,
    is_dead: AtomicBool,
}

impl Layer for DiesAfterOne {
    fn below(&self) -> &dyn Store {
        &*self.below
    }

    fn amend(&self, amend: Amend) -> Answer<'_, Amended> {
        Box::pin(async move {
            if self.is_dead.load(Ordering::SeqCst) {
                let (location, problem) = ("here".to_owned(), "the process is dead".to_owned());
                return Err(StoreError::Unavailable { location, problem, source: None });
            }
            let has_jobs = !amend.operations.is_empty();
            let amended = self.below.amend(amend).await?;
            if has_jobs && matches!(amended, Amended::Done { .. }) {
                self.is_dead.store(true, Ordering::SeqCst);
            }
            Ok(amended)
        })
    }
}

/// W10: a signal is for all that wait, however many were canceled meanwhile; and it goes on where a sender left it that
/// died between two transactions.
async fn all_that_wait_go_on(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let jobs = || stage.engine.enqueue(Publish { key: "open".into(), wait_ms: HOUR }).untyped();
    let stored = stage.engine.submit_all((0..CANCELED + LEFT).map(|_| jobs()).collect(), true).await;
    let stored = stored.expect("the store is there").into_iter();
    let ids: Vec<JobId> = stored.map(|answer| answer.expect("admitted").id).collect();
    stage.drain().await;
    // More of them than a signal tries for, and their waits are found to be old.
    for id in &ids[..CANCELED] {
        stage.engine.cancel(*id, "not needed").await.expect("it waits");
    }
    let listed = stage.engine.signals().waiting(None, CANCELED + LEFT).await.expect("a page").items;
    assert_eq!(listed.len(), LEFT, "those that were canceled wait no more");
    // So much for each of them that one transaction does not hold it.
    let payload = "é".repeat(30_000);
    let send = async |engine: &Backstop| engine.signals().send("open", &payload).id("opening").await;
    let doomed = Arc::new(DiesAfterOne { below: store.clone(), is_dead: AtomicBool::default() });
    send(&Backstop::on(doomed, Config::default())).await.expect_err("it dies on the way");
    let left = stage.count(Drawer::SignalWaits).await;
    assert!((1..LEFT).contains(&left), "{left} of {LEFT} wait still");
    stage.maintain().await;
    let again = send(&stage.engine).await.expect("sent");
    assert_eq!((again.delivered, again.kept, again.repeated), (LEFT as u64, false, true));
    assert_eq!(stage.drain().await, LEFT);
    assert_eq!(stage.count(Drawer::SignalWaits).await, 0);
}

/// W10: whoever waits for years is looked at now and then: of a job that was canceled nothing stays.
async fn a_long_wait_is_looked_at(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let mut ids = Vec::new();
    for _ in 0..2 {
        let one = Publish { key: "post/9".into(), wait_ms: 400 * 24 * HOUR };
        ids.push(stage.engine.enqueue(one).submit().await.expect("stored").id);
    }
    stage.drain().await;
    stage.engine.cancel(ids[0], "not needed").await.expect("it waits");
    for _ in 0..2 {
        make_due(&*store).await;
        stage.maintain().await;
        assert_eq!(stage.count(Drawer::SignalWaits).await, 1, "one of them waits still");
    }
    assert_eq!(stage.send("post/9", "ann").await.delivered, 1);
    let looks = store.documents(DocumentRange::first(Drawer::SignalTimes, 1_000)).await.expect("documents");
    assert!(!looks.items.iter().any(|look| look.body.contains("post/9")), "nobody looks at it any more");
    assert_eq!(stage.drain().await, 1);
}

/// Has the moment come of everything that somebody is to look at.
async fn make_due(store: &dyn Store) {
    let looks = store.documents(DocumentRange::first(Drawer::SignalTimes, 100)).await.expect("documents");
    let now = looks.now;
    let edits = looks.items.into_iter().flat_map(|look| {
        let (_, rest) = look.key.split_once('/').expect("a place");
        let due = format!("{:019}/{rest}", now.as_micros() - 1);
        let edit = |key, body| Edit { drawer: Drawer::SignalTimes, key, expect: Expect::Any, body };
        [edit(look.key.clone(), None), edit(due, Some(look.body))]
    });
    store.amend(Amend { edits: edits.collect(), ..Amend::default() }).await.expect("written");
}

/// W10: a sender that died between keeping a signal and looking for somebody who waits: whoever leads looks.
async fn what_a_dead_sender_left_is_delivered(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    stage.send("post/6", "ann").await;
    // As it was before the sender had looked: nobody has looked since, and a job waits.
    let page = store.documents(DocumentRange::first(Drawer::Signals, 10)).await.expect("documents");
    let kept = page.items.into_iter().find(|one| one.body.contains("post/6")).expect("it is kept");
    let mut body: serde_json::Value = serde_json::from_str(&kept.body).expect("JSON");
    let times = store.documents(DocumentRange::first(Drawer::SignalTimes, 100)).await.expect("documents");
    let look = times.items.into_iter().find(|one| one.body.contains(&kept.key)).expect("a look");
    let edit = |drawer, key: String, body: Option<String>| Edit {
        drawer,
        key,
        expect: Expect::Any,
        body: body.map(Into::into),
    };
    let away = vec![
        edit(Drawer::Signals, kept.key.clone(), None),
        edit(Drawer::SignalTimes, look.key.clone(), None),
    ];
    store.amend(Amend { edits: away, ..Amend::default() }).await.expect("amend");
    let one = Publish { key: "post/6".into(), wait_ms: HOUR };
    let job = stage.engine.enqueue(one).submit().await.expect("stored");
    stage.drain().await;
    assert_eq!(stage.state(job.id).await, State::Waiting);
    let sent_at: backstop::Timestamp = serde_json::from_value(body["sent_at"].clone()).expect("a moment");
    body["look_at"] = body["sent_at"].clone();
    let (_, rest) = look.key.split_once('/').expect("a place");
    let place = format!("{:019}/{rest}", sent_at.as_micros());
    let again = vec![
        edit(Drawer::Signals, kept.key, Some(body.to_string())),
        edit(Drawer::SignalTimes, place, Some(look.body.to_string())),
    ];
    store.amend(Amend { edits: again, ..Amend::default() }).await.expect("amend");
    stage.maintain().await;
    stage.drain().await;
    assert_eq!(job.result().await.expect("it succeeded"), "draft 1, approved by ann");
}

/// What is asked of a store.
struct Counted {
    below: Arc<dyn Store>,
    calls: AtomicU64,
}

impl Counted {
    fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Layer for Counted {
    fn below(&self) -> &dyn Store {
        &*self.below
    }

    fn around<'a, T: Send + 'a>(
        &'a self,
        _: &'static str,
        call: impl FnOnce(&'a dyn Store) -> Answer<'a, T>,
    ) -> Answer<'a, T> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        call(self.below())
    }
}

/// W10: jobs that wait cost nothing while they wait, and one signal lets all of them go in a few transactions.
async fn waiting_costs_nothing(store: Arc<dyn Store>) {
    let many = many();
    let counted = Arc::new(Counted { below: store, calls: AtomicU64::default() });
    let store: Arc<dyn Store> = counted.clone();
    let stage = Stage::on(&store);
    // Only what stays the same is counted: what there is to tidy up is done before.
    let idle = async || {
        for _ in 0..3 {
            stage.maintain().await;
        }
        let before = counted.calls();
        stage.maintain().await;
        assert_eq!(stage.drain().await, 0);
        counted.calls() - before
    };
    let without = idle().await;
    for _ in 0..many / 1_000 {
        let job = || stage.engine.enqueue(Publish { key: "many".into(), wait_ms: HOUR }).untyped();
        let stored = stage.engine.submit_all((0..1_000).map(|_| job()).collect(), true).await;
        assert!(stored.expect("the store is there").iter().all(Result::is_ok));
    }
    stage.work_until(|queue| queue.waiting == many).await;
    assert_eq!(idle().await, without, "claims and maintenance do not look at those that wait");
    let before = counted.calls();
    assert_eq!(stage.send("many", "ann").await.delivered, many);
    let sending = counted.calls() - before;
    assert!(sending < many / 100, "one signal for {many} jobs asked the store {sending} times");
    stage.work_until(|queue| queue.succeeded >= many).await;
}

/// Polls a future so many times and drops it then, as a process that is killed would: none when it was not done.
async fn cut_off<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let (mut future, mut left) = (std::pin::pin!(future), polls);
    std::future::poll_fn(|cx| {
        let Some(one_less) = left.checked_sub(1) else { return Poll::Ready(None) };
        left = one_less;
        future.as_mut().poll(cx).map(Some)
    })
    .await
}

/// A server that dies while a remote worker tells it what its run waits for leaves nothing half done, wherever it
/// dies: the same words to another server end the run, and one signal is enough for one wait.
async fn a_wait_may_be_told_again(store: Arc<dyn Store>) {
    let (dying, next) = (Backstop::on(store.clone(), Config::default()), Stage::on(&store));
    let request = || WorkRequest {
        worker: RemoteWorker { realm: String::new(), name: "far-away".into(), instance: None },
        queues: vec!["remote".into()],
        kinds: [KnownKind { kind: "remote".into(), version: 1 }].into(),
        limit: 1,
        wait: Duration::from_secs(20),
        lease: Duration::from_secs(600),
        code_version: None,
    };
    for polls in 0.. {
        let key = format!("told again after {polls}");
        next.send(&key, "ann").await;
        let job = next.engine.enqueue_raw("remote", "{}").queue("remote").submit().await.expect("stored");
        let remote = next.engine.remote();
        let mut handed = remote.claim(request()).await.expect("the store is there");
        let grant = handed.pop().expect("there is a job").grant;
        let end = |ended| vec![Finished { grant: grant.clone(), ended, step: None, logs: Vec::new() }];
        let waits = || end(Ended::Waiting { signal: key.clone(), timeout: None, index: None });
        let was_done = cut_off(dying.remote().finish(waits()), polls).await.is_some();
        let answer = remote.finish(waits()).await.expect("the store is there");
        assert_eq!(answer.len(), 1);
        assert!(answer[0].is_ok(), "cut off after {polls} polls: {answer:?}");
        assert_eq!(
            next.state(job.id).await,
            State::Pending,
            "cut off after {polls} polls: it has its signal"
        );
        let handed = remote.claim(request()).await.expect("the store is there");
        assert_eq!(handed[0].grant.lease.job, job.id);
        assert_eq!(handed[0].signals.get(&key), Some(&"ann".into()), "cut off after {polls} polls");
        let grant = handed[0].grant.clone();
        let done = Finished { grant, ended: Ended::Succeeded { result: None }, step: None, logs: Vec::new() };
        assert!(remote.finish(vec![done]).await.expect("the store is there")[0].is_ok());
        if was_done {
            return;
        }
    }
}

/// Every case, on one store.
async fn everything(store: Arc<dyn Store>) {
    // First, on a store that has nothing else to look at.
    waiting_costs_nothing(store.clone()).await;
    a_job_waits_and_goes_on(store.clone()).await;
    an_early_signal_is_kept(store.clone()).await;
    the_same_id_counts_once(store.clone()).await;
    the_time_is_up(store.clone()).await;
    one_that_is_refused_holds_up_no_other(store.clone()).await;
    nothing_is_kept_for_ever(store.clone()).await;
    tenants_are_apart(store.clone()).await;
    several_waits_one_after_the_other(store.clone()).await;
    all_that_wait_go_on(store.clone()).await;
    a_long_wait_is_looked_at(store.clone()).await;
    a_wait_may_be_told_again(store.clone()).await;
    what_a_dead_sender_left_is_delivered(store.clone()).await;
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
