//! Messages become jobs, once each, when and only when they can (B1).

use std::sync::atomic::Ordering;
use std::time::Duration;

use backstop::prelude::*;
use backstop::{Config, QueueConfig};
use backstop_bridges::{InvalidMessages, SourceSettings, SourceState};
use backstop_store::{JobFilter, PageRequest};

use crate::stage::{Stage, TestEngine, soon, until};

fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{{\"n\":{number}}}")).collect()
}

fn source(queue: &str) -> SourceSettings {
    SourceSettings::new(queue, "charge").to_queue("payments")
}

/// B1: every message becomes one job of the kind and queue of the settings, in order where the broker has one.
pub(crate) async fn every_message_is_one_job_in_order(stage: &mut Stage) {
    let (queue, engine) = (stage.queue(), TestEngine::new(Config::default()).await);
    stage.publish(&queue, numbered(150)).await;
    let handle = stage.start(&engine, source(&queue).prefetch(20));
    let status = until(&handle, |status| status.acked == 150).await;
    assert_eq!((status.admitted, status.duplicates, status.invalid), (150, 0, 0));
    let mut payloads = engine.payloads().await;
    let mut expected = numbered(150);
    if !stage.server.is_ordered() {
        payloads.sort();
        expected.sort();
    }
    assert_eq!(payloads, expected);
    let page = PageRequest { limit: 1, after: None };
    let job = engine.engine.jobs(JobFilter::default(), page).await.expect("there").items.remove(0).job;
    assert_eq!((&*job.spec.kind, &*job.spec.queue), ("charge", "payments"));
    assert!(job.spec.idempotency_key.as_deref().is_some_and(|key| key.starts_with("orders/")));
    handle.stop().await;
    assert_eq!(stage.depth(&queue).await, 0);
}

/// B1: two messages of one id are one job, the second is counted and acknowledged; a bridge of another name is apart.
pub(crate) async fn the_same_id_is_one_job(stage: &mut Stage) {
    let (queue, engine) = (stage.queue(), TestEngine::new(Config::default()).await);
    stage
        .publish(&queue, ["{\"id\":\"a\",\"n\":1}", "{\"id\":\"a\",\"n\":2}", "{\"id\":\"b\",\"n\":3}"])
        .await;
    let handle = stage.start(&engine, source(&queue).id("/id").prefetch(2));
    let status = until(&handle, |status| status.acked == 3).await;
    assert_eq!((status.admitted, status.duplicates), (2, 1));
    assert_eq!(engine.payloads().await.len(), 2);
}

/// B1: messages that no producer gave an id have that of their broker. Where the broker gives none, the id is a digest
/// of the body, and equal bodies are one message.
pub(crate) async fn messages_without_an_id_of_their_own(stage: &mut Stage) {
    let (queue, engine) = (stage.queue(), TestEngine::new(Config::default()).await);
    stage.publish(&queue, ["{\"same\":1}", "{\"same\":1}"]).await;
    let handle = stage.start(&engine, source(&queue));
    let status = until(&handle, |status| status.acked == 2).await;
    let expected = if stage.server.gives_ids() { (2, 0) } else { (1, 1) };
    assert_eq!((status.admitted, status.duplicates), expected);
}

/// B1, B5: while the store is away nothing is acknowledged and nothing is lost; the source goes on by itself.
pub(crate) async fn a_store_that_is_away_leaves_messages_with_the_broker(stage: &mut Stage) {
    let (queue, engine) = (stage.queue(), TestEngine::new(Config::default()).await);
    engine.faults.away.store(3, Ordering::SeqCst);
    stage.publish(&queue, numbered(10)).await;
    let handle = stage.start(&engine, source(&queue));
    let held = until(&handle, |status| status.state == SourceState::Held).await;
    assert!(held.last_error.as_deref().is_some_and(|why| why.contains("unavailable")), "{held:?}");
    assert_eq!((held.acked, held.admitted), (0, 0));
    let status = until(&handle, |status| status.acked == 10).await;
    assert_eq!((status.admitted, status.duplicates), (10, 0));
    assert!(status.given_back > 0, "{status:?}");
}

/// B1, H12: a full queue leaves the rest with the broker, and the source goes on when there is room.
pub(crate) async fn a_full_queue_stops_the_source_until_there_is_room(stage: &mut Stage) {
    let config = Config::default().queue("payments", QueueConfig::default().max_depth(4));
    let (queue, engine) = (stage.queue(), TestEngine::new(config).await);
    stage.publish(&queue, numbered(10)).await;
    let handle = stage.start(&engine, source(&queue).prefetch(3));
    let full = |status: &backstop_bridges::SourceStatus| {
        status.state == SourceState::Held
            && status.last_error.as_deref().is_some_and(|why| why.contains("queue `payments` is full"))
    };
    for round in 1..=3 {
        let most = (round * 4).min(10);
        until(&handle, |status| status.admitted == most && (most == 10 || full(status))).await;
        let page = PageRequest { limit: 100, after: None };
        for view in engine.engine.jobs(JobFilter::default(), page).await.expect("there").items {
            engine.engine.cancel(view.job.spec.id, "done").await.expect("there");
        }
    }
    let status = until(&handle, |status| status.acked == 10).await;
    assert_eq!((status.admitted, status.duplicates, status.invalid), (10, 0, 0));
}

/// B1: a paused queue, and a paused source, leave everything with the broker.
pub(crate) async fn a_paused_queue_and_a_paused_source_take_nothing(stage: &mut Stage) {
    let (queue, engine) = (stage.queue(), TestEngine::new(Config::default()).await);
    engine.engine.queues().pause("payments").await.expect("there");
    stage.publish(&queue, numbered(5)).await;
    let handle = stage.start(&engine, source(&queue));
    let held = until(&handle, |status| status.state == SourceState::Held).await;
    assert_eq!((held.received, held.last_error.as_deref()), (0, Some("queue `payments` is paused")));
    handle.pause();
    engine.engine.queues().resume("payments").await.expect("there");
    until(&handle, |status| status.state == SourceState::Paused).await;
    assert_eq!(stage.depth(&queue).await, 5);
    handle.resume();
    let status = until(&handle, |status| status.acked == 5).await;
    assert_eq!(status.last_error, None);
}

/// B1, H3: an open circuit of the kind's dependency leaves everything with the broker.
pub(crate) async fn an_open_circuit_stops_the_source(stage: &mut Stage) {
    let config = Config::default().kind_dependency("charge", "bank");
    let (queue, engine) = (stage.queue(), TestEngine::new(config).await);
    engine.engine.circuits().open("bank", "ann", Some(Duration::from_secs(600))).await.expect("there");
    stage.publish(&queue, numbered(5)).await;
    let handle = stage.start(&engine, source(&queue));
    let held = until(&handle, |status| status.state == SourceState::Held).await;
    assert_eq!(held.last_error.as_deref(), Some("the circuit of dependency `bank` is open"));
    engine.engine.circuits().close("bank", "ann").await.expect("there");
    assert_eq!(until(&handle, |status| status.acked == 5).await.admitted, 5);
}

/// Needs the bank: only its code says so.
#[job(dependency = "bank")]
async fn charge(amount: u32) -> JobResult<u32> {
    Ok(amount)
}

/// B1, H1: the same for a dependency that is named in the code of a worker alone.
pub(crate) async fn a_circuit_of_a_dependency_in_code_stops_the_source(stage: &mut Stage) {
    let (queue, engine) = (stage.queue(), TestEngine::new(Config::default()).await);
    let worker = engine.engine.worker(()).register::<Charge>().queue("elsewhere", 1);
    let worker = worker.start().await.expect("started");
    let told = async {
        loop {
            let workers = engine.engine.workers().await.expect("there");
            let reports = engine.engine.worker_reports(&workers).await.expect("there");
            if reports.values().any(|report| !report.dependencies.is_empty()) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    soon("what the worker tells of itself", told).await;
    engine.engine.circuits().open("bank", "ann", Some(Duration::from_secs(600))).await.expect("there");
    stage.publish(&queue, numbered(5)).await;
    let handle = stage.start(&engine, source(&queue));
    let held = until(&handle, |status| status.state == SourceState::Held).await;
    assert_eq!(held.last_error.as_deref(), Some("the circuit of dependency `bank` is open"));
    assert_eq!(held.received, 0);
    engine.engine.circuits().close("bank", "ann").await.expect("there");
    assert_eq!(until(&handle, |status| status.acked == 5).await.admitted, 5);
    worker.stop().await;
}

/// B4: a batch that the store refuses because of one message is split; only that one goes to the invalid channel.
pub(crate) async fn the_store_fails_on_one_message_and_takes_the_others(stage: &mut Stage) {
    let (queue, engine) = (stage.queue(), TestEngine::new(Config::default()).await);
    *engine.faults.poison.lock().expect("no panic") = Some("\"n\":7}".to_owned());
    stage.publish(&queue, numbered(20)).await;
    let handle = stage.start(&engine, source(&queue));
    let status = until(&handle, |status| status.acked == 20).await;
    assert_eq!((status.admitted, status.invalid), (19, 1));
    let mut payloads = engine.payloads().await;
    let mut others = numbered(20);
    others.remove(7);
    if !stage.server.is_ordered() {
        payloads.sort();
        others.sort();
    }
    assert_eq!(payloads, others);
    let page = InvalidMessages::of(&engine.engine).page("orders", None, 10).await.expect("there");
    assert_eq!(
        page.items.iter().map(backstop_bridges::InvalidMessage::raw).collect::<Vec<_>>(),
        [b"{\"n\":7}"]
    );
    assert_eq!(page.items[0].reason, "the store does not take it: the store here failed: bad text");
}
