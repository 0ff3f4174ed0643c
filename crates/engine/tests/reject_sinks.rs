//! Where rejects go in place of the store, and what workers elsewhere tell of them twice (W9).
#![allow(missing_docs, reason = "a test")]

use std::collections::BTreeSet;
use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop::prelude::*;
use backstop::rejects::{
    RejectBatch, RejectLimit, RejectLog, RejectSettings, RejectSink, RejectSinkAnswer, SinkFailure,
};
use backstop::sinks::{Sink, SinkLimits, SinkTopic};
use backstop::{
    Cause, Config, Ended, Failure, Finished, Grant, JobId, RemoteReject, RemoteWorker, WorkRequest,
};
use backstop_core::job::JobDetail;
use backstop_store::{KnownKind, ModelStore, Store};
use serde_json::json;

/// Rejects every tenth row.
#[job(max_retries = 0)]
async fn load(cx: JobContext<()>, rows: u64) -> JobResult {
    for row in 0..rows {
        cx.saw(1);
        if row % 10 == 0 {
            cx.reject(&json!({ "row": row, "password": "hunter2" }), "no name").await?;
        }
    }
    Ok(())
}

/// A sink in memory that can be away, also for some batches only.
#[derive(Clone, Default)]
struct Memory {
    taken: Arc<Mutex<Vec<RejectBatch>>>,
    away: Arc<Mutex<BTreeSet<usize>>>,
    calls: Arc<Mutex<usize>>,
}

impl Memory {
    fn away() -> Self {
        let memory = Self::default();
        *memory.away.lock().expect("no panic") = (0..100).collect();
        memory
    }

    /// How many rejects it has, and how many of them are different ones.
    fn count(&self) -> (usize, usize) {
        let taken = self.taken.lock().expect("no panic");
        let all: Vec<_> = taken.iter().flat_map(|batch| &batch.rejects).map(|one| one.identity()).collect();
        (all.len(), all.iter().collect::<BTreeSet<_>>().len())
    }
}

impl RejectSink for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn put<'a>(&'a self, batch: &'a RejectBatch) -> RejectSinkAnswer<'a> {
        Box::pin(async move {
            let mut calls = self.calls.lock().expect("no panic");
            *calls += 1;
            if self.away.lock().expect("no panic").contains(&(*calls - 1)) {
                return Err("it is away".into());
            }
            self.taken.lock().expect("no panic").push(batch.clone());
            Ok(())
        })
    }
}

/// Every log line of a test, with all its fields.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<String>>);

impl Lines {
    /// The lines with these words.
    fn with(&self, words: &str) -> Vec<String> {
        let text = self.0.lock().expect("no line panics");
        text.lines().filter(|line| line.contains(words)).map(str::to_owned).collect()
    }
}

struct Fields<'a>(&'a mut String);

impl tracing::field::Visit for Fields<'_> {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

impl tracing::Subscriber for Lines {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = self.0.lock().expect("no line panics");
        let _ = write!(text, "{} {}", event.metadata().level(), event.metadata().target());
        event.record(&mut Fields(&mut text));
        text.push('\n');
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

fn engine(rejects: RejectSettings) -> Backstop {
    let store: Arc<dyn Store> = Arc::new(ModelStore::default());
    Backstop::on(store, Config::default().rejects(rejects))
}

async fn loaded(engine: &Backstop, rows: u64) -> JobDetail {
    let id = engine.enqueue(Load { rows }).submit().await.expect("stored").id;
    let worker = engine.worker(()).register::<Load>().queue("default", 1).inline().expect("it has kinds");
    worker.drain(10).await.expect("the store is there");
    detail(engine, id).await
}

async fn detail(engine: &Backstop, id: JobId) -> JobDetail {
    engine.job(id).await.expect("the store is there").expect("it is stored")
}

#[tokio::test]
async fn a_sink_takes_them_in_place_of_the_store_and_one_that_fails_fails_the_run_or_not() {
    // W9
    for (sink, on_failure, cause, taken) in [
        (Memory::default(), SinkFailure::Fail, Cause::Succeeded, 10),
        (Memory::away(), SinkFailure::Fail, Cause::Error, 0),
        (Memory::away(), SinkFailure::Continue, Cause::Succeeded, 0),
    ] {
        let engine = engine(RejectSettings::default().sink(sink.clone()).on_failure(on_failure));
        let detail = loaded(&engine, 100).await;
        let id = detail.view.job.spec.id;
        assert_eq!(sink.count().0, taken, "{on_failure:?}");
        assert_eq!(engine.rejects().of_job(id, 100).await.expect("the store is there"), vec![]);
        match detail.view.last_failure.as_ref().filter(|_| cause == Cause::Error) {
            Some(failure) => {
                assert_eq!(failure.error_type, "RejectSink");
                assert_eq!(failure.message, "the reject sink `memory` does not take rejects: it is away");
            }
            None => {
                assert_eq!(cause, Cause::Succeeded);
                let counts = detail.reads().rejects.expect("they are counted all the same");
                assert_eq!((counts.stored, counts.rejected), (0, 10));
            }
        }
        let findings = engine.doctor().await.expect("the store is there");
        assert!(findings.iter().any(|finding| finding.message.contains("`memory`, which is not durable")));
    }
}

#[tokio::test]
async fn the_log_takes_a_line_for_each_reject_without_its_item() {
    // W9
    let lines = Lines::default();
    let _guard = tracing::subscriber::set_default(lines.clone());
    let engine = engine(RejectSettings::default().sink(RejectLog).keep_items());
    let detail = loaded(&engine, 30).await;
    let id = detail.view.job.spec.id;
    let told = lines.with("an item was rejected");
    assert_eq!(told.len(), 3, "{told:?}");
    for line in &told {
        for words in ["WARN backstop::rejects", "kind=load", "run=1", "error=\"no name\"", &id.to_string()] {
            assert!(line.contains(words), "no `{words}` in {line}");
        }
        assert!(!line.contains("hunter2"), "{line}");
    }
    assert_eq!(engine.rejects().of_job(id, 100).await.expect("the store is there"), vec![]);
    assert_eq!(detail.reads().rejects.expect("they are counted").rejected, 3);
}

#[tokio::test]
async fn a_sink_that_is_not_durable_is_named_once_when_workers_start() {
    // W9
    let words = "rejects of items go to a sink that is not durable";
    for (rejects, named) in [
        (RejectSettings::default(), None),
        (RejectSettings::default().sink(RejectLog), Some("sink=\"log\"")),
        (RejectSettings::default().sink(Memory::default()), Some("sink=\"memory\"")),
    ] {
        let lines = Lines::default();
        let _guard = tracing::subscriber::set_default(lines.clone());
        let engine = engine(rejects);
        for _ in 0..2 {
            let worker = engine.worker(()).register::<Load>().queue("default", 1);
            worker.start().await.expect("a worker").stop().await;
        }
        let told = lines.with(words);
        assert_eq!(told.len(), usize::from(named.is_some()), "{told:?}");
        assert!(told.iter().all(|line| line.contains("WARN") && line.contains(named.unwrap_or_default())));
    }
}

#[tokio::test]
async fn rejects_that_are_not_stored_are_promised_to_nobody() {
    // W9, B2
    let engine = engine(RejectSettings::default().sink(RejectLog));
    let sinks = engine.sinks();
    let refused = sinks.set(&Sink::new("bad", [SinkTopic::Rejects]), SinkLimits::default()).await;
    let told = refused.expect_err("it would publish none").to_string();
    assert!(
        told.starts_with("sink `bad` takes rejects") && told.contains("they go to `log` instead"),
        "{told}"
    );
    assert_eq!(sinks.list().await.expect("the store is there"), vec![]);
    sinks
        .set(&Sink::new("good", [SinkTopic::Results]), SinkLimits::default())
        .await
        .expect("it takes others");
}

async fn claimed(engine: &Backstop) -> Grant {
    let request = WorkRequest {
        worker: RemoteWorker { realm: String::new(), name: "far-away".into(), instance: None },
        queues: vec!["far".into()],
        kinds: [KnownKind { kind: "far".into(), version: 1 }].into(),
        limit: 1,
        wait: Duration::from_secs(20),
        lease: Duration::from_secs(600),
        code_version: None,
    };
    engine.remote().claim(request).await.expect("the store is there").remove(0).grant
}

async fn submitted(engine: &Backstop) -> JobId {
    let job = engine.enqueue_raw("far", "{}").queue("far").backoff(Backoff::fixed(Duration::ZERO));
    job.max_retries(1).submit().await.expect("stored").id
}

fn bare(error: &str) -> RemoteReject {
    RemoteReject { error: error.into(), ..RemoteReject::default() }
}

fn row(number: usize) -> RemoteReject {
    RemoteReject { item: Some(json!({ "row": number })), ..bare("no name") }
}

#[tokio::test]
async fn a_call_that_is_repeated_counts_once_with_every_sink() {
    // W9, E7
    let keyed = || RemoteReject { key: Some("line 7".into()), ..row(7) };
    for sink in [None, Some(Memory::default())] {
        let mut settings = RejectSettings::default();
        if let Some(sink) = sink.clone() {
            settings = settings.sink(sink);
        }
        let engine = engine(settings);
        let id = submitted(&engine).await;
        let grant = claimed(&engine).await;
        let many = || (0..250).map(|number| row(1_000 + number)).collect::<Vec<_>>();
        let calls = [
            (vec![row(1), row(1), bare("x")], Some(10), 3),
            (vec![row(1), row(1), bare("x")], Some(10), 3),
            (vec![bare("y")], Some(11), 4),
            (vec![bare("y")], Some(11), 4),
            (vec![bare("y")], Some(12), 5),
            (vec![bare("y"), bare("y")], None, 7),
            (vec![bare("y")], None, 8),
            (vec![keyed(), keyed()], Some(13), 9),
            (vec![keyed()], Some(14), 9),
            (many(), Some(1_000), 259),
            (many(), Some(1_000), 259),
            // One that was under way for long comes behind others.
            (vec![bare("y")], Some(11), 259),
        ];
        for (rejects, seen, expected) in calls {
            let kept = engine.remote().reject(&grant, rejects, seen).await.expect("the store is there");
            assert!(kept.is_ok());
            let counts = detail(&engine, id).await.reads().rejects.expect("there are some");
            assert_eq!(counts.rejected, expected, "seen {seen:?}");
            assert_eq!(counts.stored, if sink.is_some() { 0 } else { expected }, "seen {seen:?}");
        }
        assert_eq!(detail(&engine, id).await.reads().rejects.expect("there are some").seen, 1_000);
        if let Some(sink) = sink {
            assert_eq!(sink.count(), (259, 259), "it has each once");
            let shown = engine.rejects().of_job(id, 100).await.expect("the store is there");
            assert_eq!(shown, vec![], "identities alone are not listed as rejects");
        }
    }
}

#[tokio::test]
async fn what_an_earlier_run_has_told_of_counts_once_in_this_one_too() {
    // W9, E7
    for sink in [None, Some(Memory::default())] {
        let mut settings = RejectSettings::default().limit(RejectLimit::NONE.most(150));
        if let Some(sink) = sink.clone() {
            settings = settings.sink(sink);
        }
        let engine = engine(settings);
        let id = submitted(&engine).await;
        let rows = || (0..150).map(row).collect::<Vec<_>>();
        for run in 1..=2 {
            let grant = claimed(&engine).await;
            for _ in 0..3 {
                let over = engine.remote().reject(&grant, rows(), Some(200)).await;
                assert_eq!(over.expect("the store is there").expect("held"), None, "run {run}");
            }
            let counts = detail(&engine, id).await.reads().rejects.expect("there are some");
            assert_eq!((counts.run, counts.rejected), (run, 150));
            let ended = Ended::Failed(Failure::new(Cause::Error, "NoLuck", "no luck"));
            let finished = Finished { grant, ended, step: None, logs: Vec::new() };
            engine.remote().finish(vec![finished]).await.expect("the store is there");
        }
        let counts = detail(&engine, id).await.reads().rejects.expect("there are some");
        assert_eq!(counts.stored, if sink.is_some() { 0 } else { 150 });
    }
}

#[tokio::test]
async fn a_call_that_fails_halfway_goes_on_where_it_was() {
    // W9, E7
    let sink = Memory::default();
    sink.away.lock().expect("no panic").insert(1);
    let engine = engine(RejectSettings::default().sink(sink.clone()));
    let id = submitted(&engine).await;
    let grant = claimed(&engine).await;
    let remote = engine.remote();
    let call = || remote.reject(&grant, (0..250).map(|_| bare("no name")).collect(), Some(300));
    let problem = call().await.expect_err("the second batch is not taken").to_string();
    assert!(problem.contains("it is away"), "{problem}");
    let counts = detail(&engine, id).await.reads().rejects.expect("there are some");
    assert_eq!(counts.rejected, 100, "what was taken");
    assert!(call().await.expect("it is back").is_ok());
    let counts = detail(&engine, id).await.reads().rejects.expect("there are some");
    assert_eq!((counts.rejected, sink.count()), (250, (250, 250)));
}
