//! Workflows and batches over HTTP, worked on by remote workers (W1-W6).

use std::collections::BTreeSet;
use std::time::Duration;

use backstop_server::{Caller, Scope};
use serde_json::{Value, json};

use super::stage::Stage;
use crate::harness::Answer;

const WORKFLOWS: &str = "/api/v1/workflows";
const BATCHES: &str = "/api/v1/batches";

fn refused(answer: &Answer, status: u16, code: &str) -> Value {
    assert_eq!((answer.status.as_u16(), answer.code().as_str()), (status, code), "{}", answer.text);
    answer.json()["error"].clone()
}

fn holder(scopes: &[Scope], tenant: Option<&str>, queues: Option<&[&str]>) -> Caller {
    let queues = queues.map(|names| names.iter().map(ToString::to_string).collect());
    let scopes: BTreeSet<Scope> = scopes.iter().copied().collect();
    Caller::holder("tester", scopes, tenant.map(str::to_owned), queues)
}

/// Lets whoever leads do what follows from the ends of jobs.
async fn follow(stage: &Stage) {
    tokio::time::advance(Duration::from_secs(1)).await;
    stage.engine().maintain(backstop::worker_id(), Duration::from_secs(1)).await.expect("maintained");
    tokio::time::advance(Duration::from_secs(2)).await;
}

/// Claims one job of a kind.
async fn claim(stage: &Stage, kind: &str) -> Value {
    let ask = json!({ "worker": "w1", "queues": ["default"], "kinds": [kind], "limit": 1 });
    let jobs = stage.claim(ask).await;
    assert_eq!(jobs.len(), 1, "one job of kind {kind}");
    jobs[0].clone()
}

async fn succeed(stage: &Stage, job: &Value, result: Value) {
    let done = stage.finish(job, json!({ "type": "succeeded", "result": result })).await;
    assert_eq!(done["ok"], true, "{done}");
}

fn order() -> Value {
    json!({ "name": "order", "key": "order-7", "nodes": [
        { "name": "reserve", "kind": "reserve", "payload": { "order": 7 }, "tags": ["shop"] },
        { "name": "charge", "kind": "charge", "after": ["reserve"] },
        { "name": "large", "kind": "call", "after": ["reserve"],
          "when": { "result": { "pointer": "/large", "equals": true } } },
        { "name": "sorry", "kind": "mail", "after": ["charge"], "when": "failure" },
        { "name": "done", "kind": "mail", "after": ["charge", "large"], "join": "any", "payload_from": null },
    ], "on_success": { "kind": "tell", "payload": { "how": "well" } } })
}

fn statuses(workflow: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let nodes = workflow["nodes"].as_array().expect("nodes");
    nodes.iter().map(|node| (text(&node["name"]), text(&node["status"]), text(&node["reason"]))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_workflow_is_submitted_worked_on_and_seen() {
    // W1, W2, W4, W6, E7
    let stage = Stage::new();
    let stored = stage.harness.post(WORKFLOWS, order()).await;
    assert_eq!(stored.status.as_u16(), 201, "{}", stored.text);
    let stored = stored.json();
    let id = stored["id"].as_str().expect("an id").to_owned();
    assert_eq!((&stored["status"], &stored["deduplicated"]), (&json!("running"), &json!(false)));
    let again = stage.harness.post(WORKFLOWS, order()).await;
    assert_eq!((again.status.as_u16(), &again.json()["id"]), (200, &json!(id)), "the same key");

    let reserve = claim(&stage, "reserve").await;
    assert_eq!((&reserve["workflow"]["id"], &reserve["workflow"]["node"]), (&json!(id), &json!("reserve")));
    assert!(reserve.get("inputs").is_none(), "it follows nothing");
    let path = format!("{WORKFLOWS}/{id}");
    let progress = stage.harness.get(&path).await.ok()["progress"].clone();
    let expected = json!({ "total": 5, "succeeded": 0, "failed": 0, "canceled": 0, "running": 1, "pending": 0, "waiting": 4 });
    assert_eq!(progress, expected);
    succeed(&stage, &reserve, json!({ "large": false, "room": 12 })).await;
    follow(&stage).await;
    let charge = claim(&stage, "charge").await;
    assert_eq!(charge["inputs"], json!({ "reserve": { "large": false, "room": 12 } }));
    succeed(&stage, &charge, json!("paid")).await;
    follow(&stage).await;
    let done = claim(&stage, "mail").await;
    assert_eq!(done["inputs"], json!({ "charge": "paid" }), "of those before it that succeeded");
    succeed(&stage, &done, Value::Null).await;
    follow(&stage).await;

    let seen = stage.harness.get(&format!("{WORKFLOWS}/{}", &id[..13])).await.ok();
    let expected = [
        ("reserve", "succeeded", ""),
        ("charge", "succeeded", ""),
        ("large", "canceled", "not_taken"),
        ("sorry", "canceled", "not_taken"),
        ("done", "succeeded", ""),
    ];
    let expected = expected.map(|(name, status, reason)| (name.into(), status.into(), reason.into()));
    assert_eq!(statuses(&seen), expected);
    assert_eq!(seen["status"], "succeeded", "{seen}");
    assert_eq!(seen["nodes"][2]["when"], order()["nodes"][2]["when"]);
    let told = claim(&stage, "tell").await;
    assert_eq!((&told["payload"], &told["inputs"]), (&json!({ "how": "well" }), &json!({ "done": null })));
    let end = &told["params"]["workflow"];
    assert_eq!(
        (&end["id"], &end["status"], &end["key"]),
        (&json!(id), &json!("succeeded"), &json!("order-7"))
    );

    let listed = stage.harness.get(&format!("{WORKFLOWS}?status=succeeded&name=order")).await.ok();
    assert_eq!(listed["items"][0]["id"], json!(id));
    assert!(listed["items"][0].get("nodes").is_none(), "a list is brief");
    assert_eq!(listed["items"][0]["progress"]["total"], 5);
    assert_eq!(stage.harness.get(&format!("{WORKFLOWS}?status=failed")).await.ok()["items"], json!([]));
    let svg = stage.harness.get(&format!("{path}/graph.svg")).await;
    assert_eq!(svg.headers["content-type"], "image/svg+xml");
    assert!(svg.text.starts_with("<svg") && svg.text.contains(">charge<"), "{}", svg.text);
    let mermaid = stage.harness.get(&format!("{path}/graph.mmd")).await;
    assert!(
        mermaid.text.starts_with("flowchart LR\n") && mermaid.text.contains("on failure"),
        "{}",
        mermaid.text
    );
}

#[tokio::test(start_paused = true)]
async fn a_shape_that_cannot_be_is_refused_with_its_names() {
    // W6: nothing is stored.
    let stage = Stage::new();
    let step = |name: &str, after: &[&str]| json!({ "name": name, "kind": "mail", "after": after });
    let cases: [(Value, &str, &[&str]); 5] = [
        (json!([step("a", &["b"]), step("b", &["a"])]), "circle", &["a", "b"]),
        (json!([step("a", &["nobody"])]), "nobody", &["a", "nobody"]),
        (json!([step("a", &[]), step("a", &[])]), "two nodes", &["a"]),
        (json!([]), "at least one", &[]),
        (json!([{ "name": "a", "kind": "mail", "when": "failure" }]), "follows no node", &["a"]),
    ];
    for (nodes, words, names) in cases {
        let answer = stage.harness.post(WORKFLOWS, json!({ "name": "odd", "nodes": nodes })).await;
        let error = refused(&answer, 422, "invalid_workflow");
        assert!(error["message"].as_str().expect("text").contains(words), "{error}");
        assert_eq!(error["details"]["names"], json!(names));
    }
    for (node, field) in [
        (json!({ "name": "a", "kind": "mail", "afetr": ["b"] }), "nodes[0]"),
        (json!({ "name": "a" }), "nodes[0]"),
        (json!({ "kind": "mail" }), "nodes[0]"),
        (json!({ "name": "a", "kind": "mail", "idempotency_key": "k" }), ""),
        (json!({ "name": "a", "kind": "backstop.x" }), "nodes[0].kind"),
        (json!({ "name": "a", "kind": "mail", "when": "sometimes" }), "nodes[0]"),
        (json!("a"), "nodes[0]"),
    ] {
        let answer = stage.harness.post(WORKFLOWS, json!({ "name": "odd", "nodes": [node] })).await;
        assert!(answer.status.is_client_error(), "{}", answer.text);
        let told = answer.json()["error"]["details"]["field"].as_str().unwrap_or_default().to_owned();
        assert!(told.starts_with(field), "{field}: {}", answer.text);
    }
    assert_eq!(stage.harness.get(WORKFLOWS).await.ok()["items"], json!([]));
    assert_eq!(stage.harness.get("/api/v1/jobs").await.ok()["items"], json!([]));
    refused(&stage.harness.get(&format!("{WORKFLOWS}/nothing")).await, 404, "no_such_workflow");
    refused(
        &stage.harness.post(&format!("{WORKFLOWS}/nothing/cancel"), json!({})).await,
        404,
        "no_such_workflow",
    );
}

#[tokio::test(start_paused = true)]
async fn workflows_are_paused_resumed_and_canceled() {
    // W4
    let stage = Stage::new();
    let stored = stage.harness.post(WORKFLOWS, order()).await.json();
    let path = format!("{WORKFLOWS}/{}", stored["id"].as_str().expect("an id"));
    let paused = stage.harness.post(&format!("{path}/pause"), json!({})).await.ok();
    assert_eq!(paused, json!({ "changed": 5, "status": "paused" }));
    let none = json!({ "worker": "w1", "queues": ["default"], "kinds": ["reserve"] });
    assert!(stage.claim(none).await.is_empty());
    let resumed = stage.harness.post(&format!("{path}/resume"), json!({})).await.ok();
    assert_eq!(resumed, json!({ "changed": 5, "status": "running" }));
    let canceled = stage.harness.post(&format!("{path}/cancel"), json!({ "reason": "sold out" })).await.ok();
    assert_eq!(canceled["changed"], 5);
    follow(&stage).await;
    let seen = stage.harness.get(&path).await.ok();
    assert_eq!((&seen["status"], &seen["progress"]["canceled"]), (&json!("canceled"), &json!(5)));
    let job = seen["nodes"][0]["job"].as_str().expect("a job");
    assert_eq!(stage.harness.get(&format!("/api/v1/jobs/{job}")).await.ok()["cancel_reason"], "sold out");
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_filled_sealed_and_ends_once() {
    // W3
    let stage = Stage::new();
    let mail = |number: u32| json!({ "kind": "mail", "payload": { "number": number } });
    let body = json!({ "name": "letters", "open": true, "jobs": [mail(1)], "failures_at_most": 1,
        "then_on_success": { "kind": "tell" }, "then_on_failure": { "kind": "complain" } });
    let stored = stage.harness.post(BATCHES, body).await;
    assert_eq!(stored.status.as_u16(), 201, "{}", stored.text);
    let id = stored.json()["id"].as_str().expect("an id").to_owned();
    let path = format!("{BATCHES}/{id}");
    let added = stage.harness.post(&format!("{path}/jobs"), json!({ "jobs": [mail(2), mail(3)] })).await.ok();
    assert_eq!((&added["total"], &added["sealed"]), (&json!(3), &json!(false)));
    let sealed = stage.harness.post(&format!("{path}/seal"), json!({})).await.ok();
    assert_eq!((&sealed["sealed"], &sealed["status"]), (&json!(true), &json!("running")));
    let late = stage.harness.post(&format!("{path}/jobs"), json!({ "jobs": [mail(4)] })).await;
    refused(&late, 409, "batch_sealed");
    for number in 0..3 {
        let job = claim(&stage, "mail").await;
        if number == 1 {
            let failed = json!({ "type": "failed", "class": "permanent", "message": "no such street" });
            assert_eq!(stage.finish(&job, failed).await["ok"], true);
        } else {
            succeed(&stage, &job, Value::Null).await;
        }
    }
    follow(&stage).await;
    let seen = stage.harness.get(&path).await.ok();
    let counts =
        ["total", "succeeded", "failed", "canceled"].map(|name| seen[name].as_u64().expect("a count"));
    assert_eq!((counts, &seen["status"]), ([3, 2, 1, 0], &json!("succeeded")), "one may fail: {seen}");
    claim(&stage, "tell").await;
    let listed = stage.harness.get(BATCHES).await.ok();
    assert_eq!(listed["items"], json!([seen]));
    assert_eq!(stage.harness.get(WORKFLOWS).await.ok()["items"], json!([]), "batches are listed apart");
    refused(&stage.harness.get(&format!("{WORKFLOWS}/{id}")).await, 404, "no_such_workflow");
    let empty = stage.harness.post(BATCHES, json!({ "name": "none" })).await.json();
    assert_eq!(
        (&empty["status"], &empty["total"]),
        (&json!("succeeded"), &json!(0)),
        "nothing to do is done"
    );
    let rule = json!({ "name": "odd", "success_rate_at_least": 1.5 });
    assert!(stage.harness.post(BATCHES, rule).await.status.is_client_error());
    let too_many: Vec<Value> = (0..1_001).map(mail).collect();
    refused(&stage.harness.post(BATCHES, json!({ "name": "many", "jobs": too_many })).await, 422, "invalid");
}

#[tokio::test(start_paused = true)]
async fn a_workflow_is_for_those_who_see_all_its_queues() {
    // E13, W6
    let stage = Stage::new();
    let every = [Scope::Submit, Scope::Read, Scope::Operate];
    let (acme, other) = (holder(&every, Some("acme"), None), holder(&every, Some("other"), None));
    let printer = holder(&every, Some("acme"), Some(&["print"]));
    let body = json!({ "name": "order", "key": "k", "nodes": [
        { "name": "a", "kind": "mail" }, { "name": "b", "kind": "mail", "queue": "print", "after": ["a"] }] });
    let stored = stage.post_as(&acme, WORKFLOWS, body.clone()).await.json();
    let path = format!("{WORKFLOWS}/{}", stored["id"].as_str().expect("an id"));
    assert_eq!(stage.harness.get_as(&acme, &path).await.ok()["name"], "order");
    for stranger in [&other, &printer, &holder(&every, None, Some(&["default"]))] {
        refused(&stage.harness.get_as(stranger, &path).await, 404, "no_such_workflow");
        refused(
            &stage.post_as(stranger, &format!("{path}/cancel"), json!({})).await,
            404,
            "no_such_workflow",
        );
        assert_eq!(stage.harness.get_as(stranger, WORKFLOWS).await.ok()["items"], json!([]), "{stranger:?}");
    }
    let own =
        json!({ "name": "order", "key": "k", "nodes": [{ "name": "a", "kind": "mail", "queue": "print" }] });
    refused(&stage.post_as(&printer, WORKFLOWS, own.clone()).await, 409, "key_held");
    assert_eq!(stage.post_as(&other, WORKFLOWS, body.clone()).await.status.as_u16(), 201, "its own key");
    refused(&stage.post_as(&printer, WORKFLOWS, body).await, 403, "forbidden");
    // An open batch without a job is its tenant's.
    let batch = stage.post_as(&acme, BATCHES, json!({ "name": "b", "open": true })).await.json();
    let batch = format!("{BATCHES}/{}", batch["id"].as_str().expect("an id"));
    refused(&stage.harness.get_as(&other, &batch).await, 404, "no_such_batch");
    let more = json!({ "jobs": [{ "kind": "mail" }] });
    refused(&stage.post_as(&other, &format!("{batch}/jobs"), more.clone()).await, 404, "no_such_batch");
    assert_eq!(stage.post_as(&acme, &format!("{batch}/jobs"), more).await.ok()["total"], 1);
    let reader = holder(&[Scope::Read], Some("acme"), None);
    refused(&stage.post_as(&reader, WORKFLOWS, json!({ "name": "x", "nodes": [] })).await, 403, "forbidden");
}
