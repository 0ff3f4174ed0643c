//! What a tenant, and the holder of a token for some queues, sees and touches (E13).

use axum::http::Method;
use backstop::Config;
use backstop_server::{Caller, Scope, ServerSettings};
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

/// An API whose tenants may have two queues and two kinds each.
async fn narrow() -> Harness {
    let mut config = Config::default();
    (config.limits.queues_per_tenant, config.limits.kinds_per_tenant) = (2, 2);
    Harness::with(config, ServerSettings::default()).await
}

#[tokio::test]
async fn a_tenant_makes_no_more_queues_and_kinds_than_it_may() {
    // E13
    let harness = narrow().await;
    let (acme, other) = (holder(&Scope::ALL, Some("acme"), None), holder(&Scope::ALL, Some("other"), None));
    let submit = async |who: &Caller, queue: &str, kind: &str| {
        harness.post_as(who, "/api/v1/jobs", json!({ "kind": kind, "queue": queue })).await
    };
    for (queue, kind) in [("mail", "send"), ("bulk", "bill"), ("mail", "bill")] {
        assert_eq!(submit(&acme, queue, kind).await.status, 201, "{queue} {kind}");
    }
    let refused = submit(&acme, "third", "send").await;
    assert_eq!((refused.status.as_u16(), refused.code()), (429, "tenant_limit".to_owned()));
    let error = &refused.json()["error"];
    assert_eq!(error["details"], json!({ "name": "queues_per_tenant", "limit": 2 }));
    let message = "queue `third` was not created: this tenant has reached its limit of 2 queues";
    assert_eq!(error["message"], message);
    assert!(error["hint"].as_str().unwrap().contains("queues_per_tenant"), "{error}");
    let refused = submit(&acme, "mail", "third").await;
    assert_eq!(refused.json()["error"]["details"]["name"], "kinds_per_tenant");
    // Whatever way they come: callbacks, batches, a pause.
    let callback =
        json!({ "kind": "send", "queue": "mail", "on_failure": {"kind": "send", "queue": "third"} });
    assert_eq!(harness.post_as(&acme, "/api/v1/jobs", callback.clone()).await.code(), "tenant_limit");
    let jobs = json!([{ "kind": "send", "queue": "mail" }, { "kind": "send", "queue": "third" }]);
    let whole = harness.post_as(&acme, "/api/v1/jobs/batch", json!({ "jobs": jobs.clone() })).await;
    assert_eq!((whole.status.as_u16(), whole.code()), (429, "tenant_limit".to_owned()));
    assert_eq!(whole.json()["error"]["details"]["index"], 1);
    let partial =
        harness.post_as(&acme, "/api/v1/jobs/batch", json!({ "jobs": jobs, "partial": true })).await;
    assert_eq!(
        (partial.status.as_u16(), &partial.json()["items"][1]["error"]["code"]),
        (207, &json!("tenant_limit"))
    );
    let paused = harness.post_as(&acme, "/api/v1/queues/third/pause", json!({})).await;
    assert_eq!(paused.code(), "tenant_limit");
    harness.post_as(&acme, "/api/v1/queues/mail/pause", json!({})).await.ok();
    // Nobody else is meant: neither another tenant, nor whoever runs the place.
    assert_eq!(submit(&other, "third", "third").await.status, 201);
    assert_eq!(harness.post("/api/v1/jobs", json!({ "kind": "any", "queue": "acme/any" })).await.status, 201);
    let names = harness.get_as(&acme, "/api/v1/queues").await.ok();
    let names: Vec<&str> =
        names["items"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["any", "bulk", "mail"]);
}

#[tokio::test]
async fn a_tenant_lists_its_own_queues_page_by_page() {
    // E13
    let harness = Harness::new().await;
    for number in 0..30 {
        let queue = |tenant: &str| format!("{tenant}queue-{number:02}");
        for name in [queue("acme/"), queue("other/"), queue(""), queue("acme-2/")] {
            harness.engine().enqueue_raw("mail", "{}").queue(name).submit().await.unwrap();
        }
    }
    let acme = holder(&Scope::ALL, Some("acme"), None);
    for (who, count) in [(acme, 30), (holder(&Scope::ALL, None, None), 120)] {
        let (mut read, mut path) = (Vec::new(), "/api/v1/queues?limit=7".to_owned());
        loop {
            let page = harness.get_as(&who, &path).await.ok();
            let names = page["items"].as_array().unwrap();
            assert!(names.len() <= 7);
            read.extend(names.iter().map(|queue| queue["name"].as_str().unwrap().to_owned()));
            let Some(next) = page["next_cursor"].as_str() else { break };
            path = format!("/api/v1/queues?limit=7&cursor={}", next.replace('/', "%2F"));
        }
        assert!(read.is_sorted() && read.len() == count, "{read:?}");
    }
}
