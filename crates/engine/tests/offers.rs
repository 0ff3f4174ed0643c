//! Jobs that are handed to an idle worker in the transaction that stores them (L13), on PostgreSQL.

#![cfg(feature = "postgres")]

use std::sync::Arc;
use std::time::Duration;

use backstop::Config;
use backstop::figures::FigureValue;
use backstop::postgres::{Options, PostgresStore};
use backstop::prelude::*;
use backstop_testbed::shared;
use tokio::sync::mpsc::UnboundedSender;

#[job]
async fn shout(cx: JobContext<UnboundedSender<u32>>, number: u32) -> JobResult {
    Ok(cx.app().send(number)?)
}

/// How often a verb of the store was called.
fn calls(engine: &Backstop, verb: &str) -> u64 {
    let families = engine.figures().families();
    let times = families.iter().find(|family| family.name == "backstop_store_seconds").expect("it is kept");
    let of_verb = times.samples.iter().find(|sample| sample.labels.iter().any(|(_, value)| **value == *verb));
    of_verb.map_or(0, |sample| match sample.value {
        FigureValue::Times { count, .. } => count,
        FigureValue::Number(_) => 0,
    })
}

async fn until(what: impl Fn() -> bool) {
    while !what() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_idle_worker_is_handed_what_is_stored() {
    const JOBS: u32 = 30;
    let schema = format!("offers_{}", std::process::id());
    let url = format!("{}?schema={schema}&listen=off", shared::postgres());
    let store = Arc::new(PostgresStore::open(&url, Options::default()).await.expect("a server"));
    let engine = Backstop::on(store.clone(), Config::default());
    let (sender, mut shouts) = tokio::sync::mpsc::unbounded_channel();
    let worker = engine.worker(sender).register::<Shout>().queue("default", 2).without_maintenance();
    // It looks by itself ever more seldom, and a lease is renewed once in a long while.
    let (long, longer) = (Duration::from_secs(600), Duration::from_secs(3_600));
    let worker = worker.poll(long).lease(longer).start().await.expect("started");
    until(|| store.standing_offers() == 1).await;
    let (claims, peeks, commits) = (calls(&engine, "claim"), calls(&engine, "peek"), store.commits());
    for number in 0..JOBS {
        engine.enqueue(Shout { number }).submit().await.expect("stored");
        assert_eq!(shouts.recv().await, Some(number));
        until(|| store.standing_offers() == 1).await;
    }
    assert_eq!(calls(&engine, "claim"), claims, "each came without a claim of its own");
    let peeks = calls(&engine, "peek") - peeks;
    assert!(peeks < 20, "{peeks} looks for {JOBS} jobs");
    let commits = store.commits() - commits - peeks;
    // And one in which the worker tells of itself.
    assert!(
        commits <= u64::from(2 * JOBS) + 1,
        "{commits} commits: one for storing and taking, one for the end"
    );
    // What comes while both slots are taken waits for its turn, and none is lost on the way.
    let submits: Vec<_> = (0..JOBS)
        .map(|number| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.enqueue(Shout { number }).submit().await })
        })
        .collect();
    for stored in submits {
        stored.await.expect("no panic").expect("stored");
    }
    let mut heard: Vec<u32> = Vec::new();
    while heard.len() < JOBS as usize {
        heard.push(shouts.recv().await.expect("the worker runs"));
    }
    heard.sort_unstable();
    assert_eq!(heard, (0..JOBS).collect::<Vec<_>>());
    worker.stop().await;
    assert_eq!(store.standing_offers(), 0);
}
