//! Sinks: what became of jobs, at the broker (B2, B5, D6).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use backstop::prelude::*;
use backstop::sinks::{Sink, SinkLimits, SinkTopic};
use backstop::{Config, Encryption, JobId};
use backstop_bridges::{
    BridgeSettings, BridgeSink, IdOrigin, SinkHandle, SinkRunState, SinkSettings, SinkStatus, SinkTimes,
};
use backstop_core::sealing::SealingKeys;
use backstop_core::signing::SecretKey;
use serde_json::Value;

use crate::stage::{Stage, TestEngine, soon};

/// Charges, or cannot.
#[job(max_retries = 0)]
async fn charge(amount: u32) -> JobResult<u32> {
    if amount == 0 { Err("there is nothing to charge".into()) } else { Ok(amount) }
}

fn start(stage: &Stage, engine: &TestEngine, queue: &str, of: &[SinkTopic]) -> SinkHandle {
    start_on(stage, &engine.engine, queue, of)
}

fn start_on(stage: &Stage, engine: &Backstop, queue: &str, of: &[SinkTopic]) -> SinkHandle {
    let sink = SinkSettings::new(queue, of.iter().copied());
    let settings = BridgeSettings::of_sink(stage.proxy.url(&stage.server.url()), sink);
    let mut times = SinkTimes::default();
    times.look = Duration::from_millis(10);
    times.lease = Duration::from_millis(500);
    times.backoff = Backoff::exponential(Duration::from_millis(5), Duration::from_millis(100));
    let settings = stage.server.settings(settings);
    BridgeSink::new(engine, "billing", &settings).expect("good settings").times(times).start()
}

async fn until(sink: &SinkHandle, wanted: impl Fn(&SinkStatus) -> bool + Send) -> SinkStatus {
    match tokio::time::timeout(Duration::from_secs(60), sink.until(wanted)).await {
        Ok(status) => status,
        Err(_) => panic!("the status does not come; it is {:?}", sink.status()),
    }
}

/// Submits a job for each amount, and runs them.
async fn run(engine: &TestEngine, amounts: impl IntoIterator<Item = u32>) -> Vec<JobId> {
    let mut jobs = Vec::new();
    for amount in amounts {
        jobs.push(engine.engine.enqueue(Charge { amount }).submit().await.expect("stored").id);
    }
    let worker = engine.engine.worker(()).register::<Charge>().queue("default", 1);
    let ran = worker.inline().expect("it has kinds").drain(1_000).await.expect("the store is there");
    assert_eq!(ran.len(), jobs.len());
    jobs
}

/// The messages that wait for the sink.
async fn waiting(engine: &TestEngine) -> u64 {
    let view = engine.engine.sinks().show("billing").await.expect("read").expect("it is known");
    view.backlog.messages
}

/// What a queue has got, in the order in which it comes: messages until there are `ids` different ones, and none waits.
async fn received(stage: &Stage, queue: &str, ids: usize) -> Vec<Value> {
    let mut session = stage.session(queue).await;
    let read = async {
        let (mut all, mut known) = (Vec::new(), BTreeSet::new());
        loop {
            let found = session.receive(10, Duration::from_millis(300)).await.expect("the broker is there");
            if found.is_empty() && known.len() >= ids {
                return all;
            }
            let tags: Vec<_> = found.iter().map(|one| one.tag.clone()).collect();
            for one in found {
                let body: Value = serde_json::from_slice(&one.body).expect("JSON");
                let id = body["message_id"].as_str().expect("an id").to_owned();
                if one.id.origin == IdOrigin::Producer {
                    assert_eq!(one.id.text, id, "the dedupe id is the id of the message");
                }
                known.insert(id);
                all.push(body);
            }
            session.ack(&tags).await.expect("the broker is there");
        }
    };
    soon("what a sink has sent", read).await
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// B2, D1, D6: results and dead letters reach the broker as the profile `plain` has them, and leave the outbox.
pub(crate) async fn results_and_dead_letters_reach_the_broker(stage: &mut Stage) {
    let (queue, engine) = (stage.queue(), TestEngine::new(Config::default()).await);
    let sink = start(stage, &engine, &queue, &[SinkTopic::Results, SinkTopic::DeadLetters]);
    until(&sink, |status| status.state == SinkRunState::Publishing).await;
    let jobs = run(&engine, [1, 2, 3, 0]).await;
    let status = until(&sink, |status| status.published == 5).await;
    assert_eq!((status.repeated, status.last_error), (0, None));
    assert_eq!(waiting(&engine).await, 0);
    let messages = received(stage, &queue, 5).await;
    assert_eq!(messages.len(), 5);
    let result = |job: &JobId| {
        let is_it = |one: &&Value| one["type"] == "result" && text(&one["id"]) == job.to_string();
        messages.iter().find(is_it).expect("a result")
    };
    for (job, amount) in jobs.iter().zip([1, 2, 3]) {
        let one = result(job);
        assert_eq!((text(&one["status"]), &one["result"]), ("RESULT_SUCCESS", &Value::from(amount)));
        assert_eq!((text(&one["kind"]), text(&one["queue"])), ("charge", "default"));
    }
    assert_eq!(result(&jobs[3])["status"], "RESULT_EXCEPTION");
    let letter = messages.iter().find(|one| one["type"] == "dead_letter").expect("a dead letter");
    let envelope = &letter["envelope"];
    assert_eq!(
        (text(&envelope["executionId"]), text(&envelope["resourceName"])),
        (text(&letter["id"]), "charge")
    );
    sink.stop().await;
}

/// B2, B5: connections that break send messages again, under the same ids and in the order of each job.
pub(crate) async fn events_of_a_job_stay_in_order_through_cuts(stage: &mut Stage) {
    let (queue, engine) = (stage.queue(), TestEngine::new(Config::default()).await);
    let sink = start(stage, &engine, &queue, &[SinkTopic::Events]);
    until(&sink, |status| status.state == SinkRunState::Publishing).await;
    for _ in 0..5 {
        run(&engine, 1..=10).await;
        stage.proxy.cut();
    }
    soon("an empty outbox", async {
        while waiting(&engine).await > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    sink.stop().await;
    let messages = received(stage, &queue, 150).await;
    let (mut seen, mut jobs) = (BTreeSet::new(), BTreeMap::<&str, Vec<&str>>::new());
    for one in &messages {
        if seen.insert(text(&one["message_id"])) {
            jobs.entry(text(&one["id"])).or_default().push(text(&one["data"]["event"]));
        }
    }
    assert_eq!((seen.len(), jobs.len()), (150, 50), "every one is there");
    for (job, mut events) in jobs {
        let mut expected = vec!["enqueued", "started", "succeeded"];
        if !stage.server.is_ordered() {
            events.sort_unstable();
            expected.sort_unstable();
        }
        assert_eq!(events, expected, "{job}");
    }
}

/// B2, B5: a broker that is away delays no job; what waits is told, and is sent when it is back.
pub(crate) async fn a_sink_that_is_away_delays_no_job(stage: &mut Stage) {
    let (queue, engine) = (stage.queue(), TestEngine::new(Config::default()).await);
    let sink = start(stage, &engine, &queue, &[SinkTopic::Results]);
    until(&sink, |status| status.state == SinkRunState::Publishing).await;
    stage.server.kill(&stage.proxy);
    let jobs = run(&engine, 1..=10).await;
    assert_eq!(waiting(&engine).await, 10);
    until(&sink, |status| status.state == SinkRunState::Disconnected).await;
    stage.server.start_again(&stage.proxy);
    until(&sink, |status| status.published >= 10).await;
    let messages = received(stage, &queue, 10).await;
    let sent: BTreeSet<String> = messages.iter().map(|one| text(&one["id"]).to_owned()).collect();
    assert_eq!(sent, jobs.iter().map(ToString::to_string).collect());
    sink.stop().await;
}

/// B2: of several processes with one bridge one publishes, and another goes on when it stops.
pub(crate) async fn one_process_publishes_at_a_time(stage: &mut Stage) {
    let (queue, engine) = (stage.queue(), TestEngine::new(Config::default()).await);
    let first = start(stage, &engine, &queue, &[SinkTopic::Results]);
    until(&first, |status| status.state == SinkRunState::Publishing).await;
    let second = start(stage, &engine, &queue, &[SinkTopic::Results]);
    until(&second, |status| status.state == SinkRunState::Standby).await;
    run(&engine, 1..=10).await;
    until(&first, |status| status.published == 10).await;
    assert_eq!(second.status().published, 0);
    first.stop().await;
    run(&engine, 11..=20).await;
    until(&second, |status| status.published == 10).await;
    assert_eq!(received(stage, &queue, 20).await.len(), 20, "none came twice");
    second.stop().await;
}

/// B2, E12: a process without the keys publishes nothing that is sealed and lets go of the sink; one that has them
/// publishes it in the clear.
pub(crate) async fn what_is_sealed_is_published_by_who_has_the_keys(stage: &mut Stage) {
    let queue = stage.queue();
    let key = SecretKey::new("k", vec![7; 32]).expect("a key");
    let keys = SealingKeys::new(vec![key]).expect("keys");
    let sealing = Config::default().encryption(Encryption::new(keys).kind("charge"));
    let keyless = TestEngine::new(Config::default()).await;
    let store = keyless.engine.store().clone();
    let owner = Backstop::on(store, sealing);
    let waiting = start(stage, &keyless, &queue, &[SinkTopic::Results]);
    until(&waiting, |status| status.state == SinkRunState::Publishing).await;
    // It knows the sink at once, and not in five seconds.
    let sink = Sink::new("billing", [SinkTopic::Results]);
    owner.sinks().set(&sink, SinkLimits::default()).await.expect("kept");
    owner.enqueue(Charge { amount: 4_711 }).submit().await.expect("stored");
    let worker = owner.worker(()).register::<Charge>().queue("default", 1);
    worker.inline().expect("it has kinds").drain(10).await.expect("the store is there");
    let refused = until(&waiting, |status| status.failures > 1).await;
    assert_eq!((refused.published, refused.error_code), (0, Some("sealed")));
    assert!(refused.last_error.is_some_and(|why| why.contains("[encryption]")));
    let publishing = start_on(stage, &owner, &queue, &[SinkTopic::Results]);
    until(&publishing, |status| status.published == 1).await;
    let mut session = stage.session(&queue).await;
    let heard = soon("a result", session.receive(10, Duration::from_secs(10))).await.expect("there");
    let body: Value = serde_json::from_slice(&heard[0].body).expect("JSON");
    assert_eq!((heard.len(), &body["result"]), (1, &Value::from(4_711)));
    waiting.stop().await;
    publishing.stop().await;
}

/// B2: a broker that takes longer for a page than a lease lasts keeps its publisher: the lease is renewed meanwhile, and
/// another process does not begin with the same.
pub(crate) async fn a_slow_broker_keeps_its_publisher(stage: &mut Stage) {
    let (queue, engine) = (stage.queue(), TestEngine::new(Config::default()).await);
    let first = start(stage, &engine, &queue, &[SinkTopic::Results]);
    until(&first, |status| status.state == SinkRunState::Publishing).await;
    let second = start(stage, &engine, &queue, &[SinkTopic::Results]);
    until(&second, |status| status.state == SinkRunState::Standby).await;
    stage.proxy.stall(true);
    run(&engine, 1..=20).await;
    let publisher = engine.engine.sinks();
    let three_leases = async {
        let holder = || async { publisher.show("billing").await.expect("read").expect("known") };
        let begin = holder().await.backlog.now;
        while holder().await.backlog.now.since(begin) < Duration::from_millis(1_500) {
            tokio::task::yield_now().await;
        }
    };
    soon("three leases", three_leases).await;
    stage.proxy.stall(false);
    until(&first, |status| status.published == 20).await;
    assert_eq!((first.status().repeated, second.status().published), (0, 0));
    first.stop().await;
    second.stop().await;
}
