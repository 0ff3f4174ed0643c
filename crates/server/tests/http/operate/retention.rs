//! `/api/v1/retention`.

use std::time::Duration;

use backstop::{Config, Retention, Retirement};
use backstop_server::{Scope, ServerSettings};
use backstop_testing::TestEngine;
use serde_json::{Value, json};

use super::{Play, holder, refused, send_as};
use crate::harness::Harness;

const RETENTION: &str = "/api/v1/retention";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long each sort is kept, and how many of it go next, by name.
async fn told(harness: &Harness, path: &str) -> Vec<(String, Value, Value)> {
    let listed = harness.get(path).await.ok();
    assert_eq!(listed["next_cursor"], Value::Null);
    let rows = listed["items"].as_array().unwrap().iter();
    rows.map(|row| (row["what"].as_str().unwrap().to_owned(), row["keep_ms"].clone(), row["due"].clone()))
        .collect()
}

#[tokio::test]
async fn everything_that_has_an_end_says_how_long_it_is_kept() {
    // L16
    let config = Config::default()
        .retention(Retention::default().archive(None))
        .retirement(Retirement::default().incidents(Some(DAY)));
    let harness = Harness::with(config, ServerSettings::default()).await;
    let days = |count: u64| json!(count * 86_400_000);
    let expected = [
        ("succeeded", days(7)),
        ("canceled", days(7)),
        ("failed", days(90)),
        ("archived", Value::Null),
        ("plans", days(90)),
        ("incidents", days(1)),
        ("queues", days(30)),
        ("workflows", days(90)),
        ("rejects", days(30)),
        ("signals", days(7)),
        ("audit_log", days(400)),
    ];
    let expected = expected.map(|(what, keep)| (what.to_owned(), keep, Value::Null));
    assert_eq!(told(&harness, RETENTION).await, expected, "nothing is counted");
}

#[tokio::test]
async fn what_the_next_round_takes_is_counted_and_stays() {
    // L16, D5
    let at_once = Retention::default().succeeded(Some(Duration::ZERO));
    let test = TestEngine::with_config(Config::default().retention(at_once));
    let harness = Harness::of(test.engine().clone(), ServerSettings::default());
    for ends in ["well", "well", "permanent"] {
        let job = harness.engine().enqueue(Play { ends: ends.to_owned() }).max_retries(0);
        job.submit().await.unwrap();
    }
    let worker = harness.engine().worker(()).register::<Play>().queue("default", 1).name("tester");
    worker.inline().unwrap().drain(3).await.unwrap();
    let count = format!("{RETENTION}?count=true");
    let due = async || -> Vec<Value> {
        told(&harness, &count).await.into_iter().take(5).map(|(_, _, due)| due).collect()
    };
    let expected = |succeeded: u64, failed: u64, archived: u64| {
        vec![json!(succeeded), json!(0), json!(failed), json!(archived), Value::Null]
    };
    for _ in 0..2 {
        assert_eq!(due().await, expected(2, 0, 0), "it is only counted");
    }
    test.maintain().await;
    assert_eq!(due().await, expected(0, 0, 0));
    test.advance(DAY * 90);
    assert_eq!(due().await, expected(0, 1, 2), "to the microsecond");
}

#[tokio::test]
async fn retention_is_about_everybodys_jobs() {
    // E13, L16
    let harness = Harness::new().await;
    let count = format!("{RETENTION}?count=true");
    for caller in [holder(&Scope::ALL, Some("acme"), None), holder(&Scope::ALL, None, Some(&["mail"]))] {
        for path in [RETENTION, &*count] {
            refused(&send_as(&harness, &caller, "GET", path, None).await, 403, "forbidden", None);
        }
    }
    let reader = holder(&[Scope::Read], None, None);
    assert_eq!(send_as(&harness, &reader, "GET", &count, None).await.status.as_u16(), 200);
    for query in ["count=maybe", "counts=true"] {
        assert_eq!(harness.get(&format!("{RETENTION}?{query}")).await.status.as_u16(), 422, "{query}");
    }
}
