//! Cases about the outbox: what transitions leave for sinks, and how much of it waits (B2, D6).

use std::collections::BTreeSet;
use std::sync::Arc;

use backstop_core::failure::Cause;
use backstop_core::failure::fingerprint::fingerprint;
use backstop_core::handoff::{HandOffScope, KeyField};
use backstop_core::job::{OnConflict, Operation};
use backstop_core::outbox::{
    EventScope, MessageBody, OutboxBatch, OutboxKey, OutboxMessage, ResultStatus, Sink, SinkTopic,
};
use backstop_core::reject::{Reject, RejectBatch, RejectScope, item_fingerprint};
use backstop_core::{JobId, Timestamp, envelope};

use super::build::{ends_by, id, job, success};
use super::fixture::{Fixture, secs};
use crate::{
    Amend, Amended, Document, DocumentRange, Drawer, Duty, Edit, Expect, Finish, Note, OutboxBacklog, Submit,
};

/// The documents that wait for a sink.
async fn documents(w: &Fixture, drawer: Drawer, sink: &str) -> Vec<Document> {
    let range = DocumentRange::first(drawer, 1_000).under(OutboxKey::prefix(sink));
    w.store.documents(range).await.expect("documents").items
}

/// The messages that wait for a sink, in the order in which they are published.
async fn messages(w: &Fixture, sink: &str) -> Vec<OutboxMessage> {
    let read = |document: &Document| OutboxBatch::read(&document.body).expect("a batch").messages;
    documents(w, Drawer::Outbox, sink).await.iter().flat_map(read).collect()
}

async fn backlog(w: &Fixture, sink: &str) -> OutboxBacklog {
    w.store.outbox_backlog(sink).await.expect("measured")
}

fn statuses(messages: &[OutboxMessage]) -> Vec<(JobId, ResultStatus)> {
    let status = |message: &OutboxMessage| match message.body {
        MessageBody::Result { status, .. } => (message.job.expect("a job"), status),
        _ => panic!("{message:?}"),
    };
    messages.iter().map(status).collect()
}

/// B2: whoever ends a job, its result is written in that transaction; a retry and a cancellation are no result.
pub async fn ends_are_sent_with_their_transitions(w: Fixture) {
    w.told.take_messages([Sink::new("out", [SinkTopic::Results])]);
    for number in 1..=5 {
        w.submit(job(number).policy(|policy| policy.max_retries = 3)).await;
    }
    w.submit(job(6).expires(w.now().after(secs(10)))).await;
    let worker = w.worker(1).await;
    let taken = w.claim(worker, 5).await;
    let mut ending = success(&taken[0]);
    ending.result = Some("{\"paid\":7}".into());
    w.finish(&taken[0], ending).await;
    w.finish(&taken[1], ends_by(&taken[1], Cause::Permanent)).await;
    w.finish(&taken[2], ends_by(&taken[2], Cause::Error)).await;
    w.cancel(id(4)).await;
    w.pass(secs(1_000));
    let lost = &taken[4];
    w.rescue(lost.lease, ends_by(lost, Cause::Permanent)).await.expect("its worker is gone");
    let term = w.leader(Duty::Expire).await;
    w.expire(term, 10).await.expect("its term runs");
    let expected = [
        (id(1), ResultStatus::ResultSuccess),
        (id(2), ResultStatus::ResultException),
        (id(5), ResultStatus::ResultException),
        (id(6), ResultStatus::ResultException),
    ];
    let sent = messages(&w, "out").await;
    assert_eq!(statuses(&sent), expected);
    assert_eq!(sent[0].id, format!("{}:0:1:result", id(1)));
    let MessageBody::Result { result, run, .. } = &sent[0].body else { panic!("{sent:?}") };
    assert_eq!((result, *run), (&Some(serde_json::json!({"paid": 7})), 1));
    let w = w.reopen().await;
    assert_eq!(messages(&w, "out").await, sent, "they survive");
}

/// D1, D6: a dead letter is sent as the envelope that every other reader gets.
pub async fn a_dead_letter_is_sent_as_its_envelope(w: Fixture) {
    w.told.take_messages([Sink::new("dead", [SinkTopic::DeadLetters])]);
    let taken = w.running(job(1)).await;
    let mut ending = ends_by(&taken, Cause::Permanent);
    ending.code_version = Some("v7".into());
    let failure = ending.failure.clone();
    w.finish(&taken, ending).await;
    let record = w.record(id(1)).await;
    let expected = envelope::envelope(&taken.job, &record, failure.as_ref(), Some("v7"));
    let sent = messages(&w, "dead").await;
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].body, MessageBody::DeadLetter { envelope: expected.expect("it is dead") });
    assert_eq!(sent[0].id, format!("{}:0:1:dead_letter", id(1)));
    let taken = w.running(job(2)).await;
    w.finish(&taken, success(&taken)).await;
    assert_eq!(messages(&w, "dead").await.len(), 1, "a success is not a dead letter");
}

/// B7, E13: a job that has succeeded is handed off with what its key may be made of, in the transaction of its end; one
/// that fails, is of another tenant or of another kind is not.
pub async fn a_success_is_handed_off_with_its_transition(w: Fixture) {
    let take = |tenant: &str, field: &str| HandOffScope {
        tenant: tenant.to_owned(),
        key: vec![KeyField::parse(field).expect("a field")],
    };
    let ours = Sink::of_hand_off("ours", take("default", "order"));
    let theirs = Sink::of_hand_off("theirs", take("acme", "order"));
    let others = Sink::of_hand_off("others", take("default", "order")).kind("other");
    w.told.take_messages([ours, theirs, others]);
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let taken = w
        .running(job(1).with(|new| {
            new.spec.payload = "{\"order\":9}".into();
            new.spec.provenance_mut().trace = Some(trace.into());
        }))
        .await;
    let mut ending = success(&taken);
    ending.result = Some("{\"paid\":7}".into());
    w.finish(&taken, ending).await;
    let taken = w.running(job(2)).await;
    w.finish(&taken, ends_by(&taken, Cause::Permanent)).await;
    let sent = messages(&w, "handoff:ours").await;
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].id, format!("{}:0:1:hand_off", id(1)));
    let MessageBody::HandOff(body) = &sent[0].body else { panic!("{sent:?}") };
    assert_eq!(
        (&body.result, &body.payload),
        (&Some(serde_json::json!({"paid": 7})), &Some(serde_json::json!({"order": 9})),)
    );
    assert_eq!(body.incoming, format!("job:{}", id(1)));
    assert_eq!(body.trace_parent.as_deref(), Some(trace));
    assert_eq!(backlog(&w, "handoff:ours").await.messages, 1);
    for sink in ["handoff:theirs", "handoff:others"] {
        assert_eq!(messages(&w, sink).await, [], "{sink}");
    }
}

/// B2: nothing is written for what nobody subscribed to.
pub async fn nothing_is_written_that_nobody_takes(w: Fixture) {
    let other = Sink::new("other", SinkTopic::ALL).kind("other");
    let letters = Sink::new("dead", [SinkTopic::DeadLetters]);
    for (number, sinks) in (1..).zip([vec![], vec![other], vec![letters]]) {
        w.told.take_messages(sinks);
        let taken = w.running(job(number)).await;
        w.finish(&taken, success(&taken)).await;
        for drawer in [Drawer::Outbox, Drawer::OutboxRefused] {
            let found = w.store.documents(DocumentRange::first(drawer, 10)).await.expect("documents");
            assert_eq!(found.items, []);
        }
    }
}

/// B2: ends that are committed together cost each sink one document.
pub async fn messages_of_one_commit_are_one_document(w: Fixture) {
    let both = [Sink::new("one", [SinkTopic::Results]), Sink::new("two", [SinkTopic::Results])];
    w.told.take_messages(both);
    for number in 1..=20 {
        w.submit(job(number)).await;
    }
    let worker = w.worker(1).await;
    let taken = w.claim(worker, 20).await;
    let ends = taken.iter().map(|taken| Finish { lease: taken.lease, ending: success(taken) }).collect();
    assert!(w.store.finish(ends).await.expect("finished").iter().all(Result::is_ok));
    for sink in ["one", "two"] {
        assert_eq!(documents(&w, Drawer::Outbox, sink).await.len(), 1);
        assert_eq!(messages(&w, sink).await.len(), 20);
    }
}

/// B2, L5: the answer to the same ending again is that of the first time, and no message follows.
pub async fn an_end_that_is_told_again_is_sent_once(w: Fixture) {
    w.told.take_messages([Sink::new("out", [SinkTopic::Results, SinkTopic::DeadLetters])]);
    let taken = w.running(job(1)).await;
    let finish = Finish { lease: taken.lease, ending: ends_by(&taken, Cause::Permanent) };
    for _ in 0..2 {
        assert!(w.store.finish(vec![finish.clone()]).await.expect("finished")[0].is_ok());
    }
    let ids: Vec<String> = messages(&w, "out").await.into_iter().map(|message| message.id).collect();
    assert_eq!(ids, [format!("{}:0:1:result", id(1)), format!("{}:0:1:dead_letter", id(1))]);
    w.operate(id(1), Operation::Retry).await.expect("it is dead");
    let taken = w.take(taken.lease.worker).await;
    w.finish(&taken, ends_by(&taken, Cause::Permanent)).await;
    let mut ids: Vec<String> = messages(&w, "out").await.into_iter().map(|message| message.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4, "it died again, and that is another end");
}

/// B2, W9: rejects are sent with the batch that stores them, once.
pub async fn rejects_are_sent_once(w: Fixture) {
    w.told.take_messages([Sink::new("bad", [SinkTopic::Rejects])]);
    let taken = w.running(job(1)).await;
    let reject = |item: &str| Reject {
        fingerprint: fingerprint("work", "BadRow", "no name"),
        item_fingerprint: item_fingerprint(item),
        scope: RejectScope::Item,
        step: None,
        error_type: "BadRow".to_owned(),
        error: "no name".to_owned(),
        count: 1,
        retries: 0,
        retry_limit: 0,
        r#final: true,
        item: None,
    };
    let batch = RejectBatch {
        at: Timestamp::from_micros(1_800_000_000_000_000),
        job: id(1),
        queue: "default".into(),
        kind: "work".into(),
        run: 1,
        attempt: 1,
        generation: 0,
        rejected: 2,
        seen: 9,
        rejects: vec![reject("a"), reject("b")],
        kept_elsewhere: vec![7],
        behind: None,
    };
    for _ in 0..2 {
        let note = Note::rejects(taken.lease, batch.clone());
        w.store.annotate(vec![note]).await.expect("annotated").remove(0).expect("held");
    }
    let sent = messages(&w, "bad").await;
    let rejects: Vec<_> = sent.iter().map(|message| (message.job.expect("a job"), &message.body)).collect();
    let expected =
        batch.rejects.iter().map(|reject| MessageBody::Reject { run: 1, attempt: 1, reject: reject.clone() });
    let expected: Vec<_> = expected.collect();
    assert_eq!(rejects, expected.iter().map(|body| (id(1), body)).collect::<Vec<_>>());
    assert_ne!(sent[0].id, sent[1].id);
}

/// V1, V2: what happens to a job is sent in order, whether anybody in the process listens or not, and while the clock
/// stands.
pub async fn events_are_sent_in_order_per_job(w: Fixture) {
    w.told.take_messages([Sink::new("told", [SinkTopic::Events])]);
    w.told.stop_listening();
    let worker = w.worker(1).await;
    for number in 1..=2 {
        w.submit(job(number).policy(|policy| policy.max_retries = 3)).await;
    }
    w.operate(id(2), Operation::Pause).await.expect("it waits");
    w.operate(id(2), Operation::Resume).await.expect("it is paused");
    let taken = w.claim(worker, 2).await;
    for taken in &taken {
        w.finish(taken, ends_by(taken, Cause::Error)).await;
    }
    w.pass(secs(1_000));
    let worker = w.worker(2).await;
    for taken in w.claim(worker, 2).await {
        w.finish(&taken, success(&taken)).await;
    }
    let sent = messages(&w, "told").await;
    let names = |job: JobId| -> Vec<String> {
        let name = |message: &OutboxMessage| match &message.body {
            MessageBody::Event { data } => data["event"].as_str().expect("a name").to_owned(),
            other => panic!("{other:?}"),
        };
        sent.iter().filter(|message| message.job == Some(job)).map(name).collect()
    };
    let run = ["started", "failed", "retrying", "started", "succeeded"];
    assert_eq!(names(id(1)), [&["enqueued"][..], &run].concat());
    assert_eq!(names(id(2)), [&["enqueued", "paused", "resumed"][..], &run].concat());
    let mut ids: Vec<&str> = sent.iter().map(|message| message.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), sent.len(), "no two have one id");
}

/// V2, E13: of what happens a webhook is sent what it wants, and nothing is written for what none wants.
pub async fn a_sink_is_sent_the_events_that_it_wants(w: Fixture) {
    let names = |all: &[&str]| -> BTreeSet<Arc<str>> { all.iter().map(|name| (*name).into()).collect() };
    let dead = EventScope { names: names(&["dead"]), ..EventScope::default() };
    let bills =
        EventScope { names: names(&["enqueued"]), queues: names(&["bills"]), ..EventScope::default() };
    let acme = EventScope { tenant: Some("acme".into()), ..EventScope::default() };
    let others = EventScope { except: names(&["acme/mail", "bills"]), ..EventScope::default() };
    let scopes = [("dead", dead), ("bills", bills), ("acme", acme), ("others", others)];
    w.told.take_messages(scopes.map(|(id, scope)| Sink::of_webhook(id, scope)));
    w.told.stop_listening();
    for (number, queue) in [(1, "bills"), (2, "acme/mail"), (3, "acmes/mail")] {
        w.submit(job(number).queue(queue)).await;
    }
    let jobs = async |id: &str| -> Vec<Option<JobId>> {
        messages(&w, &format!("webhook:{id}")).await.iter().map(|message| message.job).collect()
    };
    assert_eq!(jobs("dead").await, []);
    assert_eq!(jobs("bills").await, [Some(id(1))]);
    assert_eq!(jobs("acme").await, [Some(id(2))]);
    assert_eq!(jobs("others").await, [Some(id(3))]);
    let taken = w.running(job(4)).await;
    w.finish(&taken, ends_by(&taken, Cause::Permanent)).await;
    assert_eq!(jobs("dead").await, [Some(id(4))]);
    // One that wants everything else has been sent the rest of it; only what is wanted was written.
    assert_eq!((jobs("bills").await.len(), jobs("acme").await.len()), (1, 1));
    let all = w.store.documents(DocumentRange::first(Drawer::Outbox, 1_000)).await.expect("documents");
    let wanted = |document: &&Document| !document.key.starts_with("webhook:others/");
    assert_eq!(all.items.iter().filter(wanted).count(), 3, "{:?}", all.items);
}

/// V1: no message tells of what was not stored.
pub async fn a_batch_that_is_refused_sends_nothing(w: Fixture) {
    w.told.take_messages([Sink::new("told", [SinkTopic::Events])]);
    w.submit(job(1).key("k", OnConflict::Reject)).await;
    let jobs = vec![job(2).0, job(3).key("k", OnConflict::Reject).0];
    let answers = w.store.submit(Submit { jobs, atomic: true }).await.expect("answered");
    assert!(answers.iter().all(Result::is_err));
    let jobs: Vec<_> = messages(&w, "told").await.iter().map(|message| message.job).collect();
    assert_eq!(jobs, [Some(id(1))]);
}

/// B2: what a full sink does not get is counted in the transaction, and what waits for it stays.
pub async fn what_a_full_sink_does_not_get_is_counted(w: Fixture) {
    let sink = Sink::new("out", [SinkTopic::Results]);
    w.told.take_messages([sink.clone()]);
    let taken = w.running(job(1)).await;
    w.finish(&taken, success(&taken)).await;
    let before = messages(&w, "out").await;
    w.told.take_messages([Sink { full: true, ..sink.clone() }]);
    let taken = w.running(job(2)).await;
    w.finish(&taken, success(&taken)).await;
    assert_eq!(messages(&w, "out").await, before);
    let refused = documents(&w, Drawer::OutboxRefused, "out").await;
    let counts: Vec<usize> =
        refused.iter().map(|document| OutboxKey::read(&document.key).expect("a key").messages).collect();
    assert_eq!(counts, [1]);
    assert_eq!(backlog(&w, "out").await.messages, 1, "what was refused does not wait");
}

/// B2: a backlog is measured for each sink, whatever others are called.
pub async fn a_backlog_is_measured_for_each_sink(w: Fixture) {
    let names = ["a", "a-b", "a.b", "A", "aa"];
    w.told.take_messages(names.map(|name| Sink::new(name, [SinkTopic::Results])));
    assert_eq!(backlog(&w, "a").await, OutboxBacklog::empty(w.now()));
    let first = w.now();
    for number in 1..=3 {
        let taken = w.running(job(number)).await;
        w.finish(&taken, success(&taken)).await;
        w.pass(secs(5));
    }
    for name in names {
        let found = documents(&w, Drawer::Outbox, name).await;
        let bytes: usize = found.iter().map(|document| document.body.len()).sum();
        let measured = backlog(&w, name).await;
        assert_eq!((measured.documents, measured.messages), (3, 3), "{name}");
        assert_eq!((measured.bytes, measured.now), (bytes as u64, w.now()), "{name}");
        let oldest = measured.oldest.expect("there is one");
        assert!(oldest >= first && oldest < first.after(secs(1)), "{name}: {oldest} {first}");
    }
    assert_eq!(backlog(&w, "b").await, OutboxBacklog::empty(w.now()));
}

/// B2: messages are removed after they were published, under an expectation about who publishes.
pub async fn messages_stay_until_they_are_removed(w: Fixture) {
    w.told.take_messages([Sink::new("out", [SinkTopic::Results])]);
    let taken = w.running(job(1)).await;
    w.finish(&taken, success(&taken)).await;
    let lease = |expect| Edit {
        drawer: Drawer::Sinks,
        key: "lease/out".to_owned(),
        expect,
        body: Some("somebody".into()),
    };
    let edits = vec![lease(Expect::Absent)];
    let amended = w.store.amend(Amend { edits, ..Amend::default() }).await.expect("amended");
    assert!(matches!(amended, Amended::Done { .. }));
    let key = documents(&w, Drawer::Outbox, "out").await.remove(0).key;
    let remove = || Edit { drawer: Drawer::Outbox, key: key.clone(), expect: Expect::Any, body: None };
    for (expect, left) in [(Expect::Revision(7), 1), (Expect::Revision(1), 0)] {
        let edits = vec![lease(expect), remove()];
        w.store.amend(Amend { edits, ..Amend::default() }).await.expect("answered");
        let w = &w;
        assert_eq!(backlog(w, "out").await.messages, left, "{expect:?}");
    }
}
