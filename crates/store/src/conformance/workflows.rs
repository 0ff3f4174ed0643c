//! Cases about jobs of workflows and batches: what is noted of their ends, and what is done about them.

use backstop_core::failure::Cause;
use backstop_core::job::{NewJob, OnConflict, Operation, State};
use backstop_core::workflow::{CancelCause, EndNote, NodeEnd, PartOf};
use backstop_core::{JobId, Refusal, Timestamp, WorkflowId};

use super::build::{JobDraft, ends_by, id, job, success};
use super::fixture::{Fixture, numbers, secs};
use crate::{Amend, Amended, DocumentRange, Drawer, Duty, Edit, Expect, Finish};

const FLOW: WorkflowId = WorkflowId::from_u128(7);

/// A job of a batch.
fn part(number: u64) -> JobDraft {
    job(number).with(|new| new.spec.provenance_mut().part_of = Some(part_of(number, false)))
}

/// A step that follows others.
fn step(number: u64) -> JobDraft {
    job(number).with(|new| new.spec.provenance_mut().part_of = Some(part_of(number, true)))
}

fn part_of(number: u64, follows: bool) -> PartOf {
    let number = u32::try_from(number).unwrap_or(0);
    PartOf { id: FLOW, node: Some("step".into()), number, follows, renewed: false, payload_from: None }
}

/// The moment that stands in the key of a note.
fn moment_of(key: &str) -> Timestamp {
    let micros = key.split('/').nth(1).and_then(|digits| digits.parse().ok());
    Timestamp::from_micros(micros.expect("a moment between the workflow and the job"))
}

/// What is noted of ends: the job, its number, how it ended, and whether it had ended before.
async fn noted(w: &Fixture) -> Vec<(JobId, u32, NodeEnd, bool)> {
    let found = w.store.documents(DocumentRange::first(Drawer::WorkflowEnds, 100)).await.expect("documents");
    let mut notes = Vec::new();
    for item in &found.items {
        let read = EndNote::read(&item.body).expect("notes");
        let written =
            EndNote::documents(&read).into_iter().map(|one| (one.key(moment_of(&item.key)), one.body));
        assert_eq!(written.collect::<Vec<_>>(), [(item.key.clone(), item.body.to_string())]);
        assert!(read.iter().all(|note| note.mark.id == FLOW));
        notes.extend(read);
    }
    notes.into_iter().map(|note| (note.job, note.mark.number, note.end, note.again)).collect()
}

async fn operate(w: &Fixture, operations: Vec<(JobId, Operation)>) -> Vec<Result<bool, Refusal>> {
    match w.store.amend(Amend { operations, ..Amend::default() }).await.expect("amend") {
        Amended::Done { operated, .. } => {
            operated.into_iter().map(|answer| answer.map(|operated| operated.changed)).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn jobs(drafts: impl IntoIterator<Item = JobDraft>) -> Vec<NewJob> {
    drafts.into_iter().map(|JobDraft(new)| new).collect()
}

fn document(expect: Expect) -> Edit {
    Edit { drawer: Drawer::Workflows, key: "flow".into(), expect, body: Some("so far".into()) }
}

/// W1, W3, F12: the end of a part is noted in the transaction that ends it, whoever ends it; that of others is not.
pub async fn ends_of_parts_are_noted(w: Fixture) {
    for number in 1..=5 {
        w.submit(part(number)).await;
    }
    w.submit(job(6)).await;
    w.submit(part(7).expires(w.now().after(secs(10)))).await;
    let worker = w.worker(1).await;
    let taken = w.claim(worker, 6).await;
    assert_eq!(numbers(&taken), [1, 2, 3, 4, 5, 6]);
    w.finish(&taken[0], success(&taken[0])).await;
    assert_eq!(noted(&w).await, [(id(1), 1, NodeEnd::Succeeded, false)]);
    w.pass(secs(1));
    w.finish(&taken[1], ends_by(&taken[1], Cause::Permanent)).await;
    w.pass(secs(1));
    w.finish(&taken[2], ends_by(&taken[2], Cause::Error)).await;
    w.cancel(id(4)).await;
    w.finish(&taken[5], success(&taken[5])).await;
    w.pass(secs(1_000));
    let lost = &taken[4];
    w.rescue(lost.lease, ends_by(lost, Cause::Permanent)).await.expect("its worker is gone");
    let term = w.leader(Duty::Expire).await;
    w.expire(term, 10).await.expect("its term runs");
    let expected = [
        (id(1), 1, NodeEnd::Succeeded, false),
        (id(2), 2, NodeEnd::Failed, false),
        (id(4), 4, NodeEnd::Canceled, false),
        (id(5), 5, NodeEnd::Failed, false),
        (id(7), 7, NodeEnd::Failed, false),
    ];
    assert_eq!(noted(&w).await, expected, "a retry is not an end, and the others are not parts");
    let w = w.reopen().await;
    assert_eq!(noted(&w).await, expected);
}

/// W3: ends of one batch that are committed together are one document.
pub async fn ends_together_are_one_document(w: Fixture) {
    for number in 1..=20 {
        w.submit(part(number)).await;
    }
    let worker = w.worker(1).await;
    let taken = w.claim(worker, 20).await;
    let ends = taken.iter().map(|taken| Finish { lease: taken.lease, ending: success(taken) }).collect();
    let ended = w.store.finish(ends).await.expect("its worker is there");
    assert!(ended.iter().all(Result::is_ok));
    let found = w.store.documents(DocumentRange::first(Drawer::WorkflowEnds, 100)).await.expect("documents");
    assert_eq!((found.items.len(), noted(&w).await.len()), (1, 20));
}

/// W1, W3: a part that ends well is noted whatever it has gone through before, under the moment of its end, and goes on
/// to say what it is a part of.
pub async fn parts_with_a_past_are_noted(w: Fixture) {
    w.submit(step(1)).await;
    for number in 2..=4 {
        w.submit(part(number)).await;
    }
    w.operate(id(2), Operation::Pause).await.expect("it is pending");
    let w = w.reopen().await;
    assert_eq!(operate(&w, vec![(id(1), Operation::Release)]).await, [Ok(true)]);
    w.operate(id(2), Operation::Resume).await.expect("paused");
    let worker = w.worker(1).await;
    let taken = w.claim(worker, 4).await;
    assert_eq!(numbers(&taken), [1, 2, 3, 4]);
    assert_eq!(w.finish(&taken[2], ends_by(&taken[2], Cause::Error)).await, State::Pending);
    let again = w.take(worker).await;
    w.pass(secs(1));
    let ends = [0, 1, 3].map(|at| Finish { lease: taken[at].lease, ending: success(&taken[at]) });
    let ended = w.store.finish(ends.into()).await.expect("its worker is there");
    assert_eq!(ended, [Ok(State::Succeeded); 3]);
    assert_eq!(w.finish(&again, success(&again)).await, State::Succeeded);
    let expected = [1, 2, 4, 3]
        .map(|number| (id(number), u32::try_from(number).expect("small"), NodeEnd::Succeeded, false));
    assert_eq!(noted(&w).await, expected);
    let w = w.reopen().await;
    assert_eq!(noted(&w).await, expected);
    let found = w.store.documents(DocumentRange::first(Drawer::WorkflowEnds, 100)).await.expect("documents");
    assert!(found.items.iter().all(|item| moment_of(&item.key) == w.now()), "{found:?}");
    for number in 1..=4 {
        let record = w.record(id(number)).await;
        assert_eq!((record.state, record.finished_at), (State::Succeeded, Some(w.now())), "{number}");
        let mark = record.marks.and_then(|marks| marks.workflow);
        assert_eq!(mark, Some(part_of(number, false).mark()), "{number}");
    }
    let queue = w.queue("default").await;
    assert_eq!((queue.pending, queue.running, queue.waiting, queue.succeeded), (0, 0, 0, 4));
}

/// W3: ends leave their notes also when another process has changed the claim that this one remembers.
pub async fn ends_of_a_changed_claim_are_noted(w: Fixture) {
    for number in 1..=3 {
        w.submit(part(number)).await;
    }
    let worker = w.worker(1).await;
    let taken = w.claim(worker, 3).await;
    assert_eq!(numbers(&taken), [1, 2, 3]);
    let (beside, cancel) = (w.beside().await, Operation::Cancel { reason: "enough".into() });
    let canceled = beside.operate(vec![id(2)], cancel).await.expect("operate");
    assert!(canceled.iter().all(Result::is_ok), "{canceled:?}");
    w.pass(secs(1));
    let ends = taken.iter().map(|taken| Finish { lease: taken.lease, ending: success(taken) }).collect();
    let ended = w.store.finish(ends).await.expect("its worker is there");
    assert_eq!(ended.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    let expected = [
        (id(2), 2, NodeEnd::Canceled, false),
        (id(1), 1, NodeEnd::Succeeded, false),
        (id(3), 3, NodeEnd::Succeeded, false),
    ];
    assert_eq!(noted(&w).await, expected);
}

/// W4: a dead part that is driven again is noted again when it ends again, as one that had ended before; one that is
/// put aside and taken back has not ended again.
pub async fn a_part_that_ends_again_says_so(w: Fixture) {
    let taken = w.running(part(1)).await;
    w.finish(&taken, ends_by(&taken, Cause::Permanent)).await;
    w.pass(secs(1));
    w.operate(id(1), Operation::Retry).await.expect("a dead letter");
    let again = w.take(taken.lease.worker).await;
    w.finish(&again, success(&again)).await;
    let gone = w.running(part(2)).await;
    w.finish(&gone, ends_by(&gone, Cause::Permanent)).await;
    w.operate(id(2), Operation::Pause).await.expect("a dead letter");
    w.pass(secs(1));
    w.cancel(id(2)).await;
    w.pass(secs(1));
    let back = w.running(part(3)).await;
    w.finish(&back, ends_by(&back, Cause::Permanent)).await;
    w.pass(secs(1));
    w.operate(id(3), Operation::Pause).await.expect("a dead letter");
    w.operate(id(3), Operation::Resume).await.expect("paused");
    assert_eq!(w.state(id(3)).await, State::Failed);
    let expected = [
        (id(1), 1, NodeEnd::Failed, false),
        (id(1), 1, NodeEnd::Succeeded, true),
        (id(2), 2, NodeEnd::Failed, false),
        (id(2), 2, NodeEnd::Canceled, true),
        (id(3), 3, NodeEnd::Failed, false),
    ];
    assert_eq!(noted(&w).await, expected);
}

/// W1: a step that follows others waits, whatever is due, until it is released; then the time to start begins.
pub async fn a_step_waits_until_it_is_released(w: Fixture) {
    w.submit(step(1).policy(|policy| policy.max_wait = Some(secs(30)))).await;
    w.submit(step(2)).await;
    assert_eq!(w.state(id(1)).await, State::Waiting);
    w.pass(secs(100));
    let term = w.leader(Duty::Expire).await;
    assert_eq!(w.expire(term, 10).await.expect("its term runs"), 0, "what waits does not expire");
    let worker = w.worker(1).await;
    assert!(w.claim(worker, 5).await.is_empty());
    let w = w.reopen().await;
    assert!(w.claim(worker, 5).await.is_empty(), "also after a restart");
    assert_eq!(operate(&w, vec![(id(1), Operation::Release)]).await, [Ok(true)]);
    let record = w.record(id(1)).await;
    assert_eq!(
        (record.state, record.run_at, record.expires_at),
        (State::Pending, w.now(), Some(w.now().after(secs(30))))
    );
    assert_eq!(numbers(&w.claim(worker, 5).await), [1]);
    assert!(operate(&w, vec![(id(1), Operation::Release)]).await[0].is_err(), "it waits no more");
    assert!(operate(&w, vec![(id(9), Operation::Release)]).await[0].is_err(), "there is none");
    assert_eq!((w.queue("default").await.running, w.queue("default").await.waiting), (1, 1));
}

/// W4, L8: a person who holds back a step that waits keeps it back when its time comes.
pub async fn a_paused_step_is_released_into_its_pause(w: Fixture) {
    let worker = w.worker(1).await;
    w.submit(step(1)).await;
    w.operate(id(1), Operation::Pause).await.expect("it waits");
    assert_eq!(operate(&w, vec![(id(1), Operation::Release)]).await, [Ok(true)]);
    assert!(w.claim(worker, 5).await.is_empty());
    w.operate(id(1), Operation::Resume).await.expect("paused");
    assert_eq!(numbers(&w.claim(worker, 5).await), [1]);
    w.submit(step(2)).await;
    w.operate(id(2), Operation::Pause).await.expect("it waits");
    w.operate(id(2), Operation::Resume).await.expect("paused");
    assert_eq!(w.state(id(2)).await, State::Waiting, "it waits for the same as before");
}

/// W2, W4: a step that cannot run is called off with the reason, and nothing is noted: its workflow did it.
pub async fn a_step_that_cannot_run_is_called_off(w: Fixture) {
    w.submit(step(1)).await;
    w.submit(step(2)).await;
    w.submit(step(3)).await;
    let off = |number, cause| (id(number), Operation::PassBy { cause });
    let both = vec![off(1, CancelCause::NotTaken), off(2, CancelCause::DependencyFailed)];
    assert_eq!(operate(&w, both).await, [Ok(true), Ok(true)]);
    for (number, reason) in [(1, "not_taken"), (2, "dependency_failed")] {
        let record = w.record(id(number)).await;
        assert_eq!((record.state, record.cancel_reason.as_deref()), (State::Canceled, Some(reason)));
    }
    w.cancel(id(3)).await;
    assert_eq!(operate(&w, vec![off(3, CancelCause::NotTaken)]).await, [Ok(false)], "a person was quicker");
    assert_eq!(noted(&w).await, [(id(3), 3, NodeEnd::Canceled, false)]);
    assert_eq!(w.told.names(id(1)), ["enqueued", "canceled"]);
}

/// W1: jobs are stored in the transaction that changes documents and operates on others.
pub async fn jobs_are_stored_with_a_change(w: Fixture) {
    w.submit(step(1)).await;
    let operations = vec![(id(1), Operation::Release)];
    let change = Amend {
        strict: false,
        edits: vec![document(Expect::Absent)],
        operations,
        jobs: jobs([job(2), step(3)]),
        term: None,
    };
    let done = w.store.amend(change.clone()).await.expect("amend");
    assert!(matches!(done, Amended::Done { .. }), "{done:?}");
    let states = [w.state(id(1)).await, w.state(id(2)).await, w.state(id(3)).await];
    assert_eq!(states, [State::Pending, State::Pending, State::Waiting]);
    let again = w.store.amend(change).await.expect("amend");
    assert!(matches!(again, Amended::Conflict { .. }), "it rests on what was there: {again:?}");
    let keyed = |number, on_conflict| job(number).key("order", on_conflict);
    let more = [job(2), keyed(4, OnConflict::Reject), keyed(5, OnConflict::Skip)];
    let more = w.store.amend(Amend { jobs: jobs(more), ..Amend::default() }).await.expect("amend");
    let Amended::Done { submitted, .. } = more else { panic!("nothing was expected: {more:?}") };
    let answers: Vec<_> = submitted.iter().map(|answer| (answer.id, answer.deduplicated)).collect();
    // An id again is the same job, and what is skipped is answered with the holder of its key.
    assert_eq!(answers, [(id(2), true), (id(4), false), (id(4), true)]);
    assert_eq!(w.queue("default").await.pending, 3);
    assert_eq!(w.told.names(id(4)), ["enqueued"]);
}

/// W6: when one of the jobs is refused, nothing is stored, changed or told.
pub async fn a_refused_job_undoes_the_change(w: Fixture) {
    w.submit(job(1).key("order", OnConflict::Reject)).await;
    w.submit(step(2)).await;
    let refused = Amend {
        strict: false,
        edits: vec![document(Expect::Any)],
        operations: vec![(id(2), Operation::Release)],
        jobs: jobs([job(3), job(4).key("order", OnConflict::Reject), job(5)]),
        term: None,
    };
    match w.store.amend(refused).await.expect("amend") {
        Amended::Refused { index: 1, refusal: Refusal::BusinessKeyConflict { holder, .. } } => {
            assert_eq!(holder, id(1))
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(w.state(id(2)).await, State::Waiting);
    for number in 3..=5 {
        assert!(!w.exists(id(number)).await, "{number}");
        assert!(w.told.names(id(number)).is_empty(), "{number}");
    }
    let found = w.store.documents(DocumentRange::first(Drawer::Workflows, 10)).await.expect("documents");
    assert!(found.items.is_empty());
    assert_eq!(w.queue("default").await.pending, 1);
}

/// W6: documents are read by name, in the order asked for, from several drawers at once.
pub async fn documents_are_read_by_name(w: Fixture) {
    let edit = |drawer, key: &str, body: &str| Edit {
        drawer,
        key: key.to_owned(),
        expect: Expect::Any,
        body: Some(body.into()),
    };
    let edits = vec![
        edit(Drawer::Workflows, "a", "1"),
        edit(Drawer::WorkflowGraphs, "a", "2"),
        edit(Drawer::Workflows, "A", "3"),
    ];
    w.store.amend(Amend { edits, ..Amend::default() }).await.expect("amend");
    let name = |drawer, key: &str| (drawer, key.to_owned());
    let names = vec![
        name(Drawer::WorkflowGraphs, "a"),
        name(Drawer::Workflows, "b"),
        name(Drawer::Workflows, "A"),
        name(Drawer::Workflows, "a"),
        name(Drawer::Workflows, "a"),
    ];
    let found = w.store.named_documents(names).await.expect("documents");
    let found: Vec<Option<(i64, &str)>> =
        found.iter().map(|one| one.as_ref().map(|one| (one.revision, &*one.body))).collect();
    assert_eq!(found, [Some((1, "2")), None, Some((1, "3")), Some((1, "1")), Some((1, "1"))]);
    assert!(w.store.named_documents(Vec::new()).await.expect("nothing is asked").is_empty());
}
