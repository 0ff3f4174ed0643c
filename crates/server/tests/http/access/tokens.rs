//! Tokens: made, shown once, used, expired, revoked.

use std::pin::pin;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use backstop_server::{Scope, ServerSettings, Token, TokenGrant, TokenHash};
use backstop_store::{DocumentRange, Drawer};
use backstop_testing::TokioClock;
use http_body_util::BodyExt;
use serde_json::json;

use super::stage::{Stage, wish};

/// More than the second for which tokens are known without looking.
const STALE: Duration = Duration::from_millis(1_001);

async fn status(stage: &Stage, token: Option<&str>) -> u16 {
    stage.call("GET", "/api/v1/queues", token).await.status.as_u16()
}

#[tokio::test]
async fn without_a_token_this_machine_is_open_and_with_the_first_it_is_not() {
    let stage = Stage::new(ServerSettings::default()).await;
    assert_eq!(status(&stage, None).await, 200);
    // Somebody who shows a token shows it for a reason, but there is nothing to compare it with.
    assert_eq!(status(&stage, Some("bks_x")).await, 200);
    let token = stage.token("first", &[Scope::Read]).await;
    assert_eq!((status(&stage, None).await, status(&stage, Some(&token)).await), (401, 200));
    // It does not open again when the last one has gone.
    stage.api.tokens().revoke("first", "test").await.unwrap();
    assert_eq!((status(&stage, None).await, status(&stage, Some(&token)).await), (401, 401));
}

#[tokio::test]
async fn a_token_is_shown_once_and_kept_as_a_hash() {
    let stage = Stage::new(ServerSettings::default()).await;
    let new = json!({ "name": "ci", "scopes": ["read", "admin"], "expires_at": "2999-01-01T00:00:00Z" });
    let made = stage.call_with("POST", "/api/v1/tokens", None, &new.to_string()).await;
    assert_eq!(made.status, 201, "{made:?}");
    let made = made.json();
    let token = made["token"].as_str().unwrap();
    assert_eq!(made["made"]["scopes"], json!(["read", "admin"]));
    assert_eq!(made["made"]["created_by"], "local");
    let listed = stage.call("GET", "/api/v1/tokens", Some(token)).await;
    assert_eq!(listed.json()["items"][0]["name"], "ci");
    let hash = TokenHash::of(token).to_string();
    let digits = hash.strip_prefix("sha256:").unwrap();
    assert!(!listed.text.contains(token) && !listed.text.contains(digits), "{listed:?}");
    let store = stage.api.engine().store();
    let kept = store.documents(DocumentRange::first(Drawer::Tokens, 100)).await.unwrap().items;
    assert!(kept.iter().all(|document| !document.body.contains(token)), "{kept:?}");
    assert!(kept.iter().any(|document| document.body.contains(digits)), "{kept:?}");
    // Its name is taken for good.
    let again = stage.call_with("POST", "/api/v1/tokens", Some(token), &new.to_string()).await;
    assert_eq!((again.status.as_u16(), again.code()), (409, "token_exists".to_owned()));
    let revoked = stage.call("DELETE", "/api/v1/tokens/ci", Some(token)).await;
    assert_eq!(revoked.json(), json!({ "changed": true, "status": "revoked" }));
    assert_eq!(status(&stage, Some(token)).await, 401);
}

#[tokio::test]
async fn what_cannot_be_a_token_is_refused_with_the_field() {
    let stage = Stage::new(ServerSettings::default()).await;
    let secret = Token::generate().unwrap();
    for (new, field) in [
        (json!({ "name": "a b", "scopes": ["read"] }), "name"),
        (json!({ "name": secret.reveal(), "scopes": ["read"] }), "name"),
        (json!({ "name": "a", "scopes": [] }), "scopes"),
        (json!({ "name": "a", "scopes": ["read"], "tenant": "A B" }), "tenant"),
        (json!({ "name": "a", "scopes": ["read"], "queues": [] }), "queues"),
        (json!({ "name": "a", "scopes": ["read"], "colour": "red" }), "colour"),
        (json!({ "name": "a", "scopes": ["root"] }), "scopes"),
        (json!({ "name": "a" }), "scopes"),
    ] {
        let reply = stage.call_with("POST", "/api/v1/tokens", None, &new.to_string()).await;
        assert_eq!((reply.status.as_u16(), reply.code()), (422, "invalid".to_owned()), "{new}");
        let told = reply.json()["error"]["details"]["field"].as_str().unwrap_or_default().to_owned();
        assert!(told.starts_with(field), "{new}: {reply:?}");
        assert!(!reply.text.contains(secret.reveal()), "{reply:?}");
    }
    assert_eq!(stage.call("DELETE", "/api/v1/tokens/none", None).await.code(), "no_such_token");
}

#[tokio::test(start_paused = true)]
async fn a_token_expires_to_the_moment() {
    let stage = Stage::on(TokioClock::engine(), ServerSettings::default());
    let now = stage.api.engine().store().now().await.unwrap();
    let expires = Some(now.after(Duration::from_secs(10)));
    let token = stage.make(backstop_server::TokenRequest { expires, ..wish("brief", &[Scope::Read]) }).await;
    assert_eq!(status(&stage, Some(&token)).await, 200);
    tokio::time::advance(Duration::from_millis(9_999)).await;
    assert_eq!(status(&stage, Some(&token)).await, 200);
    tokio::time::advance(Duration::from_millis(1)).await;
    // What is known of it is a millisecond old, and still it counts no more.
    assert_eq!(status(&stage, Some(&token)).await, 401);
}

#[tokio::test(start_paused = true)]
async fn a_revocation_is_seen_at_once_here_and_soon_elsewhere() {
    let engine = TokioClock::engine();
    let here = Stage::on(engine.clone(), ServerSettings::default());
    let there = Stage::on(engine, ServerSettings::default());
    let token = here.token("shared", &[Scope::Read]).await;
    assert_eq!((status(&here, Some(&token)).await, status(&there, Some(&token)).await), (200, 200));
    assert!(here.api.tokens().revoke("shared", "test").await.unwrap());
    assert!(!here.api.tokens().revoke("shared", "test").await.unwrap());
    assert_eq!(status(&here, Some(&token)).await, 401);
    tokio::time::advance(STALE).await;
    assert_eq!(status(&there, Some(&token)).await, 401);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_was_just_made_is_known_everywhere_at_once() {
    let engine = TokioClock::engine();
    let here = Stage::on(engine.clone(), ServerSettings::default());
    let there = Stage::on(engine, ServerSettings::default());
    let first = here.token("first", &[Scope::Read]).await;
    assert_eq!(status(&there, Some(&first)).await, 200);
    // Longer than whoever guesses makes us wait, and shorter than the second for which tokens are known.
    tokio::time::advance(Duration::from_millis(51)).await;
    let second = here.token("second", &[Scope::Read]).await;
    assert_eq!(status(&there, Some(&second)).await, 200);
}

#[tokio::test(start_paused = true)]
async fn what_is_open_ends_within_two_seconds_of_its_token() {
    // E12
    let engine = TokioClock::engine();
    let here = Stage::on(engine.clone(), ServerSettings::default());
    let there = Stage::on(engine.clone(), ServerSettings::default());
    let kept = here.token("kept", &[Scope::Read, Scope::Work]).await;
    let ask =
        json!({ "worker": "w", "queues": ["default"], "kinds": ["mail"], "wait_ms": 60_000 }).to_string();
    let listen = async |token: &str| {
        let request = Request::get("/api/v1/events").header("authorization", format!("Bearer {token}"));
        let mut stream = here.open(request.body(Body::empty()).unwrap()).await.into_body();
        assert!(stream.frame().await.is_some(), "it is greeted");
        stream
    };
    let mut kept_stream = listen(&kept).await;
    for how in ["revoked here", "revoked elsewhere", "expired"] {
        let now = engine.store().now().await.unwrap();
        let expires = (how == "expired").then(|| now.after(Duration::from_secs(5)));
        let name = how.replace(' ', "-");
        let scopes = [Scope::Read, Scope::Work];
        let token = here.make(backstop_server::TokenRequest { expires, ..wish(&name, &scopes) }).await;
        let mut stream = listen(&token).await;
        let mut claim = pin!(here.call_with("POST", "/api/v1/work/claim", Some(&token), &ask));
        assert!(tokio::time::timeout(Duration::from_millis(4_900), &mut claim).await.is_err(), "{how}");
        match how {
            "revoked here" => assert!(here.api.tokens().revoke(&name, "test").await.unwrap()),
            "revoked elsewhere" => assert!(there.api.tokens().revoke(&name, "test").await.unwrap()),
            _ => tokio::time::advance(Duration::from_millis(100)).await,
        }
        let since = tokio::time::Instant::now();
        let reply = claim.await;
        assert_eq!(reply.status, 401, "{how}: {reply:?}");
        while stream.frame().await.is_some() {}
        assert!(since.elapsed() <= Duration::from_secs(2), "{how}: {:?}", since.elapsed());
    }
    // Nobody else is cut off, and what arrives is for others: nobody holds it, nobody is charged for it.
    let id = engine.enqueue_raw("mail", "{}").submit().await.unwrap().id;
    assert!(kept_stream.frame().await.is_some());
    let held = engine.job(id).await.unwrap().unwrap().view;
    assert_eq!((held.state().to_string(), held.record.runs), ("pending".to_owned(), 0));
    let taken = here.call_with("POST", "/api/v1/work/claim", Some(&kept), &ask).await.json();
    assert_eq!(taken["jobs"][0]["id"], id.to_string());
}

#[tokio::test(start_paused = true)]
async fn when_a_token_was_used_is_written_down_once_a_minute() {
    let stage = Stage::on(TokioClock::engine(), ServerSettings::default());
    let token = stage.token("busy", &[Scope::Read]).await;
    let used = async || stage.api.tokens().list().await.unwrap()[0].last_used;
    let call = async || {
        assert_eq!(status(&stage, Some(&token)).await, 200);
        // The note is written by a task of its own.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    };
    assert_eq!(used().await, None);
    call().await;
    let first = used().await.expect("it was used");
    for _ in 0..5 {
        tokio::time::advance(Duration::from_secs(10)).await;
        call().await;
    }
    assert_eq!(used().await, Some(first));
    tokio::time::advance(Duration::from_secs(11)).await;
    call().await;
    assert!(used().await > Some(first));
}

#[tokio::test]
async fn a_configured_token_counts_and_cannot_be_revoked_over_http() {
    let token = Token::generate().unwrap();
    let grant =
        format!("{{\"name\":\"file\",\"hash\":\"{}\",\"scopes\":[\"admin\",\"read\"]}}", token.hash());
    let mut settings = ServerSettings::default();
    settings.access.tokens = vec![serde_json::from_str::<TokenGrant>(&grant).unwrap()];
    let stage = Stage::new(settings).await;
    assert_eq!((status(&stage, None).await, status(&stage, Some(token.reveal())).await), (401, 200));
    let refused = stage.call("DELETE", "/api/v1/tokens/file", Some(token.reveal())).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (409, "token_configured".to_owned()));
    let new = json!({ "name": "file", "scopes": ["read"] }).to_string();
    let taken = stage.call_with("POST", "/api/v1/tokens", Some(token.reveal()), &new).await;
    assert_eq!(taken.code(), "token_exists");
    let listed = stage.call("GET", "/api/v1/tokens", Some(token.reveal())).await.json();
    assert_eq!(listed["items"][0]["kept_in"], "configuration");
}

#[tokio::test]
async fn a_token_for_some_queues_touches_only_those() {
    // E13
    let stage = Stage::new(ServerSettings::default()).await;
    for queue in ["mail", "bills", "acme/mail", "acme/bills"] {
        stage.api.engine().enqueue_raw("send", "{}").queue(queue).submit().await.unwrap();
    }
    let scopes = [Scope::Read, Scope::Operate];
    let queues = Some(vec!["mail".to_owned()]);
    let plain =
        stage.make(backstop_server::TokenRequest { queues: queues.clone(), ..wish("plain", &scopes) }).await;
    let tenant = Some("acme".parse().unwrap());
    let acme = stage.make(backstop_server::TokenRequest { tenant, queues, ..wish("acme", &scopes) }).await;
    for token in [&plain, &acme] {
        let listed = stage.call("GET", "/api/v1/queues", Some(token)).await.json();
        assert_eq!(listed["items"].as_array().unwrap().len(), 1);
        assert_eq!(listed["items"][0]["name"], "mail");
        let refused = stage.call("POST", "/api/v1/queues/bills/pause", Some(token)).await;
        assert_eq!(refused.code(), "forbidden");
    }
    assert_eq!(stage.call("POST", "/api/v1/queues/mail/pause", Some(&acme)).await.json()["changed"], true);
    let queues = stage.api.engine().queues().list().await.unwrap();
    let paused: Vec<_> =
        queues.iter().filter(|queue| queue.paused).map(|queue| queue.name.as_str()).collect();
    assert_eq!(paused, ["acme/mail"]);
}
