//! Bridges on the page: shown, paused, resumed and tested, with the rights of whoever looks.

use std::sync::Arc;
use std::time::Duration;

use backstop::bridges::{
    BridgeCheck, BridgeProblem, BridgeReport, BridgeTest, BridgeTestAnswer, BridgeTester,
};
use backstop_server::Scope;

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
    let reader = Visitor::with(&stage, &stage.token("reader", &[Scope::Read]).await).await;
    let page = bridges(&reader).await;
    assert!(page.contains("orders") && !page.contains("bridge.pause") && !page.contains("Test<"), "{page}");
}
