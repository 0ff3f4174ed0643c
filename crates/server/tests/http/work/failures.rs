//! Remote workers that fail far more often than others (H8).

use backstop::Config;
use serde_json::{Value, json};

use super::stage::{Stage, store};

const NAMES: [&str; 3] = ["one", "two", "three"];

/// More than a worker is judged by, and more than the others must have had.
const JOBS: usize = 25;

async fn submit(stage: &Stage, name: &str) {
    let job = stage.engine().enqueue_raw("mail", "{}").queue(name).max_retries(0);
    job.submit().await.unwrap();
}

/// What a worker gets of its own queue.
async fn take(stage: &Stage, name: &str) -> Vec<Value> {
    stage.claim(json!({ "worker": name, "queues": [name], "kinds": ["mail"], "limit": 50 })).await
}

/// Lets each worker run so many jobs, of which those of the broken ones fail; then the others are told of that.
async fn run(stage: &Stage, broken: &[&str]) {
    for name in NAMES {
        for _ in 0..JOBS {
            submit(stage, name).await;
        }
        let outcome = if broken.contains(&name) {
            json!({ "type": "failed", "class": "error", "message": "no space left on device" })
        } else {
            json!({ "type": "succeeded" })
        };
        for job in take(stage, name).await {
            stage.finish(&job, outcome.clone()).await;
        }
    }
    stage.pass(10).await;
    for name in NAMES {
        assert_eq!(take(stage, name).await, [] as [Value; 0]);
    }
    stage.pass(10).await;
}

/// Why each worker that is paused claims nothing, as the list of workers has it.
async fn paused(stage: &Stage) -> Vec<(String, String)> {
    let list = stage.harness.get("/api/v1/workers").await.ok();
    let items = list["items"].as_array().unwrap().clone();
    let of = |one: &Value| Some((one["name"].as_str()?.to_owned(), one["paused"]["why"].to_string()));
    items.iter().filter(|one| !one["paused"].is_null()).filter_map(of).collect()
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_fails_far_more_often_than_others_is_handed_nothing_for_a_while() {
    // H8, E7
    let store = store();
    let (stage, other) = (Stage::on(store.clone(), Config::default()), Stage::on(store, Config::default()));
    run(&stage, &["two"]).await;
    for name in NAMES {
        submit(&stage, name).await;
        submit(&stage, name).await;
    }
    assert_eq!(take(&stage, "two").await.len(), 0, "it is judged when it asks");
    assert_eq!(take(&other, "two").await.len(), 0, "by whichever node");
    for name in ["one", "three"] {
        assert_eq!(take(&stage, name).await.len(), 2, "{name} goes on");
    }
    let paused_now = paused(&stage).await;
    assert_eq!(paused_now.len(), 1, "{paused_now:?}");
    assert_eq!(paused_now[0].0, "two");
    assert!(paused_now[0].1.contains("25"), "{paused_now:?}");
    for _ in 0..10 {
        submit(&stage, "two").await;
    }
    stage.pass(60).await;
    assert_eq!(take(&stage, "two").await.len(), 5, "then it tries a few, to be judged by them");
    assert_eq!(take(&stage, "two").await.len(), 0, "and no more until they have ended");
    assert_eq!(paused(&stage).await, []);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_paused_where_all_fail_alike() {
    // H8, E7
    let stage = Stage::new();
    for broken in [&NAMES[..], &NAMES[..2]] {
        run(&stage, broken).await;
        for name in NAMES {
            submit(&stage, name).await;
            let taken = take(&stage, name).await;
            assert_eq!(taken.len(), 1, "{name} goes on");
            stage.finish(&taken[0], json!({ "type": "succeeded" })).await;
        }
        assert_eq!(paused(&stage).await, []);
        stage.pass(600).await;
    }
}
