//! Logging in and out: what a browser is given, and how it ends.

use std::time::Duration;

use backstop_server::{Scope, ServerSettings};
use backstop_testing::TokioClock;

use super::{Visitor, proof, stage};
use crate::access::stage::Stage;

#[tokio::test(start_paused = true)]
async fn a_stranger_is_asked_who_they_are_and_sent_on_to_what_they_wanted() {
    let stage = stage().await;
    let token = stage.token("ann", &[Scope::Read]).await;
    let stranger = Visitor::new(&stage);
    let sent = stranger.get("/jobs?status=failed").await;
    assert_eq!(sent.status, 303);
    assert_eq!(sent.headers["location"], "/login?next=%2Fjobs%3Fstatus%3Dfailed");
    let asked = stranger.get("/login?next=%2Fjobs%3Fstatus%3Dfailed").await;
    let proof = proof(&asked.text);
    let log_in = async |token: &str, next: &str| {
        stranger.send("/login", &[("proof", &proof), ("token", token), ("next", next)]).await
    };
    let wrong = log_in("bks_nonsense", "/").await;
    assert_eq!(wrong.status, 401);
    assert!(wrong.text.contains("This token is not valid") && wrong.headers.get("set-cookie").is_none());
    let right = log_in(&token, "/jobs?status=failed").await;
    assert_eq!(
        (right.status.as_u16(), &right.headers["location"]),
        (303, &"/jobs?status=failed".parse().unwrap())
    );
    let cookie = right.headers["set-cookie"].to_str().unwrap();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict; Max-Age=43200"), "{cookie}");
    assert!(!cookie.contains(&token), "the token itself is nowhere");
    // Nobody is sent elsewhere.
    for elsewhere in ["https://evil.example/", "//evil.example", "/\\evil.example"] {
        assert_eq!(log_in(&token, elsewhere).await.headers["location"], "/", "{elsewhere}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_revoked_token_ends_its_sessions_at_once_and_so_does_logging_out() {
    let stage = stage().await;
    let token = stage.token("ann", &[Scope::Read]).await;
    stage.token("other", &[Scope::Read]).await;
    let (first, second) = (Visitor::with(&stage, &token).await, Visitor::with(&stage, &token).await);
    let page = first.get("/").await;
    assert_eq!((page.status.as_u16(), second.get("/").await.status.as_u16()), (200, 200));
    let out = first.send("/logout", &[("proof", &proof(&page.text))]).await;
    assert!(out.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    assert_eq!(first.get("/").await.status, 303, "the cookie is worth nothing, even if somebody kept it");
    assert_eq!(second.get("/").await.status, 200, "the other session goes on");
    let elsewhere = Stage::on(stage.api.engine().clone(), ServerSettings::default());
    let kept = Visitor { stage: &elsewhere, cookie: first.cookie.clone() };
    assert_eq!(kept.get("/").await.status, 303, "nor on another node, nor after a restart");
    stage.api.tokens().revoke("ann", "test").await.unwrap();
    assert_eq!(second.get("/").await.status, 303);
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_by_itself_and_cannot_be_made_up() {
    let stage = stage().await;
    let token = stage.token("ann", &[Scope::Read]).await;
    let mut visitor = Visitor::with(&stage, &token).await;
    tokio::time::advance(Duration::from_secs(12 * 3_600 - 2)).await;
    assert_eq!(visitor.get("/").await.status, 200);
    tokio::time::advance(Duration::from_secs(3)).await;
    assert_eq!(visitor.get("/").await.status, 303);
    let mut visitor_of_now = Visitor::with(&stage, &token).await;
    let cookie = visitor_of_now.cookie.clone().unwrap();
    for place in 20..cookie.len() {
        let mut bytes = cookie.clone().into_bytes();
        bytes[place] = if bytes[place] == b'A' { b'B' } else { b'A' };
        visitor_of_now.cookie = Some(String::from_utf8(bytes).unwrap());
        // The last character of base64 may say less than it has room for; whatever passes is the same session.
        let status = visitor_of_now.get("/").await.status;
        assert!(status == 303 || place == cookie.len() - 1, "byte {place}: {status}");
    }
    visitor.cookie = Some(format!("backstop_session={token}"));
    assert_eq!(visitor.get("/").await.status, 303, "a token is not a session");
}

#[tokio::test]
async fn a_machine_without_tokens_says_that_it_is_open() {
    let stage = Stage::on(TokioClock::engine(), ServerSettings::default());
    let page = Visitor::new(&stage).get("/").await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("Open: no tokens"), "{}", page.text);
}

#[tokio::test(start_paused = true)]
async fn a_form_that_is_not_ours_changes_nothing() {
    let stage = stage().await;
    let token = stage.token("ann", &[Scope::Read, Scope::Operate, Scope::Admin]).await;
    let (ann, other) = (Visitor::with(&stage, &token).await, Visitor::with(&stage, &token).await);
    let theirs = proof(&other.get("/").await.text);
    let login = proof(&Visitor::new(&stage).get("/login").await.text);
    for shown in ["", "nonsense", &theirs, &login] {
        let form = [("proof", shown), ("do", "queue.pause"), ("at.name", "mail")];
        let refused = ann.send("/act", &form).await;
        assert_eq!(refused.status, 403, "{shown}");
    }
    let queues = stage.call("GET", "/api/v1/queues", Some(&token)).await;
    assert_eq!(queues.json()["items"], serde_json::json!([]), "nothing was paused");
    let done = ann.act("queue.pause", &[("at.name", "mail"), ("note", "why")]).await;
    assert_eq!(
        (done.status.as_u16(), &done.headers["location"]),
        (303, &"/queues?done=queue.pause".parse().unwrap())
    );
    let queues = stage.call("GET", "/api/v1/queues", Some(&token)).await;
    assert_eq!(queues.json()["items"][0]["paused"], true);
    assert_eq!(queues.json()["items"][0]["pause_note"], "why");
}
