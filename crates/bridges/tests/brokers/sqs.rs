//! SQS, as moto speaks it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use backstop_bridges::{BridgeSettings, NewMessage, SourceSettings};
use backstop_testbed::{Folder, Moto, Proxy};

use crate::cases;
use crate::killed::a_hundred_processes_are_killed_before_the_ack;
use crate::stage::{Stage, TestBroker, TestEngine};

struct SqsServer(Moto);

impl SqsServer {
    /// A call that bridges do not make. The server reads region and account out of the signature, and checks none.
    fn call(&self, action: &str, input: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port())).expect("the server is there");
        let request = format!(
            "POST / HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\nauthorization: AWS4-HMAC-SHA256 \
             Credential=test/20200101/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=0\r\n\
             content-type: application/x-amz-json-1.0\r\nx-amz-target: AmazonSQS.{action}\r\n\
             content-length: {}\r\n\r\n{input}",
            input.len()
        );
        stream.write_all(request.as_bytes()).expect("it takes requests");
        let mut said = String::new();
        stream.read_to_string(&mut said).expect("it answers");
        assert!(said.starts_with("HTTP/1.1 200"), "{said}");
        said
    }
}

impl TestBroker for SqsServer {
    fn port(&self) -> u16 {
        self.0.port()
    }

    fn url(&self) -> String {
        format!("sqs+{}", self.0.url())
    }

    fn make_queue(&self, queue: &str) {
        self.call("CreateQueue", &format!("{{\"QueueName\":\"{queue}-dead\"}}"));
        let policy = format!(
            r#"{{\"deadLetterTargetArn\":\"arn:aws:sqs:us-east-1:123456789012:{queue}-dead\",\"maxReceiveCount\":\"1000\"}}"#
        );
        let input = format!(r#"{{"QueueName":"{queue}","Attributes":{{"RedrivePolicy":"{policy}"}}}}"#);
        self.call("CreateQueue", &input);
    }

    fn kill(&mut self, proxy: &Proxy) {
        // The server keeps everything in memory, as the real one never does: only the way to it is closed.
        proxy.refuse(true).expect("a proxy");
    }

    fn start_again(&mut self, proxy: &Proxy) {
        proxy.refuse(false).expect("a proxy");
    }

    fn ack_bytes(&self) -> &'static [u8] {
        b"AmazonSQS.DeleteMessageBatch"
    }

    fn settings(&self, settings: BridgeSettings) -> BridgeSettings {
        let mut settings = settings.keys("test", "test");
        settings.region = Some("us-east-1".to_owned());
        if let Some(source) = &mut settings.source {
            source.hold = Some(Duration::from_secs(2));
        }
        settings
    }

    fn is_ordered(&self) -> bool {
        false
    }

    fn redelivers_at_once(&self) -> bool {
        false
    }

    fn holds_by_connection(&self) -> bool {
        false
    }

    /// Text of 256 KiB at most, and never none.
    fn carries(&self, body: &[u8]) -> bool {
        let is_text = |text: &str| !text.chars().any(|c| c.is_control() && !"\t\r\n".contains(c));
        !body.is_empty() && body.len() <= 256 * 1024 && std::str::from_utf8(body).is_ok_and(is_text)
    }

    fn abandoned(&self, queue: &str) -> Vec<Vec<u8>> {
        let settings =
            BridgeSettings::new(self.url(), SourceSettings::new(format!("{queue}-dead"), "charge"));
        crate::stage::read_all(&self.settings(settings))
    }
}

fn stage() -> Stage {
    let folder = Folder::new("bridge-sqs").expect("a folder");
    let server = Moto::start(folder.join("moto")).expect("a server");
    Stage::new(folder, Box::new(SqsServer(server)))
}

#[tokio::test(flavor = "multi_thread")]
async fn sqs() {
    // B1, B4, B5, B6
    cases::all(stage()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqs_cut_between_admit_and_ack() {
    // B1, C6
    cases::cuts(&stage(), &TestEngine::new(backstop::Config::default()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqs_killed_between_admit_and_ack() {
    // B1, C6
    a_hundred_processes_are_killed_before_the_ack(&stage()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqs_takes_no_message_that_is_not_text() {
    // B2: it is refused here, in place of arriving as something else.
    let stage = stage();
    let queue = stage.queue();
    let new = NewMessage::new(b"\xff".to_vec());
    let refused = stage.session(&queue).await.publish(&queue, &[new]).await.expect_err("it is not text");
    assert_eq!(refused.code(), "broker_refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn sqs_fifo_queues_are_read_published_to_and_abandoned_from() {
    // B1, B2, B6
    let folder = Folder::new("bridge-fifo").expect("a folder");
    let server = SqsServer(Moto::start(folder.join("moto")).expect("a server"));
    let fifo = r#""FifoQueue":"true""#;
    server.call("CreateQueue", &format!(r#"{{"QueueName":"dead.fifo","Attributes":{{{fifo}}}}}"#));
    let policy = r#"{\"deadLetterTargetArn\":\"arn:aws:sqs:us-east-1:123456789012:dead.fifo\",\"maxReceiveCount\":\"9\"}"#;
    let input =
        format!(r#"{{"QueueName":"orders.fifo","Attributes":{{{fifo},"RedrivePolicy":"{policy}"}}}}"#);
    server.call("CreateQueue", &input);
    let settings = |queue: &str| {
        let settings = BridgeSettings::new(server.url(), SourceSettings::new(queue, "charge"));
        server.settings(settings)
    };
    let mut session = crate::stage::broker(&settings("orders.fifo")).connect().await.expect("there");
    // More than one call takes, in two groups; a repeated id is one message.
    let message = |number: usize| {
        let new = NewMessage::new(format!("{number:02}")).with_id(format!("id {}", number % 24));
        new.in_group(if number.is_multiple_of(2) { "even" } else { "odd" })
    };
    let all: Vec<NewMessage> = (0..25).map(message).collect();
    session.publish("orders.fifo", &all).await.expect("confirmed");
    let mut found = Vec::new();
    while found.len() < 24 {
        let next = session.receive(10, Duration::from_secs(2)).await.expect("there");
        assert!(!next.is_empty(), "{} came", found.len());
        let tags: Vec<_> =
            next.iter().skip(usize::from(found.is_empty())).map(|one| one.tag.clone()).collect();
        if found.is_empty() {
            session.abandon(&next[0], "it cannot be read").await.expect("the dead-letter queue takes it");
        }
        session.ack(&tags).await.expect("there");
        found.extend(next);
    }
    for parity in [0, 1] {
        let of = |body: &Vec<u8>| usize::from(body[1] - b'0') % 2 == parity;
        let bodies: Vec<Vec<u8>> = found.iter().map(|one| one.body.clone()).filter(of).collect();
        assert!(bodies.is_sorted() && bodies.len() == 12, "{bodies:?}");
    }
    drop(session);
    assert_eq!(crate::stage::read_all(&settings("dead.fifo")), [found[0].body.clone()]);
}
