//! Branches of workflows that predicates decide over HTTP, whoever answers them (W2).

use std::time::Duration;

use serde_json::{Value, json};

use super::stage::Stage;

const WORKFLOWS: &str = "/api/v1/workflows";

/// Lets whoever leads do what follows from the ends of jobs.
async fn follow(stage: &Stage) {
    tokio::time::advance(Duration::from_secs(1)).await;
    stage.engine().maintain(backstop::worker_id(), Duration::from_secs(1)).await.expect("maintained");
    tokio::time::advance(Duration::from_secs(2)).await;
}

/// Has remote workers run what there is, each kind as the table says, until nothing is left.
async fn work(stage: &Stage, table: &[(&str, Value)]) {
    let kinds: Vec<&str> = table.iter().map(|(kind, _)| *kind).collect();
    let ask = json!({ "worker": "w1", "queues": ["default"], "kinds": kinds, "limit": 1 });
    let mut idle = 0;
    while idle < 2 {
        follow(stage).await;
        let jobs = stage.claim(ask.clone()).await;
        idle = if jobs.is_empty() { idle + 1 } else { 0 };
        for job in jobs {
            let (_, result) = table.iter().find(|(kind, _)| job["kind"] == *kind).expect("it was asked for");
            let done = stage.finish(&job, json!({ "type": "succeeded", "result": result })).await;
            assert_eq!(done["ok"], true, "{done}");
        }
    }
}

/// Weighs a parcel; what is heavy goes by truck, what is large goes by ship, anything goes by post.
async fn submit(stage: &Stage, branches: Value) -> String {
    let branch =
        |name: &str, when: Value| json!({ "name": name, "kind": "send", "after": ["weigh"], "when": when });
    let body = json!({ "name": "parcel", "branches": branches, "nodes": [
        { "name": "weigh", "kind": "weigh" },
        branch("truck", json!({ "predicate": "heavy" })),
        branch("ship", json!({ "predicate": "large" })),
        branch("post", json!("always")),
    ] });
    let stored = stage.harness.post(WORKFLOWS, body).await;
    assert_eq!(stored.status.as_u16(), 201, "{}", stored.text);
    stored.json()["id"].as_str().expect("an id").to_owned()
}

/// Which branches ran; the others must have ended as not taken.
async fn taken(stage: &Stage, id: &str) -> Vec<String> {
    let seen = stage.harness.get(&format!("{WORKFLOWS}/{id}")).await.ok();
    assert_eq!(seen["status"], "succeeded", "{seen}");
    let nodes = seen["nodes"].as_array().expect("nodes").iter();
    let branches = nodes.filter(|node| node["name"] != "weigh");
    let ran = branches.filter(|node| {
        let well = node["status"] == "succeeded";
        assert!(well || node["reason"] == "not_taken", "{node}");
        well
    });
    ran.map(|node| node["name"].as_str().expect("a name").to_owned()).collect()
}

fn answers(heavy: bool, large: bool) -> [(&'static str, Value); 4] {
    [
        ("weigh", json!({ "kg": 40 })),
        ("predicate:heavy", json!(heavy)),
        ("predicate:large", json!(large)),
        ("send", Value::Null),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_remote_worker_answers_a_predicate_by_its_kind() {
    // W2, E7
    for (heavy, large, all, first) in [
        (true, true, vec!["truck", "ship", "post"], "truck"),
        (false, true, vec!["ship", "post"], "ship"),
        (false, false, vec!["post"], "post"),
    ] {
        let stage = Stage::new();
        let (every, one) =
            (submit(&stage, json!({})).await, submit(&stage, json!({ "weigh": "first_match" })).await);
        work(&stage, &answers(heavy, large)).await;
        assert_eq!(taken(&stage, &every).await, all, "heavy {heavy}, large {large}");
        assert_eq!(taken(&stage, &one).await, [first], "heavy {heavy}, large {large}");
    }
}

/// A step of a workflow as it is shown.
fn step<'w>(seen: &'w Value, name: &str) -> &'w Value {
    let found = seen["nodes"].as_array().expect("nodes").iter().find(|node| node["name"] == name);
    found.expect("it is shown")
}

#[tokio::test(start_paused = true)]
async fn a_predicate_gets_what_was_returned_before_it() {
    // W2, W1, E7
    let stage = Stage::new();
    let id = submit(&stage, json!({})).await;
    work(&stage, &answers(true, true)[..1]).await;
    let explained = |job: &Value| format!("/api/v1/jobs/{}/explain", job.as_str().expect("a job"));
    let seen = stage.harness.get(&format!("{WORKFLOWS}/{id}")).await.ok();
    let truck = step(&seen, "truck");
    // No worker is known that has it.
    assert_eq!(
        (&truck["status"], &truck["asked"]["status"]),
        (&json!("waiting"), &json!("waiting")),
        "{seen}"
    );
    let said = stage.harness.get(&explained(&truck["job"])).await.ok().to_string();
    assert!(said.contains("waits for the answer of the predicate `heavy`"), "{said}");
    let ask = json!({ "worker": "w1", "queues": ["default"], "kinds": ["predicate:heavy"] });
    let asked = stage.claim(ask).await;
    assert_eq!((asked.len(), &asked[0]["inputs"]), (1, &json!({ "weigh": { "kg": 40 } })));
    assert_eq!(asked[0]["workflow"]["id"], json!(id));
    let done = stage.finish(&asked[0], json!({ "type": "succeeded", "result": false })).await;
    assert_eq!(done["ok"], true, "{done}");
    work(&stage, &answers(true, true)).await;
    assert_eq!(taken(&stage, &id).await, ["ship", "post"]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_of_the_engine_answers_the_predicates_of_a_workflow_over_http() {
    // W2, E7
    let stage = Stage::new();
    let id = submit(&stage, json!({ "weigh": "first_match" })).await;
    work(&stage, &answers(true, true)[..1]).await;
    let worker = stage.engine().worker(()).queue("default", 1);
    let worker =
        worker.predicate("heavy", |parcel: Value| async move { Ok(parcel["kg"].as_u64() > Some(50)) });
    let worker =
        worker.predicate("large", |parcel: Value| async move { Ok(parcel["kg"].as_u64() > Some(30)) });
    let worker = worker.inline().expect("it has predicates");
    for _ in 0..3 {
        worker.drain(10).await.expect("the store is there");
        follow(&stage).await;
    }
    work(&stage, &answers(true, true)[3..]).await;
    assert_eq!(taken(&stage, &id).await, ["ship"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_neither_yes_nor_no_is_an_error() {
    // W2, E7: it would be a "no" that nobody has said.
    for answer in [Value::Null, json!(1), json!("true")] {
        let stage = Stage::new();
        let id = submit(&stage, json!({ "weigh": "first_match" })).await;
        work(&stage, &answers(true, true)[..1]).await;
        let ask = json!({ "worker": "w1", "queues": ["default"], "kinds": ["predicate:heavy"] });
        let asked = stage.claim(ask).await;
        let done = stage.finish(&asked[0], json!({ "type": "succeeded", "result": answer })).await;
        assert_eq!((&done["ok"], &done["status"]), (&json!(true), &json!("failed")), "{answer}: {done}");
        let job = format!("/api/v1/jobs/{}", asked[0]["id"].as_str().expect("an id"));
        let seen = stage.harness.get(&job).await.ok();
        assert_eq!(seen["terminal_reason"], "invalid", "{seen}");
        work(&stage, &answers(true, true)).await;
        let seen = stage.harness.get(&format!("{WORKFLOWS}/{id}")).await.ok();
        assert_eq!(seen["status"], "failed", "{seen}");
        let truck = step(&seen, "truck");
        let dead = json!({ "job": asked[0]["id"], "status": "failed" });
        assert_eq!((&truck["reason"], &truck["asked"]), (&json!("dependency_failed"), &dead), "{seen}");
    }
}
