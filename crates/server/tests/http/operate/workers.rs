//! `/api/v1/workers` and `/api/v1/doctor`.

use backstop_server::Scope;
use serde_json::json;

use super::{Play, holder, played, refused, send_as};

const WORKERS: &str = "/api/v1/workers";

#[tokio::test]
async fn workers_are_listed_with_what_they_serve() {
    let harness = played(&[]).await;
    let engine = harness.engine();
    let mut up = Vec::new();
    for (name, queues) in
        [("zoe", &["default"][..]), ("abe", &["acme/mail", "mail"]), ("ida", &["acme/mail"])]
    {
        let worker = engine.worker(()).register::<Play>().name(name);
        let worker = queues.iter().fold(worker, |worker, queue| worker.queue(*queue, 1));
        up.push(worker.start().await.unwrap());
    }
    let list = harness.get(WORKERS).await.ok();
    let items = list["items"].as_array().unwrap();
    let names: Vec<_> = items.iter().map(|worker| worker["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["abe", "ida", "zoe"]);
    assert_eq!((&items[2]["live"], &items[2]["running"]), (&json!(true), &json!(0)));
    assert_eq!(items[2]["kinds"], json!([{ "kind": "play", "version": 1 }]));
    // A tenant sees the workers of its queues, and of those what concerns it.
    let acme = holder(&[Scope::Read], Some("acme"), None);
    let list = send_as(&harness, &acme, "GET", WORKERS, None).await.ok();
    let seen: Vec<_> =
        list["items"].as_array().unwrap().iter().map(|one| (&one["name"], &one["queues"])).collect();
    assert_eq!(seen, [(&json!("abe"), &json!(["mail"])), (&json!("ida"), &json!(["mail"]))]);
    assert_eq!((&list["items"][0]["running"], &list["items"][1]["running"]), (&json!(null), &json!(0)));
    for worker in up {
        worker.stop().await;
    }
}

#[tokio::test]
async fn the_doctor_tells_those_who_see_all() {
    let harness = played(&[]).await;
    let found = harness.get("/api/v1/doctor").await.ok();
    assert_eq!(found["items"][0]["level"], "bad", "a store in memory is lost with its process");
    let acme = holder(&Scope::ALL, Some("acme"), None);
    refused(&send_as(&harness, &acme, "GET", "/api/v1/doctor", None).await, 403, "forbidden", None);
}
