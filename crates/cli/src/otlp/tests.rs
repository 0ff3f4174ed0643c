//! Against a local collector that checks what it is sent by the field names of the protocol.

use backstop::prelude::*;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const LEFT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

#[derive(Serialize, Deserialize)]
struct Pay {
    amount: u32,
}

impl Job for Pay {
    const KIND: &'static str = "pay";
    type Context = ();
    type Output = JobResult;
    async fn run(self, _: JobContext<()>) -> JobResult {
        if self.amount == 0 { Err(backstop::Outcome::permanent("nothing to pay"))? } else { Ok(()) }
    }
}

/// Takes one request, answers `status`, and says its head and its body.
async fn take_one(listener: &TcpListener, status: u16) -> (String, Value) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut bytes = Vec::new();
    let (head, body) = loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if length.parse::<usize>().unwrap() == body.len() {
                break (head.to_owned(), body.to_owned());
            }
        }
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "hung up: {text}");
    };
    let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).await.unwrap();
    (head, serde_json::from_str(&body).unwrap())
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a Value {
    let attributes = span["attributes"].as_array().unwrap();
    &attributes.iter().find(|one| one["key"] == key).unwrap_or_else(|| panic!("no {key} in {span}"))["value"]
}

/// Runs jobs of these traces, each with an exporter around it, and stops.
async fn run_traced(endpoint: &str, jobs: &[(u32, Option<&str>)]) -> (Vec<JobId>, u64) {
    let engine = Backstop::open("memory:").await.unwrap();
    let exporter = Exporter::start(endpoint, &Arc::default()).unwrap();
    let mut ids = Vec::new();
    for (amount, trace) in jobs {
        let mut job = engine.enqueue(Pay { amount: *amount });
        if let Some(id) = trace {
            job = job.trace_parent(*id);
        }
        ids.push(job.submit().await.unwrap().id);
    }
    let worker = engine.worker(()).register::<Pay>().queue("default", 1).hook(exporter.runs());
    let worker = worker.start().await.unwrap();
    for id in &ids {
        engine.wait(*id).await.unwrap();
    }
    worker.stop().await;
    (ids, exporter.stop().await)
}

#[tokio::test]
async fn runs_become_spans_of_the_trace_they_were_submitted_in() {
    // V3
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/", listener.local_addr().unwrap());
    let jobs = [(5, Some(PARENT)), (0, None), (7, Some(LEFT))];
    let ((ids, lost), (head, body)) = tokio::join!(run_traced(&endpoint, &jobs), take_one(&listener, 200));
    assert!(head.starts_with("POST /v1/traces HTTP/1.1"), "{head}");
    assert!(head.contains("content-type: application/json"), "{head}");
    assert_eq!(lost, 0);
    let resource = &body["resourceSpans"][0];
    let name = &resource["resource"]["attributes"][0];
    assert_eq!((&name["key"], &name["value"]["stringValue"]), (&"service.name".into(), &"backstop".into()));
    assert_eq!(resource["scopeSpans"][0]["scope"]["name"], "backstop");
    let spans = resource["scopeSpans"][0]["spans"].as_array().unwrap();
    assert_eq!(spans.len(), 2, "a trace that nobody records is left alone: {body}");
    let (paid, failed) = (&spans[0], &spans[1]);
    assert_eq!(paid["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(paid["parentSpanId"], "00f067aa0ba902b7");
    assert_eq!(paid["status"]["code"], 1);
    assert_eq!(attribute(paid, "backstop.job.id")["stringValue"], ids[0].to_string());
    assert_eq!(attribute(paid, "backstop.kind")["stringValue"], "pay");
    assert_eq!(attribute(paid, "messaging.destination.name")["stringValue"], "default");
    assert_eq!(attribute(paid, "backstop.run")["intValue"], "1");
    assert_eq!(failed["traceId"], ids[1].to_string().replace('-', ""));
    assert!(failed.get("parentSpanId").is_none());
    assert_eq!((&failed["status"]["code"], &failed["status"]["message"]), (&2.into(), &"permanent".into()));
    for span in spans {
        let text = |key: &str| span[key].as_str().unwrap().to_owned();
        assert!(text("spanId").len() == 16 && text("traceId").len() == 32, "{span}");
        let nanos = |key: &str| text(key).parse::<u128>().unwrap();
        assert!(nanos("endTimeUnixNano") >= nanos("startTimeUnixNano"), "{span}");
        assert_eq!((&span["kind"], &span["name"]), (&5.into(), &"run pay".into()));
    }
}

#[tokio::test]
async fn a_collector_that_refuses_costs_spans_that_are_counted_and_no_job() {
    // V3
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let jobs = [(5, None), (6, None)];
    let ((_, lost), _) = tokio::join!(run_traced(&endpoint, &jobs), take_one(&listener, 500));
    assert_eq!(lost, 2);
}

#[tokio::test]
async fn an_endpoint_that_cannot_be_used_is_refused_at_the_start() {
    for endpoint in ["", "collector:4318", "https://collector", "ftp://collector", "http://"] {
        assert!(Exporter::start(endpoint, &Arc::default()).is_err(), "{endpoint}");
    }
}
