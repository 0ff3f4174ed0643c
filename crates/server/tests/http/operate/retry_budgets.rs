//! `/api/v1/retry-budgets`.

use std::time::Duration;

use backstop::{Backoff, BudgetSettings, Config, Policy};
use backstop_server::{Scope, ServerSettings};
use backstop_testing::TestEngine;
use serde_json::{Value, json};

use super::{OfAcme, Play, holder, refused, send_as};
use crate::harness::Harness;

const BUDGETS: &str = "/api/v1/retry-budgets";

/// An API on a store where ten jobs of one kind and one of another have failed and are tried again in a minute.
async fn retried(config: Config) -> Harness {
    let test = TestEngine::with_config(config);
    let harness = Harness::of(test.engine().clone(), ServerSettings::default());
    let engine = harness.engine();
    let policy = Policy::default().retries(5).backoff(Backoff::fixed(Duration::from_secs(60)));
    for _ in 0..10 {
        let job = engine.enqueue(Play { ends: "badly".to_owned() }).policy(policy.clone());
        job.submit().await.unwrap();
    }
    let job = engine.enqueue(OfAcme { ends: "badly".to_owned() }).policy(policy);
    job.submit().await.unwrap();
    let worker = engine.worker(()).register::<Play>().register::<OfAcme>().queue("default", 1).name("tester");
    worker.inline().unwrap().drain(11).await.unwrap();
    harness
}

#[tokio::test]
async fn each_kind_is_listed_with_what_it_may_and_what_is_planned() {
    // F19
    let config = Config::default()
        .retry_budget(Some(BudgetSettings { share: 0.0, floor: 2 }))
        .retry_budget_of("acme/play", None);
    let harness = retried(config).await;
    let listed = harness.get(BUDGETS).await.ok();
    // What nothing bounds is booked nowhere.
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
    let play = &listed["items"][0];
    assert_eq!((&play["kind"], &play["planned"], &play["moved_ms"]), (&json!("play"), &json!(10), &json!(0)));
    assert_eq!((&play["share"], &play["floor"], &play["cap"]), (&json!(0.0), &json!(2), &json!(2)));
    assert!(play["first_runs"].as_u64().is_some_and(|runs| (1..=10).contains(&runs)), "{play}");
    assert!(play["planned_until"].is_string(), "{play}");
}

#[tokio::test]
async fn kinds_are_listed_by_name_and_page_by_page() {
    // F19
    let harness = retried(Config::default()).await;
    let first = harness.get(&format!("{BUDGETS}?limit=1")).await.ok();
    assert_eq!(
        (&first["items"][0]["kind"], &first["next_cursor"]),
        (&json!("acme/play"), &json!("acme/play"))
    );
    let rest = harness.get(&format!("{BUDGETS}?limit=1&cursor=acme%2Fplay")).await.ok();
    assert_eq!((&rest["items"][0]["kind"], &rest["next_cursor"]), (&json!("play"), &Value::Null));
    assert_eq!((&rest["items"][0]["share"], &rest["items"][0]["floor"]), (&json!(0.2), &json!(100)));
    for cursor in ["%00", "%20", &*"k".repeat(129)] {
        let answer = harness.get(&format!("{BUDGETS}?cursor={cursor}")).await;
        assert_eq!(answer.status.as_u16(), 422, "{cursor}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_budget_is_about_everybodys_jobs() {
    // E13, F19
    let harness = retried(Config::default()).await;
    for caller in [holder(&Scope::ALL, Some("acme"), None), holder(&Scope::ALL, None, Some(&["mail"]))] {
        refused(&send_as(&harness, &caller, "GET", BUDGETS, None).await, 403, "forbidden", None);
    }
    let reader = holder(&[Scope::Read], None, None);
    assert_eq!(send_as(&harness, &reader, "GET", BUDGETS, None).await.status.as_u16(), 200);
}
