//! Every way out of the process, with secrets in all that a job brings and leaves: none of them comes out, but for
//! those who may see it (F11, E12).

mod stage;

use std::collections::BTreeSet;

use axum::http::Method;
use backstop::Config;
use backstop_server::ways_out::{DataShown, WAYS_OUT, WITHOUT_DATA, WayOut, WayOutKind};
use backstop_server::{Caller, Scope, table};
use backstop_store::{JobFilter, PageRequest};
use serde_json::{Value, json};

use stage::{CLAIMED, Case, DELIVERIES, NEEDLE, PARAM, Played, cases};

/// What stands where something is not shown.
const MARKS: [&str; 3] = ["[redacted]", "[hidden]", "[encrypted]"];

/// Somebody with every scope but this one.
fn without(left_out: Option<Scope>) -> Caller {
    let scopes = Scope::ALL.into_iter().filter(|scope| Some(*scope) != left_out);
    Caller::holder("tester", scopes.collect(), None, None)
}

#[test]
fn every_route_says_what_it_shows() {
    // E12
    let listed: Vec<(String, String)> = WAYS_OUT
        .iter()
        .filter_map(|way| match way.by {
            WayOutKind::Answer { method, path, query: "" } => Some((method.to_owned(), path.to_owned())),
            _ => None,
        })
        .chain(WITHOUT_DATA.iter().map(|(method, path)| ((*method).to_owned(), (*path).to_owned())))
        .collect();
    let once: BTreeSet<_> = listed.iter().cloned().collect();
    assert_eq!(once.len(), listed.len(), "a route is listed twice");
    let served: BTreeSet<_> = table().into_iter().map(|route| (route.method, route.path)).collect();
    let missing: Vec<_> = served.difference(&once).collect();
    assert!(missing.is_empty(), "say in src/ways_out.rs what these show of a job: {missing:?}");
    let gone: Vec<_> = once.difference(&served).collect();
    assert!(gone.is_empty(), "src/ways_out.rs lists routes that there are not: {gone:?}");
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operate/server.md");
    let page = std::fs::read_to_string(page).unwrap();
    for way in WAYS_OUT {
        let WayOutKind::Answer { method: "GET", path, query: "" } = way.by else { continue };
        let path = path.strip_prefix("/api/v1").unwrap();
        assert!(page.contains(&format!("{path}`")), "docs/operate/server.md does not say what {path} shows");
    }
}

#[tokio::test]
async fn no_secret_comes_out_on_any_way() {
    // F11, E12, V2
    let mut leaks = Vec::new();
    for case in cases() {
        let mut played = Played::new(&case).await;
        for way in WAYS_OUT {
            walk(&case, &mut played, &way, &mut leaks).await;
        }
        for (method, path) in WITHOUT_DATA {
            for target in played.targets(path) {
                let said = send(&played, &without(None), method, &target).await.1;
                look(&format!("{}: {method} {target}", case.name), &said, &mut leaks);
            }
        }
        played.service.stop().await;
    }
    assert!(leaks.is_empty(), "{}", leaks.join("\n"));
}

/// Takes down what should not have come out.
fn look(what: &str, said: &str, leaks: &mut Vec<String>) {
    for secret in [NEEDLE, PARAM] {
        if let Some(at) = said.find(secret) {
            let around: String = said[..at].chars().rev().take(200).collect();
            let around: String = around.chars().rev().collect();
            leaks.push(format!("{what} tells …{around}{secret}…"));
        }
    }
}

async fn walk(case: &Case, played: &mut Played, way: &WayOut, leaks: &mut Vec<String>) {
    let (what, by) = (format!("{}: {:?}", case.name, way.by), way.by);
    let said = match by {
        WayOutKind::Answer { path: "/api/v1/events", .. } => std::mem::take(&mut played.streamed),
        WayOutKind::Answer { method, path, query } => {
            return answers(case, played, way.shows, (method, path, query), leaks).await;
        }
        WayOutKind::Subscriber => std::mem::take(&mut played.told),
        WayOutKind::Webhook => std::mem::take(&mut played.delivered),
        WayOutKind::WebhookCopy => copies(played).await,
        WayOutKind::Alert => std::mem::take(&mut played.alerted),
        WayOutKind::LogLine => played.log.text(),
        // It is made of the kind, the queue and the id alone; its own test looks at it where it is made.
        WayOutKind::Span => return assert_eq!(way.shows, DataShown::NoData),
    };
    look(&what, &said, leaks);
    assert!(MARKS.iter().any(|mark| said.contains(mark)), "{what} tells nothing: {said}");
}

/// The answers to requests on one way, for everybody.
async fn answers(
    case: &Case,
    played: &Played,
    shows: DataShown,
    (method, path, query): (&str, &str, &str),
    leaks: &mut Vec<String>,
) {
    let (everybody, mut seen) = (without(None), String::new());
    let targets = played.targets(path).into_iter();
    for target in targets.map(|path| if query.is_empty() { path } else { format!("{path}?{query}") }) {
        let what = format!("{}: {method} {target}", case.name);
        if let DataShown::InClear { scope, .. } = shows {
            let (status, said) = send(played, &without(Some(scope)), method, &target).await;
            assert_eq!(status, 403, "{what}: {said}");
            look(&what, &said, leaks);
            seen.push_str(&send(played, &everybody, method, &target).await.1);
            continue;
        }
        for caller in [&without(Some(Scope::Logs)), &everybody] {
            let (status, said) = send(played, caller, method, &target).await;
            assert!(status == 200 || status == 403 && path.ends_with("/logs"), "{what}: {status} {said}");
            look(&what, &said, leaks);
            seen.push_str(&said);
        }
    }
    let what = format!("{}: {method} {path}?{query}", case.name);
    match shows {
        DataShown::InClear { opens, .. } if opens || !case.sealed => {
            assert!(seen.contains(NEEDLE), "{what} is for them: {seen}");
        }
        // Params are never sealed.
        DataShown::InClear { .. } => look(&what, &seen.replace(PARAM, ""), leaks),
        _ => assert!(MARKS.iter().any(|mark| seen.contains(mark)), "{what} tells nothing: {seen}"),
    }
}

async fn send(played: &Played, caller: &Caller, method: &str, target: &str) -> (u16, String) {
    let body = match target {
        "/api/v1/work/claim" => {
            json!({ "worker": "w", "queues": [CLAIMED], "kinds": ["leak", "vault"], "lease_ms": 1_000 })
        }
        "/api/v1/work/effect" => known_effect(played, caller).await,
        "/api/v1/rules/test" => json!({ "matches": { "text": "login" } }),
        "/api/v1/redrives" | "/api/v1/dead-letters/purge" => json!({ "all": true, "dry_run": true }),
        "/api/v1/rules" => json!({ "id": "r", "matches": { "text": "login" }, "action": "permanent" }),
        _ => json!({}),
    };
    let method: Method = method.parse().unwrap();
    let body = (method == Method::POST).then_some(body);
    let answer = played.harness.send_as(caller, method, target, body).await;
    (answer.status.as_u16(), answer.text)
}

/// The request for an effect whose outcome is stored, for those who may work.
async fn known_effect(played: &Played, caller: &Caller) -> Value {
    let job = played.harness.engine().enqueue_raw("leak", "{}").queue("effects");
    job.submit().await.unwrap();
    let post = async |verb: &str, body: Value| {
        let path = format!("/api/v1/work/{verb}");
        played.harness.send_as(caller, Method::POST, &path, Some(body)).await.json()
    };
    let claimed = post("claim", json!({ "worker": "w", "queues": ["effects"], "kinds": ["leak"] })).await;
    let lease = &claimed["jobs"][0]["lease"]["token"];
    let call = json!({ "lease": lease, "name": "pay", "key": "k", "policy": "ask" });
    post("effect", call.clone()).await;
    post("step", json!({ "lease": lease, "name": "pay", "result": { "note": NEEDLE } })).await;
    call
}

/// The messages of webhooks as they stand in the store, past every mask.
async fn copies(played: &Played) -> String {
    let filter = JobFilter { queue: Some(DELIVERIES.to_owned()), ..JobFilter::default() };
    let found = played.harness.engine().jobs(filter, PageRequest::first(100)).await.unwrap();
    found.items.iter().map(|view| view.job.spec.payload.to_string()).collect()
}

#[tokio::test]
async fn a_reveal_shows_data_that_cannot_be_followed_as_its_text() {
    // F11
    let harness =
        crate::harness::Harness::with(Config::default(), backstop_server::ServerSettings::default()).await;
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    for payload in ["{\"n\":1e999}", &deep] {
        let body = format!("{{\"kind\":\"mail\",\"payload\":{payload}}}");
        let id = harness.post_text("/api/v1/jobs", &body).await.ok()["id"].as_str().unwrap().to_owned();
        let shown = harness.get(&format!("/api/v1/jobs/{id}")).await.ok();
        assert_eq!(shown["payload"], "[hidden]");
        let revealed = harness.get(&format!("/api/v1/jobs/{id}?reveal=true")).await.ok();
        assert_eq!(revealed["payload"], Value::from(payload));
    }
}
