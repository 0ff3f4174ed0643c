//! `/api/v1/redrives`.

use backstop_server::Scope;
use serde_json::{Value, json};

use super::{fingerprint, holder, played, refused, send_as};

const REDRIVES: &str = "/api/v1/redrives";

fn id(made: &Value) -> String {
    made["plan"]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_dry_run_counts_and_makes_nothing() {
    // D4
    let harness = played(&["rain", "rain", "permanent"]).await;
    let rain = fingerprint(&harness, "rain").await;
    let answer = harness.post(REDRIVES, json!({ "incident": rain, "dry_run": true })).await;
    assert_eq!(answer.status.as_u16(), 200);
    let counted = answer.ok();
    assert_eq!((&counted["survey"]["jobs"], &counted["plan"]), (&json!(2), &json!(null)));
    assert_eq!(counted["survey"]["groups"][0]["kind"], "play");
    assert_eq!(harness.get(REDRIVES).await.ok()["items"], json!([]));
}

#[tokio::test]
async fn a_plan_is_made_started_paused_resumed_and_canceled() {
    // D4
    let harness = played(&["rain", "rain"]).await;
    let new = json!({ "all": true, "settings": { "canary": 2 }, "note": "all of it", "by": "ann" });
    let answer = harness.post(REDRIVES, new).await;
    assert_eq!(answer.status.as_u16(), 201);
    let made = answer.ok();
    let plan = &made["plan"];
    assert_eq!(
        (&plan["expected"], &plan["created_by"], &plan["phase"]),
        (&json!(2), &json!("ann"), &json!("planned"))
    );
    assert_eq!((&plan["settings"]["canary"], &plan["settings"]["batch"]), (&json!(2), &json!(100)));
    let path = format!("{REDRIVES}/{}", id(&made));
    assert_eq!(harness.get(&path).await.ok()["description"], plan["description"]);
    assert_eq!(harness.get(&format!("{path}/jobs")).await.ok()["items"], json!([]));
    let after = async |place: &str| harness.get(&format!("{path}/jobs?cursor={place}")).await;
    for place in ["%00".to_owned(), format!("{}/end/%00", id(&made)), format!("{}/end/", id(&made))] {
        refused(&after(&place).await, 422, "invalid", Some("cursor"));
    }
    // A job list with a place in it, and a job, as earlier versions said it.
    for place in ["r000001-000000000002-000.250", "01900000-0000-7000-8000-000000000001"] {
        assert_eq!(after(&format!("{}/open/{place}", id(&made))).await.ok()["items"], json!([]), "{place}");
    }
    for (verb, phase) in
        [("start", "canary"), ("pause", "paused"), ("resume", "canary"), ("cancel", "canceled")]
    {
        let shown = harness.post(&format!("{path}/{verb}"), json!({ "by": "bob" })).await.ok();
        assert_eq!(shown["phase"], phase, "{verb}");
        assert_eq!(shown["history"].as_array().unwrap().last().unwrap()["by"], "bob", "{verb}");
    }
    let again = harness.post(&format!("{path}/start"), json!({})).await;
    refused(&again, 409, "wrong_phase", None);
    assert_eq!(again.json()["error"]["details"]["phase"], "canceled");
}

#[tokio::test]
async fn plans_come_in_pages_latest_first() {
    let harness = played(&["rain"]).await;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(id(&harness.post(REDRIVES, json!({ "kind": "play" })).await.ok()));
    }
    let (mut seen, mut path) = (Vec::new(), format!("{REDRIVES}?limit=2"));
    let mut pages = 0;
    loop {
        let page = harness.get(&path).await.ok();
        pages += 1;
        seen.extend(
            page["items"].as_array().unwrap().iter().map(|plan| plan["id"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page["next_cursor"].as_str() else { break };
        path = format!("{REDRIVES}?limit=2&cursor={next}");
    }
    let whole = harness.get(REDRIVES).await.ok();
    let whole: Vec<_> =
        whole["items"].as_array().unwrap().iter().map(|plan| plan["id"].as_str().unwrap()).collect();
    assert_eq!((pages, &seen.iter().map(String::as_str).collect::<Vec<_>>()), (3, &whole));
    made.sort_unstable();
    seen.sort_unstable();
    assert_eq!(seen, made);
    for cursor in ["odd", "1.odd", "x.rd-00000001", "99999999999999999999.rd-00000001"] {
        refused(&harness.get(&format!("{REDRIVES}?cursor={cursor}")).await, 422, "invalid", Some("cursor"));
    }
}

#[tokio::test]
async fn what_cannot_be_driven_is_refused_in_the_one_shape() {
    // D4
    let harness = played(&["rain"]).await;
    let table = [
        (json!({}), 422, "selects_everything"),
        (json!({ "kind": "other" }), 409, "matches_nothing"),
        (json!({ "incident": "0123456789abcdef" }), 404, "no_such_incident"),
        (json!({ "incident": "odd" }), 422, "invalid"),
        (json!({ "kind": "play", "all": true }), 422, "invalid"),
        (json!({ "kind": "play", "settings": { "per_second": 0 } }), 422, "invalid"),
        (json!({ "kind": "play", "settings": { "per_secnd": 1 } }), 422, "invalid"),
        (json!({ "kind": "play", "settings": [1] }), 422, "invalid"),
        (json!({ "kind": "play", "reason": "odd" }), 422, "invalid"),
        (json!({ "kind": "play", "finished_before": "soon" }), 422, "invalid"),
        (json!({ "kind": "pl\u{0}ay" }), 422, "invalid"),
    ];
    for (body, status, code) in table {
        let answer = harness.post(REDRIVES, body.clone()).await;
        assert_eq!(
            (answer.status.as_u16(), answer.code().as_str()),
            (status, code),
            "{body}: {}",
            answer.text
        );
    }
    for path in ["rd-00000000", "nonsense", "%FF"] {
        let answer = harness.get(&format!("{REDRIVES}/{path}")).await;
        assert_eq!(answer.status.as_u16(), 404, "{path}: {}", answer.text);
    }
    refused(
        &harness.post(&format!("{REDRIVES}/rd-00000000/start"), json!({})).await,
        404,
        "no_such_plan",
        None,
    );
    assert_eq!(harness.get(REDRIVES).await.ok()["items"], json!([]), "nothing was made");
}

#[tokio::test]
async fn plans_are_for_those_who_see_all() {
    // E13
    let harness = played(&["rain"]).await;
    let acme = holder(&[Scope::Read, Scope::Operate], Some("acme"), None);
    for (method, path) in [("GET", REDRIVES.to_owned()), ("POST", REDRIVES.to_owned())] {
        let answer = send_as(&harness, &acme, method, &path, Some(json!({ "all": true }))).await;
        refused(&answer, 403, "forbidden", None);
        assert!(answer.text.contains("all tenants"), "{}", answer.text);
    }
    let reader = holder(&[Scope::Read], None, None);
    send_as(&harness, &reader, "GET", REDRIVES, None).await.ok();
    refused(
        &send_as(&harness, &reader, "POST", REDRIVES, Some(json!({ "all": true }))).await,
        403,
        "forbidden",
        None,
    );
}
