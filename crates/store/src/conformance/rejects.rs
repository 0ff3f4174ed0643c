//! Cases about rejected items: what is stored of them, by whom, and how often (W9).

use backstop_core::failure::Cause;
use backstop_core::failure::fingerprint::fingerprint;
use backstop_core::job::{NoteError, Retention};
use backstop_core::reject::{Reject, RejectBatch, RejectScope, RejectTally, item_fingerprint};
use backstop_core::{Lease, Timestamp};

use super::build::{ends_by, id, job, other_fence, success};
use super::fixture::{Fixture, LEASE, secs};
use crate::{DocumentRange, Drawer, Duty, Note};

fn reject(item: &str, error: &str) -> Reject {
    Reject {
        fingerprint: fingerprint("work", "BadRow", error),
        item_fingerprint: item_fingerprint(item),
        scope: RejectScope::Item,
        step: None,
        error_type: "BadRow".to_owned(),
        error: error.to_owned(),
        count: 1,
        retries: 2,
        retry_limit: 2,
        r#final: true,
        item: Some(format!("\"{item}\"").into()),
    }
}

fn batch(number: u64, run: u32, items: &[&str]) -> RejectBatch {
    RejectBatch {
        at: Timestamp::from_micros(1_800_000_000_000_000),
        job: id(number),
        queue: "default".into(),
        kind: "work".into(),
        run,
        attempt: 1,
        generation: 0,
        rejected: items.len() as u64,
        seen: 100,
        rejects: items.iter().map(|item| reject(item, "no name, é")).collect(),
        kept_elsewhere: Vec::new(),
        behind: None,
    }
}

async fn write(w: &Fixture, lease: Lease, batch: RejectBatch) -> Result<(), NoteError> {
    w.store.annotate(vec![Note::rejects(lease, batch)]).await.expect("annotate").remove(0)
}

/// The batches that are stored of all jobs, with their keys.
async fn batches(w: &Fixture) -> Vec<(String, RejectBatch)> {
    let page = w.store.documents(DocumentRange::first(Drawer::Rejects, 1_000)).await.expect("documents");
    let read = |body: &str| serde_json::from_str(body).expect("a batch");
    page.items.into_iter().map(|document| (document.key, read(&document.body))).collect()
}

/// The keys of the batches that nobody has counted.
async fn notes(w: &Fixture) -> Vec<String> {
    let page = w.store.documents(DocumentRange::first(Drawer::RejectNotes, 1_000)).await.expect("documents");
    page.items.into_iter().map(|document| document.key).collect()
}

async fn tally(w: &Fixture, number: u64) -> Option<RejectTally> {
    w.record(id(number)).await.rejects().cloned()
}

/// W9: rejects are stored in batches under the lease of their run, each with a note, and the record has the counts.
pub async fn rejects_are_stored_with_their_counts(w: Fixture) {
    let taken = w.running(job(1).policy(|policy| policy.max_retries = 3)).await;
    let (first, second) = (batch(1, 1, &["a", "b"]), batch(1, 1, &["c"]));
    write(&w, taken.lease, first.clone()).await.expect("held");
    write(&w, taken.lease, RejectBatch { rejected: 3, ..second.clone() }).await.expect("held");
    let stored = batches(&w).await;
    let keys: Vec<String> = stored.iter().map(|(key, _)| key.clone()).collect();
    assert_eq!(keys, [first.key(0), second.key(1)]);
    assert_eq!(stored[0].1, first);
    assert_eq!(notes(&w).await, keys);
    let counted = tally(&w, 1).await.expect("there are some");
    assert_eq!((counted.stored, counted.batches, counted.rejected, counted.seen), (3, 2, 3, 100));
    w.finish(&taken, ends_by(&taken, Cause::Error)).await;
    let again = w.take(taken.lease.worker).await;
    assert_eq!(again.record.rejects(), Some(&counted), "the next run has the counts");
    write(&w, again.lease, RejectBatch { rejected: 3, ..batch(1, 2, &[]) }).await.expect("held");
    assert_eq!(batches(&w).await.len(), 2, "counts alone need no document");
    let counted = tally(&w, 1).await.expect("there are some");
    assert_eq!((counted.stored, counted.run, counted.rejected), (3, 2, 3));
    let elsewhere = RejectBatch { rejected: 5, kept_elsewhere: vec![7, u64::MAX], ..batch(1, 2, &[]) };
    write(&w, again.lease, elsewhere.clone()).await.expect("held");
    let stored = batches(&w).await;
    assert_eq!(
        (stored.len(), &stored[2]),
        (3, &(elsewhere.key(2), elsewhere)),
        "what tells them apart is kept"
    );
    let counted = tally(&w, 1).await.expect("there are some");
    assert_eq!((counted.stored, counted.batches, counted.rejected), (3, 3, 5));
}

/// W9, L5: a lease that is not the current hold stores no reject.
pub async fn a_stale_lease_stores_no_reject(w: Fixture) {
    let taken = w.running(job(1).policy(|policy| policy.max_retries = 3)).await;
    for lease in [other_fence(taken.lease, 1), other_fence(taken.lease, -1)] {
        write(&w, lease, batch(1, 1, &["a"])).await.expect_err("stale");
    }
    w.finish(&taken, ends_by(&taken, Cause::Error)).await;
    let again = w.take(taken.lease.worker).await;
    write(&w, taken.lease, batch(1, 1, &["a"])).await.expect_err("an earlier hold");
    w.pass(LEASE);
    write(&w, again.lease, batch(1, 2, &["a"])).await.expect_err("its worker let the lease run out");
    assert_eq!((tally(&w, 1).await, batches(&w).await, notes(&w).await), (None, vec![], vec![]));
}

/// W9: the batch that was written last changes nothing when it comes again, so a lost answer can be asked for again.
pub async fn a_batch_of_rejects_is_stored_once(w: Fixture) {
    let taken = w.running(job(1)).await;
    write(&w, taken.lease, batch(1, 1, &["a", "b"])).await.expect("held");
    let before = w.detail(id(1)).await;
    write(&w, taken.lease, batch(1, 1, &["a", "b"])).await.expect("held");
    assert_eq!(w.detail(id(1)).await, before);
    assert_eq!(batches(&w).await.len(), 1);
}

/// W9: one call writes the rejects of many runs; a stale one spoils nothing for the others.
pub async fn rejects_of_many_runs_are_stored_together(w: Fixture) {
    let worker = w.worker(1).await;
    w.offer_all(false, (1..=3).map(job)).await;
    let taken = w.claim(worker, 3).await;
    let note = |at: usize, items: &[&str]| Note::rejects(taken[at].lease, batch(at as u64 + 1, 1, items));
    let late = Note { lease: other_fence(taken[1].lease, 1), ..note(1, &["b"]) };
    let answers = w.store.annotate(vec![note(0, &["a"]), late, note(2, &["c"]), note(0, &["d"])]).await;
    let answers = answers.expect("annotate");
    assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true, true]);
    let keys: Vec<String> = batches(&w).await.into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [batch(1, 1, &[]).key(0), batch(1, 1, &[]).key(1), batch(3, 1, &[]).key(0)]);
}

/// W9, L16: what a run has rejected is there after a crash, after the end, and after its job was archived.
pub async fn rejects_outlive_their_run(w: Fixture) {
    let taken = w.running(job(1).policy(|policy| policy.max_crashes = 3)).await;
    write(&w, taken.lease, batch(1, 1, &["a"])).await.expect("held");
    let w = w.reopen().await;
    w.pass(LEASE);
    w.rescue(taken.lease, ends_by(&taken, Cause::Crash)).await.expect("its worker is silent");
    w.pass(secs(60));
    let again = w.take(w.worker(2).await).await;
    assert_eq!(again.record.rejects().map(|tally| tally.stored), Some(1));
    w.finish(&again, success(&again)).await;
    w.pass(secs(1));
    let term = w.leader(Duty::Archive).await;
    let retention = Retention::default().succeeded(Some(secs(0)));
    assert_eq!(w.store.archive(term, retention, 100).await.expect("archive"), 1);
    let kept = w.store.archived(vec![id(1)]).await.expect("archived").remove(0).expect("it is there");
    let document: serde_json::Value = serde_json::from_str(&kept.document).expect("JSON");
    assert_eq!(document["job"]["rejects"]["stored"], 1, "{document}");
    assert_eq!(batches(&w).await.len(), 1, "they have a time of their own");
}

/// W9: whatever is in an item comes back as it was.
pub async fn an_item_is_kept_as_it_was_given(w: Fixture) {
    let taken = w.running(job(1)).await;
    let mut given = batch(1, 1, &["a"]);
    given.rejects[0].item = Some("{\"name\":\"\u{1f389} \\u0000\",\"n\":[1,2.5,null]}".into());
    given.rejects[0].step = Some("load".to_owned());
    write(&w, taken.lease, given.clone()).await.expect("held");
    assert_eq!(batches(&w).await[0].1, given);
}
