//! RabbitMQ.

use backstop_bridges::{BridgeSettings, NewMessage, SourceSettings, brokers};
use backstop_testbed::{Folder, Proxy, Rabbitmq};
use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};

use crate::cases;
use crate::stage::{Stage, TestBroker, TestEngine, block_on, until};

struct RabbitmqServer(Rabbitmq);

impl TestBroker for RabbitmqServer {
    fn port(&self) -> u16 {
        self.0.port()
    }

    fn url(&self) -> String {
        self.0.url()
    }

    fn make_queue(&self, queue: &str) {
        block_on(async {
            let connection =
                Connection::connect(&self.url(), ConnectionProperties::default()).await.expect("there");
            let channel = connection.create_channel().await.expect("there");
            let options = QueueDeclareOptions::durable();
            channel.queue_declare(queue.into(), options, FieldTable::default()).await.expect("a new queue");
        });
    }

    fn kill(&mut self, _: &Proxy) {
        self.0.kill().expect("it ends");
    }

    fn start_again(&mut self, _: &Proxy) {
        self.0.start_again().expect("it starts");
    }

    fn ack_bytes(&self) -> &'static [u8] {
        // Class 60, method 80, in a frame of 13 bytes: basic.ack.
        b"\x00\x00\x00\x0d\x00\x3c\x00\x50"
    }

    fn gives_ids(&self) -> bool {
        false
    }

    fn abandoned(&self, queue: &str) -> Vec<Vec<u8>> {
        let settings =
            BridgeSettings::new(self.url(), SourceSettings::new(format!("{queue}.dead"), "charge"));
        crate::stage::read_all(&settings)
    }
}

fn stage() -> Stage {
    let folder = Folder::new("bridge-rabbitmq").expect("a folder");
    let server = Rabbitmq::start(folder.join("rabbitmq")).expect("a server");
    Stage::new(folder, Box::new(RabbitmqServer(server)))
}

#[tokio::test(flavor = "multi_thread")]
async fn rabbitmq() {
    // B1, B4, B5, B6
    cases::all(stage()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rabbitmq_cut_between_admit_and_ack() {
    // B1, C6
    cases::cuts(&stage(), &TestEngine::new(backstop::Config::default()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rabbitmq_message_ids_and_queues_that_are_not_there() {
    // B1, B2: the property `message_id` is the id, and a publication that no queue takes is an error.
    let (stage, engine) = (stage(), TestEngine::new(backstop::Config::default()).await);
    let queue = stage.queue();
    let messages =
        ["a", "a", "b"].map(|id| NewMessage::new(b"{}".to_vec()).with_id(id).with_header("x", "y"));
    let mut session = stage.session(&queue).await;
    session.publish(&queue, &messages).await.expect("confirmed");
    let handle = stage.start(&engine, SourceSettings::new(&queue, "charge"));
    let status = until(&handle, |status| status.acked == 3).await;
    assert_eq!((status.admitted, status.duplicates), (2, 1));
    let refused = session.publish("no-such-queue", &messages).await.expect_err("nobody takes it");
    assert_eq!(refused.code(), "no_such_queue");
    let wrong = stage.server.url().replace("guest:guest", "guest:hunter2");
    let settings = BridgeSettings::new(wrong, SourceSettings::new(&queue, "charge"));
    let broker = brokers::open("orders", &settings, "test").expect("good settings");
    let refused = broker.connect().await.err().expect("a wrong password");
    assert_eq!(refused.code(), "broker_refused");
    assert!(!refused.to_string().contains("hunter2"), "{refused}");
}
