//! Dead letters: listed, shown, exported, removed.

use backstop_server::Scope;
use serde_json::{Value, json};

use super::{holder, played};
use crate::harness::Harness;

const PURGE: &str = "/api/v1/dead-letters/purge";

async fn dead(harness: &Harness) -> usize {
    harness.get("/api/v1/dead-letters").await.ok()["items"].as_array().unwrap().len()
}

#[tokio::test]
async fn dead_letters_are_jobs_and_have_envelopes_when_asked_for() {
    // D1
    let harness = Harness::new().await;
    let ids = played(&harness, "default", &["permanent", "well"]).await;
    let page = harness.get("/api/v1/dead-letters?kind=play").await.ok();
    assert_eq!(page["items"].as_array().unwrap().len(), 1);
    let jobs = harness.get("/api/v1/jobs?status=failed").await.ok();
    assert_eq!(page["items"], jobs["items"], "one dialect");
    let page = harness.get("/api/v1/dead-letters?kind=play&envelope=true").await.ok();
    let envelope = &page["items"][0];
    assert_eq!((&envelope["executionId"], &envelope["codeVersion"]), (&json!(ids[0]), &json!("1.2.0")));
    let shown = harness.get(&format!("/api/v1/dead-letters/{}", ids[0])).await.ok();
    let job = harness.get(&format!("/api/v1/jobs/{}", ids[0])).await.ok();
    assert_eq!((&shown["job"], shown.get("envelope")), (&job, None));
    assert_eq!(shown["attempts"][0]["error"], "the card is stolen");
    assert!(shown["next"].as_str().unwrap().contains("backstop job retry"));
    let with = harness.get(&format!("/api/v1/dead-letters/{}?envelope=true", ids[0])).await.ok();
    assert_eq!(&with["envelope"], envelope);
    let well = harness.get(&format!("/api/v1/dead-letters/{}", ids[1])).await;
    assert_eq!((well.status.as_u16(), well.code()), (409, "wrong_state".to_owned()));
    assert_eq!(harness.get("/api/v1/dead-letters?status=failed").await.code(), "invalid");
}

#[tokio::test]
async fn an_export_has_everything_in_clear_and_needs_the_right_to_logs() {
    // D5
    let harness = Harness::new().await;
    played(&harness, "default", &["permanent", "error"]).await;
    let page = harness.get("/api/v1/dead-letters/export?limit=1").await.ok();
    let first = &page["items"][0]["document"];
    assert_eq!(
        (&first["job"]["payload"], &first["attempts"][0]["number"]),
        (&json!({ "ends": "error" }), &json!(1))
    );
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = harness.get(&format!("/api/v1/dead-letters/export?limit=1&cursor={cursor}")).await.ok();
    assert_eq!(rest["next_cursor"], Value::Null);
    let reader = holder(&[Scope::Read], None, None);
    assert_eq!(harness.get_as(&reader, "/api/v1/dead-letters/export").await.status, 403);
}

#[tokio::test]
async fn a_purge_counts_needs_a_condition_and_goes_batch_by_batch() {
    // D5
    let harness = Harness::new().await;
    let endings = ["permanent"; 501];
    let ids = played(&harness, "default", &endings).await;
    assert_eq!(harness.post(PURGE, json!({})).await.code(), "needs_all");
    let counted = harness.post(PURGE, json!({ "dry_run": true })).await.ok();
    assert_eq!((&counted["dry_run"], &counted["purged"]), (&json!(true), &json!(0)));
    assert_eq!(counted["survey"]["groups"][0]["jobs"], 501);
    let first = harness.post(PURGE, json!({ "kind": "play" })).await.ok();
    assert_eq!((&first["purged"], &first["left"]), (&json!(500), &json!(0)));
    assert_eq!(dead(&harness).await, 1);
    let rest = harness.post(PURGE, json!({ "kind": "play", "cursor": first["next_cursor"] })).await.ok();
    assert_eq!((&rest["purged"], &rest["next_cursor"]), (&json!(1), &Value::Null));
    let again = harness.post(PURGE, json!({ "ids": [ids[0]] })).await.ok();
    assert_eq!((&again["purged"], &again["left"]), (&json!(0), &json!(1)));
    assert_eq!(harness.post(PURGE, json!({ "all": true })).await.ok()["purged"], 0);
}

#[tokio::test]
async fn a_purge_by_ids_takes_dead_letters_only() {
    // D5
    let harness = Harness::new().await;
    let ids = played(&harness, "default", &["permanent", "well"]).await;
    let done = harness.post(PURGE, json!({ "ids": ids })).await.ok();
    assert_eq!((&done["purged"], &done["left"]), (&json!(1), &json!(1)));
    harness.get(&format!("/api/v1/jobs/{}", ids[1])).await.ok();
    for body in [json!({ "ids": ids, "kind": "play" }), json!({ "ids": ids, "all": true })] {
        assert_eq!(harness.post(PURGE, body).await.code(), "invalid");
    }
    let operator = holder(&[Scope::Operate, Scope::Read], None, None);
    assert_eq!(harness.post_as(&operator, PURGE, json!({ "all": true })).await.status, 403);
}
