//! How often one may call, and how often one may be wrong; and whom proxies may speak for.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use backstop_server::{Peer, Rate, Scope, ServerSettings};
use backstop_testing::TokioClock;

use super::stage::{Reply, Stage};

/// Asks for the queues as a machine with this address, with these headers.
async fn from(stage: &Stage, address: &str, headers: &[(&str, &str)]) -> Reply {
    let remote = SocketAddr::new(address.parse().expect("an address"), 4_000);
    let local = SocketAddr::from(([127, 0, 0, 1], 7_700));
    let mut request = Request::get("/api/v1/queues").header("host", "localhost:7700");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(Body::empty()).expect("a request");
    request.extensions_mut().insert(Peer { remote, local });
    stage.send(request).await
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

#[tokio::test(start_paused = true)]
async fn a_token_that_calls_too_often_waits_as_long_as_it_is_told() {
    let mut settings = ServerSettings::default();
    settings.access.rate = Some(Rate::every(Duration::from_secs(2), 3));
    let stage = Stage::on(TokioClock::engine(), settings);
    let eager = stage.token("eager", &[Scope::Read]).await;
    let other = stage.token("other", &[Scope::Read]).await;
    let call = async |token: &str| stage.call("GET", "/api/v1/queues", Some(token)).await;
    for _ in 0..3 {
        assert_eq!(call(&eager).await.status, 200);
    }
    let refused = call(&eager).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (429, "rate_limited".to_owned()));
    assert_eq!(refused.headers["retry-after"], "2");
    assert_eq!(call(&other).await.status, 200);
    // What needs no token is not counted.
    assert_eq!(stage.call("GET", "/health/live", Some(&eager)).await.status, 200);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!((call(&eager).await.status.as_u16(), call(&eager).await.status.as_u16()), (200, 429));
}

#[tokio::test(start_paused = true)]
async fn an_address_that_guesses_is_slowed_down_and_holds_up_nobody_with_a_token() {
    let stage = Stage::on(TokioClock::engine(), ServerSettings::default());
    let token = bearer(&stage.token("good", &[Scope::Read]).await);
    let wrong = bearer(&format!("bks_{}", "A".repeat(43)));
    let guess = async |address: &str| from(&stage, address, &[("authorization", &wrong)]).await;
    for _ in 0..10 {
        assert_eq!(guess("192.0.2.1").await.status, 401);
    }
    let slowed = guess("192.0.2.1").await;
    assert_eq!((slowed.status.as_u16(), slowed.code()), (429, "rate_limited".to_owned()));
    assert_eq!(slowed.headers["retry-after"], "6");
    assert_eq!(guess("192.0.2.2").await.status, 401);
    // Whoever sits behind the same address with a good token, or with none, is treated as ever.
    assert_eq!(from(&stage, "192.0.2.1", &[("authorization", &token)]).await.status, 200);
    assert_eq!(from(&stage, "192.0.2.1", &[]).await.status, 401);
    tokio::time::advance(Duration::from_secs(6)).await;
    assert_eq!(guess("192.0.2.1").await.status, 401);
}

#[tokio::test]
async fn a_machine_without_tokens_is_open_to_itself_alone() {
    let stage = Stage::new(ServerSettings::default()).await;
    assert_eq!(from(&stage, "127.0.0.1", &[]).await.status, 200);
    assert_eq!(from(&stage, "::1", &[]).await.status, 200);
    assert_eq!(from(&stage, "192.0.2.1", &[]).await.status, 401);
    // A proxy on this machine asks for somebody who is not.
    for header in ["x-forwarded-for", "forwarded", "x-real-ip"] {
        assert_eq!(from(&stage, "127.0.0.1", &[(header, "127.0.0.1")]).await.status, 401, "{header}");
    }
}

#[tokio::test(start_paused = true)]
async fn forwarded_addresses_are_believed_from_trusted_proxies_alone() {
    let mut settings = ServerSettings::default();
    settings.access.trusted_proxies = vec!["10.0.0.0/8".parse().unwrap()];
    settings.access.failed_logins = Rate::every(Duration::from_secs(60), 1);
    let stage = Stage::on(TokioClock::engine(), settings);
    stage.token("any", &[Scope::Read]).await;
    let guess = async |address: &str, forwarded: &str| {
        let headers = [("authorization", "Bearer bks_wrong"), ("x-forwarded-for", forwarded)];
        from(&stage, address, &headers).await.status.as_u16()
    };
    assert_eq!((guess("10.0.0.1", "203.0.113.1").await, guess("10.0.0.1", "203.0.113.2").await), (401, 401));
    assert_eq!(guess("10.0.0.2", "203.0.113.1").await, 429);
    // Others cannot say whom they ask for, so a new name is no new guess.
    assert_eq!(
        (guess("192.0.2.1", "203.0.113.3").await, guess("192.0.2.1", "203.0.113.4").await),
        (401, 429)
    );
}

#[tokio::test]
async fn hosts_origins_and_forms_are_checked_before_anything_else() {
    let stage = Stage::new(ServerSettings::default()).await;
    let rebound = from(&stage, "127.0.0.1", &[("host", "evil.example")]).await;
    assert_eq!((rebound.status.as_u16(), rebound.code()), (421, "wrong_host".to_owned()));
    let foreign = from(&stage, "127.0.0.1", &[("origin", "https://evil.example")]).await;
    assert_eq!((foreign.status.as_u16(), foreign.code()), (403, "foreign_origin".to_owned()));
    let queues = stage.api.engine().enqueue_raw("send", "{}").submit().await;
    queues.unwrap();
    for kind in ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x"] {
        for body in ["", "a=b"] {
            let form = Request::post("/api/v1/queues/default/pause").header("content-type", kind);
            let reply = stage.send(form.body(Body::from(body)).unwrap()).await;
            assert_eq!((reply.status.as_u16(), reply.code()), (415, "unsupported_media_type".to_owned()));
        }
    }
    let bare = Request::post("/api/v1/queues/default/pause").body(Body::from("{}")).unwrap();
    assert_eq!(stage.send(bare).await.status, 415);
    let packed = Request::post("/api/v1/queues/default/pause")
        .header("content-type", "application/json")
        .header("content-encoding", "gzip");
    assert_eq!(stage.send(packed.body(Body::from("x")).unwrap()).await.code(), "content_encoding");
    assert!(stage.api.engine().queues().list().await.unwrap().iter().all(|queue| !queue.paused));
}
