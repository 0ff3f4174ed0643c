//! Bridges on the page: shown, paused, resumed and tested, with the rights of whoever looks.

use std::sync::Arc;
use std::time::Duration;

use backstop::bridges::{
    BridgeCheck, BridgeProblem, BridgeReport, BridgeState, BridgeTest, BridgeTestAnswer, BridgeTester,
    InvalidMessage, SourceReport,
};
use backstop_server::Scope;

use super::escaping::is_clean;
use super::{Visitor, proof, stage, whole_token};

/// Finds that the queue is missing.
struct MissingQueue;

impl BridgeTester for MissingQueue {
    fn test<'a>(&'a self, bridge: &'a str) -> BridgeTestAnswer<'a> {
        let problem = Some(BridgeProblem::new("no_such_queue", "queue `in` does not exist"));
        let source = Some(BridgeCheck { took_ms: 1, problem });
        let test = BridgeTest { node: "here".into(), source, sink: None, problem: None };
        Box::pin(async move { (bridge == "orders").then_some(test) })
    }
}

/// The view as it is now: one that was made a moment ago is shown again.
async fn bridges(visitor: &Visitor<'_>) -> String {
    tokio::time::advance(Duration::from_secs(3)).await;
    visitor.get("/bridges").await.text
}

#[tokio::test(start_paused = true)]
async fn a_bridge_is_shown_paused_resumed_and_tested() {
    // B1, B2
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    assert!(bridges(&visitor).await.contains("No bridges yet"));
    let engine = stage.api.engine();
    let hostile = BridgeReport {
        problem: Some(BridgeProblem::new("broker_address", "<script>run()</script>")),
        ..BridgeReport::new("other", "redis://127.0.0.1")
    };
    let told = [BridgeReport::new("orders", "redis://127.0.0.1:6379"), hostile];
    engine.bridges().reporter().tell(&told).await.unwrap();
    let tester: Arc<dyn BridgeTester> = Arc::new(MissingQueue);
    engine.bridges().attach(&tester);
    let page = bridges(&visitor).await;
    assert!(page.contains("redis://127.0.0.1:6379") && page.contains("starting"), "{page}");
    assert!(page.contains("&lt;script&gt;run()") && !page.contains("<script>run()"), "{page}");
    assert!(page.contains("bridge.pause") && !page.contains("bridge.resume"), "{page}");
    assert_eq!(visitor.act("bridge.pause", &[("at.name", "orders")]).await.status, 303);
    let page = bridges(&visitor).await;
    assert!(page.contains("bridge.resume") && page.contains("by all"), "{page}");
    assert_eq!(visitor.act("bridge.resume", &[("at.name", "orders")]).await.status, 303);
    let form = [("proof", &*proof(&page)), ("name", "orders")];
    let tested = visitor.send("/bridges", &form).await.text;
    assert!(tested.contains("Test of orders") && tested.contains("queue `in` does not exist"), "{tested}");
    assert_eq!(visitor.send("/bridges", &form[1..]).await.status, 403, "not without the proof");
    assert!(page.contains("href=\"/bridges/orders\""), "{page}");
    let one = visitor.get("/bridges/other").await.text;
    assert!(one.contains("&lt;script&gt;run()") && !one.contains("<script>run()"), "{one}");
    assert!(one.contains("Processes") && one.contains("Every message could become a job."), "{one}");
    assert!(one.contains("bridge.pause") && !one.contains("bridge.delete"), "a process runs it: {one}");
    assert_eq!(visitor.get("/bridges/nobody").await.status, 404);
    let reader = Visitor::with(&stage, &stage.token("reader", &[Scope::Read]).await).await;
    let page = bridges(&reader).await;
    assert!(page.contains("orders") && !page.contains("bridge.pause") && !page.contains("Test<"), "{page}");
    let one = reader.get("/bridges/orders").await.text;
    assert!(one.contains("Processes") && !one.contains("action=\"/act\""), "{one}");
}

#[tokio::test(start_paused = true)]
async fn consumers_and_rates_stand_beside_a_bridge() {
    // B1
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let source = SourceReport {
        queue: "in".into(),
        kind: "play".into(),
        to_queue: "default".into(),
        consumer: "orders".into(),
        concurrency: 3,
        consuming: 2,
        state: BridgeState::Running,
        received: 10_000_000,
        admitted: 10_000_000,
        duplicates: 0,
        invalid: 0,
        abandoned: 0,
        rejected: 0,
        passed_on: 5,
        discarded: 6,
        given_back: 0,
        backlog: Some(7),
        problem: None,
    };
    let report =
        BridgeReport { source: Some(source), ..BridgeReport::new("orders", "redis://127.0.0.1:6379") };
    let without = BridgeReport::new("idle", "redis://127.0.0.1:6379");
    stage.api.engine().bridges().reporter().tell(&[report, without]).await.unwrap();
    let visitor = Visitor::with(&stage, &all).await;
    let page = bridges(&visitor).await;
    let row = |name: &str| {
        let (_, row) = page.split_once(&format!("data-key=\"{name}\"")).unwrap_or_else(|| panic!("{page}"));
        row.split("</tr>").next().unwrap().to_owned()
    };
    let orders = row("orders");
    assert!(orders.contains("2 of 3") && orders.contains("Messages in, the last hour"), "{orders}");
    assert!(!orders.contains("Messages out"), "it sends nothing: {orders}");
    assert!(!row("idle").contains("Messages in"), "{}", row("idle"));
    let one = visitor.get("/bridges/orders").await.text;
    assert!(one.contains("2 of 3") && one.contains("10,000,000 in") && one.contains("Discarded"), "{one}");
    assert!(one.contains("nothing is known yet"), "no rate is no zero: {one}");
}

#[tokio::test(start_paused = true)]
async fn messages_that_could_not_become_jobs_are_taken_along_and_removed() {
    // B4
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let known = stage.api.engine().bridges();
    known.reporter().tell(&[BridgeReport::new("orders", "redis://127.0.0.1:6379")]).await.unwrap();
    let message =
        |id: &str| InvalidMessage::new(id, b"hunter2", &[], "<script>run()</script>".to_owned(), false);
    known.invalid().put("orders", vec![message("m-1"), message("m-2")]).await.unwrap();
    let visitor = Visitor::with(&stage, &all).await;
    let list = bridges(&visitor).await;
    assert!(list.contains("href=\"/bridges/orders\">2</a>"), "{list}");
    let page = visitor.get("/bridges/orders").await.text;
    assert!(
        page.contains("2 messages could not become jobs") && page.contains("Remove 2 messages"),
        "{page}"
    );
    assert_eq!(is_clean(&page), Ok(()), "{page}");
    let file = visitor.send("/bridges/orders/invalid", &[("proof", &*proof(&page))]).await;
    assert_eq!((file.status.as_u16(), file.text.lines().count()), (200, 2), "{}", file.text);
    assert_eq!(file.headers["content-disposition"], "attachment; filename=\"invalid.ndjson\"");
    assert_eq!(visitor.send("/bridges/orders/invalid", &[]).await.status, 403, "not without the proof");
    let operator = stage.token("operator", &[Scope::Read, Scope::Operate]).await;
    let seen = Visitor::with(&stage, &operator).await.get("/bridges/orders").await.text;
    assert!(
        seen.contains("m-1") && !seen.contains("invalid.purge") && !seen.contains("/invalid\""),
        "{seen}"
    );
    let (_, keys) = page.split_once("name=\"keys\" value=\"").unwrap();
    let keys = keys.split('"').next().unwrap().replace("&quot;", "\"");
    let removed = visitor.act("invalid.purge", &[("at.name", "orders"), ("keys", &keys)]).await;
    assert_eq!(removed.status, 303, "{}", removed.text);
    let page = visitor.get("/bridges/orders").await.text;
    assert!(page.contains("Every message could become a job."), "{page}");
}
