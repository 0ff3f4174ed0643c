//! Cases about what leaves for good, what is counted before that, and what stays behind (D5).

use backstop_core::JobId;
use backstop_core::failure::{Cause, TerminalReason};
use backstop_core::job::{OnConflict, Operation, Retention, State};

use super::build::{ends_by, fingerprint, id, job, success, worker_id};
use super::fixture::{Fixture, LEASE, secs};
use crate::{Duty, Error, JobFilter, PageRequest, Survey, Term};

fn ids(numbers: &[u64]) -> Vec<JobId> {
    numbers.iter().map(|number| id(*number)).collect()
}

async fn died(w: &Fixture, number: u64) {
    let taken = w.running(job(number)).await;
    w.finish(&taken, ends_by(&taken, Cause::Permanent)).await;
}

async fn archive_all(w: &Fixture) -> usize {
    let at_once = Some(secs(0));
    let retention = Retention::default().succeeded(at_once).canceled(at_once).failed(at_once);
    let term = w.leader(Duty::Archive).await;
    w.store.archive(term, retention, 100).await.expect("archive")
}

async fn purge(w: &Fixture, numbers: &[u64]) -> Vec<Result<State, &'static str>> {
    let answers = w.store.purge(ids(numbers), None).await.expect("purge");
    answers.into_iter().map(|answer| answer.map_err(|refusal| refusal.code())).collect()
}

async fn in_archive(w: &Fixture, number: u64) -> bool {
    w.store.archived(vec![id(number)]).await.expect("archived")[0].is_some()
}

/// D5: an ended job is removed wherever it is; one that has not ended, and an unknown one, are refused.
pub async fn only_what_has_ended_is_purged(w: Fixture) {
    died(&w, 1).await;
    assert_eq!(archive_all(&w).await, 1);
    died(&w, 2).await;
    let taken = w.running(job(3)).await;
    w.finish(&taken, success(&taken)).await;
    w.submit(job(4)).await;
    w.cancel(id(4)).await;
    w.submit(job(5)).await;
    w.submit(job(6)).await;
    w.operate(id(6), Operation::Pause).await.expect("pending");
    died_while_paused(&w, 7).await;
    let answers = purge(&w, &[1, 2, 3, 4, 5, 6, 7, 8, 2]).await;
    let expected = [
        Ok(State::Failed),
        Ok(State::Failed),
        Ok(State::Succeeded),
        Ok(State::Canceled),
        Err("wrong_state"),
        Err("wrong_state"),
        Err("wrong_state"),
        Err("no_such_job"),
        Err("no_such_job"),
    ];
    assert_eq!(answers, expected);
    assert_eq!(w.listed(JobFilter::default()).await, ids(&[7, 6, 5]));
    assert!(!in_archive(&w, 1).await);
}

async fn died_while_paused(w: &Fixture, number: u64) {
    w.operate(id(5), Operation::Pause).await.expect("pending");
    died(w, number).await;
    w.operate(id(number), Operation::Pause).await.expect("failed");
    w.operate(id(5), Operation::Resume).await.expect("paused");
}

/// D5: who asks for dead letters only removes nothing that is none by now, hot or archived.
pub async fn a_state_can_be_asked_for(w: Fixture) {
    died(&w, 1).await;
    died(&w, 2).await;
    w.operate(id(2), Operation::Retry).await.expect("failed");
    let worker = w.worker(1).await;
    let taken = w.take(worker).await;
    w.finish(&taken, success(&taken)).await;
    let purge = async || {
        let answers = w.store.purge(ids(&[1, 2]), Some(State::Failed)).await.expect("purge");
        answers.into_iter().map(|answer| answer.map_err(|refusal| refusal.code())).collect::<Vec<_>>()
    };
    assert_eq!(purge().await, [Ok(State::Failed), Err("wrong_state")]);
    assert_eq!(archive_all(&w).await, 1);
    assert_eq!(purge().await, [Err("no_such_job"), Err("wrong_state")]);
    assert!(in_archive(&w, 2).await);
}

/// D5: nothing of a purged job is left: no ledger, no tag, no count, no place in a list; and nobody is told.
pub async fn nothing_is_left_of_a_purged_job(w: Fixture) {
    let tagged = |number| job(number).with(|new| new.spec.tags = vec!["red".into()]);
    let taken = w.running(tagged(1).key("order", OnConflict::Reject)).await;
    w.finish(&taken, ends_by(&taken, Cause::Permanent)).await;
    w.told.take();
    assert_eq!(purge(&w, &[1]).await, [Ok(State::Failed)]);
    assert!(w.told.take().is_empty());
    assert!(!w.exists(id(1)).await && !in_archive(&w, 1).await);
    assert!(w.runs(id(1)).await.is_empty());
    let tag = JobFilter { tag: Some("red".into()), ..JobFilter::default() };
    assert!(w.listed(tag).await.is_empty());
    let queue = w.queue("default").await;
    assert_eq!((queue.failed, queue.pending), (0, 0));
    let incident = w.store.incidents(1).await.expect("incidents").remove(0);
    assert_eq!((incident.failures, incident.dead, incident.open), (1, 1, 0), "sums stay");
    w.submit(tagged(1).key("order", OnConflict::Reject)).await;
    assert_eq!(w.record(id(1)).await.runs, 0, "the id may come again, with a life of its own");
}

/// L10, D5: the idempotency key of a purged job answers for ever with its id and how it had ended.
pub async fn an_idempotency_key_outlives_a_purge(w: Fixture) {
    for (number, key) in [(1, "a"), (2, "b")] {
        w.submit(job(number).once(key)).await;
    }
    let worker = w.worker(1).await;
    let taken = w.take(worker).await;
    w.finish(&taken, success(&taken)).await;
    w.cancel(id(2)).await;
    archive_all(&w).await;
    purge(&w, &[2]).await;
    let term = w.leader(Duty::Prune).await;
    assert_eq!(w.store.prune(term, secs(0), 10).await.expect("prune"), 1);
    assert!(!in_archive(&w, 1).await && !in_archive(&w, 2).await);
    let w = w.reopen().await;
    for (number, key, state) in [(1, "a", State::Succeeded), (2, "b", State::Canceled)] {
        for offered in [number, 10 + number] {
            let answer = w.offer(job(offered).once(key)).await.expect("deduplicated");
            assert_eq!((answer.id, answer.state, answer.deduplicated), (id(number), state, true));
            assert!(!w.exists(id(offered)).await, "nothing was stored");
        }
    }
}

/// D5, L16: archived jobs go by the moment of their archival, in bounded steps; one that never ran stays for ever.
pub async fn pruning_takes_the_oldest_and_leaves_what_never_ran(w: Fixture) {
    for number in [1, 2] {
        died(&w, number).await;
        archive_all(&w).await;
        w.pass(secs(10));
        w.worker(1).await;
    }
    w.submit(job(3)).await;
    w.cancel(id(3)).await;
    archive_all(&w).await;
    w.pass(secs(90));
    let term = w.leader(Duty::Prune).await;
    assert_eq!(w.store.prunable(secs(105), 10).await.expect("prunable"), 1);
    assert_eq!(w.store.prunable(secs(100), 1).await.expect("prunable"), 1, "counted up to a bound");
    assert_eq!(w.store.prunable(secs(100), 10).await.expect("prunable"), 2);
    assert_eq!(w.store.prune(term, secs(111), 10).await.expect("prune"), 0);
    assert_eq!(w.store.prune(term, secs(0), 1).await.expect("prune"), 1);
    assert!(!in_archive(&w, 1).await && in_archive(&w, 2).await);
    assert_eq!(w.store.prune(term, secs(0), 10).await.expect("prune"), 1);
    assert!(in_archive(&w, 3).await, "it never ran");
    assert_eq!(w.store.prunable(secs(0), 10).await.expect("prunable"), 0);
    assert_eq!(purge(&w, &[3]).await, [Ok(State::Canceled)], "a person may");
}

/// D5, L17: a leader that is deposed, late or of another duty removes nothing.
pub async fn a_deposed_leader_prunes_nothing(w: Fixture) {
    died(&w, 1).await;
    archive_all(&w).await;
    let old = w.lead(1, Duty::Prune).await.expect("free");
    w.pass(secs(60));
    let current = w.lead(2, Duty::Prune).await.expect("run out");
    let elsewhere = w.lead(2, Duty::Archive).await.expect("free");
    let wrong = [old, Term { node: worker_id(1), ..current }, Term { number: current.number, ..elsewhere }];
    for term in wrong {
        let refused = w.store.prune(term, secs(0), 10).await.expect_err("deposed");
        assert!(matches!(refused, Error::Deposed { duty } if duty == term.duty), "{refused}");
    }
    assert!(in_archive(&w, 1).await);
    assert_eq!(w.store.prune(current, secs(0), 10).await.expect("its term runs"), 1);
}

/// L16: the archive is listed newest first, in pages without gaps.
pub async fn the_archive_is_listed_in_pages(w: Fixture) {
    for number in 1..=5 {
        w.submit(job(number)).await;
        w.cancel(id(number)).await;
    }
    archive_all(&w).await;
    let mut request = PageRequest::first(2);
    let mut seen = Vec::new();
    loop {
        let page = w.store.archive_page(request).await.expect("archive_page");
        for (job, archived) in &page.items {
            let found = w.store.archived(vec![*job]).await.expect("archived").remove(0);
            assert_eq!(found.as_ref(), Some(archived));
            assert!(!archived.ran);
            seen.push(*job);
        }
        request.after = page.next;
        if request.after.is_none() {
            break;
        }
    }
    assert_eq!(seen, ids(&[5, 4, 3, 2, 1]));
    let refused = w.store.archive_page(PageRequest::first(100_000)).await.expect_err("too large");
    assert!(matches!(refused, Error::TooMany { .. }));
}

async fn survey(w: &Fixture, filter: JobFilter, most: usize) -> Survey {
    w.store.survey(filter, most).await.expect("survey")
}

/// D4, D5: a survey counts what a filter finds, by what the jobs have in common, up to a bound.
pub async fn a_survey_counts_by_group(w: Fixture) {
    for number in 1..=3 {
        died(&w, number).await;
    }
    let taken = w.running(job(4)).await;
    w.finish(&taken, ends_by(&taken, Cause::Invalid)).await;
    w.submit(job(5).queue("other").kind("other", 1)).await;
    let dead = || JobFilter { state: Some(State::Failed), ..JobFilter::default() };
    let found = survey(&w, dead(), 100).await;
    assert!(found.complete);
    let groups: Vec<_> =
        found.groups.iter().map(|group| (group.jobs, group.reason, group.fingerprint.clone())).collect();
    let print = |cause: Cause| Some(fingerprint(&format!("it ended by {cause}")).to_string());
    let expected = [
        (3, Some(TerminalReason::NonRetryable), print(Cause::Permanent)),
        (1, Some(TerminalReason::Invalid), print(Cause::Invalid)),
    ];
    assert_eq!(groups, expected);
    assert!(found.groups.iter().all(|group| group.queue == "default" && group.kind == "work"));
    let all = survey(&w, JobFilter::default(), 100).await;
    assert_eq!((all.jobs(), all.groups.len()), (5, 3));
    let bounded = survey(&w, dead(), 2).await;
    assert_eq!((bounded.jobs(), bounded.complete), (2, false), "the newest two");
    assert_eq!(bounded.groups.len(), 2);
    assert!(survey(&w, dead(), 4).await.complete, "exactly as many");
    let filter = JobFilter { reason: Some(TerminalReason::Invalid), ..dead() };
    assert_eq!(survey(&w, filter, 100).await.jobs(), 1);
    let none = JobFilter { queue: Some("nowhere".into()), ..dead() };
    assert_eq!(survey(&w, none, 100).await, Survey { groups: Vec::new(), complete: true });
}

/// D4: lists and surveys can be bounded by when jobs ended.
pub async fn endings_bound_a_list(w: Fixture) {
    let mut ends = Vec::new();
    for number in 1..=3 {
        died(&w, number).await;
        ends.push(w.now());
        w.pass(LEASE / 3);
    }
    w.submit(job(4)).await;
    let filter = |after: Option<usize>, before: Option<usize>| JobFilter {
        finished_after: after.map(|at| ends[at]),
        finished_before: before.map(|at| ends[at]),
        ..JobFilter::default()
    };
    let table = [
        (filter(Some(1), None), ids(&[3, 2])),
        (filter(None, Some(1)), ids(&[1])),
        (filter(Some(0), Some(2)), ids(&[2, 1])),
    ];
    for (filter, expected) in table {
        assert_eq!(w.listed(filter.clone()).await, expected, "{filter:?}");
        let counted = survey(&w, filter.clone(), 100).await.jobs();
        assert_eq!(usize::try_from(counted).ok(), Some(expected.len()), "{filter:?}");
    }
}

/// F20: a paused queue says who or what paused it, until it is resumed.
pub async fn a_pause_keeps_its_note(w: Fixture) {
    w.submit(job(1)).await;
    assert!(w.store.pause_queue("default", true, Some("rule `r1`")).await.expect("pause"));
    assert!(!w.store.pause_queue("default", true, Some("somebody else")).await.expect("pause"));
    let w = w.reopen().await;
    let note = async || {
        let (_, around) = w.store.surroundings(id(1)).await.expect("surroundings").expect("it is there");
        assert_eq!(w.queue("default").await.pause_note, around.pause_note);
        (around.queue_paused, around.pause_note)
    };
    assert_eq!(note().await, (true, Some("rule `r1`".into())));
    assert!(w.store.pause_queue("default", false, None).await.expect("resume"));
    assert_eq!(note().await, (false, None));
    assert!(w.store.pause_queue("default", true, None).await.expect("pause"));
    assert_eq!(note().await, (true, None));
}
