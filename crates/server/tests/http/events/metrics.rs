//! Figures: what triage needs, with bounded labels, at a bounded cost (V3).

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use backstop::limits::RunLimit;
use backstop::prelude::*;
use backstop::{Config, DependencyHealth, Health, LoopHealth, PausedHealth};
use backstop_server::{Caller, Scope, ServerSettings};
use backstop_testing::{CrashAt, TestEngine};

use crate::harness::Harness;

#[job(max_retries = 1)]
async fn pay(amount: u32) -> JobResult {
    if amount == 0 { Err("nothing to pay".into()) } else { Ok(()) }
}

async fn scrape(harness: &Harness) -> String {
    // Known already, so that the store is asked for figures and not for tokens.
    let request = Request::get("/metrics").extension(Caller::local("test")).body(Body::empty()).unwrap();
    let answer = harness.send(request).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    answer.text
}

/// The value of one line.
fn figure(text: &str, line: &str) -> f64 {
    let found = text.lines().find_map(|one| one.strip_prefix(line)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {line} in\n{text}")).parse().unwrap()
}

#[tokio::test]
async fn what_happened_is_counted() {
    // V3
    let test = TestEngine::new();
    let harness = Harness::of(test.engine().clone(), ServerSettings::default());
    let engine = harness.engine();
    for _ in 0..3 {
        engine.enqueue(Pay { amount: 5 }).idempotency_key("five").submit().await.unwrap();
    }
    engine.enqueue(Pay { amount: 0 }).queue("slow").submit().await.unwrap();
    engine.enqueue_raw("", "{}").submit().await.unwrap_err();
    test.advance(Duration::from_secs(7));
    test.run_to_end((), |worker| worker.register::<Pay>()).await;
    engine.enqueue(Pay { amount: 9 }).queue("slow").submit().await.unwrap();
    test.advance(Duration::from_secs(20));
    let text = scrape(&harness).await;
    for (line, expected) in [
        ("backstop_submitted_total{queue=\"default\"}", 1.0),
        ("backstop_duplicates_total{queue=\"default\"}", 2.0),
        ("backstop_refused_total{code=\"invalid\"}", 1.0),
        ("backstop_runs_total{kind=\"pay\",cause=\"succeeded\"}", 1.0),
        ("backstop_runs_total{kind=\"pay\",cause=\"error\"}", 2.0),
        ("backstop_last_attempts_total{kind=\"pay\"}", 1.0),
        ("backstop_dead_total{kind=\"pay\",reason=\"retry_exhausted\"}", 1.0),
        ("backstop_wait_seconds_count{queue=\"default\"}", 1.0),
        ("backstop_wait_seconds_sum{queue=\"default\"}", 7.0),
        ("backstop_run_seconds_count{kind=\"pay\"}", 3.0),
        ("backstop_jobs{queue=\"slow\",state=\"failed\"}", 1.0),
        ("backstop_jobs{queue=\"slow\",state=\"pending\"}", 1.0),
        ("backstop_oldest_wait_seconds{queue=\"slow\"}", 20.0),
        ("backstop_incidents{state=\"new\"}", 1.0),
        ("backstop_incident_dead_letters{state=\"new\"}", 1.0),
        ("backstop_store_up", 1.0),
        ("backstop_rate_limited_total", 0.0),
        ("backstop_event_streams", 0.0),
    ] {
        assert!((figure(&text, line) - expected).abs() < 1e-9, "{line} is not {expected} in\n{text}");
    }
    assert!(figure(&text, "backstop_store_seconds_count{verb=\"claim\"}") >= 1.0);
}

#[tokio::test(start_paused = true)]
async fn scraping_often_costs_no_more_than_once_a_second_and_a_store_that_is_away_is_said_to_be() {
    // V3
    let test = TestEngine::new();
    let store = Arc::new(CrashAt::new(test.store(), 7));
    let harness = Harness::of(Backstop::on(store.clone(), Config::default()), ServerSettings::default());
    let first = scrape(&harness).await;
    let calls = store.calls();
    for _ in 0..100 {
        assert_eq!(scrape(&harness).await, first);
    }
    assert_eq!(store.calls(), calls);
    for _ in 0..3 {
        tokio::time::advance(Duration::from_secs(1)).await;
        scrape(&harness).await;
    }
    let text = scrape(&harness).await;
    assert!(figure(&text, "backstop_store_up").abs() < 1e-9, "{text}");
    assert!(text.contains("backstop_store_errors_total{verb="), "{text}");
    assert!(figure(&text, "backstop_http_requests_total{route=\"GET /metrics\",status=\"200\"}") > 100.0);
}

#[tokio::test]
async fn labels_are_bounded_and_strange_names_stay_in_their_line() {
    // V3
    let harness = Harness::new().await;
    let engine = harness.engine();
    for at in 0..400 {
        engine.enqueue_raw("mail", "{}").queue(format!("queue-{at}")).submit().await.unwrap();
    }
    for at in 0..300 {
        harness.get(&format!("/api/v1/made-up-{at}")).await;
    }
    let text = scrape(&harness).await;
    let lines = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(lines("backstop_submitted_total{"), 201);
    assert_eq!(lines("backstop_jobs{"), 5 * 201);
    assert!((figure(&text, "backstop_submitted_total{queue=\"other\"}") - 200.0).abs() < 1e-9);
    assert!((figure(&text, "backstop_jobs{queue=\"other\",state=\"pending\"}") - 200.0).abs() < 1e-9);
    assert!(
        (figure(&text, "backstop_http_requests_total{route=\"GET none\",status=\"404\"}") - 300.0).abs()
            < 1e-9
    );
    for line in text.lines() {
        let well_formed =
            line.starts_with("# ") || line.rsplit_once(' ').is_some_and(|(_, n)| n.parse::<f64>().is_ok());
        assert!(well_formed, "{line}");
    }
}

#[tokio::test]
async fn a_tracer_hears_of_every_request_by_its_route() {
    // V3
    let harness = Harness::new().await;
    let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
    harness.api.on_answer(move |answered| {
        heard.send((answered.route, answered.status, answered.trace_parent)).unwrap()
    });
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let request = Request::get("/health/live").header("traceparent", parent).body(Body::empty()).unwrap();
    harness.send(request).await;
    harness.get("/made/up").await;
    assert_eq!(hears.recv().await.unwrap(), ("GET /health/live".to_owned(), 200, Some(parent.to_owned())));
    assert_eq!(hears.recv().await.unwrap(), ("GET none".to_owned(), 404, None));
}

#[tokio::test]
async fn loops_are_shown_by_their_age() {
    // V3 H11 H1 H8
    let harness = Harness::new().await;
    harness.api.watch("worker", || {
        let one = LoopHealth { name: "fetch", ok: true, age_ms: 1_500, deadline_ms: 60_000, restarts: 2 };
        let (age_ms, since_ms) = (5, 9);
        let of = |name: &str, ok| DependencyHealth { name: name.into(), ok, age_ms, since_ms, problem: None };
        let dependencies = vec![of("smtp", true), of("bank", false)];
        let paused = Some(PausedHealth { since_ms, why: "it fails".into() });
        Some(Health { ready: true, loops: vec![one], dependencies, paused })
    });
    let text = scrape(&harness).await;
    let labels = "{worker=\"worker\",loop=\"fetch\"}";
    assert!((figure(&text, &format!("backstop_loop_age_seconds{labels}")) - 1.5).abs() < 1e-9);
    assert!((figure(&text, &format!("backstop_loop_restarts_total{labels}")) - 2.0).abs() < 1e-9);
    let available = |name: &str| {
        figure(&text, &format!("backstop_dependency_available{{worker=\"worker\",dependency=\"{name}\"}}"))
    };
    assert!((available("smtp") - 1.0).abs() < 1e-9 && available("bank").abs() < 1e-9);
    assert!((figure(&text, "backstop_worker_paused{worker=\"worker\"}") - 1.0).abs() < 1e-9);
}

#[tokio::test]
async fn figures_are_for_those_who_see_all_unless_they_are_opened() {
    let tenant = Caller::holder("t", [Scope::Read].into(), Some("acme".into()), None);
    for (open, caller, status) in [
        (false, Caller::nobody(), 401),
        (false, Caller::holder("s", [Scope::Submit].into(), None, None), 403),
        (false, tenant, 403),
        (false, Caller::holder("r", [Scope::Read].into(), None, None), 200),
        (true, Caller::nobody(), 200),
    ] {
        let mut settings = ServerSettings::default();
        settings.reporting.open_metrics = open;
        let harness = Harness::with(Config::default(), settings).await;
        let ask = |path: &str| Request::get(path).extension(caller.clone()).body(Body::empty()).unwrap();
        assert_eq!(harness.send(ask("/metrics")).await.status, status);
        if !caller.is_known() {
            assert_eq!(harness.send(ask("/api/v1/queues")).await.status, 401, "nothing else is opened");
        }
    }
}

#[tokio::test]
async fn workflows_and_branches_are_counted() {
    // V3, W2
    let harness = Harness::new().await;
    let engine = harness.engine();
    let first = engine.enqueue(Pay { amount: 1 });
    let chain = engine.chain("pay twice", first).then(engine.enqueue(Pay { amount: 1 }));
    chain.then_always(engine.enqueue(Pay { amount: 1 })).submit().await.unwrap();
    let worker = engine.worker(()).register::<Pay>().queue("default", 4).inline().unwrap();
    worker.drain(10).await.unwrap();
    let text = scrape(&harness).await;
    for (name, value) in [
        ("backstop_workflows_ended_total{status=\"succeeded\"}", 1.0),
        ("backstop_workflow_jobs_ended_total{end=\"succeeded\"}", 3.0),
        ("backstop_branches_taken_total", 1.0),
    ] {
        assert!((figure(&text, name) - value).abs() < 1e-9, "{name}");
    }
}

#[tokio::test]
async fn limits_circuits_and_schedules_are_shown() {
    // V3, H3, H5, W11
    let harness = Harness::new().await;
    let engine = harness.engine();
    let limit = RunLimit { concurrency: Some(1), ..RunLimit::of_queue("default") };
    engine.limits().set(limit).await.unwrap();
    engine.circuits().open("smtp", "ann", None).await.unwrap();
    let daily = backstop::schedules::ScheduleSettings::cron("@daily");
    engine.schedules().set("daily", daily, engine.enqueue_raw("x", "{}")).await.unwrap();
    let text = scrape(&harness).await;
    for (name, value) in [
        ("backstop_limit_running{limit=\"queue:default\"}", 0.0),
        ("backstop_limit_full{limit=\"queue:default\"}", 0.0),
        ("backstop_circuit_open{circuit=\"smtp\"}", 1.0),
        ("backstop_schedules", 1.0),
    ] {
        assert!((figure(&text, name) - value).abs() < 1e-9, "{name}");
    }
}
