//! `/api/v1/workers` and `/api/v1/doctor`.

use std::time::Duration;

use backstop::Config;
use backstop_server::{Scope, ServerSettings};
use serde_json::json;

use crate::harness::Harness;

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
async fn each_dependency_of_a_worker_is_listed_with_its_last_result() {
    // H1, H2
    let config = Config::default().kind_dependency("play", "smtp");
    let harness = Harness::with(config, ServerSettings::default()).await;
    let worker = harness.engine().worker(()).register::<Play>().queue("default", 1).queue("acme/mail", 1);
    let check = |_| async { Err("nobody answers".into()) };
    let worker = worker.name("abe").check("smtp", check).start().await.unwrap();
    let listed = async {
        loop {
            let worker = harness.get(WORKERS).await.ok()["items"][0].clone();
            if worker["dependencies"][0]["last"].is_object() {
                return worker;
            }
            tokio::task::yield_now().await;
        }
    };
    let listed = tokio::time::timeout(Duration::from_secs(60), listed).await.expect("it is told soon");
    let smtp = &listed["dependencies"][0];
    assert_eq!(
        (&smtp["dependency"], &smtp["kinds"], &smtp["ok"]),
        (&json!("smtp"), &json!(["play"]), &json!(false))
    );
    let last = (&smtp["last"]["result"], &smtp["last"]["problem"]);
    assert_eq!(last, (&json!("failed"), &json!("nobody answers")));
    assert!(smtp["since"].is_string() && smtp["next_at"].is_string() && listed["paused"].is_null());
    // What it runs on is not for a tenant of one of its queues.
    let acme = holder(&[Scope::Read], Some("acme"), None);
    let seen = send_as(&harness, &acme, "GET", WORKERS, None).await.ok()["items"][0].clone();
    assert_eq!((&seen["name"], &seen["dependencies"]), (&json!("abe"), &json!([])));
    worker.stop().await;
}

#[tokio::test]
async fn the_doctor_tells_those_who_see_all() {
    let harness = played(&[]).await;
    let found = harness.get("/api/v1/doctor").await.ok();
    assert_eq!(found["items"][0]["level"], "bad", "a store in memory is lost with its process");
    let acme = holder(&Scope::ALL, Some("acme"), None);
    refused(&send_as(&harness, &acme, "GET", "/api/v1/doctor", None).await, 403, "forbidden", None);
}
