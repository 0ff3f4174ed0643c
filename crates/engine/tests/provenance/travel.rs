//! Traces and tenants: what events, handlers, envelopes and incidents know of them (V1, E13).

use std::sync::{Arc, Mutex};

use backstop::prelude::*;
use backstop::{Config, Event, SubmitError};
use backstop_core::envelope::envelope;
use backstop_core::failure::fingerprint::fingerprint;
use backstop_store::{ModelStore, SystemClock};

use crate::place::{App, after, detail, drain, work};

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn engine() -> Backstop {
    Backstop::on(Arc::new(ModelStore::new(Arc::new(SystemClock::default()))), Config::default())
}

/// Notes what its context says.
#[derive(Serialize, Deserialize)]
struct Traced;

impl Job for Traced {
    const KIND: &'static str = "traced";
    type Context = Mutex<Vec<(Option<String>, Option<String>)>>;
    type Output = ();

    async fn run(self, cx: JobContext<Self::Context>) {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        cx.app().lock().expect("whole").push((owned(cx.trace_parent()), owned(cx.tenant())));
    }
}

#[tokio::test]
async fn handlers_know_trace_and_tenant() {
    // V1, E13
    let engine = engine();
    engine.enqueue(Traced).queue("acme/work").trace_parent(TRACE).submit().await.expect("admitted");
    engine.enqueue(Traced).submit().await.expect("admitted");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let worker =
        engine.worker_sharing(seen.clone()).register::<Traced>().queue("acme/work", 1).queue("default", 1);
    worker.inline().expect("a worker").drain(10).await.expect("the model is there");
    let expected = [(Some(TRACE.to_owned()), Some("acme".to_owned())), (None, None)];
    assert_eq!(*seen.lock().expect("whole"), expected);
}

#[tokio::test]
async fn a_trace_is_checked() {
    // V1
    let engine = engine();
    let refused =
        engine.enqueue(work("x")).trace_parent("my trace").submit().await.expect_err("no traceparent");
    let SubmitError::Refused(refusal) = refused else { panic!("{refused}") };
    assert_eq!(refusal.code(), "invalid");
    assert!(refusal.to_string().contains("trace_parent"), "{refusal}");
}

#[tokio::test]
async fn every_event_names_the_tenant() {
    // V1, E13
    let engine = engine();
    let mut events = engine.events();
    let tenant = engine.enqueue(work("fail")).queue("acme/work").trace_parent(TRACE).on_failure(after("x"));
    tenant.submit().await.expect("admitted");
    engine.enqueue(work("well")).submit().await.expect("admitted");
    drain(&engine, &Arc::new(App::default())).await;
    let last = engine.enqueue(work("last")).queue("other").submit().await.expect("admitted").id;
    let mut told: Vec<Arc<Event>> = Vec::new();
    while told.last().and_then(|event| event.job.as_ref()).is_none_or(|job| job.id != last) {
        told.push(events.next().await.expect("the engine is open"));
    }
    let shown: Vec<serde_json::Value> =
        told.iter().map(|event| serde_json::to_value(&**event).expect("plain data")).collect();
    assert!(
        shown.iter().any(|event| event["event"] == "incident_opened" && event["tenant"] == "acme"),
        "{shown:?}"
    );
    for event in &shown {
        let of_acme = event["queue"] == "acme/work" || event["event"] == "incident_opened";
        assert_eq!(event["tenant"], if of_acme { "acme" } else { "default" }, "{event}");
        let traced = event["queue"] == "acme/work" || event["queue"] == "after";
        assert_eq!(event.get("trace_parent").is_some(), traced, "{event}");
    }
}

#[tokio::test]
async fn incidents_of_tenants_stay_apart() {
    // E13, D2
    let engine = engine();
    let mut ids = Vec::new();
    for queue in ["default", "acme/work", "other"] {
        ids.push(engine.enqueue(work("fail")).queue(queue).submit().await.expect("admitted").id);
    }
    drain(&engine, &Arc::new(App::default())).await;
    let mut prints = Vec::new();
    for id in &ids {
        prints.push(detail(&engine, *id).await.view.last_failure.expect("evidence").fingerprint);
    }
    assert_eq!(
        prints[0],
        fingerprint("work", "Permanent", "it was told to"),
        "of no tenant: as it always was"
    );
    assert_eq!(prints[2], prints[0]);
    assert_eq!(prints[1], fingerprint("acme/work", "Permanent", "it was told to"));
    let mut kinds: Vec<_> =
        engine.incidents().list(10).await.expect("read").into_iter().map(|i| (i.kind, i.failures)).collect();
    kinds.sort();
    assert_eq!(kinds, [("acme/work".to_owned(), 1), ("work".to_owned(), 2)]);
    let dead = detail(&engine, ids[1]).await.view;
    let letter = envelope(&dead.job, &dead.record, dead.last_failure.as_ref(), None).expect("a dead letter");
    assert_eq!((&letter["tenantId"], &letter["kind"]), (&"acme".into(), &"work".into()));
    let plain = detail(&engine, ids[0]).await.view;
    let letter =
        envelope(&plain.job, &plain.record, plain.last_failure.as_ref(), None).expect("a dead letter");
    assert_eq!(letter["tenantId"], "default");
}
