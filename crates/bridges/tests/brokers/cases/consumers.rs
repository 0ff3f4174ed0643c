//! Several consumers of one source: together they take more, and none takes what another holds (B1, B5).

use std::sync::atomic::Ordering;

use backstop::Config;
use backstop_bridges::{SourceSettings, SourceState, SourceStatus};

use crate::stage::{Stage, TestEngine, eventually, soon, until};

fn numbered(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| format!("{{\"n\":{number}}}")).collect()
}

/// The payloads of all jobs, and those that there should be, in the same order.
async fn compared(engine: &TestEngine, count: usize) -> (Vec<String>, Vec<String>) {
    let (mut payloads, mut expected) = (engine.payloads().await, numbered(0..count));
    payloads.sort();
    expected.sort();
    (payloads, expected)
}

/// B1: as many batches are admitted at a time as `concurrency` says, each of no more messages than `prefetch` says; with
/// one consumer, one.
pub(crate) async fn several_consumers_take_messages_at_the_same_time(stage: &mut Stage) {
    for consumers in [4, 1] {
        let (queue, engine) = (stage.queue(), TestEngine::new(Config::default()).await);
        stage.publish(&queue, numbered(0..40)).await;
        let stalled = engine.faults.stalled.write().await;
        let source = SourceSettings::new(&queue, "charge").prefetch(3).concurrency(consumers);
        let handle = stage.start(&engine, source);
        eventually(&handle, || engine.faults.waiting.load(Ordering::SeqCst) == consumers).await;
        let status = handle.status();
        assert!(status.acked == 0 && status.connections >= consumers as u64, "{status:?}");
        assert_eq!(status.consuming as usize, consumers, "{status:?}");
        assert!(status.received <= 3 * consumers as u64, "{status:?}");
        drop(stalled);
        // Where messages come again after a while, some may be duplicates by now.
        until(&handle, |status| status.admitted == 40).await;
        let (payloads, expected) = compared(&engine, 40).await;
        assert_eq!(payloads, expected);
        handle.stop().await;
    }
}

/// B1: what one consumer holds is not taken by another: every message is one job, and none comes twice.
pub(crate) async fn several_consumers_make_one_job_of_each_message(stage: &mut Stage) {
    let (queue, engine) = (stage.queue(), TestEngine::new(Config::default()).await);
    stage.publish(&queue, numbered(0..200)).await;
    let handle = stage.start(&engine, SourceSettings::new(&queue, "charge").prefetch(10).concurrency(3));
    let status = until(&handle, |status| status.admitted == 200 && status.acked >= 200).await;
    assert_eq!(status.invalid, 0, "{status:?}");
    // A slow machine may be slower than the time after which a message comes again.
    assert!(status.duplicates == 0 || !stage.server.redelivers_at_once(), "{status:?}");
    let (payloads, expected) = compared(&engine, 200).await;
    assert_eq!(payloads, expected);
    handle.stop().await;
    assert_eq!(stage.depth(&queue).await, 0);
}

/// B1, B5: a pause stops all of them before the source is called paused, and all of them go on after it and after a cut.
pub(crate) async fn a_pause_and_a_cut_reach_every_consumer(stage: &mut Stage) {
    let (queue, engine) = (stage.queue(), TestEngine::new(Config::default()).await);
    let handle = stage.start(&engine, SourceSettings::new(&queue, "charge").prefetch(2).concurrency(3));
    let all_consume = |status: &SourceStatus, connections: u64| {
        status.state == SourceState::Consuming && status.connections >= connections
    };
    until(&handle, |status| all_consume(status, 3)).await;
    handle.pause();
    until(&handle, |status| status.state == SourceState::Paused).await;
    stage.publish(&queue, numbered(0..20)).await;
    // A connection that is about to close may have some for a moment, and gives them back.
    soon("all messages at the broker", async {
        while stage.depth(&queue).await != 20 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(handle.status().received, 0);
    handle.resume();
    until(&handle, |status| status.admitted == 20 && all_consume(status, 6)).await;
    stage.proxy.cut();
    if stage.server.holds_by_connection() {
        until(&handle, |status| all_consume(status, 9)).await;
    }
    stage.publish(&queue, numbered(20..40)).await;
    until(&handle, |status| status.admitted == 40).await;
    let (payloads, expected) = compared(&engine, 40).await;
    assert_eq!(payloads, expected);
    handle.stop().await;
}
