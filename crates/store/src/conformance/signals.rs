//! Cases about jobs that wait for signals: parked, let go, timed out, and never lost (W10).

use std::sync::Arc;

use backstop_core::failure::{Cause, Decision};
use backstop_core::job::{
    Ending, Operation, SignalAnswer, SignalWait, State, StepFact, StepState, StepWrite, WaitReason,
    signal_step,
};
use backstop_core::{Fence, JobId, Refusal};
use serde_json::json;

use super::build::{id, job};
use super::fixture::{Fixture, LEASE, secs};
use crate::{Amend, Amended, ClaimedJob, DocumentRange, Drawer, Edit, Expect};

const HOUR: u64 = 60 * 60;

fn parks(w: &Fixture, taken: &ClaimedJob) -> Ending {
    let (signal, step) = ("approved".to_owned(), signal_step("approved", 1));
    let wait = SignalWait { signal, step, until: w.now().after(secs(HOUR)) };
    Ending::plain(taken.job.spec.header(), Cause::Waiting, Decision::waiting(&wait))
}

fn signal(fence: Fence, answer: &SignalAnswer) -> Operation {
    let step = StepWrite {
        index: Some(0),
        name: signal_step("approved", 1),
        fact: StepFact::Done(answer.to_text()),
    };
    let timed_out = *answer == SignalAnswer::TimedOut;
    Operation::Signal { fence, signal: "approved".to_owned(), timed_out, step }
}

fn yes() -> SignalAnswer {
    SignalAnswer::Received(json!({ "by": "é" }))
}

fn note(body: Option<&str>, expect: Expect) -> Edit {
    Edit { drawer: Drawer::Signals, key: "/k/1".to_owned(), expect, body: body.map(Arc::from) }
}

async fn send(w: &Fixture, operations: Vec<(JobId, Operation)>) -> Amended {
    let edits = vec![note(Some("sent"), Expect::Any)];
    w.store.amend(Amend { edits, operations, strict: true, ..Amend::default() }).await.expect("amend")
}

async fn answers(w: &Fixture) -> Vec<(String, String)> {
    let page = w.store.documents(DocumentRange::first(Drawer::Steps, 100)).await.expect("documents");
    page.items.into_iter().map(|document| (document.key, document.body.to_string())).collect()
}

async fn sent(w: &Fixture) -> usize {
    w.store.documents(DocumentRange::first(Drawer::Signals, 100)).await.expect("documents").items.len()
}

/// W10: a parked job holds nothing, is charged nothing, is in no claim, and goes on with what came.
pub async fn a_parked_job_goes_on_when_its_signal_comes(w: Fixture) {
    let taken = w.running(job(1)).await;
    let ending = parks(&w, &taken);
    assert_eq!(w.finish(&taken, ending.clone()).await, State::Waiting);
    assert_eq!(w.try_finish(taken.lease, ending).await, Ok(State::Waiting), "the same end again");
    let detail = w.detail(id(1)).await;
    let waiting = detail.waiting_for().expect("it waits");
    assert_eq!((waiting.reason, &*waiting.key), (WaitReason::Signal, "approved"));
    assert_eq!((detail.view.record.hold, detail.view.record.attempt), (None, 0));
    let queue = w.queue("default").await;
    assert_eq!((queue.waiting, queue.running), (1, 0));
    w.pass(secs(2 * HOUR));
    let worker = w.worker(2).await;
    assert!(w.claim(worker, 10).await.is_empty(), "no claim takes it, however late it is");
    let done = send(&w, vec![(id(1), signal(taken.lease.fence, &yes()))]).await;
    assert!(matches!(done, Amended::Done { .. }), "{done:?}");
    assert_eq!(answers(&w).await, [(Drawer::step(id(1), 0), yes().to_text().to_string())]);
    let again = w.take(worker).await;
    assert_eq!((again.record.runs, again.record.attempt), (2, 0));
    assert_eq!(again.record.steps()[0].state, StepState::Done);
}

/// W10: a signal that comes before the end of the run that waits for it is found by that end.
pub async fn a_signal_before_the_end_of_the_run_is_not_lost(w: Fixture) {
    let taken = w.running(job(1)).await;
    let done = send(&w, vec![(id(1), signal(taken.lease.fence, &yes()))]).await;
    assert!(matches!(done, Amended::Done { .. }), "{done:?}");
    assert_eq!(w.state(id(1)).await, State::Running, "its run goes on");
    let ending = parks(&w, &taken);
    assert_eq!(w.finish(&taken, ending).await, State::Pending, "and does not wait");
    let again = w.take(taken.lease.worker).await;
    assert_eq!(again.record.steps()[0].state, StepState::Done);
    assert_eq!(answers(&w).await.len(), 1);
}

/// W10: an amendment that is strict writes nothing at all when one of its jobs does not wait.
pub async fn a_signal_is_delivered_to_all_or_nothing_is_written(w: Fixture) {
    let worker = w.worker(1).await;
    w.offer_all(false, (1..=3).map(job)).await;
    let taken = w.claim(worker, 3).await;
    for one in &taken {
        let ending = parks(&w, one);
        w.finish(one, ending).await;
    }
    w.cancel(id(2)).await;
    let all = |answer: &SignalAnswer| -> Vec<(JobId, Operation)> {
        taken.iter().map(|one| (one.lease.job, signal(one.lease.fence, answer))).collect()
    };
    match send(&w, all(&yes())).await {
        Amended::Refused { index: 1, refusal: Refusal::MovedOn { job } } => assert_eq!(job, id(2)),
        other => panic!("{other:?}"),
    }
    assert_eq!((sent(&w).await, answers(&w).await), (0, vec![]));
    assert_eq!([w.state(id(1)).await, w.state(id(3)).await], [State::Waiting; 2]);
    let mut waiting = all(&yes());
    waiting.remove(1);
    assert!(matches!(send(&w, waiting).await, Amended::Done { .. }));
    assert_eq!((sent(&w).await, answers(&w).await.len()), (1, 2));
    assert_eq!([w.state(id(1)).await, w.state(id(3)).await], [State::Pending; 2]);
    // Twice is once.
    let again = send(&w, vec![(id(1), signal(taken[0].lease.fence, &SignalAnswer::TimedOut))]).await;
    assert!(matches!(again, Amended::Refused { index: 0, .. }), "{again:?}");
    assert_eq!(answers(&w).await[0].1, yes().to_text().to_string());
}

/// W10, L5: what was begun under an earlier hold is not answered under a later one.
pub async fn a_signal_for_an_earlier_hold_changes_nothing(w: Fixture) {
    let taken = w.running(job(1).policy(|policy| policy.max_crashes = 3)).await;
    w.pass(LEASE);
    let crashed = super::build::ends_by(&taken, Cause::Crash);
    w.rescue(taken.lease, crashed).await.expect("its worker is silent");
    let before = w.detail(id(1)).await;
    let refused = send(&w, vec![(id(1), signal(taken.lease.fence, &yes()))]).await;
    assert!(matches!(refused, Amended::Refused { .. }), "{refused:?}");
    assert_eq!(w.detail(id(1)).await, before);
    assert_eq!((sent(&w).await, answers(&w).await), (0, vec![]));
}

/// W10, L8: a person who pauses a waiting job keeps it back, and what came meanwhile is there when it is resumed.
pub async fn a_paused_job_keeps_what_came(w: Fixture) {
    let taken = w.running(job(1)).await;
    let ending = parks(&w, &taken);
    w.finish(&taken, ending).await;
    w.operate(id(1), Operation::Pause).await.expect("it waits");
    assert!(matches!(send(&w, vec![(id(1), signal(taken.lease.fence, &yes()))]).await, Amended::Done { .. }));
    assert_eq!(w.state(id(1)).await, State::Paused);
    w.operate(id(1), Operation::Resume).await.expect("it is paused");
    let again = w.take(taken.lease.worker).await;
    assert_eq!(again.record.steps()[0].state, StepState::Done);
}

/// W10, L21: a job that waits for a signal keeps its place at the head of its line, and leaves it when it is canceled.
pub async fn a_parked_head_keeps_its_line(w: Fixture) {
    let worker = w.worker(1).await;
    w.offer_all(false, (1..=2).map(|number| job(number).in_order("line"))).await;
    let taken = w.take(worker).await;
    assert_eq!(taken.lease.job, id(1));
    let ending = parks(&w, &taken);
    assert_eq!(w.finish(&taken, ending).await, State::Waiting);
    w.store.advance_lines(100).await.expect("lines");
    assert!(w.claim(worker, 10).await.is_empty(), "the next one waits for it");
    assert_eq!(w.state(id(1)).await, State::Waiting, "and no line lets it go");
    w.cancel(id(1)).await;
    w.store.advance_lines(100).await.expect("lines");
    assert_eq!(w.take(worker).await.lease.job, id(2));
}
