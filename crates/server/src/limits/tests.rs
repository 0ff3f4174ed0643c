//! Places for requests and streams, and what becomes of long polls when the server goes down.

use backstop::Backstop;
use http_body_util::BodyExt;
use tokio::sync::mpsc;

use super::request_room::{POLL, STREAM};
use super::*;
use crate::api::ServerSettings;

/// A place where requests are handed over to a handler that says that it has begun and then waits for ever.
#[derive(Clone)]
struct Waiting {
    api: Api,
    begun: mpsc::UnboundedSender<()>,
}

async fn waiting(settings: ServerSettings) -> (Waiting, mpsc::UnboundedReceiver<()>) {
    let engine = Backstop::open("memory:").await.expect("a store in memory");
    let (begun, told) = mpsc::unbounded_channel();
    (Waiting { api: Api::new(engine, settings), begun }, told)
}

fn ask(place: &Waiting, route: &'static str) -> tokio::task::JoinHandle<Response> {
    let request = Request::post(route).body(Body::empty()).expect("a request");
    let Waiting { api, begun } = place.clone();
    tokio::spawn(async move {
        let wait = async |_| {
            begun.send(()).expect("somebody listens");
            std::future::pending::<Response>().await
        };
        let sign = RouteAccess::new(route, crate::route::RouteNeeds::Nothing);
        hand_over(&api, &sign, request, wait).await
    })
}

async fn code(response: Response) -> (u16, String) {
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    let error: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    (status, error["error"]["code"].as_str().expect("a code").to_owned())
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_their_turn_in_a_queue_that_ends() {
    let mut settings = ServerSettings::default();
    (settings.limits.requests, settings.limits.queued) = (1, 1);
    let (place, mut begun) = waiting(settings).await;
    let running = ask(&place, "/plain");
    begun.recv().await.expect("it runs");
    let (queued, turned_away) = (ask(&place, "/plain"), ask(&place, "/plain"));
    assert_eq!(code(turned_away.await.expect("a task")).await, (503, "busy".to_owned()));
    // The first gives its place back, and the next one takes it.
    running.abort();
    begun.recv().await.expect("it runs");
    let late = ask(&place, "/plain");
    assert_eq!(code(late.await.expect("a task")).await, (503, "busy".to_owned()));
    queued.abort();
}

#[tokio::test(start_paused = true)]
async fn streams_are_counted_by_themselves() {
    let mut settings = ServerSettings::default();
    (settings.limits.requests, settings.limits.streams, settings.limits.claims) = (1, 2, 2);
    let (place, mut begun) = waiting(settings).await;
    let streams = [ask(&place, STREAM), ask(&place, STREAM)];
    for _ in &streams {
        begun.recv().await.expect("it waits");
    }
    assert_eq!(code(ask(&place, STREAM).await.expect("a task")).await, (503, "busy".to_owned()));
    // No claim is refused because of streams.
    let polls = [ask(&place, POLL), ask(&place, POLL)];
    for _ in &polls {
        begun.recv().await.expect("it waits");
    }
    assert_eq!(code(ask(&place, POLL).await.expect("a task")).await, (503, "busy".to_owned()));
    // They keep no place of the others.
    let plain = ask(&place, "/plain");
    begun.recv().await.expect("it runs");
    plain.abort();
    streams.iter().chain(&polls).for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_is_cut_when_the_server_goes_down() {
    let (place, mut begun) = waiting(ServerSettings::default()).await;
    let poll = ask(&place, POLL);
    begun.recv().await.expect("it waits");
    let asked = tokio::time::Instant::now();
    place.api.stopping().cancel();
    assert_eq!(code(poll.await.expect("a task")).await, (503, "stopping".to_owned()));
    assert_eq!(asked.elapsed(), LAST_WORD);
}
