//! Another tenant on every route, with every name of somebody else's things: nothing is shown, nothing is moved (E13).

use backstop::prelude::*;
use backstop::{Backstop, Outcome};
use backstop_server::{Scope, ServerSettings, table};
use backstop_store::{JobFilter, PageRequest};
use serde_json::{Value, json};

use super::stage::Stage;

/// What stands in everything that is the other tenant's own.
const MARK: &str = "ACME-ONLY-7731";

#[derive(Serialize, Deserialize)]
struct Send {
    note: String,
}

impl Job for Send {
    const KIND: &'static str = "send";
    type Context = ();
    type Output = JobResult;
    async fn run(self, cx: JobContext<()>) -> JobResult {
        cx.log(MARK);
        Err(Outcome::permanent(format!("no such address: {}", self.note)))?
    }
}

/// Everything that a stranger could name.
struct Theirs {
    dead: String,
    pending: String,
    fingerprint: String,
}

/// Jobs of tenant acme: one that died, with an incident, and one that waits, with keys.
async fn seed(engine: &Backstop) -> Theirs {
    let job = || engine.enqueue(Send { note: MARK.to_owned() }).queue("acme/mail").tag(MARK);
    let dead = job().submit().await.unwrap().id;
    let worker = engine.worker(()).register::<Send>().queue("acme/mail", 1).name(MARK);
    worker.inline().unwrap().drain(10).await.unwrap();
    let pending = job().business_key("acme/k1").idempotency_key("acme/i1").submit().await.unwrap().id;
    let fingerprint = engine.incidents().list(10).await.unwrap()[0].fingerprint.to_string();
    Theirs { dead: dead.to_string(), pending: pending.to_string(), fingerprint }
}

/// All jobs as the store has them.
async fn stored(engine: &Backstop) -> Vec<Value> {
    let jobs = engine.jobs(JobFilter::default(), PageRequest::first(1_000)).await.unwrap();
    let theirs = jobs.items.iter().filter(|view| view.job.spec.queue.starts_with("acme/"));
    theirs.map(|view| serde_json::to_value(view).unwrap()).collect()
}

/// The path with every name that the stranger may have heard of in place of its parameters.
fn guesses(path: &str, theirs: &Theirs) -> Vec<String> {
    let names =
        [&*theirs.dead, &theirs.pending, &theirs.fingerprint, "mail", "acme%2Fmail", "..%2Facme%2Fmail"];
    let Some(start) = path.find('{') else { return vec![path.to_owned()] };
    let end = path.find('}').expect("a whole parameter") + 1;
    names.iter().map(|name| format!("{}{name}{}", &path[..start], &path[end..])).collect()
}

/// Bodies that name what is somebody else's, in every way that some route reads.
fn bodies(theirs: &Theirs) -> Vec<Value> {
    let ids = [&theirs.dead, &theirs.pending];
    vec![
        json!({}),
        json!({ "kind": "send", "payload": 1, "queue": "acme/mail", "replaces": theirs.pending }),
        json!({ "kind": "send", "payload": 1, "business_key": "k1", "on_conflict": "replace" }),
        json!({ "kind": "send", "payload": 1, "business_key": "acme/k1", "on_conflict": "replace" }),
        json!({ "kind": "send", "payload": 1, "idempotency_key": "acme/i1" }),
        json!({ "jobs": [{ "kind": "send", "payload": 1, "replaces": theirs.pending },
                         { "kind": "send", "payload": 1, "queue": "../acme/mail" }], "partial": true }),
        json!({ "ids": ids, "dry_run": false }),
        json!({ "all": true, "dry_run": false }),
        json!({ "queue": "acme/mail", "dry_run": false }),
        json!({ "worker": "w", "queues": ["mail", "acme/mail", "../acme/mail"], "kinds": ["send"], "limit": 10 }),
        json!({ "note": "mine now" }),
    ]
}

#[tokio::test]
async fn a_stranger_with_every_scope_sees_and_moves_nothing_on_any_route() {
    // E13
    let mut settings = ServerSettings::default();
    settings.access.rate = None;
    let stage = Stage::new(settings).await;
    let engine = stage.api.engine();
    let theirs = seed(engine).await;
    let token = stage.token_of("stranger", &Scope::ALL, Some("other")).await;
    let before = stored(engine).await;
    assert!(before.len() == 2 && before.iter().any(|job| job.to_string().contains(MARK)), "{before:?}");
    let queries =
        ["", "?queue=acme%2Fmail", "?business_key=acme%2Fk1", "?tag=ACME-ONLY-7731", "?reveal=true"];
    let mut calls = 0;
    for route in table() {
        let bodies = if route.method == "GET" { vec![Value::Null] } else { bodies(&theirs) };
        let queries: &[&str] = if route.method == "GET" { &queries } else { &[""] };
        for path in guesses(&route.path, &theirs) {
            for (query, body) in queries.iter().flat_map(|query| bodies.iter().map(move |body| (query, body)))
            {
                let target = format!("{path}{query}");
                let reply = stage.call_with(&route.method, &target, Some(&token), &body.to_string()).await;
                let what = format!("{} {target} {body}", route.method);
                assert!(!reply.status.is_server_error(), "{what}: {reply:?}");
                // What the stranger sent itself may come back to it; nothing of what is stored does.
                let shown = reply.text.replace(&format!("?tag={MARK}"), "");
                assert!(!shown.contains(MARK), "it shows what is another's: {what}: {reply:?}");
                calls += 1;
            }
        }
    }
    assert_eq!(stored(engine).await, before, "something of another's was moved");
    assert!(calls > 300, "only {calls} calls");
}

#[tokio::test]
async fn the_owner_sees_what_the_stranger_does_not() {
    // E13: otherwise the test above would be passed by a server that shows nothing to anybody.
    let stage = Stage::new(ServerSettings::default()).await;
    let theirs = seed(stage.api.engine()).await;
    let token = stage.token_of("owner", &Scope::ALL, Some("acme")).await;
    for path in [
        format!("/api/v1/jobs/{}?reveal=true", theirs.dead),
        format!("/api/v1/jobs/{}/logs", theirs.dead),
        format!("/api/v1/incidents/{}", theirs.fingerprint),
        "/api/v1/jobs?queue=mail".to_owned(),
        "/api/v1/dead-letters".to_owned(),
    ] {
        let reply = stage.call("GET", &path, Some(&token)).await;
        assert!(reply.status.is_success() && reply.text.contains(MARK), "{path}: {reply:?}");
    }
}

#[tokio::test]
async fn what_the_engine_stores_for_itself_is_shown_to_those_who_run_it() {
    // E13
    let mut settings = ServerSettings::default();
    settings.access.rate = None;
    let stage = Stage::new(settings).await;
    let engine = stage.api.engine();
    let own = engine.enqueue_raw("backstop.webhook", json!({ "note": MARK }).to_string());
    let own = own.queue("backstop.webhooks").tag(MARK).submit().await.unwrap().id.to_string();
    let theirs =
        Theirs { dead: own.clone(), pending: own.clone(), fingerprint: "0123456789abcdef".to_owned() };
    let everything_else = Scope::ALL.into_iter().filter(|scope| *scope != Scope::Operate);
    let user = stage.token("user", &everything_else.collect::<Vec<_>>()).await;
    let operator = stage.token("operator", &[Scope::Read, Scope::Operate, Scope::Logs]).await;
    let mut shown = 0;
    // Figures count every queue there is, and name no job.
    for route in table().into_iter().filter(|route| route.method == "GET" && route.path != "/metrics") {
        for path in guesses(&route.path, &theirs) {
            for query in ["", "?queue=backstop.webhooks", "?kind=backstop.webhook", "?tag=ACME-ONLY-7731"] {
                let target = format!("{path}{query}");
                let hidden = stage.call("GET", &target, Some(&user)).await;
                let text = hidden.text.replace(&format!("?tag={MARK}"), "");
                let told = hidden.status.is_success() && (text.contains(&own) || text.contains(MARK));
                assert!(!told, "{target}: {hidden:?}");
                let seen = stage.call("GET", &target, Some(&operator)).await;
                shown += usize::from(seen.status.is_success() && seen.text.contains(&own));
            }
        }
    }
    let queues = stage.call("GET", "/api/v1/queues", Some(&user)).await;
    assert!(!queues.text.contains("backstop."), "{queues:?}");
    assert!(shown > 10, "an operator sees them: {shown}");
}
