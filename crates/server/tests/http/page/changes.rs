//! What is said of a change is what became of it.

use std::time::Duration;

use backstop_server::Scope;
use serde_json::json;

use super::{Visitor, dead_letter, proof, stage, whole_token};

#[tokio::test(start_paused = true)]
async fn what_changed_nothing_is_not_called_done() {
    // L7
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    dead_letter(&stage, &all, json!({ "kind": "charge", "max_retries": 0 }), "no", "No").await;
    let jobs = stage.call("GET", "/api/v1/jobs", Some(&all)).await.json();
    let id = jobs["items"][0]["id"].as_str().unwrap();
    let page = visitor.get(&format!("/jobs/{id}")).await.text;
    assert!(
        page.contains("job.retry") && !page.contains("job.cancel"),
        "a dead letter is not canceled: {page}"
    );
    let answer = visitor.act("job.cancel", &[("at.id", id)]).await;
    assert_eq!(
        (answer.status.as_u16(), &answer.headers["location"]),
        (303, &"/queues?done=same.failed".parse().unwrap())
    );
    let shown = visitor.get("/queues?done=same.failed").await.text;
    assert!(
        shown.contains("Nothing was changed: it is failed.") && !shown.contains("is canceled"),
        "{shown}"
    );
    assert!(!visitor.get("/queues?done=same.%3Cb%3Eyou+won").await.text.contains("you won"));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_waits_can_be_paused() {
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    for _ in 0..2 {
        let job = json!({ "kind": "charge", "ordering_key": "k" }).to_string();
        assert_eq!(stage.call_with("POST", "/api/v1/jobs", Some(&all), &job).await.status, 201);
    }
    let waiting = stage.call("GET", "/api/v1/jobs?status=waiting", Some(&all)).await.json();
    let id = waiting["items"][0]["id"].as_str().expect("the second one waits");
    let page = visitor.get(&format!("/jobs/{id}")).await.text;
    assert!(page.contains("job.pause") && page.contains("job.cancel"), "{page}");
}

#[tokio::test(start_paused = true)]
async fn a_signal_that_is_given_twice_is_sent_once() {
    // W10
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    let job = json!({ "kind": "ask" }).to_string();
    assert_eq!(stage.call_with("POST", "/api/v1/jobs", Some(&all), &job).await.status, 201);
    let claim = json!({ "worker": "w", "queues": ["default"], "kinds": ["ask"], "limit": 1 }).to_string();
    let claimed = stage.call_with("POST", "/api/v1/work/claim", Some(&all), &claim).await.json();
    let wait = json!({ "results": [{ "lease": claimed["jobs"][0]["lease"]["token"],
        "outcome": { "type": "waiting", "signal": "approved", "timeout_ms": 60_000 } }] });
    let waits = stage.call_with("POST", "/api/v1/work/finish", Some(&all), &wait.to_string()).await;
    assert_eq!(waits.json()["results"][0]["ok"], true, "{}", waits.text);
    let page = visitor.get("/signals").await.text;
    let (_, row) = page.split_once("data-rows=\"awaited\"").expect("it is awaited");
    let job = claimed["jobs"][0]["id"].as_str().unwrap();
    let link = [("proof", &*proof(&page)), ("job", job), ("signal", "approved")];
    let linked = visitor.send("/signals", &link).await.text;
    assert!(linked.contains("It is shown now and never again") && linked.contains("/resume/"), "{linked}");
    let forged = visitor.send("/signals", &[("proof", "guess"), ("job", job), ("signal", "approved")]).await;
    assert!(!forged.text.contains("/resume/"), "{}", forged.text);
    let (_, id) = row.split_once("name=\"id\" value=\"").expect("it has an id");
    let id = id.split('"').next().unwrap();
    for _ in 0..2 {
        let sent = visitor.act("signal.send", &[("key", "approved"), ("payload", "1"), ("id", id)]).await;
        assert_eq!(sent.status, 303, "{}", sent.text);
    }
    let kept = stage.call("GET", "/api/v1/signals?state=kept", Some(&all)).await.json();
    assert_eq!(kept["items"], json!([]), "the second press lets nobody else go");
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_and_a_batch_are_found_where_links_lead() {
    // D3, W5
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    let batch = json!({ "name": "import", "jobs": [{ "kind": "row" }, { "kind": "row" }] }).to_string();
    let stored = stage.call_with("POST", "/api/v1/batches", Some(&all), &batch).await;
    assert!(stored.status.is_success(), "{}", stored.text);
    let id = stored.json()["id"].as_str().unwrap().to_owned();
    let jobs = stage.call("GET", "/api/v1/jobs", Some(&all)).await.json();
    let page = visitor.get(&format!("/jobs/{}", jobs["items"][0]["id"].as_str().unwrap())).await.text;
    assert!(page.contains(&format!("href=\"/batches/{id}\"")), "{page}");
    let page = visitor.get(&format!("/batches/{id}")).await;
    assert_eq!(page.status, 200);
    assert!(
        page.text.contains("0 of 2 jobs succeeded") && page.text.contains("batch.cancel"),
        "{}",
        page.text
    );
    assert!(visitor.get("/batches").await.text.contains(&format!("href=\"/batches/{id}\"")));
    let canceled = visitor.act("batch.cancel", &[("at.id", &id)]).await;
    assert_eq!(canceled.status, 303, "{}", canceled.text);
    tokio::time::advance(Duration::from_secs(3)).await;
    let reader = Visitor::with(&stage, &stage.token("reader", &[Scope::Read]).await).await;
    assert!(!reader.get(&format!("/batches/{id}")).await.text.contains("action=\"/act\""));
}

#[tokio::test(start_paused = true)]
async fn many_jobs_are_changed_as_they_were_filtered_and_counted() {
    // L7, L8
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    for (kind, jobs) in [("row", 3), ("mail", 2)] {
        for _ in 0..jobs {
            let job = json!({ "kind": kind }).to_string();
            assert_eq!(stage.call_with("POST", "/api/v1/jobs", Some(&all), &job).await.status, 201);
        }
    }
    let list = visitor.get("/jobs?status=pending&kind=row").await.text;
    let to = "/jobs/change?status=pending&amp;kind=row&amp;change=";
    assert!(list.contains(&format!("{to}cancel")) && list.contains(&format!("{to}pause")), "{list}");
    assert!(!list.contains(&format!("{to}resume")), "what is pending is not resumed: {list}");
    assert!(!visitor.get("/jobs").await.text.contains("/jobs/change"), "a state is chosen first");
    let page = visitor.get("/jobs/change?status=pending&kind=row&change=cancel").await;
    assert_eq!(page.status, 200, "{}", page.text);
    for said in ["Cancel 3 jobs", "This cannot be undone", "name=\"expected\" value=\"3\""] {
        assert!(page.text.contains(said), "{said}: {}", page.text);
    }
    assert!(!page.text.contains("name=\"all\""), "{}", page.text);
    let fields = [
        ("change", "cancel"),
        ("status", "pending"),
        ("kind", "row"),
        ("expected", "3"),
        ("note", "not needed"),
    ];
    let done = visitor.act("jobs.change", &fields).await;
    assert_eq!(done.status, 303, "{}", done.text);
    let left = stage.call("GET", "/api/v1/jobs?status=pending", Some(&all)).await.json();
    assert_eq!(left["items"].as_array().unwrap().len(), 2, "{left}");
    let again = visitor.get("/jobs/change?status=pending&kind=row&change=cancel").await.text;
    assert!(again.contains("There is nothing to change."), "{again}");
    let whole = visitor.get("/jobs/change?status=pending&change=pause").await.text;
    assert!(whole.contains("name=\"all\" value=\"true\"") && whole.contains("Pause 2 jobs"), "{whole}");
    assert_eq!(visitor.get("/jobs/change?status=pending&change=explode").await.status, 404);
    let reader = Visitor::with(&stage, &stage.token("reader", &[Scope::Read]).await).await;
    assert!(!reader.get("/jobs?status=pending").await.text.contains("/jobs/change"));
    assert_eq!(reader.get("/jobs/change?status=pending&change=pause").await.status, 403);
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_removed_for_good_by_those_who_may() {
    // D5
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    dead_letter(&stage, &all, json!({ "kind": "charge", "max_retries": 0 }), "no", "No").await;
    let list = visitor.get("/jobs?status=failed&kind=charge").await.text;
    assert!(list.contains("/jobs/change?status=failed&amp;kind=charge&amp;change=purge"), "{list}");
    let page = visitor.get("/jobs/change?status=failed&kind=charge&change=purge").await.text;
    assert!(page.contains("Remove 1 job for good") && page.contains("dead.purge"), "{page}");
    let operator = stage.token("operator", &[Scope::Read, Scope::Operate]).await;
    let operator = Visitor::with(&stage, &operator).await;
    let list = operator.get("/jobs?status=failed&kind=charge").await.text;
    assert!(!list.contains("change=purge") && list.contains("change=pause"), "{list}");
    let done = visitor.act("dead.purge", &[("kind", "charge")]).await;
    assert_eq!(done.status, 303, "{}", done.text);
    let left = stage.call("GET", "/api/v1/dead-letters", Some(&all)).await.json();
    assert_eq!(left["items"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_schedule_is_backfilled() {
    // W11
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    let hourly = json!({ "every_ms": 3_600_000, "kind": "report" }).to_string();
    let made = stage.call_with("PUT", "/api/v1/schedules/hourly", Some(&all), &hourly).await;
    assert!(made.status.is_success(), "{}", made.text);
    let now = async || {
        stage.call("GET", "/api/v1/clock", Some(&all)).await.json()["now"].as_str().unwrap().to_owned()
    };
    let from = now().await;
    tokio::time::advance(Duration::from_secs(4 * 3_600)).await;
    let to = now().await;
    assert!(visitor.get("/schedules").await.text.contains("schedule.backfill"));
    let range = [("at.name", "hourly"), ("from", &*from), ("to", &*to)];
    let done = visitor.act("schedule.backfill", &range).await;
    assert_eq!(done.status, 303, "{}", done.text);
    let jobs = stage.call("GET", "/api/v1/jobs?kind=report", Some(&all)).await.json();
    assert!(jobs["items"].as_array().unwrap().len() >= 3, "{jobs}");
    let wrong = visitor
        .act("schedule.backfill", &[("at.name", "hourly"), ("from", "yesterday"), ("to", "now")])
        .await;
    assert_eq!(wrong.status, 422, "{}", wrong.text);
}
