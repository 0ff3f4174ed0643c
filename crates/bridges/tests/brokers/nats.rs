//! NATS JetStream.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::jetstream::{self, stream};
use backstop::sinks::SinkTopic;
use backstop_bridges::{BridgeSender, BridgeSettings, NewMessage, SinkSettings, SourceSettings, brokers};
use backstop_testbed::{Folder, Nats, Proxy};
use futures_util::StreamExt as _;
use serde_json::Value;

use crate::cases;
use crate::killed::a_hundred_processes_are_killed_before_the_ack;
use crate::stage::{Stage, TestBroker, TestEngine, block_on, soon, until};

struct NatsServer {
    server: Nats,
    terminated: Arc<Mutex<Vec<(String, u64)>>>,
}

impl TestBroker for NatsServer {
    fn port(&self) -> u16 {
        self.server.port()
    }

    fn url(&self) -> String {
        self.server.url()
    }

    fn make_queue(&self, queue: &str) {
        block_on(async {
            let client = async_nats::connect(self.url()).await.expect("there");
            let config = stream::Config {
                name: queue.to_owned(),
                subjects: vec![queue.to_owned()],
                ..stream::Config::default()
            };
            jetstream::new(client).create_stream(config).await.expect("a new stream");
        });
    }

    fn kill(&mut self, _: &Proxy) {
        self.server.kill().expect("it ends");
    }

    fn start_again(&mut self, _: &Proxy) {
        self.server.start_again().expect("it starts");
    }

    fn ack_bytes(&self) -> &'static [u8] {
        b"+ACK"
    }

    fn settings(&self, mut settings: BridgeSettings) -> BridgeSettings {
        // A message whose acknowledgement was lost comes again after this.
        if let Some(source) = &mut settings.source {
            source.hold = Some(Duration::from_millis(700));
        }
        settings
    }

    fn redelivers_at_once(&self) -> bool {
        false
    }

    /// Terminated messages stay in a stream that is kept by limits; the server's advisories say which they are.
    fn abandoned(&self, queue: &str) -> Vec<Vec<u8>> {
        let told = || {
            let told = self.terminated.lock().expect("no panic");
            told.iter().filter(|(stream, _)| stream == queue).map(|(_, number)| *number).collect::<Vec<u64>>()
        };
        block_on(soon("an advisory", async {
            while told().is_empty() {
                tokio::task::yield_now().await;
            }
            let client = async_nats::connect(self.url()).await.expect("there");
            let stream = jetstream::new(client).get_stream(queue).await.expect("the stream");
            let mut bodies = Vec::new();
            for number in told() {
                bodies.push(stream.get_raw_message(number).await.expect("it is kept").payload.to_vec());
            }
            bodies
        }))
    }
}

/// Hears which messages the server has terminated: their streams and their numbers there.
async fn hear(url: &str) -> Arc<Mutex<Vec<(String, u64)>>> {
    let client = async_nats::connect(url).await.expect("there");
    let mut advisories =
        client.subscribe("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.>").await.expect("there");
    client.flush().await.expect("there");
    let terminated = Arc::new(Mutex::new(Vec::new()));
    let told = terminated.clone();
    tokio::spawn(async move {
        // The client is kept for as long as there may be something to hear.
        let _client = client;
        while let Some(advisory) = advisories.next().await {
            let advisory: Value = serde_json::from_slice(&advisory.payload).expect("JSON");
            let stream = advisory["stream"].as_str().expect("a stream").to_owned();
            let number = advisory["stream_seq"].as_u64().expect("a number");
            told.lock().expect("no panic").push((stream, number));
        }
    });
    terminated
}

fn stage() -> Stage {
    let folder = Folder::new("bridge-nats").expect("a folder");
    let server = Nats::start(folder.join("nats")).expect("a server");
    let terminated = block_on(hear(&server.url()));
    Stage::new(folder, Box::new(NatsServer { server, terminated }))
}

#[tokio::test(flavor = "multi_thread")]
async fn nats() {
    // B1, B4, B5, B6
    cases::all(stage()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nats_cut_between_admit_and_ack() {
    // B1, C6
    cases::cuts(&stage(), &TestEngine::new(backstop::Config::default()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nats_killed_between_admit_and_ack() {
    // B1, C6
    a_hundred_processes_are_killed_before_the_ack(&stage()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nats_message_ids_and_headers() {
    // B1: the header Nats-Msg-Id is the id; the same id in another stream of one bridge is the same message.
    let (stage, engine) = (stage(), TestEngine::new(backstop::Config::default()).await);
    for (count, queue) in [stage.queue(), stage.queue()].into_iter().enumerate() {
        let new = NewMessage::new(b"{}".to_vec()).with_id("a").with_header("x", "y");
        stage.session(&queue).await.publish(&queue, &[new]).await.expect("confirmed");
        let handle = stage.start(&engine, SourceSettings::new(&queue, "charge"));
        let status = until(&handle, |status| status.acked == 1).await;
        assert_eq!((status.admitted, status.duplicates), (1 - count as u64, count as u64));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nats_a_subject_that_no_stream_keeps_is_named() {
    // B2: before anything is published, for a connection alone does not tell.
    let stage = stage();
    let queue = stage.queue();
    for (queue, code) in [(queue.as_str(), None), ("nowhere", Some("no_such_queue"))] {
        let sink = SinkSettings::new(queue, [SinkTopic::Results]);
        let settings = BridgeSettings::of_sink(stage.server.url(), sink);
        let broker = brokers::open("orders", &settings, "test").expect("good settings");
        let found = broker.publisher().await.expect("the server is there").look_for(queue).await;
        assert_eq!(found.err().map(|error| error.code()), code, "{queue}");
        let sender = BridgeSender::new("orders", &settings, "test").expect("good settings");
        for _ in 0..2 {
            let sent = sender.send(queue, NewMessage::new(b"{}".to_vec())).await;
            assert_eq!(sent.err().map(|error| error.code()), code, "{queue}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nats_a_changed_hold_is_that_of_the_consumer_which_is_there() {
    // B1: nothing else of the consumer is changed, and without a hold nothing at all.
    let stage = stage();
    let queue = stage.queue();
    let client = async_nats::connect(stage.server.url()).await.expect("there");
    let stream = jetstream::new(client).get_stream(&queue).await.expect("there");
    for (hold, expected) in [(None, 30), (Some(7), 7), (None, 7), (Some(9), 9)] {
        let mut source = SourceSettings::new(&queue, "charge");
        source.hold = hold.map(Duration::from_secs);
        let settings = BridgeSettings::new(stage.server.url(), source);
        let broker = brokers::open("orders", &settings, "test").expect("good settings");
        drop(soon("a session", broker.connect()).await.expect("there"));
        let consumer: jetstream::consumer::PullConsumer =
            stream.get_consumer("orders").await.expect("it was made");
        let config = &consumer.cached_info().config;
        assert_eq!((config.ack_wait, config.max_deliver), (Duration::from_secs(expected), -1), "{hold:?}");
    }
}
