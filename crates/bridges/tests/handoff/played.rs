//! Answers that a real receiver never gives, or not when a test wants them: played by a small server.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use backstop::handoffs::HandOffState;
use backstop_bridges::handoff::HandOffSettings;
use backstop_store::{ModelStore, Store};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

use crate::log::DeliveryFailures;
use crate::stage::Sender;

/// What is answered to one request.
#[derive(Debug, Clone, Copy)]
enum Play {
    /// A status, one more header, a body.
    Answer(u16, &'static str, &'static str),
    /// The connection ends before an answer.
    Cut,
    /// Every job is made, if there are so many at most; 413 otherwise.
    Take(usize),
}

/// One request as it came: when, and its jobs.
type SeenRequest = (Instant, Vec<Value>);

struct Played {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<SeenRequest>>>,
    _task: AbortOnDropHandle<()>,
}

impl Played {
    /// Answers by this list, and by its last line for ever.
    async fn start(list: &[Play]) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (kept, list) = (seen.clone(), list.to_vec());
        let task = tokio::spawn(async move {
            let mut number = 0;
            while let Ok((stream, _)) = listener.accept().await {
                let play = list[number.min(list.len() - 1)];
                number += 1;
                let request = answer(stream, play).await;
                kept.lock().expect("nobody panics").push((Instant::now(), request));
            }
        });
        Self { address, seen, _task: AbortOnDropHandle::new(task) }
    }

    fn settings(&self) -> HandOffSettings {
        HandOffSettings::to(format!("http://{}", self.address))
    }

    fn seen(&self) -> Vec<SeenRequest> {
        self.seen.lock().expect("nobody panics").clone()
    }
}

/// Reads one request, answers it and ends the connection; answers the jobs that were in it.
async fn answer(mut stream: TcpStream, play: Play) -> Vec<Value> {
    let mut bytes = Vec::new();
    let (head, length) = loop {
        let mut chunk = [0; 8192];
        let read = stream.read(&mut chunk).await.expect("a request");
        bytes.extend_from_slice(&chunk[..read]);
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
            break (end + 4, length.parse::<usize>().expect("a number"));
        }
    };
    while bytes.len() < head + length {
        let mut chunk = [0; 8192];
        let read = stream.read(&mut chunk).await.expect("a body");
        bytes.extend_from_slice(&chunk[..read]);
    }
    let body: Value = serde_json::from_slice(&bytes[head..]).expect("JSON");
    let jobs = body["jobs"].as_array().expect("jobs").clone();
    let made = || json!({ "items": vec![json!({ "deduplicated": false }); jobs.len()] }).to_string();
    let (status, header, body) = match play {
        Play::Cut => return jobs,
        Play::Answer(status, header, body) => (status, header, body.to_owned()),
        Play::Take(most) if jobs.len() <= most => (201, "", made()),
        Play::Take(_) => (413, "", "{}".to_owned()),
    };
    let length = body.len();
    let text =
        format!("HTTP/1.1 {status} X\r\n{header}connection: close\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).await.expect("answered");
    jobs
}

fn sender() -> Sender {
    Sender::new(&(Arc::new(ModelStore::default()) as Arc<dyn Store>))
}

/// B7, F9: a receiver that says how long to wait is not asked sooner.
#[tokio::test]
async fn what_the_receiver_asks_for_is_waited() {
    let (lines, _guard) = DeliveryFailures::counted();
    let played = Played::start(&[Play::Answer(429, "retry-after: 1\r\n", "{}"), Play::Take(500)]).await;
    let sender = sender();
    let running = sender.start("paid", &played.settings()).await;
    sender.pay(sender.order(1, 1)).await;
    let view = sender.stands("paid", "it waits", |view| view.state == HandOffState::Pressure).await;
    assert!(view.next_try().is_some_and(|at| at > view.backlog.now));
    let view = sender.stands("paid", "it is there", |view| view.tally.admitted == 1).await;
    let seen = played.seen();
    assert!(seen[1].0 - seen[0].0 >= Duration::from_secs(1), "{seen:?}");
    assert_eq!((view.tally.pressure, view.tally.wait, lines.count()), (1, None, 1));
    running.stop().await;
}

/// B7: `retry` does not wait for what the receiver asked for.
#[tokio::test]
async fn a_person_need_not_wait() {
    let played = Played::start(&[Play::Answer(503, "retry-after: 3000\r\n", "{}"), Play::Take(500)]).await;
    let sender = sender();
    let running = sender.start("paid", &played.settings()).await;
    sender.pay(sender.order(1, 1)).await;
    sender.stands("paid", "it waits", |view| view.state == HandOffState::Pressure).await;
    sender.engine.handoffs().retry("paid", "ann").await.expect("there");
    sender.stands("paid", "it is there", |view| view.tally.admitted == 1).await;
    running.stop().await;
}

/// B7: a receiver that is away, breaks off or fails is tried again, and one line tells of it.
#[tokio::test]
async fn a_receiver_that_is_away_is_tried_again() {
    let (lines, _guard) = DeliveryFailures::counted();
    let broken =
        [Play::Cut, Play::Answer(502, "", "<html>"), Play::Answer(500, "", ""), Play::Cut, Play::Take(500)];
    let played = Played::start(&broken).await;
    let sender = sender();
    let running = sender.start("paid", &played.settings()).await;
    let id = sender.pay(sender.order(1, 1)).await;
    let view = sender.stands("paid", "it is there", |view| view.tally.admitted == 1).await;
    assert_eq!((view.tally.unreachable, view.tally.pressure, view.tally.refused), (4, 0, 0));
    assert_eq!((lines.count(), view.last_error), (1, None));
    let keys: Vec<Value> =
        played.seen().iter().flat_map(|(_, jobs)| jobs).map(|job| job["idempotency_key"].clone()).collect();
    assert_eq!(keys, vec![json!(format!("handoff:paid:@job:{id}")); 5], "one key in every try");
    running.stop().await;
}

/// B7: a request that is too large is made in parts, and nothing is sent twice.
#[tokio::test]
async fn a_request_that_is_too_large_is_made_in_parts() {
    let played = Played::start(&[Play::Take(2)]).await;
    let sender = sender();
    // Known before it publishes, so that all wait together.
    let running = sender.start("paid", &played.settings()).await;
    running.stop().await;
    for order in 1..=5 {
        sender.pay(sender.order(order, 1)).await;
    }
    let running = sender.start("paid", &played.settings()).await;
    let view = sender.stands("paid", "all are there", |view| view.backlog.messages == 0).await;
    assert_eq!((view.tally.admitted, view.tally.refused, view.tally.pressure), (5, 0, 0));
    let taken: Vec<usize> =
        played.seen().iter().map(|(_, jobs)| jobs.len()).filter(|jobs| *jobs <= 2).collect();
    assert_eq!(taken.iter().sum::<usize>(), 5, "{taken:?}");
    running.stop().await;
}

/// B7: what is not a Backstop, or leads elsewhere, stops the hand-off.
#[tokio::test]
async fn an_answer_of_somebody_else_stops_it() {
    let elsewhere = Play::Answer(302, "location: http://127.0.0.1:1/\r\n", "");
    let page = Play::Answer(200, "", "<html>welcome</html>");
    let large = Play::Take(0);
    for (play, status, told) in
        [(elsewhere, 302, "redirects"), (page, 200, "something else"), (large, 413, "limit")]
    {
        let played = Played::start(&[play]).await;
        let sender = sender();
        let running = sender.start("paid", &played.settings()).await;
        sender.pay(sender.order(1, 1)).await;
        let view = sender.stands("paid", "it stands still", |view| view.stop.is_some()).await;
        let refused = view.stop.expect("it says why").refused;
        assert_eq!((refused.status, refused.way_out().contains(told)), (status, true), "{refused:?}");
        assert_eq!((view.backlog.messages, view.tally.refused), (1, 1));
        running.stop().await;
    }
}
