//! What subscribers hear: after the commit, in order per job, and never at the cost of a job.

use backstop::Config;
use backstop::prelude::*;
use backstop_core::job::State;

use crate::fixture::*;

async fn names_of(script: &[&str], policy: Policy, wanted: State) -> Vec<&'static str> {
    let engine = engine();
    let mut events = engine.events();
    let id = play(&engine, script, policy, wanted).await;
    std::iter::from_fn(|| events.try_next())
        .filter(|event| event.job.as_ref().is_some_and(|job| job.id == id))
        .map(|event| event.what.name())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn each_story_is_told_in_order() {
    // V1
    let story = names_of(&["ok"], quick(), State::Succeeded).await;
    assert_eq!(story, ["enqueued", "started", "succeeded"]);
    let story = names_of(&["error", "ok"], quick(), State::Succeeded).await;
    assert_eq!(story, ["enqueued", "started", "failed", "retrying", "started", "succeeded"]);
    let story = names_of(&["error"], quick().retries(0), State::Failed).await;
    assert_eq!(story, ["enqueued", "started", "failed", "dead", "alert"]);
    let story = names_of(&["snooze", "ok"], quick(), State::Succeeded).await;
    assert_eq!(story, ["enqueued", "started", "deferred", "started", "succeeded"]);
    let story = names_of(&["cancel"], quick(), State::Canceled).await;
    assert_eq!(story, ["enqueued", "started", "canceled"]);
}

#[tokio::test(start_paused = true)]
async fn every_event_names_its_node() {
    // V1
    let engine = engine_with(Config::default().node("web-3"));
    let mut events = engine.events();
    let policy = quick().timeout(std::time::Duration::from_secs(5)).retries(0);
    play(&engine, &["hang"], policy, State::Failed).await;
    let told: Vec<_> = std::iter::from_fn(|| events.try_next()).collect();
    assert!(told.iter().any(|event| event.what.name() == "timeout_near"), "one that no commit carries");
    assert!(told.iter().all(|event| event.node.as_deref() == Some("web-3")), "{told:?}");
    assert_eq!(serde_json::to_value(&*told[0]).expect("plain")["node"], "web-3");
    assert!(Config::default().node.contains(':'), "machine and process, unless it is named");
}

#[tokio::test(start_paused = true)]
async fn what_was_refused_is_told_to_nobody() {
    // V1
    let engine = engine();
    let mut events = engine.events();
    engine.enqueue(act(&["ok"])).business_key("k").submit().await.expect("admitted");
    engine.enqueue(act(&["ok"])).business_key("k").submit().await.expect_err("the key is held");
    let told: Vec<_> = std::iter::from_fn(|| events.try_next()).map(|event| event.what.name()).collect();
    assert_eq!(told, ["enqueued"]);
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_never_reads_delays_nothing_and_sees_what_it_missed() {
    // V2
    let engine = engine();
    let mut lazy = engine.events();
    for _ in 0..10 {
        let batch = (0..2_000).map(|_| engine.enqueue(act(&["ok"]))).collect();
        engine.submit_all(batch, true).await.expect("not held up");
    }
    let heard = std::iter::from_fn(|| lazy.try_next()).count() as u64;
    assert_eq!(heard + lazy.missed(), 20_000);
    assert!(lazy.missed() > 0);
}
