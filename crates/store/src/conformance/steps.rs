//! Cases about durable steps and effects: what is stored of them, by whom, and until when (W7, W8).

use backstop_core::Lease;
use backstop_core::failure::Cause;
use backstop_core::job::{NoteError, Operation, Retention, State, StepFact, StepState, StepWrite};

use super::build::{ends_by, id, job, other_fence, success};
use super::fixture::{Fixture, LEASE, secs};
use crate::{DocumentRange, Drawer, Duty, Note};

fn done(index: u32, name: &str, result: &str) -> StepWrite {
    StepWrite { index: Some(index), name: name.to_owned(), fact: StepFact::Done(result.into()) }
}

fn begun(index: u32, name: &str, key: &str) -> StepWrite {
    StepWrite { fact: StepFact::Begun(key.to_owned()), ..done(index, name, "") }
}

async fn write(w: &Fixture, lease: Lease, step: StepWrite) -> Result<(), NoteError> {
    w.store.annotate(vec![Note::step(lease, step)]).await.expect("annotate").remove(0)
}

/// The results that are stored of all jobs, with their keys.
async fn results(w: &Fixture) -> Vec<(String, String)> {
    let page = w.store.documents(DocumentRange::first(Drawer::Steps, 1_000)).await.expect("documents");
    page.items.into_iter().map(|document| (document.key, document.body.to_string())).collect()
}

async fn marks(w: &Fixture, number: u64) -> Vec<(u32, String, StepState)> {
    let steps = w.record(id(number)).await.steps_in_order();
    steps.into_iter().map(|step| (step.index, step.name, step.state)).collect()
}

/// W7: a success is stored under the lease of its run, with its result, and the next run has both.
pub async fn a_step_is_stored_once_and_read_by_the_next_run(w: Fixture) {
    let taken = w.running(job(1).policy(|policy| policy.max_retries = 3)).await;
    assert!(taken.record.steps().is_empty());
    write(&w, taken.lease, done(0, "fetch", "{\"rows\":3}")).await.expect("held");
    write(&w, taken.lease, done(1, "render", "\"é\"")).await.expect("held");
    w.finish(&taken, ends_by(&taken, Cause::Error)).await;
    let again = w.take(taken.lease.worker).await;
    let names: Vec<_> = again.record.steps().iter().map(|step| (&*step.name, step.run, step.state)).collect();
    assert_eq!(names, [("fetch", 1, StepState::Done), ("render", 1, StepState::Done)]);
    let stored = results(&w).await;
    let expected = [(0, "{\"rows\":3}"), (1, "\"é\"")];
    assert_eq!(stored, expected.map(|(at, text)| (Drawer::step(id(1), at), text.to_owned())));
}

/// W7, L5: a lease that is not the current hold stores nothing of a step.
pub async fn a_stale_lease_stores_no_step(w: Fixture) {
    let taken = w.running(job(1).policy(|policy| policy.max_retries = 3)).await;
    for lease in [other_fence(taken.lease, 1), other_fence(taken.lease, -1)] {
        write(&w, lease, done(0, "fetch", "1")).await.expect_err("stale");
    }
    w.finish(&taken, ends_by(&taken, Cause::Error)).await;
    let again = w.take(taken.lease.worker).await;
    write(&w, taken.lease, done(0, "fetch", "1")).await.expect_err("an earlier hold");
    write(&w, taken.lease, begun(0, "charge", "k")).await.expect_err("an earlier hold");
    assert_eq!((marks(&w, 1).await, results(&w).await), (vec![], vec![]));
    w.pass(LEASE);
    write(&w, again.lease, done(0, "fetch", "1")).await.expect_err("its worker let the lease run out");
    assert_eq!((marks(&w, 1).await, results(&w).await), (vec![], vec![]));
}

/// W7: a success that is written again is answered and stays as it was, so a lost answer can be asked for again.
pub async fn a_stored_success_is_not_written_again(w: Fixture) {
    let taken = w.running(job(1)).await;
    write(&w, taken.lease, done(0, "fetch", "1")).await.expect("held");
    let before = w.detail(id(1)).await;
    write(&w, taken.lease, done(0, "fetch", "1")).await.expect("held");
    write(&w, taken.lease, done(0, "fetch", "2")).await.expect("held");
    assert_eq!(w.detail(id(1)).await, before);
    assert_eq!(results(&w).await, [(Drawer::step(id(1), 0), "1".to_owned())]);
}

/// W7, E7: what comes for a place in which something else is stored changes nothing, and spoils nothing for others.
pub async fn a_step_in_the_place_of_another_is_refused(w: Fixture) {
    let taken = w.running(job(1)).await;
    let writes = [done(0, "fetch", "1"), done(0, "scale", "2"), begun(0, "pay", "k"), done(1, "render", "3")];
    let notes = Vec::from(writes.map(|write| Note::step(taken.lease, write)));
    let answers = w.store.annotate(notes).await.expect("annotate");
    let refused: Vec<_> =
        answers.iter().map(|answer| matches!(answer, Err(NoteError::StepsChanged(_)))).collect();
    assert_eq!(refused, [false, true, true, false]);
    let names: Vec<_> = marks(&w, 1).await.into_iter().map(|(index, name, _)| (index, name)).collect();
    assert_eq!(names, [(0, "fetch".to_owned()), (1, "render".to_owned())]);
    let stored: Vec<_> = results(&w).await.into_iter().map(|(_, text)| text).collect();
    assert_eq!(stored, ["1", "3"]);
}

/// W8: an effect is stored before it is called, and how it ended after that; in between it is unknown.
pub async fn an_effect_is_unknown_until_its_outcome_is_stored(w: Fixture) {
    let taken = w.running(job(1).policy(|policy| policy.max_crashes = 3)).await;
    write(&w, taken.lease, begun(0, "charge", "order-7")).await.expect("held");
    assert_eq!(marks(&w, 1).await, [(0, "charge".to_owned(), StepState::Unknown)]);
    assert_eq!(results(&w).await, vec![], "there is no outcome");
    w.pass(LEASE);
    w.rescue(taken.lease, ends_by(&taken, Cause::Crash)).await.expect("its worker is silent");
    let kept = w.record(id(1)).await;
    let effect = &kept.steps()[0];
    assert_eq!((effect.key.as_deref(), effect.run, effect.state), (Some("order-7"), 1, StepState::Unknown));
}

/// W7: a job that has succeeded still tells its steps.
pub async fn steps_of_a_success_are_told(w: Fixture) {
    let taken = w.running(job(1)).await;
    write(&w, taken.lease, done(0, "fetch", "1")).await.expect("held");
    w.finish(&taken, success(&taken)).await;
    assert_eq!(w.state(id(1)).await, State::Succeeded);
    assert_eq!(marks(&w, 1).await, [(0, "fetch".to_owned(), StepState::Done)]);
}

/// W7, W8, L9: a job that is driven again goes on from its steps, and an unknown effect was looked at.
pub async fn a_redrive_keeps_the_steps(w: Fixture) {
    let taken = w.running(job(1)).await;
    write(&w, taken.lease, done(0, "fetch", "1")).await.expect("held");
    write(&w, taken.lease, begun(1, "charge", "k")).await.expect("held");
    w.finish(&taken, ends_by(&taken, Cause::Permanent)).await;
    w.operate(id(1), Operation::Retry).await.expect("dead");
    let again = w.take(taken.lease.worker).await;
    let states: Vec<_> = again.record.steps().iter().map(|step| step.state).collect();
    assert_eq!(states, [StepState::Done, StepState::Confirmed]);
    assert_eq!(results(&w).await.len(), 1);
    write(&w, again.lease, done(1, "charge", "2")).await.expect("held");
    assert_eq!(results(&w).await.len(), 2);
}

/// W7, L16, D5: results of steps leave with their job: when it is archived, and when it is purged.
pub async fn steps_go_with_their_job(w: Fixture) {
    for number in [1, 2, 3] {
        let taken = w.running(job(number)).await;
        write(&w, taken.lease, done(0, "fetch", "1")).await.expect("held");
        write(&w, taken.lease, done(1, "render", "2")).await.expect("held");
        w.finish(&taken, if number == 2 { ends_by(&taken, Cause::Permanent) } else { success(&taken) }).await;
        w.pass(secs(1));
    }
    assert_eq!(results(&w).await.len(), 6);
    w.store.purge(vec![id(2)], None).await.expect("purge").remove(0).expect("it has ended");
    let left: Vec<_> = results(&w).await.into_iter().map(|(key, _)| key).collect();
    let of = |number| [0, 1].map(|at| Drawer::step(id(number), at));
    assert_eq!(left, [of(1), of(3)].concat());
    let term = w.leader(Duty::Archive).await;
    let retention = Retention::default().succeeded(Some(secs(0)));
    assert_eq!(w.store.archive(term, retention, 100).await.expect("archive"), 2);
    assert_eq!(results(&w).await, vec![]);
    let kept = w.store.archived(vec![id(1)]).await.expect("archived").remove(0).expect("it is there");
    let document: serde_json::Value = serde_json::from_str(&kept.document).expect("JSON");
    assert_eq!(document["job"]["steps"][1]["name"], "render", "{document}");
}

/// W7: one call writes the steps of many runs; a stale one spoils nothing for the others.
pub async fn steps_of_many_runs_are_stored_together(w: Fixture) {
    let worker = w.worker(1).await;
    w.offer_all(false, (1..=3).map(job)).await;
    let taken = w.claim(worker, 3).await;
    let notes = vec![
        Note::step(taken[0].lease, done(0, "fetch", "1")),
        Note::step(other_fence(taken[1].lease, 1), done(0, "fetch", "2")),
        Note::step(taken[2].lease, done(0, "fetch", "3")),
        Note::step(taken[0].lease, done(1, "render", "4")),
    ];
    let answers = w.store.annotate(notes).await.expect("annotate");
    assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true, true]);
    let bodies: Vec<_> = results(&w).await.into_iter().map(|(_, body)| body).collect();
    assert_eq!(bodies, ["1", "4", "3"]);
}

/// W7, L15: what a run has stored is there after its worker died and the store was closed and opened.
pub async fn steps_survive_a_crash_and_a_reopening(w: Fixture) {
    let taken = w.running(job(1).policy(|policy| policy.max_crashes = 3)).await;
    write(&w, taken.lease, done(0, "fetch", "1")).await.expect("held");
    let w = w.reopen().await;
    w.pass(LEASE);
    w.rescue(taken.lease, ends_by(&taken, Cause::Crash)).await.expect("its worker is silent");
    w.pass(secs(60));
    let held = w.prefetch(w.worker(2).await).await;
    assert_eq!(held.record.steps().iter().map(|step| &*step.name).collect::<Vec<_>>(), ["fetch"]);
    assert_eq!(results(&w).await, [(Drawer::step(id(1), 0), "1".to_owned())]);
}
