//! Cases about hostile text: what a store has taken comes back to the last character.

use std::sync::Arc;

use backstop_core::failure::Cause;
use backstop_core::job::{Ending, FailureRecord, OnConflict, Operation, Progress};

use super::build::{WorkerDraft, ends_by, fingerprint, id, job, knows, success};
use super::fixture::{Fixture, claim, room};
use crate::{JobFilter, Note};

/// Text that has broken programs: quotes, wildcards, control characters, right-to-left marks, characters of four
/// bytes, characters that combine, and whitespace at both ends.
const NASTY: &[&str] = &[
    "'; DROP TABLE jobs; --",
    "%_\\*?[a-z]",
    "\u{1}\u{7}\u{1b}[31m\r\n\t\u{7f}\u{85}",
    "\u{202e}gnitirw\u{2066}\u{200f}\u{feff}",
    "\u{1f9e8}\u{10ffff}\u{1f468}\u{200d}\u{1f469}",
    "e\u{301} \u{e9} \u{df} \u{1e9e} \u{130}",
    "  both ends  ",
    "",
];

/// L20, F15: texts of a run come back as they were, each in its own place.
pub async fn texts_of_a_run_come_back(w: Fixture) {
    for (number, text) in (1..).zip(NASTY) {
        keeps(&w, number, text).await;
    }
}

/// L20: NUL in a text neither ends it nor is lost.
pub async fn nul_comes_back(w: Fixture) {
    keeps(&w, 1, "before\0after\0").await;
    keeps(&w, 2, "\0").await;
}

/// L20: long texts come back whole.
pub async fn long_texts_come_back(w: Fixture) {
    keeps(&w, 1, &"0123456789abcde\n".repeat(16 * 1024)).await;
    keeps(&w, 2, &"\u{1f9e8}".repeat(64 * 1024)).await;
}

async fn keeps(w: &Fixture, number: u64, text: &str) {
    let taken = w.running(job(number)).await;
    let progress = Progress { percent: 1, note: text.to_owned() };
    w.store
        .annotate(vec![
            Note::progress(taken.lease, progress),
            Note::log(taken.lease, vec![text.to_owned()], text.len() + 1),
        ])
        .await
        .expect("annotate")
        .remove(0)
        .expect("held");
    let failure = FailureRecord {
        error_type: text.to_owned(),
        message: text.to_owned(),
        fingerprint: fingerprint(&format!("fingerprint {number}")),
    };
    let ending = Ending {
        failure: Some(failure.clone()),
        output: Some(text.to_owned()),
        code_version: Some(text.into()),
        ..ends_by(&taken, Cause::Error)
    };
    w.finish(&taken, ending).await;
    let detail = w.detail(id(number)).await;
    assert_eq!(detail.view.record.progress.map(|progress| progress.note).as_deref(), Some(text));
    assert_eq!(detail.view.last_failure.as_ref(), Some(&failure));
    let run = w.runs(id(number)).await.remove(0);
    let said = format!("{text}\n{text}");
    assert_eq!(
        (run.output, run.failure),
        (Some(said), Some(failure)),
        "what it logged on the way comes first"
    );
    assert_eq!(run.code_version.as_deref(), Some(text));
    let incident =
        w.store.incidents(1_000).await.expect("incidents").into_iter().find(|i| i.sample_job == id(number));
    assert_eq!(incident.map(|incident| incident.message).as_deref(), Some(text));
    w.operate(id(number), Operation::Cancel { reason: text.to_owned() }).await.expect("never refused");
    assert_eq!(w.record(id(number)).await.cancel_reason.as_deref(), Some(text));
}

/// L20: payload, params and result are JSON text that is kept and not rewritten.
pub async fn json_is_kept_as_it_was_written(w: Fixture) {
    let long = format!("\"{}\"", "\u{1f9e8}x".repeat(50_000));
    let texts = [
        "{ \"b\" : 1,\n \"a\":1.0, \"b\":2 }",
        "\"\\u0000 \\ud83d\\ude00 \\/\"",
        "1e400",
        "123456789012345678901234567890.000",
        "\"\u{202e}\u{1f9e8}\u{7f}\"",
        long.as_str(),
    ];
    for (number, text) in (1..).zip(texts) {
        let text: Arc<str> = text.into();
        let payload = text.clone();
        let params: Arc<str> = format!("{{ \"p\":{text} }}").into();
        let kept = params.clone();
        let taken = w
            .running(job(number).with(|new| (new.spec.payload, new.spec.params) = (payload, Some(params))))
            .await;
        assert_eq!((&taken.job.spec.payload, taken.job.spec.params.as_ref()), (&text, Some(&kept)));
        w.finish(&taken, Ending { result: Some(text.clone()), ..success(&taken) }).await;
        assert_eq!(w.detail(id(number)).await.view.result, Some(text));
    }
}

/// L10, L11: names, keys and tags are compared as they are: case, accents, wildcards and spaces count.
pub async fn names_are_compared_as_they_are(w: Fixture) {
    let names = ["a", "A", "\u{e4}", "a\u{308}", "%", "_", "a%", "\u{1f9e8}", "a'b", "a\"b", "a b", "a\\b"];
    for (number, name) in (1..).zip(names) {
        let tagged = job(number).with(|new| new.spec.tags = vec![name.to_owned(), format!("{name}+")]);
        w.submit(tagged.queue(name).kind(name, 1).once(name).key(name, OnConflict::Reject)).await;
    }
    for (number, name) in (1..).zip(names) {
        let some = || Some(name.to_owned());
        let filters = [
            JobFilter { queue: some(), ..JobFilter::default() },
            JobFilter { kind: some(), ..JobFilter::default() },
            JobFilter { tag: some(), ..JobFilter::default() },
            JobFilter { business_key: some(), ..JobFilter::default() },
        ];
        for filter in filters {
            assert_eq!(w.listed(filter).await, [id(number)], "{name}");
        }
        let worker = w.enlist(WorkerDraft::new(number).queues(&[name]).kinds(&[(name, 1)])).await;
        let mut wanted = claim(worker, 0);
        wanted.queues = vec![room(name, 9)];
        wanted.kinds = knows(&[(name, 1)]);
        assert_eq!(w.claim_with(wanted).await.jobs.len(), 1, "{name}");
    }
    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    let queues = w.store.queues().await.expect("queues");
    assert_eq!(queues.iter().map(|queue| &*queue.name).collect::<Vec<_>>(), sorted, "by their bytes");
}
