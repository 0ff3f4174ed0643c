//! What a tenant, and the holder of a token for some queues, sees and touches (E13).

use axum::http::Method;
use backstop_server::Scope;
use serde_json::{Value, json};

use super::{holder, played};
use crate::harness::Harness;

#[tokio::test]
async fn names_of_a_tenant_are_its_own() {
    // E13
    let harness = Harness::new().await;
    let (acme, other) = (holder(&Scope::ALL, Some("acme"), None), holder(&Scope::ALL, Some("other"), None));
    let body = json!({
        "kind": "mail", "queue": "letters", "idempotency_key": "k", "business_key": "b", "correlation_id": "c",
        "on_success": {"kind": "done", "queue": "after"},
    });
    let mine = harness.post_as(&acme, "/api/v1/jobs", body.clone()).await.ok();
    let theirs = harness.post_as(&other, "/api/v1/jobs", body.clone()).await.ok();
    assert_ne!(mine["id"], theirs["id"], "keys of two tenants never meet");
    let id = mine["id"].as_str().unwrap();
    let stored = harness.engine().job(id.parse().unwrap()).await.unwrap().unwrap().view.job.spec;
    assert_eq!((&*stored.queue, stored.business_key.as_deref()), ("acme/letters", Some("acme/b")));
    assert_eq!(&*stored.on_success.unwrap().queue, "acme/after");
    let shown = harness.get_as(&acme, &format!("/api/v1/jobs/{id}")).await.ok();
    for (field, value) in
        [("queue", "letters"), ("idempotency_key", "k"), ("business_key", "b"), ("correlation_id", "c")]
    {
        assert_eq!(shown[field], value, "{field}");
    }
    let again = json!({ "kind": "mail", "business_key": "b" });
    let conflict = harness.post_as(&acme, "/api/v1/jobs", again).await;
    assert_eq!(conflict.json()["error"]["details"]["business_key"], "b");
    assert!(!conflict.text.contains("acme/"), "{}", conflict.text);
    let found = harness.get_as(&acme, "/api/v1/jobs?business_key=b&queue=letters").await.ok();
    assert_eq!(found["items"].as_array().unwrap().len(), 1);
    let told = harness.get_as(&acme, &format!("/api/v1/jobs/{id}/explain")).await;
    assert_eq!(told.ok()["queue"], "letters");
    assert!(!told.text.contains("acme/"), "{}", told.text);
}

#[tokio::test]
async fn a_strangers_job_is_not_there() {
    // E13
    let harness = Harness::new().await;
    let other = holder(&Scope::ALL, Some("other"), None);
    let id = played(&harness, "acme/mail", &["permanent"]).await[0];
    harness.engine().enqueue_raw("mail", "{}").queue("acme/mail").submit().await.unwrap();
    for path in ["", "/attempts", "/explain", "/logs"] {
        let answer = harness.get_as(&other, &format!("/api/v1/jobs/{id}{path}")).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (404, "no_such_job".to_owned()), "{path}");
    }
    assert_eq!(harness.get_as(&other, &format!("/api/v1/dead-letters/{id}")).await.code(), "no_such_job");
    for verb in ["cancel", "pause", "resume", "retry"] {
        let path = format!("/api/v1/jobs/{id}/{verb}");
        assert_eq!(harness.send_as(&other, Method::POST, &path, None).await.code(), "no_such_job", "{verb}");
    }
    for list in ["jobs", "jobs?queue=mail", "jobs?queue=acme%2Fmail", "dead-letters", "dead-letters/export"] {
        let page = harness.get_as(&other, &format!("/api/v1/{list}")).await.ok();
        assert_eq!(page["items"], json!([]), "{list}");
    }
    let replaces = json!({ "kind": "mail", "replaces": id });
    assert_eq!(harness.post_as(&other, "/api/v1/jobs", replaces.clone()).await.code(), "no_such_job");
    let batch = json!({ "jobs": [{"kind": "mail"}, replaces], "partial": true });
    let answers = harness.post_as(&other, "/api/v1/jobs/batch", batch).await;
    assert_eq!(answers.status, 207);
    assert_eq!(answers.json()["items"][1]["error"]["code"], "no_such_job");
    for body in [json!({ "all": true }), json!({ "ids": [id] }), json!({ "queue": "acme/mail" })] {
        let purged = harness.post_as(&other, "/api/v1/dead-letters/purge", body.clone()).await.ok();
        assert_eq!(purged["purged"], 0, "{body}");
    }
    harness.get(&format!("/api/v1/jobs/{id}")).await.ok();
    let acme = holder(&Scope::ALL, Some("acme"), None);
    let counted = json!({ "dry_run": true });
    let counted = harness.post_as(&acme, "/api/v1/dead-letters/purge", counted).await.ok();
    assert_eq!(counted["survey"]["groups"][0]["queue"], "mail");
    let page = harness.get_as(&acme, "/api/v1/dead-letters").await.ok();
    assert_eq!(page["items"][0]["queue"], "mail");
    let purged = harness.post_as(&acme, "/api/v1/dead-letters/purge", json!({ "ids": [id] })).await.ok();
    assert_eq!(purged["purged"], 1);
}

#[tokio::test]
async fn a_token_for_some_queues_has_to_name_one() {
    // E13
    let harness = Harness::new().await;
    let some = holder(&Scope::ALL, None, Some(&["mail"]));
    let submit = async |queue: Value| {
        harness.post_as(&some, "/api/v1/jobs", json!({ "kind": "mail", "queue": queue })).await
    };
    assert_eq!(submit(json!("mail")).await.status, 201);
    assert_eq!(submit(json!("print")).await.code(), "forbidden");
    assert_eq!(submit(Value::Null).await.code(), "forbidden", "the default queue is not among them");
    let callback = json!({ "kind": "mail", "queue": "mail", "on_success": {"kind": "x", "queue": "print"} });
    assert_eq!(harness.post_as(&some, "/api/v1/jobs", callback).await.code(), "forbidden");
    let refused = harness.get_as(&some, "/api/v1/jobs").await;
    assert_eq!(
        (refused.status.as_u16(), &refused.json()["error"]["details"]["field"]),
        (422, &json!("queue"))
    );
    let page = harness.get_as(&some, "/api/v1/jobs?queue=mail").await.ok();
    assert_eq!(page["items"].as_array().unwrap().len(), 1);
    assert_eq!(harness.get_as(&some, "/api/v1/jobs?queue=print").await.code(), "forbidden");
    let hidden = harness.engine().enqueue_raw("mail", "{}").queue("print").submit().await.unwrap().id;
    assert_eq!(harness.get_as(&some, &format!("/api/v1/jobs/{hidden}")).await.code(), "no_such_job");
}
