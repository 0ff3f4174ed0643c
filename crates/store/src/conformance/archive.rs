//! Cases about archival: what ended long ago leaves the hot tables, and nothing else does.

use std::time::Duration;

use backstop_core::failure::Cause;
use backstop_core::job::{OnConflict, Operation, Retention, Start, State};
use backstop_core::{JobId, Timestamp};
use serde_json::Value;

use super::build::{WorkerDraft, ends_by, id, job, success, worker_id};
use super::fixture::{Fixture, LEASE, ids, secs};
use crate::{Archived, Duty, Error, JobFilter, PageRequest, Term};

/// Archives at once whatever has ended.
fn at_once() -> Retention {
    let none = Some(Duration::ZERO);
    Retention::default().succeeded(none).canceled(none).failed(none)
}

async fn archive(w: &Fixture, retention: Retention, limit: usize) -> usize {
    let term = w.leader(Duty::Archive).await;
    w.store.archive(term, retention, limit).await.expect("the term runs")
}

async fn archived(w: &Fixture, job: JobId) -> Option<Archived> {
    let mut found = w.store.archived(vec![job]).await.expect("archived");
    assert_eq!(found.len(), 1, "one answer per id");
    found.remove(0)
}

/// Those of the jobs `1..=last` that are archived; each job must be in exactly one place.
async fn gone(w: &Fixture, last: u64) -> Vec<u64> {
    let mut gone = Vec::new();
    for number in 1..=last {
        let is_archived = archived(w, id(number)).await.is_some();
        assert_ne!(w.exists(id(number)).await, is_archived, "job {number} is in one place");
        if is_archived {
            gone.push(number);
        }
    }
    gone
}

async fn succeeded(w: &Fixture, number: u64) {
    let taken = w.running(job(number)).await;
    w.finish(&taken, success(&taken)).await;
}

async fn died(w: &Fixture, number: u64) {
    let taken = w.running(job(number)).await;
    w.finish(&taken, ends_by(&taken, Cause::Permanent)).await;
}

async fn canceled(w: &Fixture, number: u64) {
    w.submit(job(number)).await;
    w.cancel(id(number)).await;
}

/// L16: each ended job leaves when its own retention is over, not a microsecond before.
pub async fn a_job_leaves_when_its_retention_is_over(w: Fixture) {
    succeeded(&w, 1).await;
    canceled(&w, 2).await;
    died(&w, 3).await;
    let spans =
        Retention::default().succeeded(Some(secs(10))).canceled(Some(secs(20))).failed(Some(secs(30)));
    let instant = Duration::from_micros(1);
    for number in 1..=3_u64 {
        w.pass(secs(10) - instant);
        assert_eq!(archive(&w, spans, 10).await, 0, "job {number} is not old enough");
        w.pass(instant);
        assert_eq!(archive(&w, spans, 10).await, 1);
        assert_eq!(gone(&w, 3).await, (1..=number).collect::<Vec<_>>());
        let found = archived(&w, id(number)).await.expect("it has just left");
        assert_eq!(found.archived_at, w.now());
    }
    let states = [State::Succeeded, State::Canceled, State::Failed];
    for (number, state) in (1..).zip(states) {
        assert_eq!(archived(&w, id(number)).await.map(|found| found.state), Some(state));
    }
}

/// L16: without a retention jobs stay for ever, each ending for itself.
pub async fn no_retention_keeps_jobs_for_ever(w: Fixture) {
    succeeded(&w, 1).await;
    canceled(&w, 2).await;
    died(&w, 3).await;
    w.pass(secs(1_000 * 365 * 24 * 3_600));
    assert_eq!(archive(&w, Retention::forever(), 10).await, 0);
    assert_eq!(archive(&w, Retention::forever().canceled(Some(secs(1))), 10).await, 1);
    assert_eq!(gone(&w, 3).await, [2]);
}

/// L16: successes go first, then the canceled, then dead letters; each the longest ended first, up to the limit.
pub async fn the_longest_ended_go_first(w: Fixture) {
    died(&w, 1).await;
    w.pass(secs(1));
    canceled(&w, 2).await;
    w.pass(secs(1));
    succeeded(&w, 4).await;
    succeeded(&w, 3).await;
    w.pass(secs(1));
    canceled(&w, 6).await;
    succeeded(&w, 5).await;
    assert_eq!(archive(&w, at_once(), 0).await, 0);
    for (limit, left) in
        [(1, vec![3]), (2, vec![3, 4, 5]), (2, vec![2, 3, 4, 5, 6]), (2, vec![1, 2, 3, 4, 5, 6])]
    {
        let before = gone(&w, 6).await.len();
        assert_eq!(archive(&w, at_once(), limit).await, left.len() - before);
        assert_eq!(gone(&w, 6).await, left);
    }
}

/// L16: a job that has not ended is never archived, whatever its age.
pub async fn what_has_not_ended_stays_whatever_its_age(w: Fixture) {
    w.running(job(1)).await;
    w.submit(job(2).with(|new| new.start = Start::At(Timestamp::MIN))).await;
    w.submit(job(3)).await;
    w.operate(id(3), Operation::Pause).await.expect("pending");
    w.submit(job(4).kind("unheard", 1)).await;
    w.submit(job(5).at(w.now().after(secs(100 * 365 * 24 * 3_600)))).await;
    assert_eq!(w.state(id(4)).await, State::Waiting, "no worker of its queue knows it");
    w.pass(secs(50 * 365 * 24 * 3_600));
    w.enlist(WorkerDraft::new(2)).await;
    assert_eq!(w.state(id(4)).await, State::Waiting);
    assert_eq!(archive(&w, at_once(), 10).await, 0);
    assert_eq!(gone(&w, 5).await, Vec::<u64>::new());
}

/// L16, L8: a dead letter that a person holds back stays until it is let go.
pub async fn a_paused_dead_letter_stays(w: Fixture) {
    died(&w, 1).await;
    w.operate(id(1), Operation::Pause).await.expect("failed");
    w.pass(secs(1_000));
    assert_eq!(archive(&w, at_once(), 10).await, 0);
    w.operate(id(1), Operation::Resume).await.expect("paused");
    assert_eq!(archive(&w, at_once(), 10).await, 1);
}

/// L16, L9: a dead letter that was driven again has not ended, and counts again once it has.
pub async fn a_retried_job_counts_anew(w: Fixture) {
    died(&w, 1).await;
    w.pass(secs(100));
    w.operate(id(1), Operation::Retry).await.expect("failed");
    assert_eq!(archive(&w, at_once(), 10).await, 0);
    let worker = w.worker(1).await;
    let taken = w.take(worker).await;
    w.finish(&taken, ends_by(&taken, Cause::Permanent)).await;
    assert_eq!(archive(&w, at_once().failed(Some(secs(50))), 10).await, 0);
    w.pass(secs(50));
    assert_eq!(archive(&w, at_once().failed(Some(secs(50))), 10).await, 1);
}

/// L16, L17: a leader that is deposed, late or of another duty archives nothing.
pub async fn a_deposed_leader_archives_nothing(w: Fixture) {
    canceled(&w, 1).await;
    let old = w.lead(1, Duty::Archive).await.expect("free");
    w.pass(secs(60));
    let current = w.lead(2, Duty::Archive).await.expect("run out");
    let elsewhere = w.lead(2, Duty::Expire).await.expect("free");
    let wrong = [
        old,
        Term { node: worker_id(1), ..current },
        Term { number: current.number + 1, ..current },
        Term { number: current.number, ..elsewhere },
    ];
    for term in wrong {
        let refused = w.store.archive(term, at_once(), 10).await.expect_err("deposed");
        assert!(matches!(refused, Error::Deposed { duty } if duty == term.duty), "{refused}");
    }
    assert_eq!(gone(&w, 1).await, Vec::<u64>::new());
    assert_eq!(w.store.archive(current, at_once(), 10).await.expect("its term runs"), 1);
}

/// L16, L10: the idempotency key of an archived job still answers with that job and how it ended.
pub async fn an_idempotency_key_outlives_archival(w: Fixture) {
    for (number, key) in [(1, "a"), (2, "b")] {
        w.submit(job(number).once(key)).await;
    }
    let worker = w.worker(1).await;
    let taken = w.take(worker).await;
    w.finish(&taken, success(&taken)).await;
    w.cancel(id(2)).await;
    assert_eq!(archive(&w, at_once(), 10).await, 2);
    let w = w.reopen().await;
    for (number, key, state) in [(1, "a", State::Succeeded), (2, "b", State::Canceled)] {
        // With the same id, as a repeated call does, and with another, as another client does.
        for offered in [number, 10 + number] {
            let answer = w.offer(job(offered).once(key)).await.expect("deduplicated");
            assert_eq!((answer.id, answer.state, answer.deduplicated), (id(number), state, true));
            assert!(!w.exists(id(offered)).await, "nothing was stored");
        }
    }
}

/// L16, L11: an archived job is in nobody's way: its business key is free and nothing of it can be operated on.
pub async fn an_archived_job_holds_nothing(w: Fixture) {
    w.submit(job(1).key("order", OnConflict::Reject)).await;
    w.cancel(id(1)).await;
    archive(&w, at_once(), 10).await;
    let successor = w.offer(job(2).supersedes(1)).await.expect_err("there is no such job any more");
    assert_eq!(successor.code(), "no_such_job");
    let refused = w.operate(id(1), Operation::Retry).await.expect_err("there is no such job any more");
    assert_eq!(refused.code(), "no_such_job");
    assert_eq!(w.submit(job(3).key("order", OnConflict::Reject)).await, id(3));
}

/// L16: an archived job is gone from every view and every count, and its queue stays known.
pub async fn an_archived_job_is_out_of_sight(w: Fixture) {
    let taken = w.running(job(1).with(|new| new.spec.tags = vec!["red".into()])).await;
    w.finish(&taken, ends_by(&taken, Cause::Permanent)).await;
    canceled(&w, 2).await;
    succeeded(&w, 3).await;
    w.submit(job(4).with(|new| new.spec.tags = vec!["red".into()])).await;
    w.told.take();
    w.told.hints();
    assert_eq!(archive(&w, at_once(), 10).await, 3);
    assert!(w.told.take().is_empty() && w.told.hints() == 0, "no event and no hint");
    assert_eq!(w.listed(JobFilter::default()).await, ids(&[4]));
    assert_eq!(w.listed(JobFilter { tag: Some("red".into()), ..JobFilter::default() }).await, ids(&[4]));
    assert!(w.runs(id(1)).await.is_empty());
    assert!(w.store.surroundings(id(1)).await.expect("surroundings").is_none());
    let queue = w.queue("default").await;
    assert_eq!((queue.pending, queue.succeeded, queue.failed, queue.canceled), (1, 0, 0, 0));
    let incident = w.store.incidents(10).await.expect("incidents").remove(0);
    assert_eq!((incident.failures, incident.dead, incident.sample_job), (1, 1, id(1)));
    w.cancel(id(4)).await;
    archive(&w, at_once(), 10).await;
    w.pass(LEASE);
    let queue = w.queue("default").await;
    assert_eq!((queue.pending, queue.canceled, queue.workers), (0, 0, 0), "it ever had a job");
}

/// L16, F2: the document holds the job and its whole ledger, as they were shown while it was hot.
pub async fn the_document_holds_the_ledger(w: Fixture) {
    let taken = w.running(job(1).once("a key")).await;
    w.finish(&taken, ends_by(&taken, Cause::Error)).await;
    w.pass(secs(1));
    let taken = w.take(worker_id(1)).await;
    w.finish(&taken, success(&taken)).await;
    let detail = serde_json::to_value(w.detail(id(1)).await).expect("plain data");
    let mut runs = w.runs(id(1)).await;
    runs.reverse();
    let runs = serde_json::to_value(runs).expect("plain data");
    archive(&w, at_once(), 10).await;
    let w = w.reopen().await;
    let found = archived(&w, id(1)).await.expect("archived");
    let document: Value = serde_json::from_str(&found.document).expect("a document is JSON");
    assert_eq!((&document["job"], &document["attempts"]), (&detail, &runs));
    let numbers: Vec<_> = runs.as_array().into_iter().flatten().map(|run| run["number"].as_u64()).collect();
    assert_eq!(numbers, [Some(1), Some(2)], "oldest first");
    assert_eq!(document["job"]["status"], "succeeded");
}

/// L16: a ledger that is longer than any page is kept whole.
pub async fn a_long_ledger_is_kept_whole(w: Fixture) {
    const RUNS: u64 = 1_050;
    let mut taken = w.running(job(1)).await;
    for _ in 1..RUNS {
        let snoozed = ends_by(&taken, Cause::Interrupted);
        assert_eq!(w.finish(&taken, snoozed).await, State::Pending);
        w.pass(secs(3_600));
        taken = {
            let worker = w.worker(1).await;
            w.take(worker).await
        };
    }
    w.finish(&taken, success(&taken)).await;
    archive(&w, at_once(), 10).await;
    let found = archived(&w, id(1)).await.expect("archived");
    let document: Value = serde_json::from_str(&found.document).expect("a document is JSON");
    let runs = document["attempts"].as_array().expect("a list");
    let numbers: Vec<_> = runs.iter().filter_map(|run| run["number"].as_u64()).collect();
    assert_eq!(numbers, (1..=RUNS).collect::<Vec<_>>());
}

/// L16: archiving again finds nothing to do, and leaves what was archived as it is.
pub async fn archiving_again_changes_nothing(w: Fixture) {
    canceled(&w, 1).await;
    assert_eq!(archive(&w, at_once(), 10).await, 1);
    let first = archived(&w, id(1)).await;
    w.pass(secs(10));
    assert_eq!(archive(&w, at_once(), 10).await, 0);
    assert_eq!(archived(&w, id(1)).await, first);
    let asked = w.store.archived(ids(&[2, 1, 1])).await.expect("archived");
    assert_eq!(asked, [None, first.clone(), first], "one answer per id, in order");
}

/// L16: an id is remembered while its job is hot; after that it stands for a new job, with a life of its own.
pub async fn an_archived_id_may_come_again(w: Fixture) {
    succeeded(&w, 1).await;
    archive(&w, at_once(), 10).await;
    w.pass(secs(10));
    w.submit(job(1).kind("other", 1)).await;
    assert_eq!(w.state(id(1)).await, State::Waiting);
    assert!(w.runs(id(1)).await.is_empty(), "nothing is left of the earlier one");
    assert!(w.offer(job(1)).await.expect("deduplicated").deduplicated);
    w.cancel(id(1)).await;
    assert_eq!(archive(&w, at_once(), 10).await, 1);
    let found = archived(&w, id(1)).await.expect("archived");
    assert_eq!((found.state, found.archived_at), (State::Canceled, w.now()), "the later one is kept");
    let page = w.store.list(JobFilter::default(), PageRequest::first(10)).await.expect("list");
    assert!(page.items.is_empty());
}
