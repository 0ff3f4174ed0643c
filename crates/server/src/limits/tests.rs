//! Places for requests and streams, and what becomes of long polls when the server goes down.

use axum::Router;
use axum::middleware;
use axum::routing::post;
use backstop::Backstop;
use http_body_util::BodyExt;
use tokio::sync::mpsc;
use tower::ServiceExt;

use super::*;
use crate::api::Settings;

/// Routes that say that they have begun and then wait for ever.
async fn waiting(settings: Settings) -> (Api, Router, mpsc::UnboundedReceiver<()>) {
    let engine = Backstop::open("memory:").await.expect("a store in memory");
    let api = Api::new(engine, settings);
    let (begun, told) = mpsc::unbounded_channel();
    let wait = move || {
        let begun = begun.clone();
        async move {
            begun.send(()).expect("somebody listens");
            std::future::pending::<Response>().await
        }
    };
    let kept = api.clone();
    let with_api = middleware::from_fn(move |mut request: Request, next: Next| {
        request.extensions_mut().insert(kept.clone());
        next.run(request)
    });
    let router = Router::new().route(STREAMS[1], post(wait.clone())).route("/plain", post(wait));
    let router = router.layer(middleware::from_fn(hand_over)).layer(with_api);
    (api, router, told)
}

fn ask(router: &Router, path: &str) -> tokio::task::JoinHandle<Response> {
    let request = Request::post(path).body(Body::empty()).expect("a request");
    let router = router.clone();
    tokio::spawn(async move { router.oneshot(request).await.expect("an answer") })
}

async fn code(response: Response) -> (u16, String) {
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    let error: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    (status, error["error"]["code"].as_str().expect("a code").to_owned())
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_their_turn_in_a_queue_that_ends() {
    let mut settings = Settings::default();
    (settings.limits.requests, settings.limits.queued) = (1, 1);
    let (_api, router, mut begun) = waiting(settings).await;
    let running = ask(&router, "/plain");
    begun.recv().await.expect("it runs");
    let (queued, turned_away) = (ask(&router, "/plain"), ask(&router, "/plain"));
    assert_eq!(code(turned_away.await.expect("a task")).await, (503, "busy".to_owned()));
    // The first gives its place back, and the next one takes it.
    running.abort();
    begun.recv().await.expect("it runs");
    let late = ask(&router, "/plain");
    assert_eq!(code(late.await.expect("a task")).await, (503, "busy".to_owned()));
    queued.abort();
}

#[tokio::test(start_paused = true)]
async fn streams_are_counted_by_themselves() {
    let mut settings = Settings::default();
    (settings.limits.requests, settings.limits.streams) = (1, 2);
    let (_api, router, mut begun) = waiting(settings).await;
    let polls = [ask(&router, STREAMS[1]), ask(&router, STREAMS[1])];
    for _ in &polls {
        begun.recv().await.expect("it waits");
    }
    assert_eq!(code(ask(&router, STREAMS[1]).await.expect("a task")).await, (503, "busy".to_owned()));
    // They keep no place of the others.
    let plain = ask(&router, "/plain");
    begun.recv().await.expect("it runs");
    plain.abort();
    polls.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_is_cut_when_the_server_goes_down() {
    let (api, router, mut begun) = waiting(Settings::default()).await;
    let poll = ask(&router, STREAMS[1]);
    begun.recv().await.expect("it waits");
    let asked = tokio::time::Instant::now();
    api.stopping().cancel();
    assert_eq!(code(poll.await.expect("a task")).await, (503, "stopping".to_owned()));
    assert_eq!(asked.elapsed(), LAST_WORD);
}
