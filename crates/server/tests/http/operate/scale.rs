//! `/api/v1/scale`, and the same figures on `/metrics`.

use std::time::Duration;

use backstop::Config;
use backstop::limits::{CountBy, RunLimit, RunRate};
use backstop_core::scale::ScaleSettings;
use backstop_server::{Scope, ServerSettings};
use backstop_store::{KnownKind, NewWorker};
use backstop_testing::TestEngine;
use serde_json::{Value, json};

use super::{holder, refused, send_as};
use crate::harness::Harness;

const SCALE: &str = "/api/v1/scale";

/// An API on a manual clock, whose processes have two slots for `mail` and four for the rest.
fn harness(test: &TestEngine) -> Harness {
    let mut settings = ServerSettings::default();
    let mut scale = ScaleSettings::default();
    (scale.slots.otherwise, scale.up_after) = (4, Duration::from_secs(2));
    scale.slots.queues.insert("mail".to_owned(), 2);
    settings.scale = scale;
    Harness::of(test.engine().clone(), settings)
}

async fn submit(test: &TestEngine, queue: &str, jobs: u32, delay: Duration) {
    for _ in 0..jobs {
        test.engine().enqueue_raw("send", "{}").queue(queue).delay(delay).submit().await.unwrap();
    }
}

fn row(queue: &str, depth: u64, oldest_wait_ms: u64, wanted: u64) -> Value {
    json!({ "queue": queue, "depth": depth, "oldest_wait_ms": oldest_wait_ms, "running": 0, "wanted": wanted })
}

#[tokio::test]
async fn queues_are_told_with_how_many_processes_they_want() {
    // H9
    let test = TestEngine::new();
    let harness = harness(&test);
    let empty = harness.get(SCALE).await.ok();
    let nothing = json!({ "depth": 0, "oldest_wait_ms": 0, "running": 0, "wanted": 0 });
    assert_eq!(empty, json!({ "items": [], "next_cursor": null, "total": nothing }));
    submit(&test, "mail", 7, Duration::ZERO).await;
    submit(&test, "reports", 9, Duration::ZERO).await;
    submit(&test, "later", 50, Duration::from_secs(3_600)).await;
    test.advance(Duration::from_secs(1));
    let soon = harness.get(SCALE).await.ok();
    assert_eq!(soon["total"]["wanted"], 0, "nothing has waited long enough: {soon}");
    assert_eq!(soon["items"][0], row("later", 0, 0, 0), "none of them is due");
    test.advance(Duration::from_secs(11));
    let late = harness.get(SCALE).await.ok();
    let items = json!([row("later", 0, 0, 0), row("mail", 7, 12_000, 4), row("reports", 9, 12_000, 3)]);
    assert_eq!(late["items"], items);
    let total = json!({ "depth": 16, "oldest_wait_ms": 12_000, "running": 0, "wanted": 4 });
    assert_eq!(late["total"], total);
    let one = harness.get("/api/v1/scale?queue=reports").await.ok();
    assert_eq!((&one["items"], &one["total"]["wanted"]), (&json!([row("reports", 9, 12_000, 3)]), &json!(3)));
    // A name that only begins a queue's name is no queue.
    assert_eq!(harness.get("/api/v1/scale?queue=rep").await.ok(), empty);
    test.engine().queues().pause("mail").await.unwrap();
    let paused = harness.get("/api/v1/scale?queue=mail").await.ok();
    assert_eq!(paused["items"][0], row("mail", 0, 0, 0), "more processes would not help a paused queue");
}

#[tokio::test]
async fn nobody_is_wanted_for_what_a_circuit_holds_back() {
    // H9, H3
    let config = Config::default().kind_dependency("send", "smtp");
    let test = TestEngine::with_config(config);
    let harness = harness(&test);
    submit(&test, "mail", 7, Duration::ZERO).await;
    submit(&test, "reports", 1, Duration::ZERO).await;
    for kind in ["render", "render", "send"] {
        test.engine().enqueue_raw(kind, "{}").queue("reports").submit().await.unwrap();
    }
    test.engine().circuits().open("smtp", "ann", Some(Duration::from_secs(60))).await.unwrap();
    test.advance(Duration::from_secs(12));
    let open = harness.get(SCALE).await.ok();
    assert_eq!(open["items"], json!([row("mail", 0, 0, 0), row("reports", 2, 12_000, 1)]));
    let text = harness.get("/metrics").await.text;
    assert!(text.lines().any(|line| line == "backstop_wanted_processes{queue=\"mail\"} 0"), "{text}");
    // When it may be tried, those are wanted who try it: three jobs may.
    test.advance(Duration::from_secs(60));
    let tried = harness.get(SCALE).await.ok();
    assert_eq!(tried["items"], json!([row("mail", 3, 72_000, 2), row("reports", 4, 72_000, 1)]));
    test.engine().circuits().close("smtp", "ann").await.unwrap();
    let closed = harness.get(SCALE).await.ok();
    assert_eq!(closed["items"][0], row("mail", 7, 72_000, 4));
}

#[tokio::test]
async fn nobody_is_wanted_for_what_limits_do_not_let_run() {
    // H9, H5
    let test = TestEngine::new();
    let harness = harness(&test);
    submit(&test, "mail", 7, Duration::ZERO).await;
    submit(&test, "reports", 9, Duration::ZERO).await;
    test.engine().enqueue_raw("render", "{}").queue("reports").submit().await.unwrap();
    let limits = test.engine().limits();
    limits.set(RunLimit { concurrency: Some(3), ..RunLimit::of_queue("mail") }).await.unwrap();
    let sends = RunLimit { kind: Some("send".into()), concurrency: Some(1), ..RunLimit::new("sends") };
    limits.set(sends.clone()).await.unwrap();
    limits.set(RunLimit { by: CountBy::Key, concurrency: Some(1), ..RunLimit::new("keys") }).await.unwrap();
    test.advance(Duration::from_secs(12));
    let mut mail = row("mail", 1, 12_000, 1);
    mail["most_running"] = json!(3);
    let found = harness.get(SCALE).await.ok();
    // One job to send on each, and one that renders: on which queue the one is sent, nobody knows.
    assert_eq!(found["items"], json!([mail, row("reports", 2, 12_000, 1)]));
    limits.delete("sends").await.unwrap();
    mail = row("mail", 3, 12_000, 2);
    mail["most_running"] = json!(3);
    assert_eq!(harness.get(SCALE).await.ok()["items"], json!([mail, row("reports", 10, 12_000, 3)]));
    limits.set(RunLimit { concurrency: Some(2), ..RunLimit::new("all") }).await.unwrap();
    let found = harness.get(SCALE).await.ok();
    assert_eq!(found["items"][0]["wanted"], 1, "{found}");
    assert_eq!((&found["items"][1]["depth"], &found["items"][1]["most_running"]), (&json!(2), &json!(2)));
    let text = harness.get("/metrics").await.text;
    assert!(text.lines().any(|line| line == "backstop_wanted_processes{queue=\"mail\"} 1"), "{text}");
}

#[tokio::test]
async fn nobody_is_wanted_for_what_a_rate_does_not_let_start() {
    // H9, H5
    let test = TestEngine::new();
    let harness = harness(&test);
    submit(&test, "mail", 7, Duration::ZERO).await;
    let rate = Some(RunRate { count: 3, per: Duration::from_secs(60) });
    test.engine().limits().set(RunLimit { rate, ..RunLimit::of_queue("mail") }).await.unwrap();
    test.advance(Duration::from_secs(12));
    let mut mail = row("mail", 3, 12_000, 2);
    mail["most_running"] = json!(3);
    assert_eq!(harness.get(SCALE).await.ok()["items"], json!([mail]));
}

#[tokio::test]
async fn nobody_is_wanted_for_what_keys_names_and_pools_do_not_let_run() {
    // H9, H5, H6
    let test = TestEngine::new();
    let harness = harness(&test);
    let job = |kind| test.engine().enqueue_raw(kind, "{}").queue("mail");
    for _ in 0..30 {
        job("send").limit_key("acme").submit().await.unwrap();
        job("report").single_instance("nightly").submit().await.unwrap();
        job("render").permits("cards", 2).submit().await.unwrap();
    }
    let limits = test.engine().limits();
    limits.set(RunLimit { by: CountBy::Key, concurrency: Some(3), ..RunLimit::new("keys") }).await.unwrap();
    limits.set(RunLimit { permits: Some(5), ..RunLimit::new("cards") }).await.unwrap();
    test.advance(Duration::from_secs(12));
    // Three of the key, one of the name, two of the pool; two of them at once in each process.
    let mut mail = row("mail", 6, 12_000, 3);
    mail["most_running"] = json!(6);
    assert_eq!(harness.get(SCALE).await.ok()["items"], json!([mail]));
    let text = harness.get("/metrics").await.text;
    assert!(text.lines().any(|line| line == "backstop_wanted_processes{queue=\"mail\"} 3"), "{text}");
    // Beside jobs that share nothing, nobody knows how many may run at once.
    submit(&test, "mail", 5, Duration::ZERO).await;
    test.advance(Duration::from_secs(12));
    assert_eq!(harness.get(SCALE).await.ok()["items"], json!([row("mail", 11, 24_000, 6)]));
    limits.delete("keys").await.unwrap();
    assert_eq!(harness.get(SCALE).await.ok()["items"][0]["depth"], 38, "thirty have room again");
}

#[tokio::test]
async fn what_waits_for_code_is_not_held_back_a_second_time() {
    // H9, H10, H5, H3
    let test = TestEngine::with_config(Config::default().kind_dependency("render", "gpu"));
    let harness = harness(&test);
    submit(&test, "mail", 2, Duration::ZERO).await;
    for _ in 0..9 {
        for kind in ["render", "report"] {
            test.engine().enqueue_raw(kind, "{}").queue("mail").submit().await.unwrap();
        }
    }
    let limits = test.engine().limits();
    limits.set(RunLimit { concurrency: Some(8), ..RunLimit::of_queue("mail") }).await.unwrap();
    let reports = RunLimit { kind: Some("report".into()), concurrency: Some(1), ..RunLimit::new("reports") };
    limits.set(reports).await.unwrap();
    test.engine().circuits().open("gpu", "ann", Some(Duration::from_secs(60))).await.unwrap();
    let mut worker = NewWorker {
        id: backstop::worker_id(),
        name: "knows send alone".to_owned(),
        queues: vec!["mail".into()],
        kinds: [KnownKind { kind: "send".into(), version: 1 }].into(),
        lease: Duration::from_secs(3_600),
        code_version: None,
    };
    test.engine().store().enlist(worker.clone()).await.unwrap();
    test.advance(Duration::from_secs(12));
    let mut mail = row("mail", 2, 12_000, 1);
    mail["most_running"] = json!(8);
    assert_eq!(harness.get(SCALE).await.ok()["items"], json!([mail]), "two may be sent");
    worker.kinds = ["send", "report"].map(|kind| KnownKind { kind: kind.into(), version: 1 }).into();
    test.engine().store().enlist(worker).await.unwrap();
    assert_eq!(harness.get(SCALE).await.ok()["items"][0]["depth"], 3, "and one report");
}

#[tokio::test]
async fn every_page_tells_the_total_of_all() {
    // H9
    let test = TestEngine::new();
    let harness = harness(&test);
    for queue in ["a", "b", "c"] {
        submit(&test, queue, 1, Duration::ZERO).await;
    }
    let first = harness.get("/api/v1/scale?limit=2").await.ok();
    assert_eq!((&first["next_cursor"], &first["total"]["depth"]), (&json!("b"), &json!(3)));
    let last = harness.get("/api/v1/scale?limit=2&cursor=b").await.ok();
    assert_eq!((&last["items"][0]["queue"], &last["next_cursor"]), (&json!("c"), &json!(null)));
    assert_eq!(last["total"], first["total"]);
    for query in ["limit=0", "slots=4"] {
        assert_eq!(harness.get(&format!("{SCALE}?{query}")).await.status, 422, "{query}");
    }
}

#[tokio::test]
async fn a_tenant_sees_its_own_queues_and_a_token_those_it_names() {
    // H9
    let test = TestEngine::new();
    let harness = harness(&test);
    for queue in ["acme/mail", "acme/reports", "other/mail", "mail"] {
        submit(&test, queue, 1, Duration::ZERO).await;
    }
    let acme = holder(&[Scope::Read], Some("acme"), None);
    let own = send_as(&harness, &acme, "GET", SCALE, None).await.ok();
    let names: Vec<_> = own["items"].as_array().unwrap().iter().map(|row| row["queue"].clone()).collect();
    assert_eq!((names, &own["total"]["depth"]), (vec![json!("mail"), json!("reports")], &json!(2)));
    let one = send_as(&harness, &acme, "GET", "/api/v1/scale?queue=mail", None).await.ok();
    assert_eq!(one["total"]["depth"], 1);
    let mail = holder(&[Scope::Read], Some("acme"), Some(&["mail"]));
    assert_eq!(send_as(&harness, &mail, "GET", SCALE, None).await.ok()["total"]["depth"], 1);
    let foreign = send_as(&harness, &mail, "GET", "/api/v1/scale?queue=reports", None).await;
    refused(&foreign, 403, "forbidden", None);
    let writer = holder(&[Scope::Submit], None, None);
    refused(&send_as(&harness, &writer, "GET", SCALE, None).await, 403, "forbidden", None);
}

#[tokio::test]
async fn the_example_for_keda_finds_its_figure() {
    // H9
    let test = TestEngine::new();
    let harness = harness(&test);
    submit(&test, "mail", 7, Duration::ZERO).await;
    test.advance(Duration::from_secs(12));
    let path = format!("{}/../../examples/deploy/kubernetes/shop-workers.yaml", env!("CARGO_MANIFEST_DIR"));
    let example = std::fs::read_to_string(path).unwrap();
    let value = |key: &str| {
        let line = example.lines().find_map(|line| line.trim().strip_prefix(key));
        line.unwrap_or_else(|| panic!("no {key}")).trim().trim_matches('"').to_owned()
    };
    let answer = harness.get(value("url:").strip_prefix("http://backstop:7700").unwrap()).await.ok();
    let pointer = format!("/{}", value("valueLocation:").replace('.', "/"));
    assert_eq!((answer.pointer(&pointer), value("targetValue:").as_str()), (Some(&json!(4)), "1"));
}

#[tokio::test]
async fn the_same_figures_are_scraped() {
    // H9, V3
    let test = TestEngine::new();
    let harness = harness(&test);
    submit(&test, "mail", 7, Duration::ZERO).await;
    test.advance(Duration::from_secs(12));
    let text = harness.get("/metrics").await.text;
    for line in [
        "backstop_queue_depth{queue=\"mail\"} 7",
        "backstop_wanted_processes{queue=\"mail\"} 4",
        "backstop_oldest_wait_seconds{queue=\"mail\"} 12",
    ] {
        assert!(text.lines().any(|one| one == line), "no {line} in\n{text}");
    }
}
