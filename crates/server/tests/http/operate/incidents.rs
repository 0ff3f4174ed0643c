//! `/api/v1/incidents`.

use backstop_server::{Caller, Scope};
use serde_json::json;

use super::{fingerprint, holder, played, refused, send_as};

const INCIDENTS: &str = "/api/v1/incidents";

#[tokio::test]
async fn incidents_are_listed_by_state_and_by_whether_they_have_dead_letters() {
    // D2
    let harness = played(&["permanent", "rain", "rain"]).await;
    let all = harness.get(INCIDENTS).await.ok();
    assert_eq!((all["items"].as_array().unwrap().len(), &all["next_cursor"]), (2, &json!(null)));
    let one = harness.get(&format!("{INCIDENTS}?limit=1")).await.ok();
    assert_eq!(one["items"].as_array().unwrap().len(), 1);
    let rain = fingerprint(&harness, "rain").await;
    harness.post(&format!("{INCIDENTS}/{rain}/ack"), json!({})).await.ok();
    let acknowledged = harness.get(&format!("{INCIDENTS}?state=acknowledged&open=true")).await.ok();
    assert_eq!(acknowledged["items"][0]["fingerprint"], json!(rain));
    assert_eq!(harness.get(&format!("{INCIDENTS}?state=muted")).await.ok()["items"], json!([]));
}

#[tokio::test]
async fn an_incident_is_shown_with_its_latest_dead_letters() {
    // D2
    let harness = played(&["rain", "rain", "permanent"]).await;
    let rain = fingerprint(&harness, "rain").await;
    let shown = harness.get(&format!("{INCIDENTS}/{rain}")).await.ok();
    assert_eq!((&shown["open"], &shown["state"], &shown["kind"]), (&json!(2), &json!("new"), &json!("play")));
    assert_eq!(shown["sample_jobs"].as_array().unwrap().len(), 2);
    assert_eq!(shown["samples"][0]["id"], shown["sample_jobs"][0]);
    assert!(shown["samples"][0]["finished_at"].is_string());
}

#[tokio::test]
async fn people_say_where_an_incident_stands() {
    // D2, D7
    let harness = played(&["rain"]).await;
    let path = format!("{INCIDENTS}/{}", fingerprint(&harness, "rain").await);
    let said = harness.post(&format!("{path}/ack"), json!({ "by": "ann", "note": "at it" })).await.ok();
    let told = (&said["state"], &said["changed_by"], &said["note"]);
    assert_eq!(told, (&json!("acknowledged"), &json!("ann"), &json!("at it")));
    let fixed = harness.post(&format!("{path}/fixed"), json!({ "version": "1.4.0" })).await.ok();
    assert_eq!((&fixed["state"], &fixed["fixed_in"]), (&json!("fixed"), &json!("1.4.0")));
    let muted = send_as(&harness, &Caller::local("bob"), "POST", &format!("{path}/mute"), None).await.ok();
    assert_eq!((&muted["state"], &muted["changed_by"]), (&json!("muted"), &json!("bob")));
    assert_eq!(harness.post(&format!("{path}/reopen"), json!({})).await.ok()["state"], "new");
    let empty = harness.post(&format!("{path}/fixed"), json!({ "version": " " })).await;
    refused(&empty, 422, "invalid", Some("version"));
}

#[tokio::test]
async fn a_token_cannot_speak_under_another_name() {
    let harness = played(&["rain"]).await;
    let path = format!("{INCIDENTS}/{}/ack", fingerprint(&harness, "rain").await);
    let robot = holder(&[Scope::Operate], None, None);
    let said = send_as(&harness, &robot, "POST", &path, Some(json!({ "by": "ann" }))).await.ok();
    assert_eq!(said["changed_by"], "robot for ann");
    let said = send_as(&harness, &robot, "POST", &path, Some(json!({ "by": " " }))).await.ok();
    assert_eq!(said["changed_by"], "robot");
}

#[tokio::test]
async fn what_cannot_be_had_is_refused_in_the_one_shape() {
    let harness = played(&["rain"]).await;
    for path in ["0123456789abcdef", "nonsense", "%FF", "a%2Fb"] {
        let answer = harness.get(&format!("{INCIDENTS}/{path}")).await;
        assert_eq!(answer.status.as_u16(), 404, "{path}: {}", answer.text);
        answer.code();
    }
    for (query, field) in [("state=odd", "state"), ("open=maybe", "open"), ("limit=0", "limit"), ("x=1", "x")]
    {
        refused(&harness.get(&format!("{INCIDENTS}?{query}")).await, 422, "invalid", Some(field));
    }
    let path = format!("{INCIDENTS}/{}/ack", fingerprint(&harness, "rain").await);
    refused(&harness.post(&path, json!({ "version": "1" })).await, 422, "invalid", Some("version"));
    refused(&harness.post(&path, json!([null, null])).await, 422, "invalid", None);
}

#[tokio::test]
async fn a_tenant_sees_its_own_incidents_under_its_own_names_and_no_others() {
    // E13
    let harness = played(&["acme:rain", "permanent"]).await;
    let (own, other) = (fingerprint(&harness, "rain").await, fingerprint(&harness, "stolen").await);
    let acme = holder(&[Scope::Read, Scope::Operate], Some("acme"), None);
    let list = send_as(&harness, &acme, "GET", INCIDENTS, None).await.ok();
    let items = list["items"].as_array().unwrap();
    assert_eq!((items.len(), &items[0]["kind"]), (1, &json!("play")));
    let shown = send_as(&harness, &acme, "GET", &format!("{INCIDENTS}/{own}"), None).await.ok();
    assert_eq!(shown["kind"], "play");
    let said = send_as(&harness, &acme, "POST", &format!("{INCIDENTS}/{own}/ack"), None).await.ok();
    assert_eq!((&said["kind"], &said["state"]), (&json!("play"), &json!("acknowledged")));
    refused(
        &send_as(&harness, &acme, "GET", &format!("{INCIDENTS}/{other}"), None).await,
        404,
        "no_such_incident",
        None,
    );
    let mute = send_as(&harness, &acme, "POST", &format!("{INCIDENTS}/{other}/mute"), None).await;
    refused(&mute, 404, "no_such_incident", None);
    assert_eq!(
        harness.get(&format!("{INCIDENTS}/{other}")).await.ok()["state"],
        "new",
        "nothing was said of it"
    );
    let beta = holder(&[Scope::Read], Some("acm"), None);
    assert_eq!(send_as(&harness, &beta, "GET", INCIDENTS, None).await.ok()["items"], json!([]));
    assert_eq!(harness.get(&format!("{INCIDENTS}/{own}")).await.ok()["kind"], "acme/play");
}

#[tokio::test]
async fn a_token_for_some_queues_is_told_why_it_sees_no_incidents() {
    let harness = played(&["rain"]).await;
    let bound = holder(&[Scope::Read], None, Some(&["default"]));
    let answer = send_as(&harness, &bound, "GET", INCIDENTS, None).await;
    refused(&answer, 403, "forbidden", None);
    assert!(answer.text.contains("failures of all queues"), "{}", answer.text);
}
