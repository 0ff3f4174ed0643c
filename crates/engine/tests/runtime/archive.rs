//! Archival: the maintenance loop moves what ended long ago, and leaves what has not ended alone.

use std::time::Duration;

use backstop::{Config, Retention, worker_id};
use backstop_core::job::State;

use crate::fixture::*;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const TERM: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn a_worker_archives_what_ended_and_keeps_what_did_not() {
    // L16
    let brief = Some(Duration::from_secs(60));
    let engine = engine_with(Config::default().retention(Retention::default().succeeded(brief)));
    let pending = engine.enqueue(act(&["ok"])).queue("unserved").submit().await.expect("admitted").id;
    let id = engine.enqueue(act(&["ok"])).idempotency_key("once").submit().await.expect("admitted").id;
    let running = worker(&engine).start().await.expect("started");
    reach(&engine, id, State::Succeeded).await;
    pass(58).await;
    assert_eq!(state(&engine, id).await, State::Succeeded, "its retention is not over");
    assert!(engine.archive().get(id).await.expect("the model is there").is_none());
    // A round is a third of a lease of 30 seconds, and one of thirty looks for what is to be archived.
    pass(2 + 300 + 1).await;
    assert!(engine.job(id).await.expect("the model is there").is_none());
    let archived = engine.archive().get(id).await.expect("the model is there").expect("it was archived");
    assert_eq!(archived.state, State::Succeeded);
    let document: serde_json::Value = serde_json::from_str(&archived.document).expect("JSON");
    assert_eq!(document["job"]["id"], id.to_string());
    assert_eq!(document["attempts"][0]["result"]["done"], true);
    let again = engine.enqueue(act(&["ok"])).idempotency_key("once").submit().await.expect("known");
    assert_eq!((again.id, again.state, again.deduplicated), (id, State::Succeeded, true));
    assert_eq!(state(&engine, pending).await, State::Pending);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn by_default_successes_stay_a_week_and_dead_letters_a_quarter() {
    // L16
    let engine = engine();
    let succeeded = play(&engine, &["ok"], quick(), State::Succeeded).await;
    let dead = play(&engine, &["permanent"], quick(), State::Failed).await;
    let pending = engine.enqueue(act(&["ok"])).submit().await.expect("admitted").id;
    let hot = async |id| engine.job(id).await.expect("the model is there").is_some();
    for (days, expected) in [(6, [true, true, true]), (2, [false, true, true]), (83, [false, false, true])] {
        tokio::time::advance(DAY * days).await;
        engine.maintain(worker_id(), TERM).await.expect("the model is there");
        assert_eq!([hot(succeeded).await, hot(dead).await, hot(pending).await], expected);
    }
    tokio::time::advance(DAY * 36_500).await;
    engine.maintain(worker_id(), TERM).await.expect("the model is there");
    assert_eq!(state(&engine, pending).await, State::Pending, "a job that never ran is never lost by age");
}

#[tokio::test(start_paused = true)]
async fn a_backlog_is_archived_in_bounded_rounds() {
    // L16
    let engine =
        engine_with(Config::default().retention(Retention::default().canceled(Some(Duration::ZERO))));
    let mut left = 10_100;
    for number in 0..left {
        let id = engine.enqueue_raw("act", number.to_string()).submit().await.expect("admitted").id;
        engine.cancel(id, "not needed").await.expect("it is there");
    }
    let node = worker_id();
    for round in [10_000, 100, 0] {
        left -= round;
        engine.maintain(node, TERM).await.expect("the model is there");
        let queue = engine.queues().list().await.expect("the model is there").remove(0);
        assert_eq!(queue.canceled, left);
    }
}
