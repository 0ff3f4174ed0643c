//! `publish`: what is allowed is sent by a bridge, and how the broker answers decides how the run ends. The brokers
//! themselves are those of the tests of the program.

use std::sync::{Arc, Mutex};

use backstop::Cause;
use backstop_kinds::publish::{MessagePublisher, PublishAnswer, PublishFailure, PublishRequest};
use backstop_kinds::{Kinds, PublishMessage, PublishSettings};
use serde_json::json;

use crate::stage::Stage;

/// What was sent, to which queue.
pub(crate) type SentMessages = Arc<Mutex<Vec<(String, PublishRequest)>>>;

/// Takes messages down, and answers by the queue.
struct NotedPublisher {
    queue: Option<&'static str>,
    sent: SentMessages,
}

impl MessagePublisher for NotedPublisher {
    fn queue(&self) -> Option<&str> {
        self.queue
    }

    fn publish<'a>(&'a self, queue: &'a str, message: PublishRequest) -> PublishAnswer<'a> {
        let answer = match queue {
            "away" => Err(PublishFailure::Unavailable("the broker is unavailable".into())),
            "missing" => Err(PublishFailure::Refused {
                code: "no_such_queue",
                message: "queue `missing` does not exist".into(),
            }),
            _ => Ok(()),
        };
        self.sent.lock().expect("no panic").push((queue.to_owned(), message));
        Box::pin(std::future::ready(answer))
    }
}

/// A bridge with a sink, and one without.
pub(crate) fn settings() -> (PublishSettings, SentMessages) {
    let sent = SentMessages::default();
    let publisher = |queue| Arc::new(NotedPublisher { queue, sent: sent.clone() });
    let settings = PublishSettings::default()
        .bridge("billing", publisher(Some("paid")))
        .bridge("orders", publisher(None));
    let patterns = ["billing", "billing/away", "billing/missing"];
    let settings = patterns.iter().try_fold(settings, |settings, pattern| settings.allow(*pattern));
    (settings.expect("good patterns"), sent)
}

#[tokio::test]
async fn a_message_is_sent_with_its_id_and_headers() {
    // B2
    let (publish, sent) = settings();
    let stage = Stage::new(Kinds { publish, ..Kinds::default() }).await;
    let job = <PublishMessage>::new("billing", &json!({ "paid": 7 })).expect("JSON");
    let ran = stage.run(job.header("trace", "1")).await;
    assert_eq!(ran.cause(), Cause::Succeeded, "{}", ran.message());
    let id = ran.detail.view.job.spec.id.to_string();
    stage.run(<PublishMessage>::new("billing", &"text").expect("JSON").id("m-1").queue("paid")).await;
    let sent = sent.lock().expect("no panic").clone();
    let told: Vec<_> = sent
        .iter()
        .map(|(queue, message)| {
            (queue.as_str(), message.id.as_str(), String::from_utf8_lossy(&message.body).into_owned())
        })
        .collect();
    assert_eq!(told, [("paid", id.as_str(), "{\"paid\":7}".to_owned()), ("paid", "m-1", "text".to_owned())]);
    assert_eq!(sent[0].1.headers, [("trace".to_owned(), "1".to_owned())]);
}

#[tokio::test]
async fn how_the_broker_answers_decides_how_the_run_ends() {
    // B2, B5
    let (publish, _) = settings();
    let stage = Stage::new(Kinds { publish, ..Kinds::default() }).await;
    for (queue, cause, error_type) in
        [("away", Cause::Rejected, None), ("missing", Cause::Permanent, Some("no_such_queue"))]
    {
        let ran = stage.run(<PublishMessage>::new("billing", &1).expect("JSON").queue(queue)).await;
        assert_eq!(ran.cause(), cause, "{queue}: {}", ran.message());
        assert!(error_type.is_none_or(|expected| expected == ran.error_type()), "{}", ran.error_type());
    }
    let ran = stage.run_raw("publish", json!({ "bridge": "billing" }).to_string()).await;
    assert_eq!(ran.cause(), Cause::Invalid, "a message has a body");
}
