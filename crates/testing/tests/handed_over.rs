//! A process that dies at every call to its store while messages become jobs: each becomes one job.

use std::collections::BTreeSet;

use backstop::prelude::*;
use backstop::sinks::{EventScope, JobsMade, Sink, SinkLimits};
use backstop_store::{DocumentRange, Drawer};
use backstop_testing::crash_everywhere;

/// The queue of what is told, and of the jobs that tell it.
const TOLD: &str = "orders";
const TELLING: &str = "deliveries";

fn sink() -> Sink {
    let scope = EventScope {
        names: BTreeSet::from(["enqueued".into()]),
        except: BTreeSet::from([TELLING.into()]),
        ..EventScope::default()
    };
    Sink::of_webhook("one", scope)
}

/// Makes a job of each message that waits, two documents at a time, as a server does for a webhook.
async fn hand_over(engine: &Backstop) -> JobResult {
    let mut publisher = engine.sinks().publisher(&sink().name);
    if !publisher.hold().await? {
        return Ok(());
    }
    loop {
        let page = publisher.next(2).await?;
        if page.is_empty() {
            return Ok(());
        }
        let mut jobs = Vec::new();
        for message in &page.messages {
            let job = engine.enqueue_raw("tell", format!("\"{}\"", message.id)).queue(TELLING);
            jobs.push(job.into_new_job()?);
        }
        assert_eq!(publisher.became(&page, page.messages.len(), jobs).await?, JobsMade::Stored);
    }
}

async fn scenario(engine: &Backstop) -> JobResult {
    engine.sinks().set(&sink(), SinkLimits::default()).await?;
    for _ in 0..3 {
        engine.enqueue_raw("order", "{}").queue(TOLD).submit().await?;
    }
    hand_over(engine).await
}

async fn pending(engine: &Backstop, queue: &str) -> u64 {
    let queues = engine.queues().list().await.expect("the model is there");
    queues.iter().find(|view| view.name == queue).map_or(0, |view| view.pending)
}

/// A sink that somebody publishes for, and that is removed.
async fn removed(engine: &Backstop) -> JobResult {
    engine.sinks().set(&sink(), SinkLimits::default()).await?;
    engine.enqueue_raw("order", "{}").queue(TOLD).submit().await?;
    engine.sinks().publisher(&sink().name).hold().await?;
    engine.sinks().remove(&sink().name).await?;
    Ok(())
}

#[tokio::test]
async fn nothing_is_kept_of_a_sink_that_is_gone_wherever_the_process_dies() {
    // B2
    let crashes = crash_everywhere(
        async |engine: Backstop| removed(&engine).await,
        async |test, point| {
            let range = DocumentRange::first(Drawer::Sinks, 10);
            let found = test.engine().store().documents(range).await.expect("the model is there").items;
            let is_there = found.iter().any(|document| document.key.starts_with("sink/"));
            assert!(is_there || found.is_empty(), "{point}: {found:?}");
        },
    )
    .await;
    assert!(crashes >= 5, "{crashes}");
}

#[tokio::test]
async fn each_message_becomes_one_job_wherever_the_process_dies() {
    // V2
    let crashes = crash_everywhere(
        async |engine: Backstop| scenario(&engine).await,
        async |test, point| {
            hand_over(test.engine()).await.expect("the model is there");
            let counts = (pending(test.engine(), TOLD).await, pending(test.engine(), TELLING).await);
            assert_eq!(counts.0, counts.1, "{point}");
        },
    )
    .await;
    assert!(crashes >= 20, "{crashes}");
}
