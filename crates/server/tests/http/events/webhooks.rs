//! Webhooks: signed, told of what every process does, and never in the way of a job (V2).

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request};
use backstop::prelude::*;
use backstop::{Event, Events};
use backstop_server::{Caller, Scope, ServerSettings};
use backstop_store::{Amend, DocumentRange, Drawer, Edit, Expect};
use backstop_testing::TestEngine;
use serde_json::{Value, json};

use super::sink::Sink;
use crate::harness::Harness;

const WEBHOOKS: &str = "/api/v1/webhooks";
const QUEUE: &str = "backstop.webhooks";

/// An API whose webhooks may lead to this machine, on any port.
async fn harness() -> Harness {
    Harness::with(backstop::Config::default(), opened()).await
}

fn opened() -> ServerSettings {
    let mut settings = ServerSettings::default();
    settings.reporting.webhooks = settings.reporting.webhooks.allow_private(true).ports(1..=u16::MAX);
    settings
}

async fn make(harness: &Harness, body: Value) -> Value {
    let made = harness.post(WEBHOOKS, body).await;
    assert_eq!(made.status, 201, "{}", made.text);
    made.json()
}

/// Waits for events of deliveries.
async fn deliveries(events: &mut Events, name: &str, mut count: usize) {
    while count > 0 {
        let event = events.next().await.expect("the engine lives");
        let of_delivery = |event: &Event| event.job.as_ref().is_some_and(|job| &*job.queue == QUEUE);
        count -= usize::from(of_delivery(&event) && event.what.name() == name);
    }
}

#[tokio::test]
async fn an_event_arrives_signed_and_the_secret_is_shown_once() {
    // V2
    let harness = harness().await;
    let service = harness.api.deliver_webhooks().await;
    let mut sink = Sink::new(&[204]).await;
    let made = make(&harness, json!({ "url": sink.url, "events": ["enqueued"] })).await;
    let secret = made["secret"].as_str().unwrap();
    let job = harness.engine().enqueue_raw("mail", "{}").submit().await.unwrap().id;
    let arrived = sink.next().await;
    arrived.verify(secret);
    assert_eq!(arrived.header("content-type"), "application/json");
    let message = arrived.json();
    assert_eq!(message["type"], "backstop.event.enqueued");
    assert_eq!(message["timestamp"], message["data"]["at"]);
    assert_eq!(message["data"]["job_id"], job.to_string());
    let listed = harness.get(WEBHOOKS).await;
    assert_eq!(listed.ok()["items"][0]["id"], made["id"]);
    assert!(!listed.text.contains(secret) && !listed.text.contains("secret-path"), "{}", listed.text);
    assert!(!made.to_string().contains("secret-path"));
    service.stop().await;
}

#[tokio::test]
async fn a_receiver_that_fails_gets_the_same_message_again() {
    // V2
    let test = TestEngine::new();
    let harness = Harness::of(test.engine().clone(), opened());
    let service = harness.api.deliver_webhooks().await;
    let mut sink = Sink::new(&[500, 302, 200]).await;
    make(&harness, json!({ "url": sink.url, "events": ["enqueued"] })).await;
    let mut events = harness.engine().events();
    harness.engine().enqueue_raw("mail", "{}").submit().await.unwrap();
    let first = sink.next().await;
    for _ in 0..2 {
        deliveries(&mut events, "retrying", 1).await;
        test.advance(Duration::from_secs(3_600));
        let again = sink.next().await;
        assert_eq!(again.header("webhook-id"), first.header("webhook-id"));
        assert_eq!(again.body, first.body);
    }
    deliveries(&mut events, "succeeded", 1).await;
    assert!(sink.is_empty());
    service.stop().await;
}

#[tokio::test]
async fn a_receiver_that_hangs_holds_nothing_up_and_what_it_is_owed_is_kept() {
    // V2
    let harness = harness().await;
    let service = harness.api.deliver_webhooks().await;
    let sink = Sink::new(&[0]).await;
    make(&harness, json!({ "url": sink.url })).await;
    let mut events = harness.engine().events();
    for _ in 0..50 {
        harness.engine().enqueue_raw("mail", "{}").submit().await.unwrap();
    }
    // One message for each job; the events of deliveries make none.
    deliveries(&mut events, "enqueued", 50).await;
    let queues = harness.engine().queues().list().await.unwrap();
    let queue = queues.iter().find(|queue| queue.name == QUEUE).unwrap();
    assert_eq!(queue.pending + queue.running, 50);
    let text = harness.get("/metrics").await.text;
    for line in
        ["backstop_webhook_backlog 0", "backstop_webhook_refused_total 0", "backstop_events_lost_total 0"]
    {
        assert!(text.contains(line), "{line}: {text}");
    }
    drop(service);
}

#[tokio::test]
async fn a_tenants_webhook_gets_that_tenants_events_by_its_own_names() {
    // V2
    let harness = harness().await;
    let service = harness.api.deliver_webhooks().await;
    let (mut of_acme, mut of_bills) = (Sink::new(&[200]).await, Sink::new(&[200]).await);
    make(&harness, json!({ "url": of_acme.url, "tenant": "acme" })).await;
    make(&harness, json!({ "url": of_bills.url, "queues": ["bills"], "events": ["enqueued"] })).await;
    for queue in ["acmes/mail", "bills", "other/bills", "acme/mail"] {
        harness.engine().enqueue_raw("send", "{}").queue(queue).submit().await.unwrap();
    }
    assert_eq!(of_acme.next().await.json()["data"]["queue"], "mail");
    assert_eq!(of_bills.next().await.json()["data"]["queue"], "bills");
    assert!(of_acme.is_empty() && of_bills.is_empty());
    service.stop().await;
}

#[tokio::test]
async fn a_webhook_that_was_removed_gets_nothing_more() {
    // V2
    let harness = harness().await;
    let service = harness.api.deliver_webhooks().await;
    let (gone, mut stays) = (Sink::new(&[200]).await, Sink::new(&[200]).await);
    let id = make(&harness, json!({ "url": gone.url })).await["id"].as_str().unwrap().to_owned();
    make(&harness, json!({ "url": stays.url, "events": ["enqueued"] })).await;
    let path = format!("{WEBHOOKS}/{id}");
    let removed = harness.json(Method::DELETE, &path, json!({})).await.ok();
    assert_eq!(removed, json!({ "changed": true, "status": "removed" }));
    let again = harness.json(Method::DELETE, &path, json!({})).await;
    assert_eq!((again.status.as_u16(), again.code().as_str()), (404, "no_such_webhook"));
    harness.engine().enqueue_raw("mail", "{}").submit().await.unwrap();
    stays.next().await;
    let mut gone = gone;
    assert!(gone.is_empty());
    service.stop().await;
}

#[tokio::test]
async fn what_is_no_webhook_is_refused_and_only_admins_of_all_may_make_one() {
    let harness = harness().await;
    for (body, field) in [
        (json!({ "url": "ftp://a.example/x" }), "url"),
        (json!({ "url": "https://u:p@a.example/x" }), "url"),
        (json!({ "url": "https://a.example", "events": ["deadd"] }), "events"),
        (json!({ "url": "https://a.example", "events": [] }), "events"),
        (json!({ "url": "https://a.example", "queues": [""] }), "queues"),
        (json!({ "url": "https://a.example", "tenant": "Acme/x" }), "tenant"),
        (json!({ "url": "https://a.example", "colour": "red" }), "colour"),
        (json!({}), "url"),
    ] {
        let refused = harness.post(WEBHOOKS, body.clone()).await;
        assert_eq!((refused.status.as_u16(), refused.code().as_str()), (422, "invalid"), "{body}");
        assert_eq!(refused.json()["error"]["details"]["field"], field, "{}", refused.text);
    }
    let admin =
        |tenant: Option<&str>| Caller::holder("a", [Scope::Admin].into(), tenant.map(str::to_owned), None);
    let reader = Caller::holder("r", [Scope::Read].into(), None, None);
    for (caller, status) in [(reader, 403), (admin(Some("acme")), 403), (admin(None), 200)] {
        let request = Request::get(WEBHOOKS).extension(caller).body(Body::empty()).unwrap();
        assert_eq!(harness.send(request).await.status, status);
    }
}

#[tokio::test]
async fn nothing_works_until_there_is_something_to_deliver() {
    // V2
    let harness = harness().await;
    let service = harness.api.deliver_webhooks().await;
    let workers = async || harness.engine().workers().await.unwrap().len();
    assert_eq!(workers().await, 0, "nobody subscribes");
    let mut sink = Sink::new(&[200]).await;
    make(&harness, json!({ "url": sink.url, "events": ["enqueued"] })).await;
    assert_eq!(workers().await, 1);
    harness.engine().enqueue_raw("mail", "{}").submit().await.unwrap();
    sink.next().await;
    service.stop().await;
    assert_eq!(workers().await, 0);
}

#[tokio::test]
async fn what_a_dead_process_left_is_called_off_when_nobody_subscribes_any_more() {
    // V2
    let harness = harness().await;
    let left = json!({ "webhook": "wh_gone", "id": "msg_1", "message": {} }).to_string();
    harness.engine().enqueue_raw("backstop.webhook", left).queue(QUEUE).submit().await.unwrap();
    let mut events = harness.engine().events();
    let service = harness.api.deliver_webhooks().await;
    deliveries(&mut events, "canceled", 1).await;
    service.stop().await;
}

/// Documents of a drawer.
async fn documents(engine: &Backstop, drawer: Drawer) -> Vec<String> {
    let found = engine.store().documents(DocumentRange::first(drawer, 100)).await.unwrap();
    found.items.into_iter().map(|document| document.key).collect()
}

#[tokio::test]
async fn what_a_process_without_a_server_does_is_told_once_by_one_of_two_servers() {
    // V2
    let folder = backstop_testbed::Folder::new("webhooks-two").unwrap();
    let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let open = async || Backstop::open(&url).await.unwrap();
    let (one, two) = (Harness::of(open().await, opened()), Harness::of(open().await, opened()));
    let mut sink = Sink::new(&[204]).await;
    make(&one, json!({ "url": sink.url, "events": ["canceled"] })).await;
    let (first, second) = (one.api.deliver_webhooks().await, two.api.deliver_webhooks().await);
    // It only submits and cancels, and nobody in it listens.
    let engine = open().await;
    let mut told = Vec::new();
    for _ in 0..5 {
        let job = engine.enqueue_raw("mail", "{}").submit().await.unwrap().id;
        engine.cancel(job, "no need").await.unwrap();
        told.push(job.to_string());
    }
    let mut arrived = Vec::new();
    for _ in 0..5 {
        let message = sink.next().await.json();
        assert!(message["data"]["node"].is_string(), "{message}");
        arrived.push(message["data"]["job_id"].as_str().unwrap().to_owned());
    }
    arrived.sort_unstable();
    told.sort_unstable();
    assert_eq!(arrived, told);
    first.stop().await;
    second.stop().await;
    assert!(sink.is_empty(), "each is told once");
    assert_eq!(documents(&engine, Drawer::Outbox).await, Vec::<String>::new());
}

#[tokio::test]
async fn another_server_goes_on_for_one_that_died() {
    // V2
    let test = TestEngine::new();
    let (dead, alive) =
        (Harness::of(test.engine().clone(), opened()), Harness::of(test.engine().clone(), opened()));
    let service = dead.api.deliver_webhooks().await;
    let mut sink = Sink::new(&[204]).await;
    make(&dead, json!({ "url": sink.url, "events": ["enqueued"] })).await;
    let submit = async || test.engine().enqueue_raw("mail", "{}").submit().await.unwrap().id.to_string();
    let first = submit().await;
    assert_eq!(sink.next().await.json()["data"]["job_id"], first);
    // It is killed with the lease in its hands, and what is committed then waits.
    drop(service);
    let second = submit().await;
    let listed = alive.get(WEBHOOKS).await.ok()["items"][0].clone();
    assert_eq!((&listed["backlog"], &listed["refused"]), (&json!(1), &json!(0)), "{listed}");
    assert_eq!(listed["last_error"], Value::Null);
    let service = alive.api.deliver_webhooks().await;
    test.advance(Duration::from_secs(20));
    assert_eq!(sink.next().await.json()["data"]["job_id"], second);
    service.stop().await;
    assert!(sink.is_empty());
}

#[tokio::test]
async fn nothing_is_written_for_what_no_webhook_wants() {
    // V2
    let harness = harness().await;
    let id =
        make(&harness, json!({ "url": "http://127.0.0.1:9/x", "events": ["canceled"] })).await["id"].clone();
    let id = id.as_str().unwrap();
    let mut last = None;
    for _ in 0..3 {
        last = Some(harness.engine().enqueue_raw("mail", "{}").submit().await.unwrap().id);
    }
    assert_eq!(documents(harness.engine(), Drawer::Outbox).await.len(), 0);
    harness.engine().cancel(last.unwrap(), "no need").await.unwrap();
    let kept = documents(harness.engine(), Drawer::Outbox).await;
    assert!(kept.len() == 1 && kept[0].starts_with(&format!("webhook:{id}/")), "{kept:?}");
    // What waits goes with the webhook and its sink.
    harness.json(Method::DELETE, &format!("{WEBHOOKS}/{id}"), json!({})).await.ok();
    for drawer in [Drawer::Outbox, Drawer::Sinks, Drawer::Webhooks] {
        assert_eq!(documents(harness.engine(), drawer).await.len(), 0, "{drawer:?}");
    }
}

#[tokio::test]
async fn a_webhook_of_an_older_server_gets_its_sink_and_a_sink_without_one_goes() {
    // V2
    let harness = harness().await;
    let mut sink = Sink::new(&[204]).await;
    let made = make(&harness, json!({ "url": sink.url, "events": ["enqueued"] })).await;
    let gone = make(&harness, json!({ "url": sink.url, "events": ["enqueued"] })).await;
    let name = |made: &Value| format!("webhook:{}", made["id"].as_str().unwrap());
    // The older server knows of no sinks: it makes a webhook without one, and removes one without its sink.
    harness.engine().sinks().remove(&name(&made)).await.unwrap();
    let key = gone["id"].as_str().unwrap().to_owned();
    let edits = vec![Edit { drawer: Drawer::Webhooks, key, expect: Expect::Any, body: None }];
    harness.engine().store().amend(Amend { edits, ..Amend::default() }).await.unwrap();
    let service = harness.api.deliver_webhooks().await;
    let views = harness.engine().sinks().webhooks().await.unwrap();
    assert_eq!(views.iter().map(|view| view.sink.name.to_string()).collect::<Vec<_>>(), [name(&made)]);
    harness.engine().enqueue_raw("mail", "{}").submit().await.unwrap();
    assert_eq!(sink.next().await.json()["type"], "backstop.event.enqueued");
    service.stop().await;
}

#[tokio::test]
async fn a_damaged_webhook_holds_up_no_other() {
    // V2, C7
    let harness = harness().await;
    let mut sink = Sink::new(&[204]).await;
    let made = make(&harness, json!({ "url": sink.url, "events": ["enqueued"] })).await;
    let store = harness.engine().store();
    let found = store.documents(DocumentRange::first(Drawer::Webhooks, 10)).await.unwrap().items.remove(0);
    let mut body: Value = serde_json::from_str(&found.body).unwrap();
    let mut with_id = |id: &str| {
        body["id"] = json!(id);
        body.to_string()
    };
    // They come before it, and are read first.
    let damaged =
        [("a no name", with_id("a no name")), ("another", with_id("other")), ("at all", "{".to_owned())];
    let edits = damaged.map(|(key, body)| Edit {
        drawer: Drawer::Webhooks,
        key: key.to_owned(),
        expect: Expect::Any,
        body: Some(body.into()),
    });
    store.amend(Amend { edits: edits.into(), ..Amend::default() }).await.unwrap();
    // The sink of the good one has to be set again.
    let name = format!("webhook:{}", made["id"].as_str().unwrap());
    harness.engine().sinks().remove(&name).await.unwrap();
    let service = harness.api.deliver_webhooks().await;
    let views = harness.engine().sinks().webhooks().await.unwrap();
    assert_eq!(views.iter().map(|view| view.sink.name.to_string()).collect::<Vec<_>>(), [name]);
    harness.engine().enqueue_raw("mail", "{}").submit().await.unwrap();
    assert_eq!(sink.next().await.json()["type"], "backstop.event.enqueued");
    service.stop().await;
}

#[tokio::test]
async fn a_webhook_hears_of_new_failures_and_of_what_is_about_no_job() {
    // V1, V2, D2
    let harness = harness().await;
    let service = harness.api.deliver_webhooks().await;
    let mut sink = Sink::new(&[204]).await;
    make(&harness, json!({ "url": sink.url, "events": ["incident_opened"] })).await;
    let worker = harness.engine().worker(()).register::<Breaks>().queue("default", 1).inline().unwrap();
    harness.engine().enqueue(Breaks {}).submit().await.unwrap();
    worker.drain(1).await.unwrap();
    let message = sink.next().await.json();
    assert_eq!(
        (&message["type"], &message["data"]["kind"]),
        (&json!("backstop.event.incident_opened"), &json!("breaks"))
    );
    service.stop().await;
}

/// Fails, and is dead at once.
#[job(max_retries = 0)]
async fn breaks() -> JobResult {
    Err("it is broken".into())
}
