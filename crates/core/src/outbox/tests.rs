//! What sinks are sent, and how it is kept.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::event::{EventKind, WorkflowHeader};
use crate::failure::fingerprint::fingerprint;
use crate::failure::{Cause, Decision, TerminalReason, Verdict};
use crate::handoff::{HandOffScope, KeyField};
use crate::id::{Fence, JobId, Lease, WorkerId, WorkflowId};
use crate::job::{Ending, Record, Spec, StoredJob};
use crate::workflow::{WorkflowCounts, WorkflowStatus};
use crate::{envelope, event};

const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

fn sinks(all: impl IntoIterator<Item = Sink>) -> Sinks {
    Sinks::new(all.into_iter().collect::<Vec<_>>(), Arc::default())
}

fn started(number: u128) -> (StoredJob, Record, Lease) {
    let mut spec = Spec::new(JobId::from_u128(number), "charge", "{}");
    spec.queue = "acme/money".into();
    spec.correlation_id = Some("order-7".to_owned());
    let mut record = Record::new(&spec, NOW);
    let lease = Lease { job: spec.id, worker: WorkerId::from_u128(2), fence: Fence(1) };
    record.claim(lease.worker, lease.fence, NOW, true).expect("it is pending");
    (StoredJob { spec, created_at: NOW }, record, lease)
}

fn ended(number: u128, verdict: Verdict, result: Option<&str>) -> (StoredJob, Record, Ending) {
    let (job, mut record, lease) = started(number);
    let cause = if verdict == Verdict::Succeed { Cause::Succeeded } else { Cause::Permanent };
    let mut ending = Ending::plain(job.spec.header(), cause, Decision::plain(verdict));
    ending.result = result.map(Arc::from);
    record.finish(&job.spec, &lease, &ending, NOW).expect("it is held");
    (job, record, ending)
}

#[test]
fn a_result_says_how_the_job_ended() {
    // B2, B3
    let all = sinks([Sink::new("out", [SinkTopic::Results])]);
    let dead = |reason| Verdict::Dead { reason };
    let table = [
        (Verdict::Succeed, "RESULT_SUCCESS"),
        (dead(TerminalReason::ReportedFailure), "RESULT_FAILURE"),
        (dead(TerminalReason::Invalid), "INVALID_TASK"),
        (dead(TerminalReason::NonRetryable), "RESULT_EXCEPTION"),
        (dead(TerminalReason::Poisoned), "RESULT_EXCEPTION"),
    ];
    for (verdict, status) in table {
        let (job, record, ending) = ended(1, verdict, Some("{\"paid\":7}"));
        let message = OutboxMessage::result(&all, &ending, &record, NOW).expect("it is over");
        assert_eq!(message.id, format!("{}:0:1:result", job.spec.id));
        let sent = serde_json::to_value(&message).expect("JSON");
        assert_eq!((&sent["type"], &sent["status"]), (&json!("result"), &json!(status)));
        assert_eq!((&sent["id"], &sent["kind"]), (&json!(job.spec.id), &json!("charge")));
        assert_eq!((&sent["queue"], &sent["tenant"]), (&json!("acme/money"), &json!("acme")));
        assert_eq!((&sent["correlation_id"], &sent["result"]), (&json!("order-7"), &json!({"paid": 7})));
    }
    let (_, record, ending) = ended(1, Verdict::Cancel { reason: "no need".to_owned() }, None);
    assert_eq!(OutboxMessage::result(&all, &ending, &record, NOW), None, "nobody returned anything");
}

#[test]
fn a_dead_letter_has_the_envelope_of_every_other_reader() {
    // D1, D6
    let all = sinks([Sink::new("out", [SinkTopic::DeadLetters])]);
    let (job, record, ending) = ended(1, Verdict::Dead { reason: TerminalReason::NonRetryable }, None);
    let letter = OutboxMessage::dead_letter(&all, &job, &record, None, Some("v7"), NOW).expect("dead");
    let expected = envelope::envelope(&job, &record, None, Some("v7")).expect("dead");
    assert_eq!(letter.body, MessageBody::DeadLetter { envelope: expected });
    assert_eq!(OutboxMessage::result(&all, &ending, &record, NOW), None, "nobody takes results");
    let mut again = record.clone();
    again.redrives += 1;
    let other = OutboxMessage::dead_letter(&all, &job, &again, None, None, NOW).expect("dead");
    assert_ne!(letter.id, other.id, "it died again without another run");
    let (job, record, _) = ended(1, Verdict::Succeed, None);
    assert_eq!(OutboxMessage::dead_letter(&all, &job, &record, None, None, NOW), None);
}

#[test]
fn nothing_is_made_for_what_nobody_takes() {
    // B2
    let (job, record, ending) = ended(1, Verdict::Succeed, Some("1"));
    let told = [event::started(job.spec.header(), 1, NOW)];
    for all in [
        sinks([]),
        sinks([Sink::new("dead", [SinkTopic::DeadLetters])]),
        sinks([Sink::new("mail", [SinkTopic::Results, SinkTopic::Events]).kind("mail")]),
    ] {
        assert_eq!(OutboxMessage::result(&all, &ending, &record, NOW), None);
        assert_eq!(all.documents(&[], &told, NOW), []);
    }
}

#[test]
fn messages_of_one_commit_are_one_document_of_each_sink() {
    // B2
    let all = sinks([
        Sink::new("both", [SinkTopic::Results, SinkTopic::Events]),
        Sink::new("charges", [SinkTopic::Results]).kind("charge"),
        Sink::new("mails", [SinkTopic::Results]).kind("mail"),
    ]);
    let (mut messages, mut told) = (Vec::new(), Vec::new());
    for number in 1..=3 {
        let (_, record, ending) = ended(number, Verdict::Succeed, None);
        messages.extend(OutboxMessage::result(&all, &ending, &record, NOW));
        told.extend(event::ended(&ending, &record, true, NOW));
    }
    let documents = all.documents(&messages, &told, NOW);
    let read: Vec<_> = documents
        .iter()
        .map(|document| {
            let key = OutboxKey::read(&document.key).expect("a key");
            let batch = OutboxBatch::read(&document.body).expect("a batch");
            assert_eq!((key.messages, key.bytes), (batch.messages.len(), document.body.len()));
            assert_eq!((document.place, key.at() >= NOW), (OutboxPlace::Waiting, true));
            (key.sink, batch)
        })
        .collect();
    let counts: Vec<(&str, usize)> =
        read.iter().map(|(sink, batch)| (&**sink, batch.messages.len())).collect();
    assert_eq!(counts, [("both", 6), ("charges", 3)]);
    assert_eq!(read[1].1.messages, messages, "they read back as they were");
    let mut ids: Vec<&str> = read[0].1.messages.iter().map(|message| message.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 6, "no two have one id");
}

#[test]
fn what_a_full_sink_does_not_get_is_counted() {
    // B2
    let mut full = Sink::new("full", [SinkTopic::Results]);
    full.full = true;
    let all = sinks([full, Sink::new("other", [SinkTopic::Results])]);
    let (_, record, ending) = ended(1, Verdict::Succeed, None);
    let message = OutboxMessage::result(&all, &ending, &record, NOW).expect("it is over");
    let documents = all.documents(&[message], &[], NOW);
    let places: Vec<_> = documents.iter().map(|document| document.place).collect();
    assert_eq!(places, [OutboxPlace::Refused, OutboxPlace::Waiting]);
    let key = OutboxKey::read(&documents[0].key).expect("a key");
    assert_eq!((&*key.sink, key.messages, key.bytes), ("full", 1, 0));
}

#[test]
fn a_large_commit_is_several_documents_in_order() {
    let all = sinks([Sink::new("out", [SinkTopic::Results])]);
    let large = format!("\"{}\"", "x".repeat(MOST_BYTES_TOGETHER / 2));
    let sizes = |count: u128, result: &str| -> Vec<usize> {
        let messages: Vec<_> = (1..=count)
            .filter_map(|number| {
                let (_, record, ending) = ended(number, Verdict::Succeed, Some(result));
                OutboxMessage::result(&all, &ending, &record, NOW)
            })
            .collect();
        let documents = all.documents(&messages, &[], NOW);
        let stamps = documents.iter().map(|document| OutboxKey::read(&document.key).expect("a key").stamp);
        assert!(stamps.collect::<Vec<_>>().is_sorted_by(|one, next| one < next), "each has one of its own");
        let batches = documents.iter().map(|document| OutboxBatch::read(&document.body).expect("a batch"));
        batches.map(|batch| batch.messages.len()).collect()
    };
    assert_eq!(sizes(450, "1"), [200, 200, 50]);
    assert_eq!(sizes(3, &large), [1, 1, 1]);
}

#[test]
fn stamps_grow_while_the_clock_stands_or_goes_back() {
    let stamps = OutboxClock::default();
    let first = stamps.next(NOW);
    let before = Timestamp::from_micros(NOW.as_micros() - 1_000_000);
    assert_eq!([stamps.next(NOW), stamps.next(before)], [first + 1, first + 2]);
    let later = Timestamp::from_micros(NOW.as_micros() + 1_000_000);
    assert_eq!(stamps.next(later), first + 1_000_000);
}

#[test]
fn a_key_tells_where_its_numbers_stand() {
    let key = OutboxKey { sink: "a.sink-1".into(), stamp: 42, messages: 7, bytes: 123_456 };
    let text = key.text("0199:0:1:result");
    assert_eq!(OutboxKey::read(&text), Some(key));
    let number = |(begin, digits): (usize, usize)| text[begin - 1..begin - 1 + digits].parse::<usize>();
    assert_eq!(number(OutboxKey::messages_at("a.sink-1")), Ok(7));
    assert_eq!(number(OutboxKey::bytes_at("a.sink-1")), Ok(123_456));
    for other in ["", "x", "a/1-2-3-4", "a/00000000000000000042-00007-0000123456"] {
        assert_eq!(OutboxKey::read(other), None, "{other}");
    }
}

#[test]
fn a_sink_is_checked() {
    assert_eq!(Sink::new("out", [SinkTopic::Results]).check(), Ok(()));
    for name in ["", "a/b", "ü", "a b", &"x".repeat(65)] {
        let problem = Sink::new(name, [SinkTopic::Results]).check();
        assert!(matches!(problem, Err(SinkError::Name(_))), "{name}: {problem:?}");
    }
    assert_eq!(Sink::new("out", []).check(), Err(SinkError::Nothing));
    let text = serde_json::to_string(&Sink::new("out", SinkTopic::ALL).kind("charge")).expect("JSON");
    assert_eq!(
        text,
        "{\"name\":\"out\",\"of\":[\"results\",\"dead_letters\",\"rejects\",\"events\"],\"kinds\":[\"charge\"]}"
    );
}

fn taking(tenant: &str, key: &[&str]) -> HandOffScope {
    let key = key.iter().map(|name| KeyField::parse(name).expect("a field")).collect();
    HandOffScope { tenant: tenant.to_owned(), key }
}

#[test]
fn a_success_is_handed_off_and_nothing_else_is() {
    // B7, E13
    let all = sinks([Sink::of_hand_off("paid", taking("acme", &[])).kind("charge")]);
    let dead = Verdict::Dead { reason: TerminalReason::NonRetryable };
    let reported = Verdict::Dead { reason: TerminalReason::ReportedFailure };
    let cancel = Verdict::Cancel { reason: "no need".to_owned() };
    for (verdict, taken) in [(Verdict::Succeed, true), (dead, false), (reported, false), (cancel, false)] {
        let (job, record, ending) = ended(1, verdict.clone(), Some("{\"paid\":7}"));
        let made = OutboxMessage::hand_off(&all, &job, &ending, &record, NOW);
        assert_eq!(made.is_some(), taken, "{verdict:?}");
        let Some(message) = made else { continue };
        assert_eq!(message.id, format!("{}:0:1:hand_off", job.spec.id));
        let sent = serde_json::to_value(&message).expect("JSON");
        assert_eq!((&sent["type"], &sent["result"]), (&json!("hand_off"), &json!({"paid": 7})));
        assert_eq!(sent["incoming"], json!(format!("job:{}", job.spec.id)));
        assert_eq!(sent["payload"], json!(null), "the key needs none");
        assert_eq!(serde_json::from_value::<OutboxMessage>(sent).expect("read"), message);
        assert_eq!(OutboxMessage::result(&all, &ending, &record, NOW), None, "a hand-off takes no results");
    }
    let (job, record, ending) = ended(1, Verdict::Succeed, None);
    for (other, why) in [
        (Sink::of_hand_off("paid", taking("default", &[])), "another tenant's"),
        (Sink::of_hand_off("paid", taking("acme", &[])).kind("mail"), "another kind"),
        (Sink::new("out", SinkTopic::ALL), "a bridge"),
    ] {
        assert_eq!(OutboxMessage::hand_off(&sinks([other]), &job, &ending, &record, NOW), None, "{why}");
    }
}

#[test]
fn what_no_reader_follows_is_sent_as_text_and_hides_nothing_beside_it() {
    // B2, B7
    let all = sinks([
        Sink::new("out", [SinkTopic::Results]),
        Sink::of_hand_off("paid", taking("acme", &["order"])),
    ]);
    for levels in [90, 120, 126, 200] {
        let deep = format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        let (mut job, record, ending) = ended(1, Verdict::Succeed, Some(&deep));
        job.spec.payload = deep.as_str().into();
        let (_, other, well) = ended(2, Verdict::Succeed, Some("7"));
        let result = OutboxMessage::result(&all, &ending, &record, NOW);
        let hand_off = OutboxMessage::hand_off(&all, &job, &ending, &record, NOW);
        let beside = OutboxMessage::result(&all, &well, &other, NOW);
        let messages: Vec<_> = [result, hand_off, beside].into_iter().flatten().collect();
        let mut read = 0;
        for document in all.documents(&messages, &[], NOW) {
            let batch = OutboxBatch::read(&document.body).expect("a publisher can read it");
            read += batch.messages.len();
        }
        assert_eq!((messages.len(), read), (3, 3), "{levels}");
    }
}

#[test]
fn a_payload_is_taken_along_when_the_key_may_need_it() {
    // B7
    let (mut job, record, ending) = ended(1, Verdict::Succeed, Some("{\"paid\":7}"));
    job.spec.payload = "{\"order\":9}".into();
    job.spec.idempotency_key = Some("acme/o9".to_owned());
    for (key, payload) in [(vec![], None), (vec!["paid"], None), (vec!["order"], Some(json!({"order": 9})))] {
        let all = sinks([Sink::of_hand_off("paid", taking("acme", &key))]);
        let message = OutboxMessage::hand_off(&all, &job, &ending, &record, NOW).expect("taken");
        let MessageBody::HandOff(body) = message.body else { panic!("{key:?}") };
        assert_eq!((body.payload, body.incoming.as_str()), (payload, "key:acme/o9"), "{key:?}");
    }
}

#[test]
fn each_tenants_jobs_go_to_its_own_hand_off() {
    // B7, E13
    let all = sinks([
        Sink::of_hand_off("theirs", taking("default", &[])),
        Sink::of_hand_off("ours", taking("acme", &[])),
    ]);
    let (job, record, ending) = ended(1, Verdict::Succeed, None);
    let message = OutboxMessage::hand_off(&all, &job, &ending, &record, NOW).expect("taken");
    let documents = all.documents(&[message], &[], NOW);
    assert_eq!(documents.len(), 1);
    assert!(documents[0].key.starts_with("handoff:ours/"), "{}", documents[0].key);
}

#[test]
fn what_is_left_of_a_document_keeps_its_place() {
    // B7
    let all = sinks([Sink::of_hand_off("ours", taking("acme", &[]))]);
    let message = |number| {
        let (job, record, ending) = ended(number, Verdict::Succeed, None);
        OutboxMessage::hand_off(&all, &job, &ending, &record, NOW).expect("taken")
    };
    let messages = [message(1), message(2), message(3)];
    let document = all.documents(&messages, &[], NOW).remove(0);
    let (key, body) = OutboxBatch::rest(&document.key, vec![messages[1].clone()]).expect("one is left");
    let (before, after) =
        (OutboxKey::read(&document.key).expect("a key"), OutboxKey::read(&key).expect("a key"));
    assert_eq!((after.stamp, after.messages, after.bytes), (before.stamp, 1, body.len()));
    assert_eq!(OutboxBatch::read(&body).expect("a batch").messages, [messages[1].clone()]);
    assert_eq!(OutboxBatch::rest(&document.key, Vec::new()), None);
    assert_eq!(OutboxBatch::rest("other", messages.to_vec()), None);
}

#[test]
fn only_a_hand_off_has_the_sink_of_a_hand_off() {
    // B7
    let good = Sink::of_hand_off("paid", taking("acme", &[]));
    assert_eq!((good.check(), &*good.name), (Ok(()), "handoff:paid"));
    let named = |name: &str| Sink::new(name, [SinkTopic::Results]).check();
    assert_eq!(named("handoff:paid"), Err(SinkError::Name("handoff:paid".to_owned())));
    assert_eq!(Sink::new("out", [SinkTopic::HandOffs]).check(), Err(SinkError::HandOff));
    let unnamed = Sink::of_hand_off("no name", taking("acme", &[]));
    assert_eq!(unnamed.check(), Err(SinkError::Name("no name".to_owned())));
}

/// An event of no job.
fn waits_for_code(queue: &str) -> Event {
    let what = EventKind::WaitingForCode { kind: "charge".to_owned(), queue: queue.to_owned(), jobs: 2 };
    Event { at: NOW, node: None, job: None, what }
}

/// An event of a workflow of a tenant whose jobs are on this queue.
fn workflow(tenant: Option<&str>, queue: &str) -> Event {
    let workflow = WorkflowHeader {
        id: WorkflowId::from_u128(1),
        name: "nightly".into(),
        tenant: tenant.map(Into::into),
        queues: Arc::new(BTreeSet::from([queue.into()])),
    };
    let (status, counts) = (WorkflowStatus::Running, WorkflowCounts::default());
    Event { at: NOW, node: None, job: None, what: EventKind::Workflow { workflow, status, counts } }
}

#[test]
fn a_scope_lets_through_what_it_says() {
    // V2, E13
    let (mut job, ..) = started(1);
    let on = |job: &mut StoredJob, queue: &str| {
        job.spec.queue = queue.into();
        event::started(job.spec.header(), 1, NOW)
    };
    let (ours, theirs, plain) = (on(&mut job, "acme/mail"), on(&mut job, "acmes/mail"), on(&mut job, "mail"));
    let told = [
        ours,
        theirs,
        plain,
        waits_for_code("mail"),
        waits_for_code("acme/mail"),
        workflow(None, "mail"),
        workflow(Some("acme"), "acme/mail"),
        event::incident_opened(fingerprint("charge", "Error", "no"), "acme/charge".to_owned(), NOW),
    ];
    let set = |name: &str| BTreeSet::<Arc<str>>::from([name.into()]);
    let all = EventScope::default;
    for (scope, expected) in [
        (all(), [true; 8]),
        (
            EventScope { names: set("started"), ..all() },
            [true, true, true, false, false, false, false, false],
        ),
        (EventScope { queues: set("mail"), ..all() }, [false, false, true, true, false, true, false, false]),
        (EventScope { except: set("mail"), ..all() }, [true, true, false, false, true, true, true, true]),
        (
            EventScope { tenant: Some("acme".into()), ..all() },
            [true, false, false, false, true, false, true, false],
        ),
    ] {
        let sink = Sink::of_webhook("w", scope);
        assert_eq!(told.each_ref().map(|event| sink.takes_event(event)), expected, "{sink:?}");
    }
    let of_kind = Sink::new("charges", [SinkTopic::Events]).kind("charge");
    let expected = [true, true, true, true, true, false, false, false];
    assert_eq!(told.each_ref().map(|event| of_kind.takes_event(event)), expected);
}

#[test]
fn what_no_scope_wants_is_not_written() {
    // V2
    let names = |name: &str| EventScope { names: BTreeSet::from([name.into()]), ..EventScope::default() };
    let all = sinks([Sink::of_webhook("a", names("dead")), Sink::of_webhook("b", names("started"))]);
    assert!(all.take_events_named("dead") && !all.take_events_named("succeeded"));
    let (job, ..) = started(1);
    let told = event::started(job.spec.header(), 1, NOW);
    let documents = all.documents(&[], &[told.clone(), told], NOW);
    let keys: Vec<_> = documents.iter().map(|one| OutboxKey::read(&one.key).expect("a key")).collect();
    assert_eq!((keys.len(), &*keys[0].sink, keys[0].messages), (1, "webhook:b", 2));
}

#[test]
fn an_event_of_no_job_is_a_message_that_names_its_node() {
    // V1, V2
    let all = sinks([Sink::of_streams()]).at_node("one".into());
    let told = [waits_for_code("acme/mail"), workflow(None, "mail")];
    assert_eq!(all.documents(&[], &told, NOW), [], "a commit writes those of jobs");
    let documents = all.documents_of(&told.map(|event| (all.stamp(NOW), event)));
    let messages = OutboxBatch::read(&documents[0].body).expect("a batch").messages;
    assert_ne!(messages[0].id, messages[1].id);
    let sent: Vec<_> = messages.iter().map(|one| serde_json::to_value(one).expect("JSON")).collect();
    assert_eq!(
        (sent[0].get("id"), &sent[0]["queue"], &sent[0]["tenant"]),
        (None, &json!("acme/mail"), &json!("acme"))
    );
    assert_eq!((&sent[1]["queue"], &sent[1]["data"]["event"]), (&json!(""), &json!("workflow")));
    assert_eq!((&sent[0]["data"]["node"], &sent[1]["data"]["node"]), (&json!("one"), &json!("one")));
}

#[test]
fn what_no_commit_writes_is_behind_all_that_came_before_it() {
    // V1
    let full = Sink { full: true, ..Sink::of_webhook("full", EventScope::default()) };
    let all = sinks([Sink::of_streams(), full]);
    let [first, commit, second, later] = [(); 4].map(|()| all.stamp(NOW));
    // It is written after what came later.
    let told = [(first, waits_for_code("mail")), (second, waits_for_code("bills"))];
    for document in all.documents_of(&told) {
        let stamp = OutboxKey::read(&document.key).expect("a key").stamp;
        assert!(commit < stamp && stamp == second && stamp < later, "{document:?}");
    }
    let again = all.documents_of(&told);
    assert_eq!(again, all.documents_of(&told), "however often it is written");
    assert_eq!(again.len(), 2);
}

#[test]
fn only_a_webhook_has_the_sink_of_a_webhook() {
    // V2
    let good = Sink::of_webhook("wh_0199", EventScope::default());
    assert_eq!((good.check(), good.webhook(), good.sort()), (Ok(()), Some("wh_0199"), SinkSort::Webhook));
    assert_eq!((Sink::of_streams().check(), Sink::of_streams().sort()), (Ok(()), SinkSort::Streams));
    for name in ["webhook:wh_0199", "stream:other", "webhook:"] {
        let problem = Sink::new(name, [SinkTopic::Events]).check();
        assert_eq!(problem, Err(SinkError::Name(name.to_owned())));
    }
    let text = serde_json::to_string(&good).expect("JSON");
    assert_eq!(serde_json::from_str::<Sink>(&text).expect("read"), good);
}
