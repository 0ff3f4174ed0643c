//! RabbitMQ.

use std::time::Duration;

use backstop::sinks::SinkTopic;
use backstop_bridges::{BridgeSettings, BridgeSink, NewMessage, SinkSettings, SourceSettings, brokers};
use backstop_testbed::{Folder, Proxy, Rabbitmq};
use lapin::options::{
    BasicGetOptions, BasicPublishOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};

use crate::cases;
use crate::killed::a_hundred_processes_are_killed_before_the_ack;
use crate::stage::{Stage, TestBroker, TestEngine, block_on, soon, until};

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
async fn rabbitmq_killed_between_admit_and_ack() {
    // B1, C6
    a_hundred_processes_are_killed_before_the_ack(&stage()).await;
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

/// A channel of a client that knows nothing of bridges.
async fn channel(stage: &Stage) -> (Connection, Channel) {
    let url = stage.server.url();
    let connection = Connection::connect(&url, ConnectionProperties::default()).await.expect("there");
    let channel = connection.create_channel().await.expect("there");
    (connection, channel)
}

/// What waits in a queue, with its properties.
async fn get(channel: &Channel, queue: &str) -> lapin::message::Delivery {
    let look = async {
        loop {
            let found = channel.basic_get(queue.into(), BasicGetOptions::default()).await.expect("there");
            match found {
                Some(found) => return found.delivery,
                None => tokio::task::yield_now().await,
            }
        }
    };
    soon("a message", look).await
}

#[tokio::test(flavor = "multi_thread")]
async fn rabbitmq_abandons_to_a_queue_that_was_made_in_another_way_and_keeps_properties() {
    // B6: `QUEUE.dead` exists as a quorum queue, and the message has properties that no other broker knows.
    let stage = stage();
    let (queue, (_connection, channel)) = (stage.queue(), channel(&stage).await);
    let mut quorum = FieldTable::default();
    quorum.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    let dead = format!("{queue}.dead");
    let options = QueueDeclareOptions::durable();
    channel.queue_declare(dead.as_str().into(), options, quorum).await.expect("a new queue");
    let mut headers = FieldTable::default();
    headers.insert("count".into(), AMQPValue::LongInt(7));
    headers.insert("name".into(), AMQPValue::LongString("ann".into()));
    let properties = BasicProperties::default()
        .with_content_type("application/json".into())
        .with_correlation_id("c-1".into())
        .with_reply_to("answers".into())
        .with_type("order".into())
        .with_expiration("600000".into())
        .with_user_id("guest".into())
        .with_headers(headers);
    let options = BasicPublishOptions::default();
    let sent = channel.basic_publish("".into(), queue.as_str().into(), options, b"x", properties).await;
    sent.expect("there").await.expect("sent");
    let mut session = stage.session(&queue).await;
    let found = soon("a message", session.receive(1, Duration::from_secs(10))).await.expect("there");
    session.publish(&queue, &[found[0].copied()]).await.expect("passed on");
    session.abandon(&found[0], "it cannot be read").await.expect("the queue is taken as it is");
    drop(session);
    for (place, expiration) in [(queue.as_str(), Some("600000")), (dead.as_str(), None)] {
        let properties = get(&channel, place).await.properties;
        let text = |value: &Option<lapin::types::ShortString>| value.as_ref().map(ToString::to_string);
        assert_eq!(text(properties.content_type()).as_deref(), Some("application/json"), "{place}");
        assert_eq!(text(properties.correlation_id()).as_deref(), Some("c-1"), "{place}");
        assert_eq!(text(properties.reply_to()).as_deref(), Some("answers"), "{place}");
        assert_eq!(text(properties.kind()).as_deref(), Some("order"), "{place}");
        assert_eq!(text(properties.expiration()).as_deref(), expiration, "nothing expires among the dead");
        let headers = properties.headers().as_ref().expect("headers").inner();
        assert_eq!(headers.get("count"), Some(&AMQPValue::LongInt(7)), "a number stays one");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rabbitmq_a_sink_publishes_to_an_exchange() {
    // B2: with confirms, to every queue that is bound; a message that no queue takes is not dropped.
    let (stage, engine) = (stage(), TestEngine::new(backstop::Config::default()).await);
    let (_connection, channel) = channel(&stage).await;
    let sink = SinkSettings::to_exchange("orders", "paid", [SinkTopic::Results]);
    let settings = BridgeSettings::of_sink(stage.server.url(), sink);
    let sink = BridgeSink::new(&engine.engine, "billing", &settings).expect("good settings").start();
    let missing = soon("a refusal", sink.until(|status| status.failures > 0)).await;
    assert_eq!(missing.error_code, Some("no_such_queue"), "{missing:?}");
    let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
    let declared =
        channel.exchange_declare("orders".into(), ExchangeKind::Topic, options, FieldTable::default());
    declared.await.expect("a new exchange");
    let queues = [stage.queue(), stage.queue()];
    for queue in &queues {
        let bound = channel.queue_bind(
            queue.as_str().into(),
            "orders".into(),
            "paid".into(),
            QueueBindOptions::default(),
            FieldTable::default(),
        );
        bound.await.expect("both are there");
    }
    engine.engine.enqueue_raw("charge", "{}").max_retries(0).submit().await.expect("stored");
    let worker = engine.engine.worker(()).register::<Charge>().queue("default", 1);
    worker.inline().expect("it has kinds").drain(10).await.expect("the store is there");
    soon("a message", sink.until(|status| status.published == 1)).await;
    for queue in &queues {
        let heard: serde_json::Value =
            serde_json::from_slice(&get(&channel, queue).await.data).expect("JSON");
        assert_eq!(heard["status"], "RESULT_SUCCESS");
    }
    sink.stop().await;
}

/// Charges.
#[backstop::job]
async fn charge() -> backstop::JobResult<()> {
    Ok(())
}
