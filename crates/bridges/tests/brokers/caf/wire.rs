//! A producer and a consumer of the CAF Worker Framework, as far as a broker can tell: they speak AMQP and TaskMessage,
//! and know nothing of Backstop.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_testbed::{Folder, Rabbitmq};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use lapin::options::{
    BasicAckOptions, BasicGetOptions, BasicNackOptions, BasicPublishOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::stage::soon;

/// A RabbitMQ with what the framework has on it.
pub(crate) struct CafWire {
    pub(crate) server: Rabbitmq,
    channel: Channel,
    _connection: Connection,
    _folder: Folder,
}

/// A message that a consumer of the framework reads: the task with its data as text, and its headers.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) task: Value,
    pub(crate) headers: Vec<(String, String)>,
}

impl CafWire {
    pub(crate) async fn start() -> Self {
        let folder = Folder::new("bridge-caf").expect("a folder");
        let server = Rabbitmq::start(folder.join("rabbitmq")).expect("a server");
        let connection =
            Connection::connect(&server.url(), ConnectionProperties::default()).await.expect("there");
        let channel = connection.create_channel().await.expect("there");
        Self { server, channel, _connection: connection, _folder: folder }
    }

    pub(crate) async fn queue(&self, name: &str, arguments: &[(&str, AMQPValue)]) {
        let mut table = FieldTable::default();
        for (name, value) in arguments {
            table.insert((*name).into(), value.clone());
        }
        let options = QueueDeclareOptions::durable();
        self.channel.queue_declare(name.into(), options, table).await.expect("a new queue");
    }

    /// Publishes a task as the framework does: text, persistent, without an id.
    pub(crate) async fn produce(&self, queue: &str, task: &Value, headers: &[(&str, &str)], priority: u8) {
        let mut table = FieldTable::default();
        for (name, value) in headers {
            table.insert((*name).into(), AMQPValue::LongString((*value).into()));
        }
        let properties = BasicProperties::default()
            .with_content_type("text/plain".into())
            .with_delivery_mode(2)
            .with_priority(priority)
            .with_headers(table);
        let body = task.to_string();
        let options = BasicPublishOptions::default();
        let sent = self.channel.basic_publish("".into(), queue.into(), options, body.as_bytes(), properties);
        sent.await.expect("there").await.expect("sent");
    }

    /// Reads so many messages, and leaves none behind.
    pub(crate) async fn consume(&self, queue: &str, count: usize) -> Vec<Heard> {
        let mut all = Vec::new();
        let read = async {
            while all.len() < count {
                match self.take(queue).await {
                    Some(heard) => all.push(heard),
                    None => tokio::task::yield_now().await,
                }
            }
        };
        soon("what a consumer waits for", read).await;
        let more = self.take(queue).await;
        assert!(more.is_none(), "one more in {queue}: {more:?}");
        all
    }

    async fn take(&self, queue: &str) -> Option<Heard> {
        let found = self.channel.basic_get(queue.into(), BasicGetOptions::default()).await.expect("there");
        let delivery = found?.delivery;
        self.channel.basic_ack(delivery.delivery_tag, BasicAckOptions::default()).await.expect("there");
        let mut task: Value = serde_json::from_slice(&delivery.data).expect("a TaskMessage");
        let data = BASE64_STANDARD.decode(task["taskData"].as_str().expect("data")).expect("base64");
        task["taskData"] = Value::from(String::from_utf8(data).expect("text"));
        let fields = delivery.properties.headers().as_ref().map(FieldTable::inner);
        let text = |value: &AMQPValue| value.as_long_string().map(ToString::to_string).unwrap_or_default();
        let headers = fields.into_iter().flatten().map(|(name, value)| (name.to_string(), text(value)));
        Some(Heard { task, headers: headers.collect() })
    }

    /// Takes the first message and puts it back, as a worker that dies does.
    pub(crate) async fn drop_one(&self, queue: &str) {
        let taken = async {
            loop {
                let found = self.channel.basic_get(queue.into(), BasicGetOptions::default()).await;
                let Some(found) = found.expect("there") else { continue };
                let options = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
                return self.channel.basic_nack(found.delivery.delivery_tag, options).await.expect("there");
            }
        };
        soon("a message that comes back", taken).await;
    }

    pub(crate) async fn depth(&self, queue: &str) -> u32 {
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let found = self.channel.queue_declare(queue.into(), passive, FieldTable::default());
        found.await.expect("the queue").message_count()
    }
}

/// A task with this text as its data.
pub(crate) fn task(id: &str, text: &str, to: &str) -> Value {
    json!({
        "version": 3, "taskId": id, "taskClassifier": "LangDetect", "taskApiVersion": 1,
        "taskData": BASE64_STANDARD.encode(json!({ "text": text }).to_string()), "taskStatus": "NEW_TASK",
        "context": { "/caf/lang": "Y3R4" }, "to": to, "tracking": null, "sourceInfo": null, "priority": null,
        "correlationId": format!("C-{id}"),
    })
}

/// The same, belonging to a job that is followed.
pub(crate) fn tracked(id: &str, text: &str, to: &str, status_url: &str) -> Value {
    let mut task = task(id, text, to);
    task["tracking"] = json!({
        "jobTaskId": id, "lastStatusCheckTime": null, "statusCheckIntervalMillis": 0,
        "statusCheckUrl": status_url, "trackingPipe": "tracking-in", "trackTo": "lang-out",
    });
    task
}

/// A job service that answers by the last part of the path; `asked` counts.
pub(crate) async fn job_service() -> (String, Arc<AtomicUsize>) {
    service(|word| {
        let (status, body) = if word == "Gone" { ("404 Not Found", "") } else { ("200 OK", word) };
        answer(status, body, "cache-control: max-age=60\r\nCacheableJobStatus: true")
    })
    .await
}

/// A job service that says this word of every job, for nobody to keep; while there is none it does not answer.
pub(crate) async fn changing_service(word: &Arc<Mutex<Option<&'static str>>>) -> (String, Arc<AtomicUsize>) {
    let word = word.clone();
    service(move |_| {
        let word = *word.lock().expect("no panic");
        let told = |word: &str| {
            let (status, body) = if word == "Gone" { ("404 Not Found", "") } else { ("200 OK", word) };
            answer(status, body, "cache-control: max-age=0")
        };
        word.map(told).unwrap_or_default()
    })
    .await
}

fn answer(status: &str, body: &str, headers: &str) -> String {
    let length = body.len() + 2;
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\nconnection: close");
    format!("{head}\r\n\r\n\"{body}\"")
}

/// Answers each request by the last part of its path, and counts them.
async fn service(answer: impl Fn(&str) -> String + Send + 'static) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            let mut request = [0; 2_048];
            let read = tokio::time::timeout(Duration::from_secs(5), stream.read(&mut request)).await;
            let length = read.map_or(0, |read| read.unwrap_or_default());
            let line = String::from_utf8_lossy(&request[..length]).into_owned();
            let word = line.split(' ').nth(1).and_then(|path| path.rsplit('/').next()).unwrap_or_default();
            let _ = stream.write_all(answer(word).as_bytes()).await;
        }
    });
    (format!("http://{address}/jobs/J1"), asked)
}
