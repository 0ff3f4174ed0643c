//! How much fits: bodies, and how many requests at once.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::Request;
use backstop_server::Settings;
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
    let stage = Stage::new(Settings::default()).await;
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

#[tokio::test(start_paused = true)]
async fn bodies_share_the_room_there_is() {
    let mut settings = Settings::default();
    settings.limits.bodies = 1_000;
    let stage = Stage::new(settings).await;
    assert_eq!(stage.send(post(pieces(10, 100))).await.status, 400);
    let reply = stage.send(post(pieces(11, 100))).await;
    assert_eq!((reply.status.as_u16(), reply.code()), (503, "busy".to_owned()));
    assert_eq!(reply.headers["retry-after"], "1");
    // What was held is free again.
    assert_eq!(stage.send(post(pieces(10, 100))).await.status, 400);
}

#[tokio::test]
async fn every_answer_says_what_a_browser_may_do_with_it() {
    let stage = Stage::new(Settings::default()).await;
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
