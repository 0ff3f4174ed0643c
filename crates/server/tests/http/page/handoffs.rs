//! Hand-offs on the page: the third channel beside dead letters and rejects, and the way on for one that has stopped.

use backstop::handoffs::{HandOff, HandOffRefusal};

use super::{Visitor, stage, whole_token};

#[tokio::test(start_paused = true)]
async fn a_stopped_hand_off_needs_somebody_and_is_let_go_on() {
    // B7, B8
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    let engine = stage.api.engine();
    engine.handoffs().set(&HandOff::new("paid", "https://warehouse.example").kind("play")).await.unwrap();
    let (code, message) = ("forbidden".to_owned(), "<script>run()</script>".to_owned());
    let refusal = HandOffRefusal { status: 403, code, message, job: None };
    assert!(engine.handoffs().publisher("paid").stop(refusal).await.unwrap());
    let overview = visitor.get("/").await.text;
    assert!(overview.contains("Hand-off backlog") && overview.contains("paid has stopped"), "{overview}");
    let page = visitor.get("/handoffs").await.text;
    assert!(page.contains("https://warehouse.example") && page.contains("handoff.retry"), "{page}");
    assert!(!page.contains("<script>run()"), "{page}");
    assert!(
        page.contains("handoff.delete") && page.contains("are never handed over"),
        "nobody publishes: {page}"
    );
    assert_eq!(visitor.act("handoff.retry", &[("at.name", "paid")]).await.status, 303);
    assert!(!visitor.get("/handoffs").await.text.contains("handoff.retry"), "there is nothing to let go on");
}
