//! What holds between two engines, whichever store they have.

use std::time::Duration;

use backstop::handoffs::{HandOffCause, HandOffState, HandOffView};
use backstop::{Config, Encryption, QueueConfig};
use backstop_bridges::handoff::{HandOffRunState, HandOffSettings};
use backstop_core::job::State;
use backstop_core::sealing::SealingKeys;
use backstop_core::signing::SecretKey;
use backstop_server::ServerSettings;
use backstop_store::{JobFilter, PageRequest};
use serde_json::{Value, json};

use crate::log::DeliveryFailures;
use crate::stage::{Receiver, Sender, StorePair, until};

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// One job was made, and none waits: what waits is read first, so that a view can count what it still shows as waiting.
fn handed_off(view: &HandOffView) -> bool {
    view.tally.admitted == 1 && view.backlog.messages == 0
}

/// B7: a job that succeeds is one job at the receiver, with its result as payload, its trace and its correlation id; one
/// that fails is none. How it stands is seen by every process.
pub(crate) async fn each_success_is_one_job_there(stores: &StorePair) {
    let (sender, receiver) = (Sender::new(&stores.sender), Receiver::new(&stores.receiver).await);
    let mut settings = receiver.settings(None).await;
    settings.kinds = ["pay".to_owned()].into_iter().collect();
    (settings.kind, settings.queue) = (Some("ship".to_owned()), Some("ships".to_owned()));
    let running = sender.start("paid", &settings).await;
    let job = sender.order(1, 7).trace_parent(TRACE).correlation_id("order-1");
    let paid = sender.pay(job).await;
    let failed = sender.pay(sender.order(2, 0)).await;
    let view = sender.stands("paid", "it is handed off", handed_off).await;
    assert_eq!((view.backlog.messages, view.tally.duplicates, view.tally.keyless), (0, 0, 0));
    assert_eq!((view.state, view.tally.refused), (HandOffState::Publishing, 0));
    assert!(view.tally.last_latency_ms.is_some() && view.tally.last_at.is_some());
    let made = receiver.jobs("paid").await;
    assert_eq!(made.len(), 1, "{failed} failed");
    let spec = &made[0].job.spec;
    assert_eq!((&*spec.kind, &*spec.queue, made[0].state()), ("ship", "ships", State::Pending));
    let payload: Value = serde_json::from_str(&spec.payload).expect("JSON");
    assert_eq!(payload, json!({ "paid": 7, "for": 1 }));
    assert_eq!(spec.idempotency_key.as_deref(), Some(&*format!("handoff:paid:@job:{paid}")));
    assert_eq!(
        (spec.trace().map(|trace| &**trace), spec.correlation_id.as_deref()),
        (Some(TRACE), Some("order-1"))
    );
    let params: Value = serde_json::from_str(spec.params.as_deref().expect("params")).expect("JSON");
    assert_eq!(params["handoff"], json!({ "publication": "paid", "job": paid, "kind": "pay" }));
    let other = Sender::new(&stores.sender).view("paid").await;
    assert_eq!((other.tally, other.publisher.is_some()), (view.tally, true), "seen from another process");
    running.stop().await;
    assert_eq!(sender.view("paid").await.state, HandOffState::Unserved);
    sender.end(&["paid"]).await;
    receiver.stop().await;
}

/// B7: jobs that agree in the named fields are one job at the receiver; what is suppressed is counted at both ends and
/// is no error. One that lacks a field is handed off by its own id.
pub(crate) async fn a_key_that_was_seen_is_suppressed_and_counted(stores: &StorePair) {
    let mut open = ServerSettings::default();
    open.reporting.open_metrics = true;
    let receiver = Receiver::start(&stores.receiver, Config::default(), open, 0).await;
    let sender = Sender::new(&stores.sender);
    let mut settings = receiver.settings(None).await;
    settings.key = vec!["for".to_owned(), "/amount".to_owned()];
    let running = sender.start("keyed", &settings).await;
    for (order, amount) in [(1, 7), (1, 7), (1, 8), (2, 7)] {
        sender.pay(sender.order(order, amount)).await;
    }
    let view = sender.stands("keyed", "all are there", |view| view.backlog.messages == 0).await;
    assert_eq!((view.tally.admitted, view.tally.duplicates, view.tally.keyless), (3, 1, 0));
    assert_eq!((view.tally.refused, view.tally.pressure, view.last_error), (0, 0, None));
    until("it is counted here too", async || (running.status().duplicates == 1).then_some(())).await;
    running.stop().await;
    let mut keys: Vec<String> =
        receiver.jobs("keyed").await.iter().filter_map(|job| job.job.spec.idempotency_key.clone()).collect();
    keys.sort();
    assert_eq!(keys, ["handoff:keyed:[1,7]", "handoff:keyed:[1,8]", "handoff:keyed:[2,7]"]);
    let received = receiver.figure("backstop_handoff_received_total{publication=\"keyed\"}").await;
    let suppressed =
        receiver.figure("backstop_handoff_received_duplicates_total{publication=\"keyed\"}").await;
    assert_eq!((received.as_deref(), suppressed.as_deref()), (Some("3"), Some("1")));
    settings.key = vec!["nowhere".to_owned()];
    let running = sender.start("keyed", &settings).await;
    let odd = sender.pay(sender.order(3, 1)).await;
    let view = sender.stands("keyed", "it is there", |view| view.tally.admitted == 4).await;
    assert_eq!(view.tally.keyless, 1);
    let made = receiver.jobs("keyed").await.pop().expect("a job").job.spec.idempotency_key.clone();
    assert_eq!(made, Some(format!("handoff:keyed:@job:{odd}")));
    running.stop().await;
    sender.end(&["keyed"]).await;
    receiver.stop().await;
}

/// B7, B8: a receiver that is full makes a backlog with a lag, and neither a dead letter nor a reject; each refusal is
/// one line. When there is room it goes on by itself, and nothing is missing or there twice.
pub(crate) async fn pressure_is_backlog_and_nothing_else(stores: &StorePair) {
    let (lines, _guard) = DeliveryFailures::counted();
    let narrow = Config::default().queue("narrow", QueueConfig::default().max_depth(2));
    let receiver = Receiver::start(&stores.receiver, narrow, ServerSettings::default(), 0).await;
    let sender = Sender::new(&stores.sender);
    let mut settings = receiver.settings(None).await;
    settings.queue = Some("narrow".to_owned());
    let running = sender.start("pressed", &settings).await;
    for order in 1..=5 {
        sender.pay(sender.order(order, 1)).await;
    }
    let pressed = |view: &backstop::handoffs::HandOffView| {
        view.state == HandOffState::Pressure && view.backlog.messages == 3 && view.tally.pressure > 0
    };
    let view = sender.stands("pressed", "the receiver is full", pressed).await;
    let wait = view.tally.wait.as_ref().expect("it waits");
    assert_eq!((wait.trouble, view.tally.refused, &view.stop), (HandOffCause::Pressure, 0, &None));
    assert!(wait.until > wait.since && view.last_error.is_some_and(|error| error.contains("queue_full")));
    let failed = JobFilter { state: Some(State::Failed), ..JobFilter::default() };
    let dead = sender.engine.jobs(failed, PageRequest::first(10)).await.expect("read").items;
    let of_orders = dead.iter().filter(|view| view.job.spec.payload.contains("\"amount\":1")).count();
    let rejects = sender.engine.rejects().count().await.expect("read");
    assert_eq!((of_orders, rejects), (0, 0), "other channels have nothing of it");
    let drain = async || {
        for job in receiver.jobs("pressed").await {
            receiver.api.engine().cancel(job.job.spec.id, "room").await.expect("canceled");
        }
        // A person need not do this; it only spares the case a wait.
        sender.engine.handoffs().retry("pressed", "ann").await.expect("there");
        Some(sender.view("pressed").await).filter(|view| view.backlog.messages == 0)
    };
    let view = until("it goes on", drain).await;
    assert_eq!((view.tally.admitted, view.tally.duplicates), (5, 0));
    assert_eq!((receiver.jobs("pressed").await.len(), view.retried_by.as_deref()), (5, Some("ann")));
    let status = running.status();
    running.stop().await;
    assert_eq!(lines.count(), status.refusals, "one line for each refusal");
    assert_eq!(view.tally.pressure, status.refusals);
    sender.end(&["pressed"]).await;
    receiver.stop().await;
}

/// B7, E10: a refusal for good stops that hand-off and no other, says what to do, and is one line; `retry` lets it go on.
pub(crate) async fn a_refusal_stops_one_hand_off_until_a_person_lets_it_go_on(stores: &StorePair) {
    let (lines, _guard) = DeliveryFailures::counted();
    let strict = Config::default().queue("strict", QueueConfig::default().allow(["other"]));
    let receiver = Receiver::start(&stores.receiver, strict, ServerSettings::default(), 0).await;
    let sender = Sender::new(&stores.sender);
    let mut settings = receiver.settings(None).await;
    let fine = sender.start("fine", &settings).await;
    settings.queue = Some("strict".to_owned());
    let running = sender.start("barred", &settings).await;
    let refused = sender.pay(sender.order(1, 1)).await;
    let view = sender.stands("barred", "it stands still", |view| view.state == HandOffState::Stopped).await;
    let stop = view.stop.expect("it says why");
    assert_eq!(
        (stop.refused.code.as_str(), stop.refused.job),
        ("kind_not_allowed", Some(refused.to_string()))
    );
    running.until(|status| status.state == HandOffRunState::Stopped).await;
    sender.stands("fine", "the other goes on", |view| view.tally.admitted == 1).await;
    sender.pay(sender.order(2, 1)).await;
    sender.stands("fine", "the other goes on", |view| view.tally.admitted == 2).await;
    let view = sender.view("barred").await;
    assert_eq!((view.backlog.messages, view.tally.refused, lines.count()), (2, 1, 1), "it asks no more");
    let port = receiver.address.port();
    receiver.stop().await;
    let receiver =
        Receiver::start(&stores.receiver, Config::default(), ServerSettings::default(), port).await;
    assert_eq!(sender.view("barred").await.state, HandOffState::Stopped, "until a person lets it");
    let view = Sender::new(&stores.sender).engine.handoffs().retry("barred", "ann").await.expect("there");
    assert_eq!(view.retried_by.as_deref(), Some("ann"));
    sender.stands("barred", "it goes on", |view| view.tally.admitted == 2 && view.stop.is_none()).await;
    assert_eq!(receiver.jobs("barred").await.len(), 2);
    assert!(sender.engine.handoffs().retry("nobody", "ann").await.is_err());
    for running in [fine, running] {
        running.stop().await;
    }
    sender.end(&["fine", "barred"]).await;
    receiver.stop().await;
}

/// B7: a token that the receiver does not know stops the hand-off; settings that are new start it. No token is shown.
pub(crate) async fn a_wrong_token_stops_it_and_a_right_one_starts_it(stores: &StorePair) {
    let (sender, receiver) = (Sender::new(&stores.sender), Receiver::new(&stores.receiver).await);
    let right = receiver.settings(None).await;
    let wrong = right.clone().token("bst_hunter2");
    let running = sender.start("vouched", &wrong).await;
    sender.pay(sender.order(1, 1)).await;
    let view = sender.stands("vouched", "it stands still", |view| view.stop.is_some()).await;
    let stop = view.stop.as_ref().expect("it says why");
    assert_eq!((stop.refused.status, stop.refused.way_out().contains("token")), (401, true));
    assert!(!format!("{view:?} {running:?}").contains("hunter2"));
    running.stop().await;
    let running = sender.start("vouched", &wrong).await;
    running.until(|status| status.state == HandOffRunState::Stopped).await;
    assert_eq!(running.status().requests, 0, "another process stands still too");
    running.stop().await;
    let running = sender.start("vouched", &right).await;
    let view = sender.stands("vouched", "it goes on", |view| view.tally.admitted == 1).await;
    assert_eq!((view.stop, view.tally.refused), (None, 1));
    running.stop().await;
    sender.end(&["vouched"]).await;
    receiver.stop().await;
}

/// B7, E9: where a publication has secrets, what they did not sign is refused, whoever has the token.
pub(crate) async fn a_publication_is_signed(stores: &StorePair) {
    let mut guarded = ServerSettings::default();
    let takes = HandOffSettings::signed_by([SECRET.to_owned()]);
    guarded.publications.insert("signed".to_owned(), takes.parsed_secrets("signed").expect("a secret"));
    let receiver = Receiver::start(&stores.receiver, Config::default(), guarded, 0).await;
    let sender = Sender::new(&stores.sender);
    let plain = receiver.settings(None).await;
    let running = sender.start("signed", &plain).await;
    sender.pay(sender.order(1, 1)).await;
    let view = sender.stands("signed", "it stands still", |view| view.stop.is_some()).await;
    let stop = view.stop.expect("it says why");
    assert_eq!((stop.refused.status, stop.refused.code.as_str()), (403, "signature"));
    running.stop().await;
    let other = plain.clone().secret(SECRET.replace('M', "N"));
    let running = sender.start("signed", &other).await;
    sender.stands("signed", "another secret is none", |view| view.tally.refused == 2).await;
    running.stop().await;
    let running = sender.start("signed", &plain.clone().secret(SECRET)).await;
    let view = sender.stands("signed", "it goes on", |view| view.tally.admitted == 1).await;
    assert!(view.hand_off.signed && !format!("{view:?}").contains("whsec_"));
    running.stop().await;
    let token = receiver.token("somebody", None).await;
    let forged = json!({ "kind": "x", "idempotency_key": "handoff:signed:[1]" });
    let answer = receiver.post("/api/v1/jobs", &token, &forged).await;
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("\"signature\""), "{answer}");
    let answer =
        receiver.post("/api/v1/jobs/batch", &token, &json!({ "jobs": [forged], "partial": true })).await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    sender.end(&["signed"]).await;
    receiver.stop().await;
}

/// B7, E13: a hand-off takes the jobs of one tenant, and its token says whose they are at the receiver.
pub(crate) async fn a_tenant_s_jobs_stay_a_tenant_s(stores: &StorePair) {
    let (sender, receiver) = (Sender::new(&stores.sender), Receiver::new(&stores.receiver).await);
    let mut settings = receiver.settings(Some("beta")).await;
    settings.tenant = Some("acme".to_owned());
    let running = sender.start("theirs", &settings).await;
    for queue in ["default", "acme/money", "other/money"] {
        let job = sender.order(1, 1).queue(queue).correlation_id(format!("{queue}-1"));
        job.submit().await.expect("stored");
        sender.run(queue).await;
    }
    let view = sender.stands("theirs", "it is there", handed_off).await;
    assert_eq!(view.backlog.messages, 0);
    let made = receiver.jobs("theirs").await;
    assert_eq!(made.len(), 1);
    let spec = &made[0].job.spec;
    assert_eq!(&*spec.queue, "beta/default");
    assert_eq!(spec.correlation_id.as_deref(), Some("beta/money-1"), "in the receiver's names");
    assert!(spec.idempotency_key.as_deref().is_some_and(|key| key.starts_with("beta/handoff:theirs:")));
    running.stop().await;
    sender.end(&["theirs"]).await;
    receiver.stop().await;
}

/// B7: of several processes one publishes, and another goes on when it ends.
pub(crate) async fn one_process_publishes_at_a_time(stores: &StorePair) {
    let receiver = Receiver::new(&stores.receiver).await;
    let (one, two) = (Sender::new(&stores.sender), Sender::new(&stores.sender));
    let settings = receiver.settings(None).await;
    let first = one.start("shared", &settings).await;
    first.until(|status| status.state == HandOffRunState::Publishing).await;
    let second = two.start("shared", &settings).await;
    second.until(|status| status.state == HandOffRunState::Standby).await;
    two.pay(two.order(1, 1)).await;
    one.stands("shared", "the first publishes", |view| view.tally.admitted == 1).await;
    until("it is counted here too", async || (first.status().admitted == 1).then_some(())).await;
    assert_eq!(second.status().requests, 0);
    first.stop().await;
    one.pay(one.order(2, 1)).await;
    two.stands("shared", "the second goes on", |view| view.tally.admitted == 2).await;
    second.stop().await;
    one.end(&["shared"]).await;
    receiver.stop().await;
}

/// B7, E12: a sealed result is opened for the receiver by a process that has the keys; one without leaves it alone.
pub(crate) async fn what_is_sealed_is_opened_by_who_has_the_keys(stores: &StorePair) {
    let keys = SealingKeys::new(vec![SecretKey::new("k1", vec![7; 32]).expect("a key")]).expect("keys");
    let sealing = Config::default().encryption(Encryption::new(keys).kind("pay"));
    let receiver = Receiver::new(&stores.receiver).await;
    let (knows, blind) = (Sender::with(&stores.sender, sealing), Sender::new(&stores.sender));
    let mut settings = receiver.settings(None).await;
    settings.key = vec!["order".to_owned()];
    let running = blind.start("sealed", &settings).await;
    knows
        .engine
        .maintain(backstop::WorkerId::from_u128(9), Duration::from_secs(60))
        .await
        .expect("maintained");
    knows.pay(knows.order(5, 7)).await;
    let status = running.until(|status| status.failures > 0).await;
    assert!(status.last_error.is_some_and(|error| error.contains("sealed with keys")), "it says so");
    assert_eq!(status.requests, 0);
    running.stop().await;
    let running = knows.start("sealed", &settings).await;
    knows.stands("sealed", "it is there", |view| view.tally.admitted == 1).await;
    running.stop().await;
    let made = receiver.jobs("sealed").await;
    let spec = &made[0].job.spec;
    assert_eq!(serde_json::from_str::<Value>(&spec.payload).expect("JSON"), json!({ "paid": 7, "for": 5 }));
    assert_eq!(spec.idempotency_key.as_deref(), Some("handoff:sealed:[5]"));
    knows.end(&["sealed"]).await;
    receiver.stop().await;
}
