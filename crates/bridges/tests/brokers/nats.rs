//! NATS JetStream.

use std::time::Duration;

use async_nats::jetstream::{self, stream};
use backstop_bridges::{BridgeSettings, NewMessage, SourceSettings};
use backstop_testbed::{Folder, Nats, Proxy};

use crate::cases;
use crate::stage::{Stage, TestBroker, TestEngine, block_on, until};

struct NatsServer(Nats);

impl TestBroker for NatsServer {
    fn port(&self) -> u16 {
        self.0.port()
    }

    fn url(&self) -> String {
        self.0.url()
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
        self.0.kill().expect("it ends");
    }

    fn start_again(&mut self, _: &Proxy) {
        self.0.start_again().expect("it starts");
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

    /// Terminated messages stay in a stream that is kept by limits: everything that no consumer gets any more.
    fn abandoned(&self, queue: &str) -> Vec<Vec<u8>> {
        block_on(async {
            let client = async_nats::connect(self.url()).await.expect("there");
            let stream = jetstream::new(client).get_stream(queue).await.expect("the stream");
            let (first, last) =
                (stream.cached_info().state.first_sequence, stream.cached_info().state.last_sequence);
            let mut bodies = Vec::new();
            for sequence in first..=last {
                let body = stream.get_raw_message(sequence).await.expect("it is kept").payload.to_vec();
                if body == b"poison" || body.len() > 1024 * 1024 {
                    bodies.push(body);
                }
            }
            bodies
        })
    }
}

fn stage() -> Stage {
    let folder = Folder::new("bridge-nats").expect("a folder");
    let server = Nats::start(folder.join("nats")).expect("a server");
    Stage::new(folder, Box::new(NatsServer(server)))
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
