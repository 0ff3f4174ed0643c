//! What sinks are sent, from the transition to whoever publishes it, on every store (B2, D6).
#![allow(missing_docs, reason = "a test")]

mod stores;

use std::sync::Arc;
use std::time::Duration;

use backstop::prelude::*;
use backstop::sinks::{
    MessageBody, OutboxMessage, OutboxPublisher, ResultStatus, Sink, SinkLimits, SinkTopic,
};
use backstop::{Config, Encryption, JobId};
use backstop_core::WorkerId;
use backstop_core::outbox::OutboxKey;
use backstop_core::sealing::SealingKeys;
use backstop_core::signing::SecretKey;
use backstop_store::{Amend, DocumentRange, Drawer, Edit, Expect, Store};
use serde_json::json;

/// Pays, or cannot.
#[job(max_retries = 0)]
async fn pay(cx: JobContext<()>, amount: u32) -> JobResult<u32> {
    cx.saw(1);
    if amount == 0 {
        cx.reject("nothing", "there is nothing to pay").await?;
        return Err("nothing to pay".into());
    }
    Ok(amount)
}

struct Stage {
    engine: Backstop,
}

impl Stage {
    fn new(store: &Arc<dyn Store>, config: Config) -> Self {
        Self { engine: Backstop::on(store.clone(), config) }
    }

    /// An engine with one sink.
    async fn with(store: &Arc<dyn Store>, sink: Sink) -> Self {
        let stage = Self::new(store, Config::default());
        stage.set(sink, SinkLimits::default()).await;
        stage
    }

    async fn set(&self, sink: Sink, limits: SinkLimits) {
        self.engine.sinks().set(&sink, limits).await.expect("kept");
    }

    async fn pay(&self, amount: u32) -> JobId {
        let id = self.engine.enqueue(Pay { amount }).submit().await.expect("stored").id;
        assert_eq!(self.run().await, 1);
        id
    }

    /// Runs what waits, and answers how many jobs that were.
    async fn run(&self) -> usize {
        let worker = self.engine.worker(()).register::<Pay>().queue("default", 1);
        worker.inline().expect("it has kinds").drain(10).await.expect("the store is there").len()
    }

    async fn maintain(&self) {
        let (node, term) = (WorkerId::from_u128(9), Duration::from_secs(60));
        self.engine.maintain(node, term).await.expect("the store is there");
    }

    /// A publisher that another may follow soon.
    fn publisher(&self, sink: &str) -> OutboxPublisher {
        self.engine.sinks().publisher(sink).lease(Duration::from_millis(300))
    }

    /// Reads all that waits, and removes it.
    async fn drained(&self, sink: &str) -> Vec<OutboxMessage> {
        let mut publisher = self.publisher(sink);
        until_held(&mut publisher).await;
        let mut all = Vec::new();
        loop {
            let page = publisher.next(2).await.expect("read");
            if page.is_empty() {
                publisher.release().await.expect("released");
                return all;
            }
            all.extend(page.messages.clone());
            assert!(publisher.published(page).await.expect("removed"));
        }
    }

    async fn documents(&self, drawer: Drawer) -> usize {
        let range = DocumentRange::first(drawer, 1_000);
        self.engine.store().documents(range).await.expect("read").items.len()
    }

    /// Leaves the store as it was.
    async fn end(self) {
        for view in self.engine.sinks().list().await.expect("read") {
            self.engine.sinks().remove(&view.sink.name).await.expect("removed");
        }
        assert_eq!((self.documents(Drawer::Outbox).await, self.documents(Drawer::Sinks).await), (0, 0));
    }
}

/// Waits for the lease of whoever had it before.
async fn until_held(publisher: &mut OutboxPublisher) {
    while !publisher.hold().await.expect("the store is there") {
        tokio::task::yield_now().await;
    }
}

fn ids(messages: &[OutboxMessage]) -> Vec<&str> {
    messages.iter().map(|message| message.id.as_str()).collect()
}

/// B2, D1, D6, W9: results, dead letters and rejects of jobs that a worker runs reach whoever publishes, in order, and
/// are removed once they are published.
async fn what_jobs_say_reaches_the_publisher(store: &Arc<dyn Store>) {
    let topics = [SinkTopic::Results, SinkTopic::DeadLetters, SinkTopic::Rejects];
    let stage = Stage::with(store, Sink::new("out", topics)).await;
    let (paid, failed) = (stage.pay(7).await, stage.pay(0).await);
    let view = stage.engine.sinks().show("out").await.expect("read").expect("it is there");
    assert_eq!((view.backlog.messages, view.published, view.refused), (4, 0, 0));
    let sent = stage.drained("out").await;
    let types: Vec<_> = sent
        .iter()
        .map(|message| {
            let body = serde_json::to_value(message).expect("JSON");
            (message.job, body["type"].as_str().expect("a type").to_owned())
        })
        .collect();
    let expected = [(paid, "result"), (failed, "reject"), (failed, "result"), (failed, "dead_letter")];
    assert_eq!(types, expected.map(|(job, name)| (job, name.to_owned())));
    let MessageBody::Result { status, result, .. } = &sent[0].body else { panic!("{sent:?}") };
    assert_eq!((status, result), (&ResultStatus::ResultSuccess, &Some(json!(7))));
    let MessageBody::DeadLetter { envelope } = &sent[3].body else { panic!("{sent:?}") };
    let detail = stage.engine.job(failed).await.expect("read").expect("stored");
    let view = detail.view;
    let version = envelope["codeVersion"].as_str();
    let shown =
        backstop_core::envelope::envelope(&view.job, &view.record, view.last_failure.as_ref(), version);
    assert_eq!(Some(envelope), shown.as_ref(), "the dead letter as everybody else reads it");
    let view = stage.engine.sinks().show("out").await.expect("read").expect("it is there");
    assert_eq!((view.backlog.documents, view.published, view.publisher), (0, 4, None));
    stage.end().await;
}

/// B2: whoever dies between the commit and the publication, or between that and the removal, leaves the messages where
/// they are: the next one publishes the same again, under the same ids.
async fn a_publisher_may_die_anywhere(store: &Arc<dyn Store>) {
    let stage = Stage::with(store, Sink::new("out", [SinkTopic::Results])).await;
    stage.pay(1).await;
    stage.pay(2).await;
    let mut first = stage.publisher("out");
    until_held(&mut first).await;
    let published = first.next(100).await.expect("read");
    assert_eq!(published.messages.len(), 2);
    // It dies here, with the lease, after it has published and before it has removed.
    let mut second = stage.publisher("out");
    assert!(!second.hold().await.expect("read"), "the lease of the dead one runs");
    until_held(&mut second).await;
    let again = second.next(100).await.expect("read");
    assert_eq!(ids(&again.messages), ids(&published.messages));
    assert!(!first.published(published.clone()).await.expect("answered"), "another one publishes by now");
    assert_eq!(second.next(100).await.expect("read").messages, published.messages, "nothing is removed");
    assert!(second.published(again).await.expect("removed"));
    assert!(second.next(100).await.expect("read").is_empty());
    second.release().await.expect("released");
    stage.end().await;
}

/// B2: what comes while too much waits is refused and counted, what waits is kept, and it is visible.
async fn an_outbox_is_bounded(store: &Arc<dyn Store>) {
    let stage = Stage::new(store, Config::default());
    let limits = SinkLimits { documents: 2, bytes: 1 << 20 };
    stage.set(Sink::new("out", [SinkTopic::Results]), limits).await;
    let kept = [stage.pay(1).await, stage.pay(2).await];
    stage.maintain().await;
    let view = stage.engine.sinks().show("out").await.expect("read").expect("it is there");
    assert_eq!((view.full_since.is_some(), view.sink.full, view.refused), (true, true, 0));
    for amount in 3..=5 {
        stage.pay(amount).await;
    }
    stage.maintain().await;
    stage.maintain().await;
    let view = stage.engine.sinks().show("out").await.expect("read").expect("it is there");
    assert_eq!((view.backlog.messages, view.refused, view.refused_at.is_some()), (2, 3, true));
    assert_eq!(stage.documents(Drawer::OutboxRefused).await, 0, "they are counted once");
    let sent: Vec<JobId> = stage.drained("out").await.iter().map(|message| message.job).collect();
    assert_eq!(sent, kept);
    stage.maintain().await;
    let next = stage.pay(6).await;
    let sent: Vec<JobId> = stage.drained("out").await.iter().map(|message| message.job).collect();
    assert_eq!(sent, [next], "it takes messages again");
    stage.end().await;
}

/// B2: a paused sink is left messages, and nobody publishes them; one that is gone is left none.
async fn a_paused_sink_keeps_its_messages(store: &Arc<dyn Store>) {
    let stage = Stage::with(store, Sink::new("out", [SinkTopic::Results]).kind("pay")).await;
    stage.engine.sinks().pause("out", true).await.expect("paused");
    stage.pay(1).await;
    let mut publisher = stage.publisher("out");
    assert!(!publisher.hold().await.expect("read"));
    assert!(stage.engine.sinks().show("out").await.expect("read").expect("it is there").paused);
    stage.engine.sinks().pause("out", false).await.expect("resumed");
    assert_eq!(stage.drained("out").await.len(), 1);
    stage.pay(2).await;
    assert_eq!(stage.engine.sinks().remove("out").await.expect("removed"), Some(1), "one waited");
    assert_eq!(stage.engine.sinks().remove("out").await.expect("answered"), None);
    assert!(!publisher.hold().await.expect("read"), "there is no such sink");
    stage.pay(3).await;
    assert_eq!(stage.documents(Drawer::Outbox).await, 0);
    stage.end().await;
}

/// E12: a sealed result is sealed in the outbox, and opened for the sink by a process that has the keys. Another one
/// says that it cannot read it, and removes nothing.
async fn a_sealed_result_is_opened_for_its_sink(store: &Arc<dyn Store>) {
    let key = SecretKey::new("k", vec![7; 32]).expect("a key");
    let keys = SealingKeys::new(vec![key]).expect("keys");
    let stage = Stage::new(store, Config::default().encryption(Encryption::new(keys).kind("pay")));
    stage.set(Sink::new("out", [SinkTopic::Results]), SinkLimits::default()).await;
    stage.pay(123_456).await;
    let range = DocumentRange::first(Drawer::Outbox, 10);
    let kept = stage.engine.store().documents(range).await.expect("read").items;
    assert!(!kept[0].body.contains("123456"), "{}", kept[0].body);
    let mut keyless = Stage::new(store, Config::default()).publisher("out");
    until_held(&mut keyless).await;
    let page = keyless.next(10).await.expect("read");
    assert!(page.is_sealed(), "nobody takes it for a result: {page:?}");
    keyless.release().await.expect("released");
    let sent = stage.drained("out").await;
    let MessageBody::Result { result, .. } = &sent[0].body else { panic!("{sent:?}") };
    assert_eq!(result, &Some(json!(123_456)));
    stage.end().await;
}

/// B2: a sink that cannot be meant is refused.
async fn bad_sinks_are_refused(store: &Arc<dyn Store>) {
    let stage = Stage::new(store, Config::default());
    for sink in [Sink::new("a/b", [SinkTopic::Results]), Sink::new("out", [])] {
        let problem = stage.engine.sinks().set(&sink, SinkLimits::default()).await.expect_err("refused");
        assert!(problem.to_string().contains("sink"), "{problem}");
    }
    stage.end().await;
}

/// C7: documents that no program can read hold up none of those behind them, however many they are.
async fn what_cannot_be_read_holds_up_nothing(store: &Arc<dyn Store>) {
    let stage = Stage::with(store, Sink::new("out", [SinkTopic::Results])).await;
    for stamp in 0..3 {
        // Older than all others.
        let key = OutboxKey { sink: "out".into(), stamp, messages: 1, bytes: 1 }.text("planted");
        let edit = Edit { drawer: Drawer::Outbox, key, expect: Expect::Absent, body: Some("{".into()) };
        store.amend(Amend { edits: vec![edit], ..Amend::default() }).await.expect("planted");
    }
    let paid = stage.pay(7).await;
    let sent = stage.drained("out").await;
    assert_eq!(sent.iter().map(|message| message.job).collect::<Vec<_>>(), [paid]);
    assert_eq!(stage.documents(Drawer::Outbox).await, 3, "they are for a person to look at");
    stage.end().await;
}

async fn everything(store: Arc<dyn Store>) {
    what_jobs_say_reaches_the_publisher(&store).await;
    a_publisher_may_die_anywhere(&store).await;
    an_outbox_is_bounded(&store).await;
    a_paused_sink_keeps_its_messages(&store).await;
    a_sealed_result_is_opened_for_its_sink(&store).await;
    what_cannot_be_read_holds_up_nothing(&store).await;
    bad_sinks_are_refused(&store).await;
}

#[tokio::test]
async fn in_memory() {
    // B2, D6
    stores::in_memory(everything).await;
}

#[tokio::test]
async fn on_sqlite() {
    // B2, D6
    stores::on_sqlite("outbox", everything).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn on_postgres() {
    // B2, D6
    stores::on_postgres("outbox", everything).await;
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn on_mysql() {
    // B2, D6
    stores::on_mysql("outbox", everything).await;
}

/// B2, V2: every process leaves messages for a sink that another one has set, within the time that it says.
#[tokio::test]
async fn every_process_knows_a_sink() {
    let folder = backstop_testbed::Folder::new("outbox-two").expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let (one, other) = (Backstop::open(&url).await.expect("open"), Backstop::open(&url).await.expect("open"));
    let (one, other) = (Stage { engine: one }, Stage { engine: other });
    one.set(Sink::new("told", [SinkTopic::Events]), SinkLimits::default()).await;
    one.engine.enqueue(Pay { amount: 1 }).submit().await.expect("stored");
    other.maintain().await;
    other.engine.enqueue(Pay { amount: 2 }).submit().await.expect("stored");
    assert_eq!(other.run().await, 2);
    let late = Stage { engine: Backstop::open(&url).await.expect("open") };
    late.engine.enqueue(Pay { amount: 3 }).submit().await.expect("stored");
    let names: Vec<String> = one
        .drained("told")
        .await
        .iter()
        .map(|message| match &message.body {
            MessageBody::Event { data } => data["event"].as_str().expect("a name").to_owned(),
            other => panic!("{other:?}"),
        })
        .collect();
    let both = ["enqueued", "enqueued", "started", "succeeded", "started", "succeeded"];
    assert_eq!(names, [&both[..], &["enqueued"]].concat());
}

/// B2, L14: a message stands or falls with the caller's transaction.
#[tokio::test]
async fn a_caller_s_transaction_carries_messages() {
    let folder = backstop_testbed::Folder::new("outbox-tx").expect("a folder");
    let path = folder.path().join("jobs.db");
    let engine = Backstop::open(&format!("sqlite:{}", path.display())).await.expect("open");
    let stage = Stage { engine };
    stage.set(Sink::new("told", [SinkTopic::Events]), SinkLimits::default()).await;
    for commit in [false, true] {
        let mut conn = backstop::sqlite::rusqlite::Connection::open(&path).expect("opened");
        let tx = conn.transaction().expect("begun");
        stage.engine.enqueue(Pay { amount: 1 }).submit_in_blocking(&tx).expect("stored");
        if commit {
            tx.commit().expect("committed");
        } else {
            tx.rollback().expect("rolled back");
        }
        assert_eq!(stage.drained("told").await.len(), usize::from(commit));
    }
}
