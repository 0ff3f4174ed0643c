//! `/api/v1/circuits`.

use backstop_server::Scope;
use serde_json::json;

use super::{holder, played, refused, send_as};

const CIRCUITS: &str = "/api/v1/circuits";

#[tokio::test]
async fn a_circuit_is_opened_listed_and_closed() {
    // H3
    let harness = played(&[]).await;
    assert_eq!(harness.get(CIRCUITS).await.ok()["items"], json!([]));
    refused(
        &harness.post(&format!("{CIRCUITS}/partner/close"), json!({})).await,
        404,
        "no_such_circuit",
        None,
    );
    refused(&harness.get(&format!("{CIRCUITS}/partner")).await, 404, "no_such_circuit", None);
    let opened =
        harness.post(&format!("{CIRCUITS}/partner/open"), json!({ "for_ms": 600_000, "by": "ann" })).await;
    let opened = opened.ok();
    assert_eq!(
        (&opened["key"], &opened["state"], &opened["generation"]),
        (&json!("partner"), &json!("open"), &json!(1))
    );
    assert!(opened["until"].is_string() && opened["since"].is_string(), "{opened}");
    assert_eq!(
        (&opened["calls"], &opened["failure_rate"], &opened["parked"]),
        (&json!(0), &json!(0), &json!(0))
    );
    assert_eq!(harness.get(CIRCUITS).await.ok()["items"], json!([opened]));
    assert_eq!(harness.get(&format!("{CIRCUITS}/partner")).await.ok(), opened);
    let closed = harness.post(&format!("{CIRCUITS}/partner/close"), json!({})).await.ok();
    assert_eq!(
        (&closed["state"], closed.get("until"), &closed["generation"]),
        (&json!("closed"), None, &json!(2))
    );
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused() {
    // H3
    let harness = played(&[]).await;
    for body in
        [json!({ "for_ms": 0 }), json!({ "for_ms": 2_592_000_001_u64 }), json!({ "for": 1 }), json!([1])]
    {
        let answer = harness.post(&format!("{CIRCUITS}/partner/open"), body.clone()).await;
        assert_eq!(answer.status.as_u16(), 422, "{body}: {}", answer.text);
    }
    let long = "k".repeat(129);
    assert_eq!(harness.post(&format!("{CIRCUITS}/{long}/open"), json!({})).await.status.as_u16(), 422);
    assert_eq!(harness.get(CIRCUITS).await.ok()["items"], json!([]));
}

#[tokio::test]
async fn a_circuit_is_about_everybodys_jobs() {
    // E13, H3
    let harness = played(&[]).await;
    let all = [Scope::Read, Scope::Operate, Scope::Submit, Scope::Work];
    for caller in [holder(&all, Some("acme"), None), holder(&all, None, Some(&["mail"]))] {
        refused(&send_as(&harness, &caller, "GET", CIRCUITS, None).await, 403, "forbidden", None);
        for verb in ["open", "close"] {
            let path = format!("{CIRCUITS}/partner/{verb}");
            refused(
                &send_as(&harness, &caller, "POST", &path, Some(json!({}))).await,
                403,
                "forbidden",
                None,
            );
        }
    }
    let reader = holder(&[Scope::Read], None, None);
    assert_eq!(send_as(&harness, &reader, "GET", CIRCUITS, None).await.status.as_u16(), 200);
    let path = format!("{CIRCUITS}/partner/open");
    refused(&send_as(&harness, &reader, "POST", &path, Some(json!({}))).await, 403, "forbidden", None);
}

#[tokio::test]
async fn a_job_names_the_circuit_that_it_goes_by() {
    // H3
    let harness = played(&[]).await;
    harness.post(&format!("{CIRCUITS}/partner-eu/open"), json!({ "for_ms": 600_000 })).await.ok();
    let job = json!({ "kind": "order", "dependency": "partner-eu" });
    let id = harness.post("/api/v1/jobs", job).await.json()["id"].clone();
    let id = id.as_str().expect("an id");
    let read = harness.get(&format!("/api/v1/jobs/{id}")).await.ok();
    assert_eq!((&read["dependency"], &read["status"]), (&json!("partner-eu"), &json!("waiting")));
    let waiting = &read["waiting_for"];
    assert_eq!((&waiting["reason"], &waiting["key"]), (&json!("circuit"), &json!("partner-eu")));
    assert!(waiting["until"].is_string(), "{waiting}");
    let far = json!({ "kind": "order", "dependency": "partner-eu", "run_at": "2999-01-01T00:00:00Z" });
    let far = harness.post("/api/v1/jobs", far).await.json()["id"].clone();
    let read = harness.get(&format!("/api/v1/jobs/{}", far.as_str().expect("an id"))).await.ok();
    assert_eq!(read["status"], "pending", "its time comes later than the circuit is tried again");
}

#[tokio::test]
async fn what_the_jobs_of_a_tenant_name_is_its_own() {
    // E13, H3
    let harness = played(&[]).await;
    harness.post(&format!("{CIRCUITS}/partner/open"), json!({ "for_ms": 600_000 })).await.ok();
    let acme = holder(&[Scope::Read, Scope::Submit], Some("acme"), None);
    let job = json!({ "kind": "order", "dependency": "partner" });
    let stored = send_as(&harness, &acme, "POST", "/api/v1/jobs", Some(job)).await;
    assert_eq!(stored.status.as_u16(), 201, "{}", stored.text);
    let id = stored.json()["id"].as_str().expect("an id").to_owned();
    let read = send_as(&harness, &acme, "GET", &format!("/api/v1/jobs/{id}"), None).await.ok();
    assert_eq!(
        (&read["dependency"], read.get("waiting_for")),
        (&json!("partner"), None),
        "not that of others"
    );
    assert_eq!(harness.get(&format!("/api/v1/jobs/{id}")).await.ok()["dependency"], "acme/partner");
}
