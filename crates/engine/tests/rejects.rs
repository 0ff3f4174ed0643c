//! Items that runs reject, through the library, on every store (W9).
#![allow(missing_docs, reason = "a test")]

mod stores;

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop::prelude::*;
use backstop::rejects::{
    NewReject, RejectFilter, RejectGroup, RejectLimit, RejectScope, RejectSettings, RejectView,
};
use backstop::{
    Cause, Config, Encryption, Grant, JobId, Ran, RejectError, RemoteReject, RemoteWorker, Retention,
    Retirement, State, WorkRequest,
};
use backstop_core::WorkerId;
use backstop_core::job::{JobDetail, NoteError};
use backstop_core::sealing::SealingKeys;
use backstop_core::signing::SecretKey;
use backstop_store::{Answer, DocumentRange, Drawer, KnownKind, Layer, ModelStore, Note, Store};
use serde_json::json;

#[derive(Debug, thiserror::Error)]
#[error("row {0} has no name")]
struct NoName(u64);

/// Rejects rows of a file. Its first run fails at the end when it is told to.
#[job(max_retries = 1)]
async fn import(cx: JobContext<()>, rows: u64, bad_every: u64, more: u64, fails: bool) -> JobResult {
    for row in 0..rows {
        cx.saw(1);
        if row % bad_every == 0 {
            cx.reject(&json!({ "row": row }), NoName(row)).await?;
        }
    }
    if cx.run_number() > 1 {
        cx.reject_many((0..more).map(|row| (rows + row, NoName(row)))).await?;
    }
    if fails && cx.run_number() == 1 {
        return Err("the first run fails".into());
    }
    Ok(())
}

/// Panics behind an item that it rejects.
#[job(max_retries = 0)]
async fn stumble(cx: JobContext<()>) -> JobResult {
    cx.reject("a", "bad").await?;
    panic!("it stumbles");
}

/// Rejects items and waits for something that never comes.
#[job(max_retries = 0)]
async fn linger(cx: JobContext<()>, items: u64) -> JobResult {
    cx.reject_many((0..items).map(|item| (item, "bad"))).await?;
    std::future::pending::<JobResult>().await
}

/// Tells of items in every way there is.
#[job]
async fn tell(cx: JobContext<()>) -> JobResult<u32> {
    cx.step("load", || async { cx.reject("a", "in a step, password=hunter2").await }).await?;
    let kept =
        NewReject::new(&json!({ "name": "b", "password": "hunter2" }), "kept").key("line 7").keep_item();
    cx.reject_with(kept).await?;
    cx.reject_with(NewReject::new("c", "many").stream(40)).await?;
    let mut tries = 0;
    let none = cx.item(&"d").retries(2).wait(Duration::from_millis(1)).run(|_| {
        tries += 1;
        async { Err::<(), _>(NoName(4)) }
    });
    assert!(none.await?.is_none());
    let hopeless = cx.item(&"e").retries(5).run(|_| async { Err::<(), _>(Outcome::permanent("never")) });
    assert!(hopeless.await?.is_none());
    let away = cx.item(&"f").run(|_| async { Err::<(), _>(Outcome::transient("smtp")) }).await;
    assert!(matches!(away, Err(RejectError::Failed(_))), "that is not about the item");
    assert_eq!(cx.item(&"g").run(|_| async { JobResult::Ok(1) }).await?, Some(1));
    Ok(tries)
}

/// Limits itself, and makes nothing of the error.
#[job(max_retries = 0)]
async fn limited(
    cx: JobContext<()>,
    items: u64,
    bad: u64,
    most: Option<u64>,
    percent: Option<f64>,
) -> JobResult {
    let percent = percent.map(TryInto::try_into).transpose()?;
    cx.limit_rejects(RejectLimit { most, percent });
    cx.saw(items);
    for item in 0..bad {
        let _ = cx.reject(&item, "bad").await;
    }
    Ok(())
}

/// Rejects the same item again and again, with one key for all of them when it has one. Its first run fails.
#[job(max_retries = 1)]
async fn repeat(cx: JobContext<()>, times: u64, key: Option<String>) -> JobResult {
    for _ in 0..times {
        let empty = NewReject::new("", "the row is empty");
        cx.reject_with(match &key {
            Some(key) => empty.key(key),
            None => empty,
        })
        .await?;
    }
    if cx.run_number() == 1 { Err("the first run fails".into()) } else { Ok(()) }
}

/// Tries to complete its job in a transaction of its own before its rejects are written.
#[job(max_retries = 0)]
async fn completing(cx: JobContext<()>) -> JobResult<String> {
    cx.reject("a", "bad").await?;
    let conn = backstop::sqlite::rusqlite::Connection::open_in_memory()?;
    Ok(cx.complete_in_blocking(&conn, ()).expect_err("it would lose a reject").to_string())
}

struct Stage {
    engine: Backstop,
}

impl Stage {
    fn new(store: &Arc<dyn Store>, config: Config) -> Self {
        Self { engine: Backstop::on(store.clone(), config) }
    }

    fn on(store: &Arc<dyn Store>) -> Self {
        Self::new(store, Config::default())
    }

    async fn drain(&self) -> Vec<Ran> {
        let worker = self.engine.worker(()).register::<Import>().register::<Tell>().register::<Limited>();
        let worker = worker.register::<Completing>().register::<Stumble>().register::<Repeat>();
        let worker = worker.register::<Linger>();
        let worker = worker.queue("default", 1).queue("acme/rows", 1).inline().expect("it has kinds");
        worker.drain(100).await.expect("the store is there")
    }

    async fn maintain(&self) {
        let (node, term) = (WorkerId::from_u128(9), Duration::from_secs(60));
        self.engine.maintain(node, term).await.expect("the store is there");
    }

    async fn detail(&self, job: JobId) -> JobDetail {
        self.engine.job(job).await.expect("the store is there").expect("it is stored")
    }

    /// All rejects of a job, in small pages.
    async fn rejects(&self, job: JobId) -> Vec<RejectView> {
        let filter = RejectFilter { job: Some(job), ..RejectFilter::default() };
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = self.engine.rejects().page(&filter, after, 70).await.expect("the store is there");
            assert!(page.items.len() <= 70);
            all.extend(page.items);
            after = page.next;
            if after.is_none() {
                return all;
            }
        }
    }

    async fn groups(&self, tenant: Option<&str>) -> Vec<RejectGroup> {
        self.engine.rejects().groups(tenant, None, 100).await.expect("the store is there").items
    }

    async fn documents(&self, drawer: Drawer) -> usize {
        let range = DocumentRange::first(drawer, 1_000);
        self.engine.store().documents(range).await.expect("the store is there").items.len()
    }
}

fn at_once() -> Backoff {
    Backoff::fixed(Duration::ZERO)
}

/// W9: the run goes on and succeeds, nothing is charged and no incident is opened; groups count what was rejected.
async fn a_run_goes_on(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let job = Import { rows: 2_500, bad_every: 10, more: 0, fails: false };
    let id = stage.engine.enqueue(job.clone()).submit().await.expect("stored").id;
    let theirs = stage.engine.enqueue(job).queue("acme/rows").submit().await.expect("stored").id;
    let ran = stage.drain().await;
    assert_eq!(ran.iter().map(|ran| ran.cause).collect::<Vec<_>>(), [Cause::Succeeded; 2]);
    let detail = stage.detail(id).await;
    assert_eq!((detail.view.record.state, detail.view.record.attempt), (State::Succeeded, 0));
    let counts = detail.reads().rejects.expect("there are some");
    assert_eq!((counts.stored, counts.run, counts.rejected, counts.seen), (250, 1, 250, 2_500));
    assert_eq!(stage.engine.incidents().list(10).await.expect("the store is there"), vec![]);
    let all = stage.rejects(id).await;
    assert_eq!(all.len(), 250);
    let first = &all[0];
    assert_eq!((first.error.as_str(), first.error_type.as_str()), ("row 0 has no name", "NoName"));
    assert_eq!((&first.item, first.count, first.r#final, first.attempt), (&None, 1, true, 1));
    assert_eq!(
        (first.tenant.as_deref(), stage.rejects(theirs).await[0].tenant.as_deref()),
        (None, Some("acme"))
    );
    for tenant in ["default", "acme"] {
        let groups = stage.groups(Some(tenant)).await;
        assert_eq!(groups.len(), 1, "{groups:?}");
        assert_eq!((groups[0].items, groups[0].stored, groups[0].kind.as_str()), (250, 250, "import"));
        let found = stage.engine.rejects().group(Some(tenant), &groups[0].fingerprint).await.expect("read");
        assert_eq!(found.as_ref(), Some(&groups[0]));
        let filter = RejectFilter {
            tenant: Some(tenant.to_owned()),
            fingerprint: Some(groups[0].fingerprint.clone()),
            ..RejectFilter::default()
        };
        let page = stage.engine.rejects().page(&filter, None, 1_000).await.expect("the store is there");
        assert_eq!(page.items.len(), 250);
        let other = RejectFilter { job: Some(if tenant == "acme" { id } else { theirs }), ..filter };
        assert_eq!(stage.engine.rejects().page(&other, None, 10).await.expect("read").items, vec![]);
    }
    assert_eq!(stage.engine.rejects().count().await.expect("the store is there"), 500);
    assert_eq!(stage.documents(Drawer::RejectNotes).await, 0, "all are counted");
    purged_jobs_take_their_rejects_along(&stage, id, theirs).await;
}

/// W9, D5: rejects leave with their job, and the counts with them; and after a time of their own.
async fn purged_jobs_take_their_rejects_along(stage: &Stage, id: JobId, theirs: JobId) {
    let purged = stage.engine.archive().purge(vec![id]).await.expect("the store is there").remove(0);
    purged.expect("it has ended");
    assert_eq!(stage.groups(None).await.len(), 1);
    assert_eq!(stage.engine.rejects().count().await.expect("the store is there"), 250);
    assert_eq!(stage.rejects(theirs).await.len(), 250);
    let forgetful = Config::default().retirement(Retirement::default().rejects(Some(Duration::ZERO)));
    let later = Stage::new(stage.engine.store(), forgetful);
    later.maintain().await;
    assert_eq!((later.groups(None).await, later.rejects(theirs).await), (vec![], vec![]));
    for drawer in [Drawer::Rejects, Drawer::RejectNotes, Drawer::RejectTimes, Drawer::RejectGroups] {
        assert_eq!(later.documents(drawer).await, 0, "{drawer}");
    }
    assert_eq!(later.engine.rejects().count().await.expect("the store is there"), 0);
}

/// W9: an item that several runs of a job reject counts once; what a later run adds is added.
async fn an_item_counts_once(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let job = Import { rows: 1_500, bad_every: 10, more: 7, fails: true };
    let id = stage.engine.enqueue(job).backoff(at_once()).submit().await.expect("stored").id;
    assert_eq!(stage.drain().await.len(), 2);
    let counts = stage.detail(id).await.reads().rejects.expect("there are some");
    assert_eq!((counts.stored, counts.run, counts.rejected), (157, 2, 157));
    let runs: Vec<u32> = stage.rejects(id).await.iter().map(|reject| reject.run).collect();
    assert_eq!((runs.len(), runs.iter().filter(|run| **run == 2).count()), (157, 7));
    assert_eq!(stage.groups(None).await.iter().map(|group| group.items).sum::<u64>(), 157);
}

/// W9: items that look the same are several, in every run the same ones; those of one key are one.
async fn items_that_look_the_same_are_several(store: Arc<dyn Store>) {
    for (key, expected) in [(None, 120), (Some("row 7".to_owned()), 1)] {
        let stage = Stage::on(&store);
        let job = stage.engine.enqueue(Repeat { times: 120, key }).backoff(at_once());
        let id = job.submit().await.expect("stored").id;
        assert_eq!(stage.drain().await.len(), 2);
        let counts = stage.detail(id).await.reads().rejects.expect("there are some");
        assert_eq!((counts.stored, counts.run, counts.rejected), (expected, 2, expected));
        assert_eq!(stage.rejects(id).await.len() as u64, expected);
    }
}

/// W9: what a handler tells of before it panics is kept, also when no other run follows.
async fn a_panic_loses_none(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let id = stage.engine.enqueue(Stumble {}).submit().await.expect("stored").id;
    assert_eq!(stage.drain().await[0].cause, Cause::Panic);
    assert_eq!((stage.detail(id).await.view.state(), stage.rejects(id).await.len()), (State::Failed, 1));
}

/// W9, F10: what a handler tells of before its time is up is kept, also when no other run follows.
async fn a_timeout_loses_none(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let job = stage.engine.enqueue(Linger { items: 99 }).timeout(Duration::from_millis(200));
    let id = job.submit().await.expect("stored").id;
    assert_eq!(stage.drain().await[0].cause, Cause::Timeout);
    assert_eq!((stage.detail(id).await.view.state(), stage.rejects(id).await.len()), (State::Failed, 99));
}

/// W9: step, retries, limit, final flag, several items at once, and the item itself only when it is asked for.
async fn everything_is_told(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let id = stage.engine.enqueue(Tell {}).submit().await.expect("stored").id;
    assert_eq!(stage.drain().await[0].cause, Cause::Succeeded);
    assert_eq!(stage.detail(id).await.view.result.as_deref(), Some("3"), "two retries");
    let all = stage.rejects(id).await;
    let told: Vec<_> = all.iter().map(|one| (one.step.as_deref(), one.scope, one.count)).collect();
    let plain = (None, RejectScope::Item, 1);
    assert_eq!(
        told,
        [(Some("load"), RejectScope::Item, 1), plain, (None, RejectScope::Stream, 40), plain, plain]
    );
    let tried: Vec<_> = all.iter().map(|one| (one.retries, one.retry_limit, one.r#final)).collect();
    assert_eq!(tried, [(0, 0, true), (0, 0, true), (0, 0, true), (2, 2, true), (0, 5, true)]);
    assert!(!all[0].error.contains("hunter2"), "{}", all[0].error);
    let items: Vec<_> = all.iter().filter_map(|one| one.item.clone()).collect();
    assert_eq!(items.len(), 1, "{items:?}");
    assert_eq!(items[0]["name"], "b");
    assert!(!items[0].to_string().contains("hunter2"), "{items:?}");
    let clear = stage.engine.rejects().revealed().of_job(id, 10).await.expect("the store is there");
    assert_eq!(clear[1].item, Some(json!({ "name": "b", "password": "hunter2" })));
}

/// W9: over a limit by number or by share the run fails, whatever the handler makes of it; under it nothing happens.
async fn too_many_fail_the_run(store: Arc<dyn Store>) {
    let rejects = RejectSettings::default().limit_of("import", RejectLimit::NONE.most(5));
    let stage = Stage::new(&store, Config::default().rejects(rejects));
    for (bad, most, percent, told) in [
        (3, Some(3), None, None),
        (4, Some(3), None, Some("the run has rejected 4 items, and its limit is 3")),
        (10, None, Some(10.0), None),
        (11, None, Some(10.0), Some("the run has rejected 11 of 100 items; its limit is 10 percent")),
        (1, None, Some(1.0), None),
        (1, None, Some(0.5), Some("the run has rejected 1 of 100 items; its limit is 0.5 percent")),
    ] {
        let job = Limited { items: 100, bad, most, percent };
        let id = stage.engine.enqueue(job).submit().await.expect("stored").id;
        stage.drain().await;
        let view = stage.detail(id).await.view;
        let failure = view.last_failure.map(|failure| (failure.error_type, failure.message));
        let expected = told.map(|told| ("TooManyRejects".to_owned(), told.to_owned()));
        assert_eq!(failure, expected, "{bad} with {most:?} and {percent:?}");
        let state = if told.is_some() { State::Failed } else { State::Succeeded };
        assert_eq!(view.record.state, state);
        assert_eq!(stage.rejects(id).await.len() as u64, bad, "all of them are stored");
    }
    let job = Import { rows: 100, bad_every: 10, more: 0, fails: false };
    let id = stage.engine.enqueue(job).backoff(at_once()).submit().await.expect("stored").id;
    assert_eq!(stage.drain().await.len(), 2, "it is tried again, as any error");
    let failure = stage.detail(id).await.view.last_failure.expect("it failed");
    assert_eq!(failure.message, "the run has rejected 6 items, and its limit is 5");
}

/// A job that runs elsewhere.
async fn far_away(stage: &Stage) -> (JobId, Grant) {
    let id = stage.engine.enqueue_raw("far", "{}").queue("far").submit().await.expect("stored").id;
    let request = WorkRequest {
        worker: RemoteWorker { realm: String::new(), name: "far-away".into(), instance: None },
        queues: vec!["far".into()],
        kinds: [KnownKind { kind: "far".into(), version: 1 }].into(),
        limit: 1,
        wait: Duration::from_secs(20),
        lease: Duration::from_secs(600),
        code_version: None,
    };
    (id, stage.engine.remote().claim(request).await.expect("the store is there").remove(0).grant)
}

/// W9, E7: of two calls at the same moment, through two servers, the one that comes second knows what the first told.
async fn calls_at_the_same_moment_count_each_item_once(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let (id, grant) = far_away(&stage).await;
    let item = |name: &str| RemoteReject { item: Some(json!(name)), ..RemoteReject::default() };
    let (faster, same, rejects) = (stage.engine.remote(), grant.clone(), vec![item("a"), item("b")]);
    let first = async move {
        assert!(faster.reject(&same, rejects, Some(10)).await.expect("the store is there").is_ok());
    };
    let overtaken = Overtaken { below: store.clone(), first: Mutex::new(Some(Box::pin(first))) };
    let second = Stage::on(&(Arc::new(overtaken) as Arc<dyn Store>));
    let rejects = vec![item("b"), item("c")];
    let kept = second.engine.remote().reject(&grant, rejects, Some(12)).await.expect("the store is there");
    assert!(kept.is_ok());
    let counts = stage.detail(id).await.reads().rejects.expect("there are some");
    assert_eq!((counts.stored, counts.rejected, counts.seen), (3, 3, 12));
    assert_eq!(stage.rejects(id).await.len(), 3);
}

/// Somebody else is faster than the first write.
struct Overtaken {
    below: Arc<dyn Store>,
    first: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
}

impl Layer for Overtaken {
    fn below(&self) -> &dyn Store {
        &*self.below
    }

    fn annotate(&self, notes: Vec<Note>) -> Answer<'_, Vec<Result<(), NoteError>>> {
        let first = self.first.lock().expect("no panic").take();
        Box::pin(async move {
            if let Some(first) = first {
                first.await;
            }
            self.below.annotate(notes).await
        })
    }
}

/// W9, E7: a worker elsewhere may send the same rejects again when the answer was lost, also those of which nothing is
/// known; and none is taken for another.
async fn a_call_that_is_repeated_counts_once(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let (id, grant) = far_away(&stage).await;
    let remote = stage.engine.remote();
    let bare = |error: &str| RemoteReject { error: error.into(), ..RemoteReject::default() };
    let known = || RemoteReject { item: Some(json!("a")), ..bare("bad") };
    let keyed = || RemoteReject { key: Some("line 7".into()), ..known() };
    let calls = [
        (vec![known(), known(), bare("x")], Some(10), 3),
        (vec![known(), known(), bare("x")], Some(10), 3),
        (vec![bare("y")], Some(11), 4),
        (vec![bare("y")], Some(11), 4),
        (vec![bare("y")], Some(12), 5),
        (vec![bare("y"), bare("y")], None, 7),
        (vec![bare("y")], None, 8),
        (vec![keyed(), keyed()], Some(13), 9),
    ];
    for (rejects, seen, expected) in calls {
        let kept = remote.reject(&grant, rejects, seen).await.expect("the store is there");
        assert!(kept.is_ok());
        let counts = stage.detail(id).await.reads().rejects.expect("there are some");
        assert_eq!((counts.stored, counts.rejected), (expected, expected), "seen {seen:?}");
    }
    assert_eq!(stage.rejects(id).await.len(), 9);
}

/// W9, D5: rejects that are kept longer than their job are found by its id as long as they are there.
async fn rejects_outlive_their_job(store: Arc<dyn Store>) {
    let none = Some(Duration::ZERO);
    let hasty = Config::default().retention(Retention::default().succeeded(none).archive(none));
    let stage = Stage::new(&store, hasty);
    let job = Import { rows: 10, bad_every: 5, more: 0, fails: false };
    let id = stage.engine.enqueue(job).queue("acme/rows").submit().await.expect("stored").id;
    assert_eq!(stage.drain().await.len(), 1);
    for _ in 0..2 {
        stage.maintain().await;
    }
    assert!(stage.engine.job(id).await.expect("the store is there").is_none());
    assert!(stage.engine.archive().get(id).await.expect("the store is there").is_none(), "it is pruned");
    assert_eq!(stage.rejects(id).await.len(), 2);
    for (tenant, expected) in [("acme", 2), ("beta", 0)] {
        let tenant = Some(tenant.to_owned());
        let filter = RejectFilter { job: Some(id), tenant, ..RejectFilter::default() };
        let found = stage.engine.rejects().page(&filter, None, 10).await.expect("the store is there");
        assert_eq!(found.items.len(), expected);
    }
}

/// Every case, on one store.
async fn everything(store: Arc<dyn Store>) {
    a_run_goes_on(store.clone()).await;
    an_item_counts_once(store.clone()).await;
    items_that_look_the_same_are_several(store.clone()).await;
    everything_is_told(store.clone()).await;
    a_panic_loses_none(store.clone()).await;
    a_timeout_loses_none(store.clone()).await;
    too_many_fail_the_run(store.clone()).await;
    a_call_that_is_repeated_counts_once(store.clone()).await;
    calls_at_the_same_moment_count_each_item_once(store.clone()).await;
    rejects_outlive_their_job(store).await;
}

#[tokio::test]
async fn in_memory() {
    // W9, F3, D2, E13
    stores::in_memory(everything).await;
}

#[tokio::test]
async fn on_sqlite() {
    // W9, F3, D2, E13
    stores::on_sqlite("rejects", everything).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn on_postgres() {
    // W9, F3, D2, E13
    stores::on_postgres("rejects", everything).await;
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn on_mysql() {
    // W9, F3, D2, E13
    stores::on_mysql("rejects", everything).await;
}

/// Counts what is written on the way, and loses the answer of one write.
struct Watched {
    below: Arc<dyn Store>,
    written: AtomicUsize,
    lose: AtomicBool,
}

impl Layer for Watched {
    fn below(&self) -> &dyn Store {
        &*self.below
    }

    fn annotate(&self, notes: Vec<Note>) -> Answer<'_, Vec<Result<(), NoteError>>> {
        self.written.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            let answer = self.below.annotate(notes).await?;
            if self.lose.swap(false, Ordering::SeqCst) {
                let location = "here".to_owned();
                return Err(backstop_store::Error::Unknown { location, source: None });
            }
            Ok(answer)
        })
    }
}

/// W9: of a hundred thousand items one percent is bad. They are twelve writes, and one group.
async fn a_hundred_thousand_items(below: Arc<dyn Store>) {
    let store = Watched { below, written: AtomicUsize::new(0), lose: AtomicBool::new(true) };
    let store = Arc::new(store);
    let stage = Stage::on(&(store.clone() as Arc<dyn Store>));
    let job = Import { rows: 100_000, bad_every: 100, more: 0, fails: false };
    let id = stage.engine.enqueue(job).submit().await.expect("stored").id;
    assert_eq!(stage.drain().await[0].cause, Cause::Succeeded);
    // Ten batches, the first of them twice because its answer was lost, and at the end how many were seen.
    assert_eq!(store.written.load(Ordering::SeqCst), 12);
    let counts = stage.detail(id).await.reads().rejects.expect("there are some");
    assert_eq!((counts.stored, counts.rejected, counts.seen), (1_000, 1_000, 100_000));
    assert_eq!(stage.rejects(id).await.len(), 1_000);
    let groups = stage.groups(None).await;
    assert_eq!(groups.iter().map(|group| group.items).collect::<Vec<_>>(), [1_000]);
}

#[tokio::test]
async fn a_hundred_thousand_items_in_memory() {
    // W9
    stores::in_memory(a_hundred_thousand_items).await;
}

#[tokio::test]
async fn a_hundred_thousand_items_on_sqlite() {
    // W9
    stores::on_sqlite("rejects_of_many", a_hundred_thousand_items).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn a_hundred_thousand_items_on_postgres() {
    // W9
    stores::on_postgres("rejects_of_many", a_hundred_thousand_items).await;
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn a_hundred_thousand_items_on_mysql() {
    // W9
    stores::on_mysql("rejects_of_many", a_hundred_thousand_items).await;
}

/// Does not answer its first writes, and does not make them.
struct Silent {
    below: Arc<dyn Store>,
    writes: AtomicUsize,
    unanswered: usize,
}

impl Layer for Silent {
    fn below(&self) -> &dyn Store {
        &*self.below
    }

    fn annotate(&self, notes: Vec<Note>) -> Answer<'_, Vec<Result<(), NoteError>>> {
        if self.writes.fetch_add(1, Ordering::SeqCst) < self.unanswered {
            return Box::pin(std::future::pending());
        }
        self.below.annotate(notes)
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeout_in_the_middle_of_a_write_makes_it_again_and_waits_for_no_store_for_ever() {
    // W9, F10
    // The handler waits for its first write, and never gets to tell of more than is in that one.
    for (unanswered, kept) in [(1, 100), (usize::MAX, 0)] {
        let below = Arc::new(ModelStore::default());
        let store = Arc::new(Silent { below, writes: AtomicUsize::new(0), unanswered });
        let stage = Stage::on(&(store.clone() as Arc<dyn Store>));
        let job = stage.engine.enqueue(Linger { items: 150 }).timeout(Duration::from_secs(10));
        let id = job.submit().await.expect("stored").id;
        assert_eq!(stage.drain().await[0].cause, Cause::Timeout);
        assert_eq!(stage.detail(id).await.view.state(), State::Failed);
        assert_eq!(stage.rejects(id).await.len(), kept, "{unanswered}");
        assert_eq!(store.writes.load(Ordering::SeqCst), 2, "{unanswered}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_stops_writes_what_its_runs_have_told_of() {
    // W9, L18
    let store: Arc<dyn Store> = Arc::new(ModelStore::default());
    let stage = Stage::on(&store);
    let id = stage.engine.enqueue(Linger { items: 3 }).submit().await.expect("stored").id;
    let worker = stage.engine.worker(()).register::<Linger>().queue("default", 1);
    let worker = worker.grace(Duration::from_secs(1)).start().await.expect("started");
    while worker.running() == 0 {
        tokio::time::advance(Duration::from_millis(50)).await;
        tokio::task::yield_now().await;
    }
    // The handler tells of its items before it waits for anything.
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    assert_eq!(worker.stop().await.interrupted, 1);
    assert_eq!((stage.detail(id).await.view.state(), stage.rejects(id).await.len()), (State::Pending, 3));
}

#[tokio::test]
async fn a_completion_in_a_transaction_of_its_own_loses_no_reject() {
    // W9, L14
    let store: Arc<dyn Store> = Arc::new(ModelStore::default());
    let stage = Stage::on(&store);
    let id = stage.engine.enqueue(Completing {}).submit().await.expect("stored").id;
    assert_eq!(stage.drain().await[0].cause, Cause::Succeeded);
    let told = stage.detail(id).await.view.result.expect("what it was told").to_string();
    assert!(told.contains("call `flush_rejects` before the transaction"), "{told}");
    assert_eq!(stage.rejects(id).await.len(), 1);
}

#[tokio::test]
async fn a_kept_item_is_sealed_where_payloads_are() {
    // W9, E12
    let key = SecretKey::new("k", vec![7; 32]).expect("a key");
    let keys = SealingKeys::new(vec![key]).expect("keys");
    let store: Arc<dyn Store> = Arc::new(ModelStore::default());
    let stage = Stage::new(&store, Config::default().encryption(Encryption::new(keys).kind("tell")));
    let id = stage.engine.enqueue(Tell {}).submit().await.expect("stored").id;
    stage.drain().await;
    let page = store.documents(DocumentRange::first(Drawer::Rejects, 10)).await.expect("there");
    assert!(page.items.iter().all(|document| !document.body.contains("hunter2")), "{page:?}");
    assert_eq!(stage.rejects(id).await[1].item, Some(json!("[encrypted]")));
    let clear = stage.engine.rejects().revealed().of_job(id, 10).await.expect("the store is there");
    assert_eq!(clear[1].item, Some(json!({ "name": "b", "password": "hunter2" })));
}
