//! Connections that break, brokers that go away, and how much is held meanwhile (B1, B5).

use std::time::Duration;

use backstop::Config;
use backstop_bridges::{
    BridgeSettings, BrokerError, Source, SourceSettings, SourceState, SourceStatus, SourceTimes,
};

use crate::stage::{Stage, TestEngine, broker, eventually, soon, times, until};

fn numbered(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| format!("{{\"n\":{number}}}")).collect()
}

/// B1: a source holds no more than it prefetches while its jobs are not durable.
pub(crate) async fn no_more_is_held_than_prefetched(stage: &mut Stage) {
    let (queue, engine) = (stage.queue(), TestEngine::new(Config::default()).await);
    stage.publish(&queue, numbered(0..30)).await;
    let stalled = engine.faults.stalled.write().await;
    let handle = stage.start(&engine, SourceSettings::new(&queue, "charge").prefetch(5));
    let status = until(&handle, |status| status.received > 0).await;
    assert!(status.received <= 5 && status.acked == 0, "{status:?}");
    let waiting = stage.depth(&queue).await;
    assert!((25..=29).contains(&waiting), "{waiting} wait");
    drop(stalled);
    assert_eq!(until(&handle, |status| status.acked == 30).await.admitted, 30);
}

/// B1, B5: a connection that breaks while messages are held, or at any other moment, loses none and doubles none.
pub(crate) async fn a_connection_that_breaks_loses_nothing(stage: &mut Stage) {
    let (queue, engine) = (stage.queue(), TestEngine::new(Config::default()).await);
    let handle = stage.start(&engine, SourceSettings::new(&queue, "charge").prefetch(7));
    until(&handle, |status| status.state == SourceState::Consuming).await;
    for round in 0..5 {
        let stalled = engine.faults.stalled.write().await;
        let received = handle.status().received;
        stage.publish(&queue, numbered(round * 20..round * 20 + 20)).await;
        // In later rounds it may wait for the store already, with messages that came before.
        let more = handle.until(|status| status.received > received);
        let _ = tokio::time::timeout(Duration::from_millis(300), more).await;
        stage.proxy.cut();
        drop(stalled);
        stage.proxy.cut();
    }
    // What a connection held that broke comes a second time.
    let twice = if stage.server.holds_by_connection() { 101 } else { 100 };
    soon("all jobs", async {
        loop {
            let SourceStatus { received, acked, .. } = handle.status();
            if received >= twice && engine.payloads().await.len() == 100 && stage.depth(&queue).await == 0 {
                break;
            }
            let more = handle.until(|status| status.acked > acked);
            let _ = tokio::time::timeout(Duration::from_millis(200), more).await;
        }
    })
    .await;
    let status = handle.status();
    assert!(status.connections > 1 || !stage.server.holds_by_connection(), "{status:?}");
    let mut payloads = engine.payloads().await;
    payloads.sort();
    let mut expected = numbered(0..100);
    expected.sort();
    assert_eq!(payloads, expected);
}

/// B1: one named error for a queue that is not there; when it is made, the source goes on.
pub(crate) async fn a_missing_queue_is_named_and_found_later(stage: &mut Stage) {
    if !stage.server.needs_queue() {
        return;
    }
    let (queue, engine) = (Stage::new_name(), TestEngine::new(Config::default()).await);
    let settings = stage.settings(SourceSettings::new(&queue, "charge"));
    let missing = soon("an answer", broker(&settings).connect()).await.err().expect("there is no such queue");
    assert!(
        matches!(&missing, BrokerError::NoSuchQueue { queue: named, .. } if *named == queue),
        "{missing}"
    );
    let handle = stage.start(&engine, SourceSettings::new(&queue, "charge"));
    let status = until(&handle, |status| status.state == SourceState::Disconnected).await;
    let told = status.last_error.unwrap_or_default();
    assert!(told.contains(&format!("queue `{queue}` does not exist")) && !told.contains("guest"), "{told}");
    stage.server.make_queue(&queue);
    stage.publish(&queue, ["{}"]).await;
    assert_eq!(until(&handle, |status| status.acked == 1).await.admitted, 1);
}

/// B5: a broker that is killed is tried again, and what it had confirmed becomes jobs, once each.
pub(crate) async fn a_broker_that_is_killed_comes_back_and_nothing_is_lost(stage: &mut Stage) {
    let (queue, engine) = (stage.queue(), TestEngine::new(Config::default()).await);
    stage.publish(&queue, numbered(0..60)).await;
    let handle = stage.start(&engine, SourceSettings::new(&queue, "charge").prefetch(5));
    until(&handle, |status| status.acked > 0).await;
    stage.server.kill(&stage.proxy);
    stage.proxy.cut();
    until(&handle, |status| status.state == SourceState::Disconnected).await;
    // The engine's own work goes on meanwhile.
    engine.engine.enqueue_raw("other", "{}").queue("other").submit().await.expect("the store is there");
    stage.server.start_again(&stage.proxy);
    stage.until_up(&queue).await;
    stage.publish(&queue, numbered(60..80)).await;
    soon("all jobs", async {
        while engine.payloads().await.len() < 81 {
            let admitted = handle.status().admitted;
            let more = handle.until(|status| status.admitted > admitted);
            let _ = tokio::time::timeout(Duration::from_millis(200), more).await;
        }
    })
    .await;
    let mut payloads = engine.payloads().await;
    payloads.sort();
    let mut expected = numbered(0..80);
    expected.push("{}".to_owned());
    expected.sort();
    assert_eq!(payloads, expected);
}

/// B1, C6: the connection is cut after a job is durable and before its message is acknowledged, a hundred times.
pub(crate) async fn a_hundred_cuts_before_the_ack(stage: &Stage, engine: &TestEngine) {
    const TIMES: usize = 100;
    let queue = stage.queue();
    let cut = || stage.proxy.cut_before(stage.server.ack_bytes());
    let handle = if stage.server.redelivers_at_once() {
        let handle = stage.start(engine, SourceSettings::new(&queue, "charge").prefetch(1));
        for number in 0..TIMES {
            cut();
            stage.publish(&queue, numbered(number..number + 1)).await;
            eventually(&handle, || stage.proxy.cuts() > number).await;
            let number = number as u64;
            until(&handle, |status| status.admitted > number && status.duplicates > number).await;
        }
        handle
    } else {
        // Each message waits for a while before it comes again: meanwhile the acknowledgements of others are cut.
        (0..TIMES).for_each(|_| cut());
        stage.publish(&queue, numbered(0..TIMES)).await;
        let handle = stage.start(engine, SourceSettings::new(&queue, "charge").prefetch(1));
        until(&handle, |status| status.duplicates >= TIMES as u64).await;
        handle
    };
    let status = until(&handle, |status| status.acked >= TIMES as u64).await;
    eventually(&handle, || stage.proxy.cuts() == TIMES).await;
    assert_eq!(status.admitted, TIMES as u64);
    assert!(status.connections > TIMES as u64, "{status:?}");
    let mut payloads = engine.payloads().await;
    payloads.sort();
    let mut expected = numbered(0..TIMES);
    expected.sort();
    assert_eq!(payloads, expected);
    handle.stop().await;
    assert_eq!(stage.depth(&queue).await, 0);
}

/// B5: ten minutes without a broker, by a manual clock: the attempts are spread, and none is more than half a minute
/// after the one before.
pub(crate) async fn ten_minutes_without_a_broker(settings: &BridgeSettings) {
    let engine = backstop::Backstop::open("memory:").await.expect("a store");
    let mut usual = times();
    (usual.backoff, usual.look) = (SourceTimes::default().backoff, SourceTimes::default().look);
    let source = Source::new(&engine, "orders", settings).expect("good settings").times(usual);
    tokio::time::pause();
    let begin = tokio::time::Instant::now();
    let handle = source.start();
    let mut attempts = vec![begin];
    while begin.elapsed() < Duration::from_secs(600) {
        let seen = handle.status().failures;
        handle.until(|status| status.failures > seen).await;
        attempts.push(tokio::time::Instant::now());
    }
    let gaps: Vec<Duration> = attempts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // Half a minute between attempts at most, and the time after which an attempt is given up.
    assert!(gaps.iter().all(|gap| *gap <= Duration::from_secs(41)), "{gaps:?}");
    assert!((15..200).contains(&gaps.len()), "{} attempts", gaps.len());
    let late = &gaps[gaps.len() / 2..];
    assert!(late.iter().any(|gap| *gap != late[0]), "they are spread: {late:?}");
    let status = handle.status();
    assert_eq!((status.state, status.connections), (SourceState::Disconnected, 0));
    let told = status.last_error.unwrap_or_default();
    assert!(told.contains("unavailable"), "{told}");
    tokio::time::resume();
    handle.stop().await;
}
