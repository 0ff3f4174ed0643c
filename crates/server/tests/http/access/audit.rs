//! The audit log: every call that changes something, and nothing that should not be told.

use std::time::Duration;

use backstop::Config;
use backstop_server::{Scope, ServerSettings, table};
use backstop_store::{Claim, ClaimQueue, KnownKind, NewWorker};
use backstop_testing::TokioClock;
use serde_json::{Value, json};

use super::stage::Stage;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

async fn log(stage: &Stage, token: &str) -> Vec<Value> {
    stage.call("GET", "/api/v1/audit", Some(token)).await.json()["items"].as_array().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn every_call_that_changes_something_is_written_down_before_it_is_answered() {
    let stage = Stage::on(TokioClock::engine(), ServerSettings::default());
    let admin = stage.token("ada", &[Scope::Admin, Scope::Operate, Scope::Read]).await;
    let reader = stage.token("rita", &[Scope::Read]).await;
    stage.call("GET", "/api/v1/queues", Some(&admin)).await;
    assert_eq!(stage.call("POST", "/api/v1/queues/mail/pause", Some(&admin)).await.status, 200);
    let lines = log(&stage, &admin).await;
    assert_eq!(lines.len(), 1, "reads are not in it, and the pause is: {lines:?}");
    let now = stage.api.engine().store().now().await.unwrap();
    assert_eq!(
        lines[0],
        json!({ "at": now.to_string(), "who": "ada", "tenant": null, "method": "POST", "status": 200, "count": 1,
            "route": "/api/v1/queues/{name}/pause", "path": "/api/v1/queues/mail/pause", "from": null })
    );
    // Those who were turned away are in it too, a little later.
    assert_eq!(stage.call("POST", "/api/v1/queues/mail/pause", Some(&reader)).await.status, 403);
    assert_eq!(stage.call("POST", "/api/v1/queues/mail/pause", None).await.status, 401);
    assert_eq!(stage.call("POST", "/api/v1/queues/bills/pause", None).await.status, 401);
    stage.call("POST", "/api/v1/queues/mail/resume", Some(&admin)).await;
    let lines = log(&stage, &admin).await;
    let told: Vec<_> =
        lines.iter().map(|line| (line["who"].as_str().unwrap(), line["status"].as_u64())).collect();
    assert_eq!(told, [("ada", Some(200)), ("nobody", Some(401)), ("rita", Some(403)), ("ada", Some(200))]);
    // Calls that are alike are one line; nobody chooses what stands in it.
    assert_eq!((&lines[1]["count"], &lines[1]["path"]), (&json!(2), &json!("/api/v1/queues/{name}/pause")));
}

#[tokio::test(start_paused = true)]
async fn it_is_read_in_pages_without_a_gap_or_a_repeat() {
    let stage = Stage::on(TokioClock::engine(), ServerSettings::default());
    let admin = stage.token("ada", &[Scope::Admin, Scope::Operate]).await;
    for nth in 0..57 {
        let path = format!("/api/v1/queues/q{nth}/pause");
        // Some go into documents of their own, some together.
        match nth % 3 {
            0 => drop(stage.call("POST", &path, Some(&admin)).await),
            _ => drop(stage.call("DELETE", &format!("/api/v1/tokens/q{nth}"), Some(&admin)).await),
        }
    }
    stage.call("POST", "/api/v1/queues/last/pause", Some(&admin)).await;
    let (mut paths, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = stage.call("GET", &format!("/api/v1/audit?limit=7{cursor}"), Some(&admin)).await.json();
        let items = page["items"].as_array().unwrap();
        paths.extend(items.iter().map(|line| line["path"].as_str().unwrap().to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
        assert_eq!(items.len(), 7);
    }
    assert_eq!(paths.len(), 58);
    assert!(paths[0].ends_with("/last/pause") && paths[57].ends_with("/q0/pause"), "{paths:?}");
    let mut once = paths.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), 58, "{paths:?}");
    for (query, field) in
        [("cursor=x", "cursor"), ("cursor=..", "cursor"), ("limit=0", "limit"), ("a=b", "a")]
    {
        let reply = stage.call("GET", &format!("/api/v1/audit?{query}"), Some(&admin)).await;
        assert_eq!((reply.status.as_u16(), reply.code()), (422, "invalid".to_owned()), "{query}");
        assert_eq!(reply.json()["error"]["details"]["field"], field);
    }
}

#[tokio::test(start_paused = true)]
async fn no_secret_and_no_payload_is_in_it() {
    let stage = Stage::on(TokioClock::engine(), ServerSettings::default());
    let admin = stage.token("ada", &Scope::ALL).await;
    let new = json!({ "name": "fresh", "scopes": ["read"] }).to_string();
    let made = stage.call_with("POST", "/api/v1/tokens", Some(&admin), &new).await.json();
    let fresh = made["token"].as_str().unwrap();
    // Somebody who takes the token for its name.
    stage.call("DELETE", &format!("/api/v1/tokens/{fresh}"), Some(&admin)).await;
    let job = json!({ "kind": "send", "payload": { "to": "hunter2" } }).to_string();
    stage.call_with("POST", "/api/v1/jobs", Some(&admin), &job).await;
    stage.call("POST", "/api/v1/queues/mail/pause?key=hunter2", Some(&admin)).await;
    let text = stage.call("GET", "/api/v1/audit", Some(&admin)).await.text;
    for secret in [fresh, &admin, "hunter2"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    assert!(text.contains("/api/v1/tokens/[redacted]"), "{text}");
}

/// The paths that are in the log, newest first.
async fn paths(stage: &Stage) -> Vec<String> {
    let page = stage.call("GET", "/api/v1/audit?limit=1000", None).await.json();
    let lines = page["items"].as_array().unwrap();
    lines.iter().map(|line| line["path"].as_str().unwrap().to_owned()).collect()
}

/// An API whose clock is tokio's, and what removes from its log.
struct Years {
    stage: Stage,
    node: backstop::WorkerId,
}

impl Years {
    fn new(retention: Option<Duration>) -> Self {
        let engine = TokioClock::engine_with(Config::default().audit_retention(retention));
        Self { stage: Stage::on(engine, ServerSettings::default()), node: backstop::worker_id() }
    }

    async fn pause(&self, queue: &str) -> String {
        let path = format!("/api/v1/queues/{queue}/pause");
        assert_eq!(self.stage.call("POST", &path, None).await.status, 200);
        path
    }

    /// Lets time pass, and does one round of maintenance.
    async fn pass(&self, span: Duration) {
        tokio::time::advance(span).await;
        self.stage.api.engine().maintain(self.node, Duration::from_secs(30)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn documents_go_when_their_time_is_over_and_not_a_moment_before() {
    let years = Years::new(Some(DAY * 400));
    let old = years.pause("old").await;
    tokio::time::advance(DAY).await;
    let new = years.pause("new").await;
    years.pass(DAY * 399).await;
    assert_eq!(paths(&years.stage).await, [new.clone(), old], "it is as old as the limit, and not older");
    // A tick of a clock that stands is a millisecond.
    years.pass(Duration::from_millis(1)).await;
    assert_eq!(paths(&years.stage).await, [new]);
    // Whoever is at the place where something went reads on behind it.
    let rest = years.stage.call("GET", "/api/v1/audit?cursor=9223372036854775807-0.1", None).await;
    assert_eq!(rest.json()["items"], json!([]), "{}", rest.text);
    years.pass(DAY).await;
    assert!(paths(&years.stage).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_round_removes_a_bounded_number_and_for_ever_is_for_ever() {
    let (years, ages) = (Years::new(Some(DAY)), Years::new(None));
    for nth in 0..401 {
        years.pause(&format!("q{nth}")).await;
        ages.pause(&format!("q{nth}")).await;
    }
    years.pass(DAY * 1_000).await;
    assert_eq!(paths(&years.stage).await.len(), 1, "twenty batches of twenty went");
    years.pass(Duration::ZERO).await;
    assert!(paths(&years.stage).await.is_empty());
    ages.pass(DAY * 1_000).await;
    assert_eq!(paths(&ages.stage).await.len(), 401);
}

#[test]
fn no_route_changes_the_log() {
    let changes = table().into_iter().filter(|route| route.path.contains("audit") && route.method != "GET");
    assert_eq!(changes.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_maintenance_retires_is_in_it() {
    // D2
    let stage = Stage::on(TokioClock::engine(), ServerSettings::default());
    let engine = stage.api.engine();
    let admin = stage.token("ada", &[Scope::Admin, Scope::Read]).await;
    let job = engine.enqueue_raw("mail", "{}").max_retries(0).timeout(Duration::from_secs(1)).submit().await;
    let job = job.unwrap().id;
    let lease = Duration::from_secs(1);
    let dead = NewWorker {
        id: backstop::worker_id(),
        name: "dead".to_owned(),
        code_version: None,
        queues: vec!["default".into()],
        kinds: vec![KnownKind { kind: "mail".into(), version: 1 }].into(),
        lease,
    };
    let queue = ClaimQueue { queue: "default".into(), limit: 1, start: 1, any_kind: false };
    let claim = Claim {
        worker: dead.id,
        queues: vec![queue],
        kinds: dead.kinds.clone(),
        aging: engine.config().aging,
        limits: Default::default(),
    };
    engine.store().enlist(dead).await.unwrap();
    assert_eq!(engine.store().claim(claim).await.unwrap().jobs.len(), 1);
    tokio::time::advance(lease * 2).await;
    let node = backstop::worker_id();
    engine.maintain(node, DAY).await.unwrap();
    let incident = engine.incidents().list(1).await.unwrap().remove(0);
    engine.cancel(job, "enough").await.unwrap();
    tokio::time::advance(DAY * 91).await;
    engine.maintain(node, DAY).await.unwrap();
    assert!(engine.incidents().list(1).await.unwrap().is_empty(), "the crash is forgotten");
    let lines = log(&stage, &admin).await;
    let line = lines.iter().find(|line| line["who"] == "maintenance").expect("a line of its own");
    assert_eq!((&line["method"], &line["status"]), (&json!("RETIRE"), &json!(200)));
    assert_eq!(line["path"], format!("/api/v1/incidents/{}", incident.fingerprint));
    assert!(line["what"].as_str().unwrap().contains("mail: Crash: "), "{line}");
    // It can be the last line of a page like any other.
    let page = stage.call("GET", "/api/v1/audit?limit=1", Some(&admin)).await.json();
    if let Some(next) = page["next_cursor"].as_str() {
        let next = stage.call("GET", &format!("/api/v1/audit?limit=1&cursor={next}"), Some(&admin)).await;
        assert_eq!(next.status, 200);
    }
}
