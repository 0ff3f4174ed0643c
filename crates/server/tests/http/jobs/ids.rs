//! Job ids by their first characters.

use axum::http::Method;
use backstop_server::{Caller, Scope};
use backstop_store::Submit;
use serde_json::json;

use super::archive::archived;
use super::holder;
use crate::harness::{Answer, Harness};

/// Three ids that begin alike, and one that does not.
const ALIKE: [&str; 3] = [
    "0190b8a2-7c1e-7d3a-9f00-5c1b2a3d4e5f",
    "0190b8a2-7c1f-7d3a-9f00-5c1b2a3d4e5f",
    "0190b8a3-0000-7d3a-9f00-5c1b2a3d4e5f",
];
const OTHER: &str = "01a00000-0000-7d3a-9f00-5c1b2a3d4e5f";

async fn stored(queues: [&str; 4]) -> Harness {
    let harness = Harness::new().await;
    for (id, queue) in ALIKE.into_iter().chain([OTHER]).zip(queues) {
        let mut job = harness.engine().enqueue_raw("mail", "{}").queue(queue).into_new_job().unwrap();
        job.spec.id = id.parse().unwrap();
        let submit = Submit { jobs: vec![job], atomic: true };
        harness.engine().store().submit(submit).await.unwrap().remove(0).unwrap();
    }
    harness
}

async fn show(harness: &Harness, caller: &Caller, prefix: &str) -> Answer {
    harness.get_as(caller, &format!("/api/v1/jobs/{prefix}")).await
}

#[tokio::test]
async fn a_job_is_found_by_a_prefix_that_it_alone_has() {
    let harness = stored(["default"; 4]).await;
    let all = holder(&Scope::ALL, None, None);
    for (prefix, id) in [("01a000", OTHER), ("0190B8A3", ALIKE[2]), ("0190b8a2-7c1f", ALIKE[1])] {
        assert_eq!(show(&harness, &all, prefix).await.ok()["id"], id, "{prefix}");
    }
    let moved = harness.send_as(&all, Method::POST, "/api/v1/jobs/0190b8a2-7c1f/pause", None).await.ok();
    assert_eq!(moved["status"], "paused");
    for path in ["/explain", "/attempts", "/logs"] {
        harness.get_as(&all, &format!("/api/v1/jobs/0190b8a2-7c1f{path}")).await.ok();
    }
    let refused = show(&harness, &all, "0190b8a2").await;
    assert_eq!((refused.status.as_u16(), refused.code()), (400, "ambiguous_id".to_owned()));
    let error = &refused.json()["error"];
    let named: Vec<_> =
        error["details"]["candidates"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
    assert_eq!(named, [json!(ALIKE[1]), json!(ALIKE[0])], "newest first");
    assert_eq!(error["message"], "0190b8a2 is ambiguous: 2 jobs begin with it");
    for absent in ["0190b8b", "0190b", "not-an-id", "0190b8a2-7c1e-7d3a-9f00-5c1b2a3d4e50"] {
        let refused = show(&harness, &all, absent).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (404, "no_such_job".to_owned()), "{absent}");
    }
}

#[tokio::test]
async fn a_prefix_tells_nothing_of_others_jobs() {
    // E13
    let harness = stored(["acme/mail", "other/mail", "acme/print", "mail"]).await;
    let (acme, other) = (holder(&Scope::ALL, Some("acme"), None), holder(&Scope::ALL, Some("other"), None));
    assert_eq!(show(&harness, &acme, "0190b8a2").await.ok()["id"], ALIKE[0]);
    assert_eq!(show(&harness, &other, "0190b8").await.ok()["id"], ALIKE[1]);
    assert_eq!(show(&harness, &acme, "0190b8").await.code(), "ambiguous_id");
    let unknown = show(&harness, &acme, "0190b8a2-7c1f").await;
    assert_eq!(unknown.code(), "no_such_job");
    assert!(!unknown.text.contains(ALIKE[1]), "{}", unknown.text);
    let printer = holder(&Scope::ALL, Some("acme"), Some(&["print"]));
    assert_eq!(show(&harness, &printer, "0190b8").await.ok()["id"], ALIKE[2]);
    let operator = holder(&[Scope::Operate], None, None);
    let blind = harness.send_as(&operator, Method::POST, "/api/v1/jobs/01a000/pause", None).await;
    assert_eq!(blind.code(), "no_such_job", "candidates are told to those who may read");
}

#[tokio::test]
async fn archived_jobs_are_found_too() {
    // L16
    let (harness, ids) = archived("acme/mail", &["well", "permanent"]).await;
    let (acme, other) = (holder(&Scope::ALL, Some("acme"), None), holder(&Scope::ALL, Some("other"), None));
    let id = ids[0].to_string();
    let prefix = &id[..35];
    let whole = harness.get_as(&acme, &format!("/api/v1/archive/{prefix}")).await;
    assert_eq!(whole.ok()["id"], *id);
    let hint = show(&harness, &acme, prefix).await;
    assert_eq!((hint.code(), &hint.json()["error"]["details"]["id"]), ("archived".to_owned(), &json!(id)));
    assert_eq!(show(&harness, &other, prefix).await.code(), "no_such_job");
}
