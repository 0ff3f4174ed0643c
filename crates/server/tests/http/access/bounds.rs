//! How much fits: bodies, and how many requests at once.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::Request;
use backstop_server::{Scope, ServerSettings, Share};
use hyper::body::Frame;

use super::stage::Stage;

const PATH: &str = "/api/v1/tokens";

fn post(body: Body) -> Request<Body> {
    Request::post(PATH).header("content-type", "application/json").body(body).expect("a request")
}

/// A body in pieces, whose length nobody announces.
fn pieces(count: usize, piece: usize) -> Body {
    Body::new(Pieces(std::iter::repeat_n(Bytes::from(vec![b' '; piece]), count).collect()))
}

struct Pieces(VecDeque<Bytes>);

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_announced_or_not() {
    let stage = Stage::new(ServerSettings::default()).await;
    let fits = stage.send(post(Body::from(vec![b' '; 2 << 20]))).await;
    assert_eq!((fits.status.as_u16(), fits.code()), (400, "unreadable".to_owned()));
    for body in [Body::from(vec![b' '; (2 << 20) + 1]), pieces(33, 64 << 10)] {
        let reply = stage.send(post(body)).await;
        assert_eq!((reply.status.as_u16(), reply.code()), (413, "too_large".to_owned()));
    }
    // A length that is announced is believed, and nothing is read.
    let mut lying = post(pieces(1, 2));
    lying.headers_mut().insert("content-length", "99999999999999999999999".parse().unwrap());
    assert!(stage.send(lying).await.status.is_client_error());
    let mut lying = post(pieces(1, 2));
    lying.headers_mut().insert("content-length", "9999999999".parse().unwrap());
    assert_eq!(stage.send(lying).await.status, 413);
}

#[tokio::test]
async fn routes_for_many_things_take_larger_bodies() {
    // W6: a workflow of as many nodes as there may be does not fit into an ordinary body.
    let stage = Stage::new(ServerSettings::default()).await;
    for path in ["/api/v1/jobs/batch", "/api/v1/workflows", "/api/v1/batches", "/api/v1/batches/b8a3c1/jobs"]
    {
        let large = |bytes| {
            let request = Request::post(path).header("content-type", "application/json");
            request.body(Body::from(vec![b' '; bytes])).unwrap()
        };
        let fits = stage.send(large(16 << 20)).await;
        assert!(matches!(fits.code().as_str(), "unreadable" | "no_such_batch"), "{path}: {}", fits.code());
        assert_eq!(stage.send(large((16 << 20) + 1)).await.status, 413, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_share_the_room_there_is() {
    let mut settings = ServerSettings::default();
    settings.limits.bodies = 1_000;
    let stage = Stage::new(settings).await;
    assert_eq!(stage.send(post(pieces(10, 100))).await.status, 400);
    let reply = stage.send(post(pieces(11, 100))).await;
    assert_eq!((reply.status.as_u16(), reply.code()), (503, "busy".to_owned()));
    assert_eq!(reply.headers["retry-after"], "1");
    // What was held is free again.
    assert_eq!(stage.send(post(pieces(10, 100))).await.status, 400);
}

/// A body whose sender stops in the middle of it and stays.
struct Stalled(Pieces);

impl HttpBody for Stalled {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match Pin::new(&mut self.0).poll_frame(cx) {
            Poll::Ready(None) => Poll::Pending,
            more => more,
        }
    }
}

fn from(token: &str, path: &str, body: Body) -> Request<Body> {
    let request = Request::post(path).header("authorization", format!("Bearer {token}"));
    request.header("content-type", "application/json").body(body).expect("a request")
}

#[tokio::test(start_paused = true)]
async fn half_sent_bodies_of_one_caller_keep_no_other_waiting() {
    let stage = Arc::new(Stage::new(ServerSettings::default()).await);
    let greedy = stage.token_of("greedy", &[Scope::Submit], Some("acme")).await;
    let other = stage.token("other", &[Scope::Submit]).await;
    // As many bytes as there is room for, and half as many again.
    let half: Pieces = Pieces(std::iter::repeat_n(Bytes::from(vec![b' '; 64 << 10]), 24).collect());
    let stuck: Vec<_> = (0..64)
        .map(|_| {
            let (stage, greedy, half) = (stage.clone(), greedy.clone(), Pieces(half.0.clone()));
            tokio::spawn(async move {
                stage.send(from(&greedy, "/api/v1/jobs", Body::new(Stalled(half)))).await.status
            })
        })
        .collect();
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    let since = tokio::time::Instant::now();
    for _ in 0..20 {
        let body = Body::from(format!("{{\"kind\":\"mail\",\"payload\":\"{}\"}}", "x".repeat(500 << 10)));
        assert_eq!(stage.send(from(&other, "/api/v1/jobs", body)).await.status, 201);
    }
    assert_eq!(since.elapsed().as_millis(), 0, "it waited for nobody");
    // What waits is told: too slow, or that there is no room for more of the same.
    for one in stuck {
        let status = one.await.expect("it is answered");
        assert!([408, 503].contains(&status.as_u16()), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn streams_and_claims_of_one_caller_leave_room_for_others() {
    let mut settings = ServerSettings::default();
    settings.limits.streams_each = Share { token: 3, tenant: 4 };
    settings.limits.claims_each = Share { token: 2, tenant: 3 };
    let stage = Arc::new(Stage::new(settings).await);
    let scopes = [Scope::Read, Scope::Work];
    let first = stage.token_of("first", &scopes, Some("acme")).await;
    let second = stage.token_of("second", &scopes, Some("acme")).await;
    let other = stage.token("other", &scopes).await;
    let listen = async |token: &str| {
        let request = Request::get("/api/v1/events").header("authorization", format!("Bearer {token}"));
        stage.open(request.body(Body::empty()).expect("a request")).await
    };
    let mut open = Vec::new();
    for (token, room) in [(&first, 3), (&second, 1), (&other, 3)] {
        for _ in 0..room {
            let stream = listen(token).await;
            assert_eq!(stream.status(), 200);
            open.push(stream);
        }
        assert_eq!(listen(token).await.status(), 429);
    }
    let claim = |token: &str, wait: u64| {
        let (stage, token) = (stage.clone(), token.to_owned());
        let ask =
            format!("{{\"worker\":\"w\",\"queues\":[\"mail\"],\"kinds\":[\"mail\"],\"wait_ms\":{wait}}}");
        tokio::spawn(async move { stage.send(from(&token, "/api/v1/work/claim", Body::from(ask))).await })
    };
    let mut waiting = Vec::new();
    for (token, room) in [(&first, 2), (&second, 1), (&other, 2)] {
        waiting.extend((0..room).map(|_| claim(token, 60_000)));
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        let refused = claim(token, 0).await.expect("it is answered");
        assert_eq!((refused.status.as_u16(), refused.code()), (429, "too_many_open".to_owned()));
        assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
        let limit = refused.json()["error"]["details"]["name"].clone();
        assert!(limit.as_str().is_some_and(|name| name.starts_with("max_claims_per_")), "{refused:?}");
    }
    // What is closed makes room for the same.
    open.clear();
    assert_eq!(listen(&first).await.status(), 200);
    for one in waiting {
        assert_eq!(one.await.expect("it is answered").status, 200);
    }
}

#[tokio::test]
async fn every_answer_says_what_a_browser_may_do_with_it() {
    let stage = Stage::new(ServerSettings::default()).await;
    for (method, path) in [
        ("GET", "/health/live"),
        ("GET", "/api/v1/queues"),
        ("GET", "/nowhere"),
        ("PUT", "/api/v1/queues"),
        ("POST", PATH),
    ] {
        let reply = stage.call(method, path, None).await;
        let policy = reply.headers["content-security-policy"].to_str().unwrap();
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe"), "{policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(reply.headers[name], value, "{method} {path}");
        }
        assert!(reply.headers.get("server").is_none());
    }
}
