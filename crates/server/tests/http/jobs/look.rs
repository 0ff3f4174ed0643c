//! Looking at jobs and their runs.

use backstop_server::Scope;
use serde_json::{Value, json};

use super::{holder, played};
use crate::harness::Harness;

fn ids(page: &Value) -> Vec<String> {
    let items = page["items"].as_array().unwrap().iter();
    items.map(|job| job["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn jobs_are_listed_by_filter_and_by_page() {
    let harness = Harness::new().await;
    let played = played(&harness, "default", &["permanent", "well"]).await;
    let (dead, well) = (played[0].to_string(), played[1].to_string());
    let submitted = harness.post(
        "/api/v1/jobs",
        json!({ "kind": "mail", "queue": "letters", "business_key": "b", "tags": ["t t"] }),
    );
    let other = submitted.await.ok()["id"].as_str().unwrap().to_owned();
    let view = harness.get(&format!("/api/v1/jobs/{dead}")).await.ok();
    let (print, created) = (view["fingerprint"].as_str().unwrap(), view["created_at"].as_str().unwrap());
    let finished = view["finished_at"].as_str().unwrap();
    for (query, expected) in [
        ("status=failed".to_owned(), vec![&dead]),
        ("queue=letters".to_owned(), vec![&other]),
        ("kind=play&status=succeeded".to_owned(), vec![&well]),
        ("tag=t%20t".to_owned(), vec![&other]),
        ("business_key=b".to_owned(), vec![&other]),
        ("reason=non_retryable".to_owned(), vec![&dead]),
        (format!("fingerprint={print}"), vec![&dead]),
        (format!("created_before={created}"), vec![]),
        (format!("finished_after={finished}"), vec![&well, &dead]),
        (format!("finished_before={finished}"), vec![]),
    ] {
        let page = harness.get(&format!("/api/v1/jobs?{query}")).await.ok();
        assert_eq!(ids(&page).iter().collect::<Vec<_>>(), expected, "{query}");
    }
    let page = harness.get("/api/v1/jobs?limit=2").await.ok();
    assert_eq!(ids(&page), [other, well.clone()]);
    assert_eq!(page["next_cursor"], json!(well));
    let rest = harness.get(&format!("/api/v1/jobs?limit=2&cursor={well}")).await.ok();
    assert_eq!((ids(&rest), &rest["next_cursor"]), (vec![dead], &Value::Null));
}

#[tokio::test]
async fn wrong_queries_and_ids_are_refused_in_the_one_shape() {
    // E10
    let harness = Harness::new().await;
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("status=lost", "status"),
        ("reason=bad", "reason"),
        ("cursor=x", "cursor"),
        ("created_after=yesterday", "created_after"),
        ("reveal=maybe", "reveal"),
        ("colour=red", "colour"),
    ] {
        let refused = harness.get(&format!("/api/v1/jobs?{query}")).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (422, "invalid".to_owned()), "{query}");
        assert_eq!(refused.json()["error"]["details"]["field"], field, "{query}");
    }
    let absent = "0190b8a2-7c1e-7d3a-9f00-5c1b2a3d4e5f";
    for id in ["nonsense", absent, "%FF", "..%2F..%2Fhealth"] {
        for part in ["", "/attempts", "/explain", "/logs"] {
            let refused = harness.get(&format!("/api/v1/jobs/{id}{part}")).await;
            assert_eq!(refused.status, 404, "{id}{part}: {}", refused.text);
            assert!(["no_such_job", "no_such_path"].contains(&&*refused.code()), "{id}{part}");
        }
    }
}

#[tokio::test]
async fn runs_are_shown_and_what_they_logged_only_to_those_who_may_read_logs() {
    // F2, F15
    let harness = Harness::new().await;
    let id = played(&harness, "default", &["permanent"]).await[0];
    let runs = harness.get(&format!("/api/v1/jobs/{id}/attempts")).await.ok();
    let run = &runs["items"][0];
    assert_eq!(
        (&run["number"], &run["cause"], &run["charged"]),
        (&json!(1), &json!("permanent"), &json!(true))
    );
    assert_eq!((&run["code_version"], &run["output"]), (&json!("1.2.0"), &json!("a line\n")));
    let logs = harness.get(&format!("/api/v1/jobs/{id}/logs")).await.ok();
    assert_eq!(logs["items"][0]["output"], "a line\n");
    let reader = holder(&[Scope::Read], None, None);
    let runs = harness.get_as(&reader, &format!("/api/v1/jobs/{id}/attempts")).await.ok();
    assert_eq!(runs["items"][0]["output"], Value::Null);
    assert_eq!(harness.get_as(&reader, &format!("/api/v1/jobs/{id}/logs")).await.status, 403);
    let page = harness.get(&format!("/api/v1/jobs/{id}/attempts?limit=1&cursor=1")).await.ok();
    assert_eq!((&page["items"], &page["next_cursor"]), (&json!([]), &Value::Null));
}

#[tokio::test]
async fn secrets_are_masked_unless_somebody_who_may_asks_for_them() {
    // F11
    let harness = Harness::new().await;
    let id = played(&harness, "default", &["well"]).await[0];
    let body = json!({ "kind": "mail", "payload": {"password": "hunter2"}, "params": {"token": "t-99-zz"} });
    harness.post("/api/v1/jobs", body).await.ok();
    for path in
        ["/api/v1/jobs".to_owned(), format!("/api/v1/jobs/{id}"), format!("/api/v1/jobs/{id}/attempts")]
    {
        let shown = harness.get(&path).await.text;
        assert!(shown.contains("[redacted]"), "{path}: {shown}");
        assert!(!shown.contains("hunter2") && !shown.contains("t-99-zz"), "{path}: {shown}");
    }
    let shown = harness.get("/api/v1/jobs?reveal=true").await.ok();
    assert_eq!(shown["items"][0]["payload"], json!({ "password": "hunter2" }));
    let shown = harness.get(&format!("/api/v1/jobs/{id}?reveal=true")).await.ok();
    assert_eq!(shown["result"], json!({ "token": "t-99-zz" }));
    let reader = holder(&[Scope::Read], None, None);
    for path in ["/api/v1/jobs?reveal=true".to_owned(), format!("/api/v1/jobs/{id}?reveal=true")] {
        assert_eq!(harness.get_as(&reader, &path).await.code(), "forbidden", "{path}");
    }
}

#[tokio::test]
async fn explain_says_where_why_and_what_next() {
    // F20
    let harness = Harness::new().await;
    let id = played(&harness, "default", &["permanent"]).await[0];
    let told = harness.get(&format!("/api/v1/jobs/{id}/explain")).await.ok();
    assert_eq!(
        (&told["status"], &told["kind"], &told["queue"]),
        (&json!("failed"), &json!("play"), &json!("default"))
    );
    assert!(told["because"].as_str().unwrap().contains("non_retryable"), "{told}");
    assert!(told["checks"].as_array().unwrap().len() > 5);
    assert_eq!(told["last_decision"]["verdict"], "dead");
}
