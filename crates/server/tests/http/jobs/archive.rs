//! The archive over HTTP.

use std::time::Duration;

use backstop::{Config, JobId, Retention, worker_id};
use backstop_server::{Scope, ServerSettings};
use backstop_testing::TestEngine;
use serde_json::{Value, json};

use super::{holder, played};
use crate::harness::Harness;

/// An API with jobs of these endings in the archive.
pub(super) async fn archived(queue: &'static str, endings: &[&str]) -> (Harness, Vec<JobId>) {
    let at_once = Some(Duration::ZERO);
    let retention = Retention::default().succeeded(at_once).canceled(at_once).failed(at_once);
    let test = TestEngine::with_config(Config::default().retention(retention));
    let harness = Harness::of(test.engine().clone(), ServerSettings::default());
    let ids = played(&harness, queue, endings).await;
    let term = Duration::from_secs(30);
    harness.engine().maintain(worker_id(), term).await.unwrap();
    // Whoever led maintenance has stopped long ago.
    test.advance(term);
    (harness, ids)
}

#[tokio::test]
async fn archived_jobs_are_listed_shown_and_exported() {
    // L16
    let (harness, ids) = archived("default", &["well", "permanent"]).await;
    let page = harness.get("/api/v1/archive?limit=1").await.ok();
    assert_eq!((&page["items"][0]["id"], &page["items"][0]["status"]), (&json!(ids[1]), &json!("failed")));
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = harness.get(&format!("/api/v1/archive?cursor={cursor}")).await.ok();
    assert_eq!((&rest["items"][0]["id"], &rest["next_cursor"]), (&json!(ids[0]), &Value::Null));
    let shown = harness.get(&format!("/api/v1/archive/{}", ids[0])).await.ok();
    assert_eq!(shown["job"]["result"], json!({ "token": "[redacted]" }));
    assert_eq!(shown["attempts"][0]["cause"], "succeeded");
    let clear = harness.get(&format!("/api/v1/archive/{}?reveal=true", ids[0])).await.ok();
    assert_eq!(clear["job"]["result"], json!({ "token": "t-99-zz" }));
    let exported = harness.get("/api/v1/archive/export").await.ok();
    assert_eq!(exported["items"][1]["document"]["job"]["result"], json!({ "token": "t-99-zz" }));
    let reader = holder(&[Scope::Read], None, None);
    assert_eq!(harness.get_as(&reader, "/api/v1/archive/export").await.status, 403);
    let seen = harness.get_as(&reader, &format!("/api/v1/archive/{}", ids[0])).await.ok();
    assert_eq!(seen["attempts"][0]["output"], Value::Null);
}

#[tokio::test]
async fn other_paths_say_where_an_archived_job_is() {
    // L16
    let (harness, ids) = archived("default", &["permanent"]).await;
    let id = ids[0];
    for path in [
        format!("/api/v1/jobs/{id}"),
        format!("/api/v1/jobs/{id}/attempts"),
        format!("/api/v1/jobs/{id}/explain"),
        format!("/api/v1/jobs/{id}/logs"),
        format!("/api/v1/dead-letters/{id}"),
    ] {
        let answer = harness.get(&path).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (404, "archived".to_owned()), "{path}");
        assert!(answer.json()["error"]["details"]["archived_at"].is_string(), "{path}");
    }
    let hot = harness.engine().enqueue_raw("mail", "{}").submit().await.unwrap().id;
    assert_eq!(harness.get(&format!("/api/v1/archive/{hot}")).await.code(), "not_archived");
    assert_eq!(harness.get("/api/v1/archive/nonsense").await.code(), "no_such_job");
}

#[tokio::test]
async fn pruning_counts_first_and_is_for_those_who_see_everything() {
    // D5, L16
    let (harness, _) = archived("default", &["well", "permanent"]).await;
    let prune = async |body: Value| harness.post("/api/v1/archive/prune", body).await;
    let looked = prune(json!({ "keep_ms": 0, "dry_run": true })).await.ok();
    assert_eq!((&looked["jobs"], &looked["pruned"]), (&json!(2), &json!(0)));
    let kept = prune(json!({ "dry_run": true })).await.ok();
    assert_eq!((&kept["jobs"], &kept["keep_ms"]), (&json!(0), &json!(90 * 86_400_000_u64)));
    let done = prune(json!({ "keep_ms": 0 })).await.ok();
    assert_eq!((&done["pruned"], &done["more"]), (&json!(2), &json!(false)));
    let tenant = holder(&Scope::ALL, Some("acme"), None);
    assert_eq!(harness.post_as(&tenant, "/api/v1/archive/prune", json!({})).await.status, 403);
}

#[tokio::test]
async fn a_tenant_finds_only_its_own_in_the_archive() {
    // E13
    let (harness, ids) = archived("acme/mail", &["well"]).await;
    let (acme, other) = (holder(&Scope::ALL, Some("acme"), None), holder(&Scope::ALL, Some("other"), None));
    let page = harness.get_as(&acme, "/api/v1/archive").await.ok();
    assert_eq!(page["items"][0]["job"]["queue"], "mail");
    let exported = harness.get_as(&acme, "/api/v1/archive/export").await.ok();
    assert_eq!(exported["items"][0]["document"]["job"]["queue"], "mail");
    assert_eq!(harness.get_as(&other, "/api/v1/archive").await.ok()["items"], json!([]));
    assert_eq!(harness.get_as(&other, "/api/v1/archive/export").await.ok()["items"], json!([]));
    for path in ["archive", "jobs", "dead-letters"] {
        let path = format!("/api/v1/{path}/{}", ids[0]);
        assert_eq!(harness.get_as(&other, &path).await.code(), "no_such_job", "{path}");
    }
}
