//! What sinks are sent, from the transition to whoever publishes it, on every store (B2, D6).
#![allow(missing_docs, reason = "a test")]

mod stores;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use backstop::prelude::*;
use backstop::sinks::{
    EventScope, JobsMade, MessageBody, OutboxMessage, OutboxPublisher, ResultStatus, Sink, SinkLimits,
    SinkTopic,
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

/// Publishes something of its own, and fails like nothing else.
#[job(max_retries = 0)]
async fn shout(cx: JobContext<()>) -> JobResult {
    cx.publish("shouted", json!({ "loud": true })).await?;
    Err("it has shouted itself hoarse".into())
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
        let worker = self.engine.worker(()).register::<Pay>().register::<Shout>().queue("default", 1);
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
            (message.job.expect("a job"), body["type"].as_str().expect("a type").to_owned())
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
    let sent: Vec<JobId> = stage.drained("out").await.iter().filter_map(|message| message.job).collect();
    assert_eq!(sent, kept);
    stage.maintain().await;
    let next = stage.pay(6).await;
    let sent: Vec<JobId> = stage.drained("out").await.iter().filter_map(|message| message.job).collect();
    assert_eq!(sent, [next], "it takes messages again");
    stage.end().await;
}

/// B2, C7: a document in which there is nothing goes when a page becomes jobs, and does not come again and again.
async fn a_document_without_messages_is_removed(store: &Arc<dyn Store>) {
    let stage = Stage::with(store, Sink::new("out", [SinkTopic::Results])).await;
    let key = OutboxKey { sink: "out".into(), stamp: 1, messages: 1, bytes: 15 }.text("planted");
    let (drawer, expect) = (Drawer::Outbox, Expect::Any);
    let edits = vec![Edit { drawer, key, expect, body: Some("{\"messages\":[]}".into()) }];
    store.amend(Amend { edits, ..Amend::default() }).await.expect("planted");
    let mut publisher = stage.publisher("out");
    until_held(&mut publisher).await;
    let page = publisher.next(10).await.expect("read");
    assert!(!page.is_empty() && page.messages.is_empty(), "{page:?}");
    assert_eq!(publisher.became(&page, 0, Vec::new()).await.expect("stored"), JobsMade::Stored);
    assert_eq!(stage.documents(Drawer::Outbox).await, 0);
    publisher.release().await.expect("released");
    stage.end().await;
}

/// B2: while a sink is full every commit may leave a note; they are counted as fast as they come, also those of which
/// nobody can tell how many messages they are.
async fn however_much_is_refused_is_counted(store: &Arc<dyn Store>) {
    let stage = Stage::with(store, Sink::new("out", [SinkTopic::Results])).await;
    let note = |stamp: i64| OutboxKey { sink: "out".into(), stamp, messages: 2, bytes: 0 }.text("planted");
    let damaged = (0..3).map(|number| format!("out/damaged-{number}"));
    let keys: Vec<String> = (0..2_500).map(note).chain(damaged).collect();
    for part in keys.chunks(500) {
        let (drawer, expect, body) = (Drawer::OutboxRefused, Expect::Any, Some(Arc::<str>::from("1")));
        let edit = |key: &String| Edit { drawer, key: key.clone(), expect, body: body.clone() };
        let edits = part.iter().map(edit).collect();
        store.amend(Amend { edits, ..Amend::default() }).await.expect("planted");
    }
    stage.maintain().await;
    let view = stage.engine.sinks().show("out").await.expect("read").expect("it is there");
    assert_eq!((view.refused, view.refused_at.is_some()), (5_000, true));
    assert_eq!(stage.documents(Drawer::OutboxRefused).await, 0);
    stage.end().await;
}

/// B2: a backlog of very many documents is counted by whoever leads the counts, and not by everybody who looks; whether
/// anything waits, and since when, is known at once.
async fn a_large_backlog_is_not_counted_by_everybody(store: &Arc<dyn Store>) {
    const MANY: usize = 10_001;
    let stage = Stage::with(store, Sink::new("out", [SinkTopic::Results])).await;
    let key = |stamp: i64| OutboxKey { sink: "out".into(), stamp, messages: 2, bytes: 1 }.text("planted");
    let edit = |stamp: i64, body: Option<&'static str>| Edit {
        drawer: Drawer::Outbox,
        key: key(stamp),
        expect: Expect::Any,
        body: body.map(Into::into),
    };
    let change = async |stamps: std::ops::Range<i64>, body: Option<&'static str>| {
        let all: Vec<Edit> = stamps.map(|stamp| edit(stamp, body)).collect();
        for edits in all.chunks(500) {
            let edits = edits.to_vec();
            store.amend(Amend { edits, ..Amend::default() }).await.expect("amended");
        }
    };
    let seen = async || {
        let view = stage.engine.sinks().show("out").await.expect("read").expect("it is there");
        (view.backlog.messages, view.backlog.oldest)
    };
    let at = |stamp: i64| OutboxKey::read(&key(stamp)).map(|key| key.at());
    let last = i64::try_from(MANY).expect("a few");
    change(0..last, Some("{")).await;
    stage.maintain().await;
    let many = 2 * MANY as u64;
    assert_eq!(seen().await, (many, at(0)));
    change(last..last + 5, Some("{")).await;
    change(0..1, None).await;
    assert_eq!(seen().await, (many, at(1)), "nobody but who leads counts so much");
    stage.maintain().await;
    assert_eq!(seen().await, (many + 8, at(1)), "who leads has counted again");
    change(1..last + 5, None).await;
    assert_eq!(seen().await, (0, None), "that nothing waits is seen at once");
    stage.maintain().await;
    change(0..1, Some("{")).await;
    assert_eq!(seen().await, (2, at(0)), "a small backlog is counted on each read");
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
    assert_eq!(sent.iter().map(|message| message.job).collect::<Vec<_>>(), [Some(paid)]);
    assert_eq!(stage.documents(Drawer::Outbox).await, 3, "they are for a person to look at");
    stage.end().await;
}

/// The names of events.
fn names(messages: &[OutboxMessage]) -> Vec<&str> {
    let told = messages.iter().map(|message| match &message.body {
        MessageBody::Event { data } => data["event"].as_str().expect("a name"),
        other => panic!("{other:?}"),
    });
    told.collect()
}

/// V2: a subscription resumes where it stopped, whoever goes on with it; nothing waits for one that has ended.
async fn a_subscription_resumes_where_it_stopped(store: &Arc<dyn Store>) {
    let stage = Stage::new(store, Config::default());
    let subscribe = || async {
        let events = stage.engine.sinks().subscribe("audit", &["pay"]).await.expect("kept");
        events.lease(Duration::from_millis(300))
    };
    let mut first = subscribe().await;
    let paid = stage.pay(1).await;
    let page = first.next().await.expect("read");
    assert_eq!(names(&page.messages), ["enqueued", "started", "succeeded"]);
    assert!(page.messages.iter().all(|message| message.job == Some(paid)));
    // It dies here: it has not said that it is done with them.
    let mut second = subscribe().await;
    let again = second.next().await.expect("read");
    assert_eq!(ids(&again.messages), ids(&page.messages));
    assert!(!first.done(page).await.expect("answered"), "another one reads by now");
    assert!(second.done(again).await.expect("removed"));
    let other = stage.pay(2).await;
    let rest = second.next().await.expect("read");
    assert_eq!(names(&rest.messages), ["enqueued", "started", "succeeded"]);
    assert!(rest.messages.iter().all(|message| message.job == Some(other)));
    second.release().await.expect("released");
    assert!(first.renew().await.expect("read"), "it goes on at once");
    assert_eq!(stage.engine.sinks().unsubscribe("audit").await.expect("removed"), Some(3));
    assert_eq!(stage.engine.sinks().unsubscribe("audit").await.expect("answered"), None);
    stage.pay(3).await;
    assert_eq!(stage.documents(Drawer::Outbox).await, 0);
    for name in ["", "a/b"] {
        let problem = stage.engine.sinks().subscribe(name, &[]).await.expect_err("refused");
        assert!(problem.to_string().contains("cannot be the name of a sink"), "{problem}");
    }
    stage.end().await;
}

/// V1, V2: what no commit makes and what is about no job reaches sinks too, from a process in which nobody listens.
async fn events_of_no_commit_reach_sinks(store: &Arc<dyn Store>) {
    let names = ["published", "incident_opened"];
    let scope = EventScope { names: BTreeSet::from(names.map(Into::into)), ..EventScope::default() };
    let stage = Stage::with(store, Sink::of_webhook("one", scope)).await;
    let id = stage.engine.enqueue(Shout {}).submit().await.expect("stored").id;
    assert_eq!(stage.run().await, 1);
    let mut sent = Vec::new();
    while sent.len() < 2 {
        sent.extend(stage.drained("webhook:one").await);
        tokio::task::yield_now().await;
    }
    let told =
        |name: &str| sent.iter().position(|message| self::names(std::slice::from_ref(message)) == [name]);
    let [published, incident] = names.map(|name| &sent[told(name).expect("it is told")]);
    assert_eq!((published.job, incident.job), (Some(id), None));
    let MessageBody::Event { data } = &published.body else { panic!("{published:?}") };
    assert_eq!((&data["name"], &data["data"]["loud"]), (&json!("shouted"), &json!(true)));
    assert_eq!(data["node"], json!(&*stage.engine.config().node), "as every event");
    assert_eq!(stage.engine.sinks().lost(), 0);
    stage.engine.sinks().remove("webhook:one").await.expect("removed");
    stage.end().await;
}

/// V2: a page becomes jobs once, whoever else has read it, and a part of it when a queue has room for a part.
async fn a_page_becomes_jobs_once(store: &Arc<dyn Store>) {
    let stage = Stage::with(store, Sink::new("out", [SinkTopic::Results])).await;
    stage.pay(1).await;
    stage.pay(2).await;
    let job =
        |engine: &Backstop| engine.enqueue_raw("tell", "{}").queue("telling").into_new_job().expect("good");
    let jobs = |count: usize| (0..count).map(|_| job(&stage.engine)).collect::<Vec<_>>();
    let waiting = async || stage.engine.sinks().waiting("o").await.expect("read");
    let made = async || {
        let queues = stage.engine.queues().list().await.expect("read");
        queues.iter().find(|queue| queue.name == "telling").map_or(0, |queue| queue.pending + queue.canceled)
    };
    let mut first = stage.publisher("out");
    until_held(&mut first).await;
    let page = first.next(10).await.expect("read");
    assert_eq!((page.messages.len(), waiting().await), (2, vec!["out".to_owned()]));
    // It was silent for too long, and another process goes on.
    let mut second = stage.publisher("out");
    until_held(&mut second).await;
    assert_eq!(second.became(&page, 1, jobs(1)).await.expect("answered"), JobsMade::Stored);
    assert_eq!(first.became(&page, 2, jobs(2)).await.expect("answered"), JobsMade::Lost);
    assert_eq!(made().await, 1, "nothing of the late one");
    let rest = second.next(10).await.expect("read");
    assert_eq!(ids(&rest.messages), ids(&page.messages[1..]), "the rest is as it was");
    let mut bad = jobs(1);
    bad[0].spec.business_key = Some("taken".to_owned());
    assert_eq!(second.became(&rest, 0, bad.clone()).await.expect("answered"), JobsMade::Stored);
    bad[0].spec.id = job(&stage.engine).spec.id;
    let refused = second.became(&rest, 1, bad).await.expect("answered");
    assert!(matches!(refused, JobsMade::Refused { index: 0, .. }), "{refused:?}");
    assert_eq!(waiting().await, ["out"], "it is still there, and the lease too");
    assert_eq!(second.became(&rest, 1, jobs(1)).await.expect("answered"), JobsMade::Stored);
    assert_eq!((made().await, waiting().await), (3, Vec::<String>::new()));
    stage.end().await;
}

async fn everything(store: Arc<dyn Store>) {
    events_of_no_commit_reach_sinks(&store).await;
    a_page_becomes_jobs_once(&store).await;
    a_subscription_resumes_where_it_stopped(&store).await;
    what_jobs_say_reaches_the_publisher(&store).await;
    a_publisher_may_die_anywhere(&store).await;
    an_outbox_is_bounded(&store).await;
    however_much_is_refused_is_counted(&store).await;
    a_document_without_messages_is_removed(&store).await;
    a_large_backlog_is_not_counted_by_everybody(&store).await;
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
