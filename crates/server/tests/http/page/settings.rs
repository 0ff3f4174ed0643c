//! Retry budgets and retention on the page: for those who see everybody's jobs, and counted only when asked.

use std::time::Duration;

use backstop_server::Scope;
use serde_json::json;

use super::escaping::is_clean;
use super::{Visitor, failed, proof, stage, whole_token};

#[tokio::test(start_paused = true)]
async fn the_retries_of_a_kind_are_shown_with_their_budget() {
    // F19
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    let empty = visitor.get("/retry-budgets").await;
    assert!(
        empty.status == 200 && empty.text.contains("No first run has been counted yet"),
        "{}",
        empty.text
    );
    tokio::time::advance(Duration::from_secs(3)).await;
    let job = json!({ "kind": "<script>run()</script>", "max_retries": 3 });
    failed(&stage, &all, job, ("no", "No", "error")).await;
    let page = visitor.get("/retry-budgets").await.text;
    assert!(
        page.contains("&lt;script&gt;run()") && page.contains("20 %") && page.contains("100/s"),
        "{page}"
    );
    assert!(page.contains("keeps its time") && !page.contains("is moved by"), "{page}");
    assert_eq!(is_clean(&page), Ok(()), "{page}");
}

#[tokio::test(start_paused = true)]
async fn what_goes_next_is_counted_when_it_is_asked_for() {
    // L16, D5
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let reader = stage.token("reader", &[Scope::Read]).await;
    for token in [&all, &reader] {
        let visitor = Visitor::with(&stage, token).await;
        let page = visitor.get("/retention").await.text;
        assert!(page.contains("Dead letters") && page.contains("90 d"), "{page}");
        assert!(!page.contains("Counted, and nothing was changed"), "{page}");
        let counted = visitor.send("/retention", &[("proof", &*proof(&page))]).await;
        assert_eq!(counted.status, 200, "{}", counted.text);
        assert!(counted.text.contains("Counted, and nothing was changed"), "{}", counted.text);
        assert!(!counted.text.contains("data-every"), "an open page does not count again and again");
        assert_eq!(visitor.send("/retention", &[]).await.status, 403, "not without the proof");
    }
}

#[tokio::test(start_paused = true)]
async fn settings_of_everybody_are_not_for_a_tenant() {
    // E13
    let stage = stage().await;
    let acme = stage.token_of("acme", &Scope::ALL, Some("acme")).await;
    let visitor = Visitor::with(&stage, &acme).await;
    let overview = visitor.get("/").await.text;
    for path in ["/retry-budgets", "/retention", "/limits", "/rules", "/tokens", "/audit"] {
        assert_eq!(visitor.get(path).await.status, 403, "{path}");
        assert!(!overview.contains(&format!("href=\"{path}\"")), "{path} is offered: {overview}");
    }
    let submitter = stage.token("submitter", &[Scope::Submit]).await;
    let visitor = Visitor::with(&stage, &submitter).await;
    for path in ["/retry-budgets", "/retention"] {
        assert_eq!(visitor.get(path).await.status, 403, "{path}");
    }
}
