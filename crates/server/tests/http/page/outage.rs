//! The page when something is in the way: people read words, and stay who they are.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use backstop::{Backstop, Config};
use backstop_server::{Rate, Scope, ServerSettings};
use backstop_testing::{CrashAt, TestEngine};

use super::Visitor;
use crate::access::stage::{Reply, Stage};

/// Looks as a browser does.
async fn look(visitor: &Visitor<'_>, path: &str) -> Reply {
    let request = visitor.request(Request::get(path)).header("accept", "text/html,*/*");
    visitor.stage.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn a_store_that_is_away_is_told_in_words_and_nobody_is_logged_out() {
    let test = TestEngine::new();
    let stage = Stage::on(test.engine().clone(), ServerSettings::default());
    let token = stage.token("ann", &[Scope::Read]).await;
    let cookie = Visitor::with(&stage, &token).await.cookie;
    let lost = Backstop::on(Arc::new(CrashAt::new(test.store(), 1)), Config::default());
    let lost = Stage::on(lost, ServerSettings::default());
    for visitor in [Visitor { stage: &lost, cookie }, Visitor::new(&lost)] {
        let page = look(&visitor, "/").await;
        assert_eq!(page.status, 503, "{page:?}");
        assert!(page.headers["content-type"].to_str().unwrap().starts_with("text/html"), "{page:?}");
        assert!(page.text.contains("The store is unavailable."), "{}", page.text);
        assert!(page.headers["content-security-policy"].to_str().unwrap().contains("default-src 'none'"));
        assert!(page.headers.contains_key("retry-after"), "{page:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_looks_too_often_is_told_to_wait_and_not_asked_who_they_are() {
    let mut settings = ServerSettings::default();
    settings.access.rate = Some(Rate::every(std::time::Duration::from_secs(1), 3));
    let stage = Stage::on(backstop_testing::TokioClock::engine(), settings);
    let token = stage.token("ann", &[Scope::Read]).await;
    let visitor = Visitor::with(&stage, &token).await;
    let mut replies = Vec::new();
    for _ in 0..5 {
        replies.push(look(&visitor, "/jobs").await);
    }
    assert_eq!(replies[0].status, 200);
    let refused = replies.last().unwrap();
    assert_eq!(refused.status, 429, "{refused:?}");
    assert!(refused.text.contains("This token has made too many requests."), "{}", refused.text);
    assert!(refused.headers.contains_key("retry-after"));
    tokio::time::advance(std::time::Duration::from_secs(60)).await;
    assert_eq!(look(&visitor, "/jobs").await.status, 200, "the session was never in doubt");
}
