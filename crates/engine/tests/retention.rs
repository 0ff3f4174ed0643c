//! Jobs that leave for good, through the engine: on the model store, with a clock that the test moves (L16, D5).

use std::sync::Arc;
use std::time::Duration;

use backstop::archive::PurgeError;
use backstop::prelude::*;
use backstop::{Config, JobId, Refusal, Retention, State, WorkerId, worker_id};
use backstop_store::{IncidentFilter, JobFilter, ManualClock, ModelStore, PageRequest};
use serde_json::Value;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const TERM: Duration = Duration::from_secs(30);

#[derive(Serialize, Deserialize)]
struct Work {
    well: bool,
}

impl Job for Work {
    const KIND: &'static str = "work";
    type Context = ();
    type Output = JobResult;

    async fn run(self, _: JobContext<()>) -> JobResult {
        if self.well { Ok(()) } else { Err(Outcome::permanent("it cannot work"))? }
    }
}

struct Stage {
    engine: Backstop,
    clock: ManualClock,
    node: WorkerId,
}

impl Stage {
    fn new(retention: Retention) -> Self {
        let clock = ManualClock::default();
        let store = Arc::new(ModelStore::new(Arc::new(clock.clone())));
        let engine = Backstop::on(store, Config::default().retention(retention));
        Self { engine, clock, node: worker_id() }
    }

    async fn submit(&self, well: bool, key: &str) -> JobId {
        let job = self.engine.enqueue(Work { well }).idempotency_key(key);
        job.submit().await.expect("admitted").id
    }

    async fn work(&self) {
        let worker = self.engine.worker(()).register::<Work>().queue("default", 50).inline();
        worker.expect("a worker").drain(10_000).await.expect("the model is there");
    }

    async fn pass(&self, span: Duration) {
        self.clock.advance(span);
        self.engine.maintain(self.node, TERM).await.expect("the model is there");
    }

    /// Whether a job is hot, and whether it is archived.
    async fn place(&self, job: JobId) -> (bool, bool) {
        let hot = self.engine.job(job).await.expect("the model is there").is_some();
        (hot, self.engine.archive().get(job).await.expect("the model is there").is_some())
    }
}

fn dead() -> JobFilter {
    JobFilter { state: Some(State::Failed), ..JobFilter::default() }
}

#[tokio::test]
async fn archived_jobs_go_after_a_quarter_and_one_that_never_ran_never_does() {
    // D5, L16, L10
    let stage = Stage::new(Retention::default());
    let ran = stage.submit(true, "ran").await;
    stage.work().await;
    let never = stage.submit(true, "never").await;
    stage.engine.cancel(never, "not needed").await.expect("it is there");
    stage.pass(DAY * 8).await;
    assert_eq!([stage.place(ran).await, stage.place(never).await], [(false, true); 2]);
    stage.pass(DAY * 90 - Duration::from_micros(1)).await;
    assert_eq!(stage.place(ran).await, (false, true), "its time is not over");
    stage.pass(Duration::from_micros(1)).await;
    assert_eq!(stage.place(ran).await, (false, false));
    stage.pass(DAY * 36_500).await;
    assert_eq!(stage.place(never).await, (false, true), "age alone never removes what did not run");
    let again =
        stage.engine.enqueue(Work { well: true }).idempotency_key("ran").submit().await.expect("known");
    assert_eq!((again.id, again.state, again.deduplicated), (ran, State::Succeeded, true));
}

#[tokio::test]
async fn without_a_retention_the_archive_is_for_ever_and_a_backlog_goes_in_bounded_rounds() {
    // D5
    let at_once = Retention::default().succeeded(Some(Duration::ZERO)).archive(None);
    let stage = Stage::new(at_once);
    let jobs = (0..2_100).map(|_| stage.engine.enqueue(Work { well: true })).collect();
    stage.engine.submit_all(jobs, true).await.expect("admitted");
    stage.work().await;
    stage.pass(Duration::ZERO).await;
    stage.pass(DAY * 36_500).await;
    assert_eq!(stage.engine.archive().prunable(DAY, 10_000).await.expect("the model is there"), 2_100);
    // By hand, a batch at a time.
    let keep = Duration::from_secs(60);
    let mut batches = Vec::new();
    loop {
        let pruned = stage.engine.archive().prune(stage.node, TERM, keep).await.expect("the model is there");
        let (count, more) = pruned.expect("nobody else leads");
        batches.push(count);
        if !more {
            break;
        }
    }
    assert_eq!(batches, [500, 500, 500, 500, 100]);
    let other = stage.engine.archive().prune(worker_id(), TERM, keep).await.expect("the model is there");
    assert_eq!(other, None, "another node leads");
}

#[tokio::test]
async fn a_purge_removes_what_the_filter_finds_and_the_keys_keep_answering() {
    // D5, L10
    let stage = Stage::new(Retention::default());
    let mut gone = Vec::new();
    for number in 0..1_203 {
        gone.push(stage.submit(false, &format!("dead-{number}")).await);
    }
    let well = stage.submit(true, "well").await;
    stage.work().await;
    let pending = stage.submit(true, "pending").await;
    let survey = stage.engine.archive().survey(dead(), 100_000).await.expect("the model is there");
    assert_eq!((survey.jobs(), survey.complete, survey.groups.len()), (1_203, true, 1));
    let mut batches = Vec::new();
    let purged = stage.engine.archive().purge_matching(dead(), |batch| {
        batches.push(batch.len());
        std::future::ready(Ok::<(), std::io::Error>(()))
    });
    let purged = purged.await.expect("the model is there");
    assert_eq!((purged.purged, purged.left, batches), (1_203, 0, vec![500, 500, 203]));
    for job in gone.iter().step_by(100) {
        assert_eq!(stage.place(*job).await, (false, false));
    }
    assert_eq!([stage.place(well).await, stage.place(pending).await], [(true, false); 2]);
    let queue = stage.engine.queues().list().await.expect("the model is there").remove(0);
    assert_eq!((queue.failed, queue.succeeded, queue.pending), (0, 1, 1));
    let again = stage.engine.enqueue(Work { well: true }).idempotency_key("dead-7").submit().await;
    let again = again.expect("known");
    assert_eq!((again.id, again.state, again.deduplicated), (gone[7], State::Failed, true));
}

#[tokio::test]
async fn a_batch_that_cannot_be_kept_elsewhere_stays() {
    // D5
    let stage = Stage::new(Retention::default());
    for number in 0..600 {
        stage.submit(false, &number.to_string()).await;
    }
    stage.work().await;
    let mut turn = 0;
    let purged = stage.engine.archive().purge_matching(dead(), |_| {
        turn += 1;
        std::future::ready(if turn == 1 { Ok(()) } else { Err(std::io::Error::other("the disk is full")) })
    });
    let error = purged.await.expect_err("the second batch cannot be kept");
    assert!(matches!(&error, PurgeError::Batch(error) if error.to_string() == "the disk is full"));
    let left = stage.engine.archive().survey(dead(), 1_000).await.expect("the model is there").jobs();
    assert_eq!(left, 100, "the first batch is gone, the second is there");
}

#[tokio::test]
async fn only_what_has_ended_can_be_purged_hot_or_archived() {
    // D5
    let stage = Stage::new(Retention::default());
    let archived = stage.submit(true, "archived").await;
    stage.work().await;
    stage.pass(DAY * 8).await;
    let ended = stage.submit(false, "ended").await;
    stage.work().await;
    let pending = stage.submit(true, "pending").await;
    let unknown = JobId::from_u128(7);
    let answers = stage
        .engine
        .archive()
        .purge(vec![archived, ended, pending, unknown])
        .await
        .expect("the model is there");
    assert_eq!(&answers[..2], [Ok(State::Succeeded), Ok(State::Failed)]);
    let refused = Refusal::WrongState { job: pending, state: State::Pending, verb: "purged" };
    assert_eq!(&answers[2..], [Err(refused), Err(Refusal::NoSuchJob { job: unknown })]);
    let places = [stage.place(archived).await, stage.place(ended).await, stage.place(pending).await];
    assert_eq!(places, [(false, false), (false, false), (true, false)]);
}

#[tokio::test]
async fn an_export_reads_like_the_archive() {
    // D5
    let stage = Stage::new(Retention::default());
    let job = stage.submit(false, "one").await;
    stage.work().await;
    stage.engine.retry(job).await.expect("it is a dead letter");
    stage.work().await;
    let exported =
        stage.engine.archive().export(dead(), PageRequest::first(10)).await.expect("the model is there");
    let exported: Value = serde_json::from_str(&exported.items[0].document).expect("JSON");
    let runs: Vec<_> =
        exported["attempts"].as_array().expect("a list").iter().map(|run| &run["number"]).collect();
    assert_eq!(runs, [1, 2], "oldest first");
    stage.pass(DAY * 91).await;
    let page = stage.engine.archive().page(PageRequest::first(10)).await.expect("the model is there");
    assert_eq!(page.items[0].0, job);
    let archived: Value = serde_json::from_str(&page.items[0].1.document).expect("JSON");
    assert_eq!(archived, exported);
}

/// A job that fails with the words it is given.
#[derive(Serialize, Deserialize)]
struct Odd {
    words: String,
}

impl Job for Odd {
    const KIND: &'static str = "odd";
    type Context = ();
    type Output = JobResult;

    async fn run(self, _: JobContext<()>) -> JobResult {
        Err(Outcome::permanent(self.words))?
    }
}

#[tokio::test]
async fn failures_beyond_the_incidents_of_a_tenant_are_gathered_in_one() {
    // E13, D2
    let mut config = Config::default();
    config.limits.incidents_per_tenant = 3;
    let engine = Backstop::open_with("memory:", config).await.expect("a store in memory");
    let fail = async |queue: &'static str, words: &[&str]| {
        for words in words {
            let job = engine.enqueue(Odd { words: (*words).to_owned() }).queue(queue);
            job.submit().await.expect("admitted");
        }
        let worker = engine.worker(()).register::<Odd>().queue(queue, 50).inline();
        worker.expect("a worker").drain(100).await.expect("the model is there");
    };
    let words = ["no paper", "no ink", "printer on fire", "out of stamps", "letterbox full"];
    fail("acme/mail", &words).await;
    fail("mail", &words).await;
    let of = async |tenant: Option<&str>| {
        let tenant = tenant.map(str::to_owned);
        let filter = IncidentFilter { tenant, ..IncidentFilter::default() };
        engine.incidents().matching(filter, 100).await.expect("the model is there")
    };
    let acme = of(Some("acme")).await;
    assert_eq!(acme.len(), 4, "three, and one for all others: {acme:?}");
    let gathered = acme.iter().find(|incident| incident.failures == 2).expect("two were one too many");
    assert_eq!((gathered.open, gathered.message.as_str()), (2, "out of stamps"));
    assert_eq!(of(None).await.len(), 4 + words.len(), "nobody else is meant");
    // One that is known is counted where it was, also by a process that has just been started.
    let again = Backstop::on(engine.store().clone(), engine.config().clone());
    again.enqueue(Odd { words: "no ink".to_owned() }).queue("acme/mail").submit().await.expect("admitted");
    again.enqueue(Odd { words: "no glue".to_owned() }).queue("acme/mail").submit().await.expect("admitted");
    let worker = again.worker(()).register::<Odd>().queue("acme/mail", 1).inline();
    worker.expect("a worker").drain(100).await.expect("the model is there");
    let sums: Vec<(String, u64)> =
        of(Some("acme")).await.into_iter().map(|incident| (incident.message, incident.failures)).collect();
    assert!(sums.contains(&("no ink".to_owned(), 2)), "{sums:?}");
    assert!(sums.contains(&("out of stamps".to_owned(), 3)) && sums.len() == 4, "{sums:?}");
}
