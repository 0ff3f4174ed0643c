//! Durable steps and effects of workers outside of the process, on every store (W7, W8): the same rules as inside.
#![allow(missing_docs, reason = "a test")]

mod stores;

use std::sync::Arc;
use std::time::Duration;

use backstop::prelude::*;
use backstop::redrive::PlanSelector;
use backstop::{
    Cause, Config, Ended, Failure, Finished, Grant, Handed, JobId, RemoteEffect, RemoteStep, RemoteWorker,
    StepError, TerminalReason, WorkRequest,
};
use backstop_core::Refusal;
use backstop_core::envelope::{envelope, transition_key};
use backstop_core::job::{EffectCall, EffectPolicy, MOST_STEPS, State, StepMark, StepState};
use backstop_store::{DocumentRange, Drawer, KnownKind, Store};
use serde_json::{Value, json};

const FAR: &str = "far";
const NEAR: &str = "near";

/// What a worker elsewhere does with the same names and keys.
#[job]
async fn pay(cx: JobContext<()>) -> JobResult<u32> {
    let amount: u32 = cx.step("load", || async { JobResult::Ok(7) }).await?;
    cx.effect("charge", "order-7", || async { Err::<(), _>("the connection broke") }).await?;
    Ok(amount)
}

struct Stage {
    engine: Backstop,
}

impl Stage {
    fn on(store: &Arc<dyn Store>) -> Self {
        Self { engine: Backstop::on(store.clone(), Config::default()) }
    }

    async fn submit(&self) -> JobId {
        let job = self.engine.enqueue_raw("pay", "{}").queue(FAR).backoff(Backoff::none());
        job.submit().await.expect("stored").id
    }

    async fn claim(&self) -> Handed {
        let request = WorkRequest {
            worker: RemoteWorker { realm: String::new(), name: "far-away".into(), instance: None },
            queues: vec![FAR.into()],
            kinds: [KnownKind { kind: "pay".into(), version: 1 }].into(),
            limit: 1,
            wait: Duration::from_secs(20),
            lease: Duration::from_secs(600),
            code_version: None,
        };
        let mut handed = self.engine.remote().claim(request).await.expect("the store is there");
        handed.pop().expect("there is a job")
    }

    async fn step(
        &self,
        on: &Handed,
        index: u32,
        name: &str,
        result: Option<Value>,
    ) -> Result<(), StepError> {
        let step = RemoteStep { index: Some(index), name: name.to_owned(), result };
        self.engine.remote().step(&on.grant, step).await
    }

    async fn effect(
        &self,
        grant: &Grant,
        index: u32,
        key: &str,
        policy: EffectPolicy,
    ) -> Result<RemoteEffect, StepError> {
        let call = EffectCall { index: Some(index), name: "charge", key, policy, not_seen: false };
        self.engine.remote().effect(grant, call).await
    }

    /// Says that the other side has not seen it.
    async fn not_seen(&self, on: &Handed, policy: EffectPolicy) -> Result<RemoteEffect, StepError> {
        let (index, name, key) = (Some(0), "charge", "order-7");
        let call = EffectCall { index, name, key, policy, not_seen: true };
        self.engine.remote().effect(&on.grant, call).await
    }

    async fn ask(&self, on: &Handed, index: u32) -> Result<RemoteEffect, StepError> {
        self.effect(&on.grant, index, "order-7", EffectPolicy::Ask).await
    }

    async fn end(&self, on: &Handed, ended: Ended) -> State {
        let end = vec![Finished { grant: on.grant.clone(), ended, step: None, logs: Vec::new() }];
        let mut answers = self.engine.remote().finish(end).await.expect("the store is there");
        answers.pop().expect("one").expect("the lease is held")
    }

    /// Ends a run by an error that is retried, and claims its job again.
    async fn again(&self, on: &Handed) -> Handed {
        let failed = Failure::new(Cause::Error, "Plain", "no luck");
        assert_eq!(self.end(on, Ended::Failed(failed)).await, State::Pending);
        let next = self.claim().await;
        assert_eq!(next.grant.lease.job, on.grant.lease.job);
        next
    }

    /// As a worker does whose run an effect has stopped.
    async fn give_up(&self, on: &Handed, error: &StepError) {
        let failure = Failure::new(Cause::Permanent, "EffectUnknown", error.to_string());
        assert_eq!(self.end(on, Ended::Failed(failure.because("it is unknown"))).await, State::Failed);
    }

    async fn succeed(&self, on: &Handed) {
        assert_eq!(self.end(on, Ended::Succeeded { result: None }).await, State::Succeeded);
    }

    async fn marks(&self, job: JobId) -> Vec<StepMark> {
        let detail = self.engine.job(job).await.expect("the store is there").expect("it is stored");
        detail.view.record.steps_in_order()
    }

    async fn names(&self, job: JobId) -> Vec<(u32, String)> {
        self.marks(job).await.into_iter().map(|mark| (mark.index, mark.name)).collect()
    }

    async fn results(&self) -> usize {
        let range = DocumentRange::first(Drawer::Steps, 100);
        self.engine.store().documents(range).await.expect("the store is there").items.len()
    }
}

fn changed(answer: Result<impl std::fmt::Debug, StepError>, stored: &str, called: &str) {
    match answer.expect_err("it does not fit") {
        StepError::Changed(changed) => {
            let said = changed.to_string();
            assert!(said.contains(stored) && said.contains(called), "{said}");
        }
        other => panic!("{other}"),
    }
}

/// W7: what is called in another place than stored, or instead of what is stored there, is told and not stored.
async fn the_order_is_checked(store: &Arc<dyn Store>) {
    let stage = Stage::on(store);
    let job = stage.submit().await;
    let first = stage.claim().await;
    for (index, name) in [(0, "load"), (1, "render")] {
        stage.step(&first, index, name, Some(json!(name))).await.expect("it fits");
    }
    stage.step(&first, 1, "render", Some(json!("again"))).await.expect("the call can be repeated");
    let before = (stage.names(job).await, stage.results().await);
    assert_eq!(before.0, [(0, "load".to_owned()), (1, "render".to_owned())]);

    let next = stage.again(&first).await;
    assert_eq!(next.steps, [("load".to_owned(), json!("load")), ("render".to_owned(), json!("render"))]);
    for (index, name, stored) in [
        (0, "download", "step `load` at index 0"),
        (0, "render", "step `render` at index 1"),
        (2, "load", "step `load` at index 0"),
    ] {
        let called = format!("calls step `{name}` at index {index}");
        changed(stage.step(&next, index, name, Some(json!(1))).await, stored, &called);
    }
    changed(
        stage.ask(&next, 1).await,
        "step `render` at index 1",
        "calls effect `charge` with key `order-7`",
    );
    assert_eq!((stage.names(job).await, stage.results().await), before, "nothing of that is stored");
    stage.step(&next, 2, "send", Some(json!(1))).await.expect("it is new");
    // Who counts no calls is not checked, as before.
    let step = RemoteStep { index: None, name: "more".into(), result: Some(json!(1)) };
    stage.engine.remote().step(&next.grant, step).await.expect("it goes behind the others");
    assert_eq!(stage.names(job).await[2..], [(2, "send".to_owned()), (3, "more".to_owned())]);

    for name in ["", "signal:paid", "signal#2:paid"] {
        let refused = stage.step(&next, 4, name, Some(json!(1))).await;
        assert!(matches!(refused, Err(StepError::Refused(Refusal::Invalid { field: "name", .. }))), "{name}");
    }
    let stale = stage.step(&first, 0, "download", Some(json!(1))).await;
    assert!(matches!(stale, Err(StepError::Stale(_))), "{stale:?}");
    stage.succeed(&next).await;
}

/// W8: what the next run does about an effect whose outcome is unknown.
async fn an_effect_follows_its_policy(store: &Arc<dyn Store>) {
    let stage = Stage::on(store);
    let job = stage.submit().await;
    let first = stage.claim().await;
    for policy in [EffectPolicy::Ask, EffectPolicy::Verify, EffectPolicy::RetrySafe] {
        let answer = stage.effect(&first.grant, 0, "order-7", policy).await.expect("it fits");
        assert_eq!(answer, RemoteEffect::Run, "also when the answer was lost");
    }
    let intent = stage.marks(job).await;
    assert_eq!(
        (intent[0].state, intent[0].run, &intent[0].key),
        (StepState::Unknown, 1, &Some("order-7".into()))
    );

    let second = stage.again(&first).await;
    let of = async |policy| stage.effect(&second.grant, 0, "order-7", policy).await;
    assert_eq!(of(EffectPolicy::RetrySafe).await.expect("it fits"), RemoteEffect::Run);
    assert_eq!(of(EffectPolicy::Verify).await.expect("it fits"), RemoteEffect::Verify);
    assert!(matches!(of(EffectPolicy::Ask).await, Err(StepError::Unknown { run: 1, .. })));
    assert_eq!(stage.marks(job).await, intent, "none of them writes");
    let other = stage.effect(&second.grant, 0, "order-8", EffectPolicy::RetrySafe).await;
    changed(other, "with key `order-7` at index 0", "with key `order-8` at index 0");
    let stale = stage.effect(&first.grant, 0, "order-7", EffectPolicy::RetrySafe).await;
    assert!(matches!(stale, Err(StepError::Stale(_))), "{stale:?}");

    // It is known not to have happened: then it is called, whatever the policy.
    stage.step(&second, 0, "charge", None).await.expect("it was begun");
    let third = stage.again(&second).await;
    assert_eq!(third.view.record.steps()[0].state, StepState::NotDone);
    assert_eq!(stage.ask(&third, 0).await.expect("it fits"), RemoteEffect::Run);
    assert_eq!(stage.marks(job).await[0].run, 3);
    let fourth = stage.again(&third).await;
    let seen = stage.effect(&fourth.grant, 0, "order-7", EffectPolicy::Verify).await.expect("it fits");
    assert_eq!(seen, RemoteEffect::Verify);
    stage.step(&fourth, 0, "charge", Some(json!("receipt"))).await.expect("the other side has seen it");
    for policy in [EffectPolicy::Ask, EffectPolicy::Verify, EffectPolicy::RetrySafe] {
        let answer = stage.effect(&fourth.grant, 0, "order-7", policy).await.expect("it fits");
        assert_eq!(answer, RemoteEffect::Done(json!("receipt")));
    }
    let refused = stage.step(&fourth, 1, "load", None).await;
    assert!(
        matches!(refused, Err(StepError::Refused(_))),
        "what was never begun cannot have failed to happen"
    );
    let fifth = stage.again(&fourth).await;
    assert_eq!(fifth.steps, [("charge".to_owned(), json!("receipt"))]);
    stage.succeed(&fifth).await;
}

/// W8: what the other side has not seen is stored as begun again before it is called, also after a person has driven
/// the job again. A run that dies then leaves it unknown.
async fn what_was_not_seen_is_begun_again(store: &Arc<dyn Store>) {
    let stage = Stage::on(store);
    let job = stage.submit().await;
    let first = stage.claim().await;
    let verify = async |on: &Handed| stage.effect(&on.grant, 0, "order-7", EffectPolicy::Verify).await;
    assert_eq!(verify(&first).await.expect("it fits"), RemoteEffect::Run);
    let error = Failure::new(Cause::Permanent, "Plain", "no luck").because("it never works");
    assert_eq!(stage.end(&first, Ended::Failed(error)).await, State::Failed);
    stage.engine.retry(job).await.expect("it is dead");

    let second = stage.claim().await;
    assert_eq!(stage.marks(job).await[0].state, StepState::Confirmed);
    assert_eq!(verify(&second).await.expect("it fits"), RemoteEffect::Verify);
    for policy in [EffectPolicy::Ask, EffectPolicy::RetrySafe] {
        let refused = stage.not_seen(&second, policy).await;
        let of_field = matches!(refused, Err(StepError::Refused(Refusal::Invalid { field: "not_seen", .. })));
        assert!(of_field, "{refused:?}");
    }
    for _ in 0..2 {
        let answer = stage.not_seen(&second, EffectPolicy::Verify).await.expect("it fits");
        assert_eq!(answer, RemoteEffect::Run, "also when the answer was lost");
        let mark = stage.marks(job).await.swap_remove(0);
        assert_eq!((mark.state, mark.run), (StepState::Unknown, 2));
    }

    // Its worker dies: who asks next is told of the second run.
    let third = stage.again(&second).await;
    assert!(matches!(stage.ask(&third, 0).await, Err(StepError::Unknown { run: 2, .. })));
    assert_eq!(verify(&third).await.expect("it fits"), RemoteEffect::Verify);
    assert_eq!(stage.not_seen(&third, EffectPolicy::Verify).await.expect("it fits"), RemoteEffect::Run);
    assert_eq!(stage.marks(job).await[0].run, 3);
    stage.step(&third, 0, "charge", Some(json!("receipt"))).await.expect("it was begun");
    let done = stage.not_seen(&third, EffectPolicy::Verify).await.expect("it fits");
    assert_eq!(done, RemoteEffect::Done(json!("receipt")));
    stage.succeed(&third).await;
}

/// What a death looks like to those who ask.
type Seen = (String, String, Option<TerminalReason>, u32, String, Vec<String>, Vec<(String, String, u32)>);

async fn seen(stage: &Stage, job: JobId) -> Seen {
    let detail = stage.engine.job(job).await.expect("the store is there").expect("it is stored");
    let failure = detail.view.last_failure.expect("it failed");
    let (_, explained) = stage.engine.explain(job).await.expect("the store is there").expect("it is stored");
    let steps = explained.checks.iter().filter(|check| check.check == "step");
    let steps = steps.map(|check| check.answer.clone()).collect();
    let survey = stage.engine.redrives().plan(PlanSelector::all()).dry_run().await.expect("jobs are dead");
    let unknown = survey.unknown_effects.into_iter().filter(|effect| effect.job == job);
    let unknown = unknown.map(|effect| (effect.name, effect.key, effect.run)).collect();
    let (record, next) = (detail.view.record, explained.next.replace(&job.to_string(), "ID"));
    (failure.error_type, failure.message, record.reason, record.runs, next, steps, unknown)
}

/// W8: a run elsewhere and one in this process that leave the same behind are told of in the same words.
async fn an_unknown_effect_is_told_as_one_of_this_process(store: &Arc<dyn Store>) {
    let stage = Stage::on(store);
    let near =
        stage.engine.enqueue(Pay {}).queue(NEAR).backoff(Backoff::none()).submit().await.expect("stored").id;
    let worker = stage.engine.worker(()).register::<Pay>().queue(NEAR, 1).inline().expect("it has a kind");
    while stage.engine.job(near).await.expect("the store is there").expect("it is stored").view.state()
        != State::Failed
    {
        worker.drain(10).await.expect("the store is there");
    }

    let far = stage.submit().await;
    let first = stage.claim().await;
    stage.step(&first, 0, "load", Some(json!(7))).await.expect("it fits");
    assert_eq!(stage.ask(&first, 1).await.expect("it fits"), RemoteEffect::Run);
    let second = stage.again(&first).await;
    let error = stage.ask(&second, 1).await.expect_err("it may have happened");
    stage.give_up(&second, &error).await;
    let (told, expected) = (seen(&stage, far).await, seen(&stage, near).await);
    assert_eq!(told, expected);
    assert_eq!((&*told.0, told.2, told.3), ("EffectUnknown", Some(TerminalReason::NonRetryable), 2));
    assert!(told.4.contains("whether effect `charge` with key `order-7` happened"), "{}", told.4);
    assert_eq!(told.6, [("charge".to_owned(), "order-7".to_owned(), 1)]);

    // A person has looked, and drives it again: it may be called once more, and no more than that.
    stage.engine.retry(far).await.expect("it is dead");
    let third = stage.claim().await;
    assert_eq!(third.view.record.steps_in_order()[1].state, StepState::Confirmed);
    for _ in 0..2 {
        assert_eq!(stage.ask(&third, 1).await.expect("it is confirmed"), RemoteEffect::Run);
    }
    let fourth = stage.again(&third).await;
    let error = stage.ask(&fourth, 1).await.expect_err("it may have happened once more");
    assert!(matches!(error, StepError::Unknown { run: 3, .. }), "{error}");
    stage.give_up(&fourth, &error).await;
    stage.engine.cancel(near, "the test is over").await.ok();
}

/// W7, W10: a wait has a place among the steps, and what was called before it need not be stored.
async fn a_wait_has_its_place(store: &Arc<dyn Store>) {
    let stage = Stage::on(store);
    let job = stage.submit().await;
    let first = stage.claim().await;
    // The step with index 0 has failed, and the run waits all the same.
    let waits = |index| Ended::Waiting { signal: "far/paid".into(), timeout: None, index: Some(index) };
    assert_eq!(stage.end(&first, waits(1)).await, State::Waiting);
    assert_eq!(stage.end(&first, waits(1)).await, State::Waiting, "the same end again");
    stage.engine.signals().send("far/paid", &"ann").await.expect("it is sent");
    let next = stage.claim().await;
    assert_eq!(next.signals.get("far/paid"), Some(&json!("ann")));
    assert_eq!(stage.names(job).await, [(1, "signal:far/paid".to_owned())]);
    changed(
        stage.step(&next, 1, "load", Some(json!(1))).await,
        "step `signal:far/paid` at index 1",
        "calls step `load` at index 1",
    );
    stage.step(&next, 0, "load", Some(json!(1))).await.expect("its place is free");
    let other = Ended::Waiting { signal: "far/sent".into(), timeout: None, index: Some(0) };
    assert_eq!(stage.end(&next, other).await, State::Failed, "a step is stored there");
    let detail = stage.engine.job(job).await.expect("the store is there").expect("it is stored");
    let failure = detail.view.last_failure.expect("it failed");
    assert_eq!(failure.error_type, "StepsChanged");
}

/// D1, W7: the dead letter of a run elsewhere names the step that it failed at.
async fn a_dead_letter_names_its_step(store: &Arc<dyn Store>) {
    let stage = Stage::on(store);
    let most = u32::try_from(MOST_STEPS).expect("few");
    for (said, expected) in [(None, 1), (Some(0), 0), (Some(3), 3), (Some(u32::MAX), most)] {
        let job = stage.submit().await;
        let on = stage.claim().await;
        stage.step(&on, 0, "load", Some(json!(1))).await.expect("it fits");
        let failure = Failure::new(Cause::Permanent, "Plain", "no luck").because("it never works");
        let ended = Ended::Failed(failure);
        let end = Finished { grant: on.grant.clone(), ended, step: said, logs: Vec::new() };
        let answers = stage.engine.remote().finish(vec![end]).await.expect("the store is there");
        assert!(matches!(answers[..], [Ok(State::Failed)]), "{answers:?}");
        let view = stage.engine.job(job).await.expect("the store is there").expect("it is stored").view;
        let letter = envelope(&view.job, &view.record, view.last_failure.as_ref(), None).expect("it is dead");
        assert_eq!(letter["transitionKey"], *transition_key(job, expected, 1), "{said:?}");
    }
}

/// W7: one step more than a job may have is refused, and so is an effect.
async fn there_are_not_too_many(store: &Arc<dyn Store>) {
    let stage = Stage::on(store);
    stage.submit().await;
    let on = stage.claim().await;
    for index in 0..u32::try_from(MOST_STEPS).expect("few") {
        stage.step(&on, index, &format!("step-{index}"), Some(json!(1))).await.expect("there is room");
    }
    let most = u32::try_from(MOST_STEPS).expect("few");
    for refused in
        [stage.step(&on, most, "more", Some(json!(1))).await.err(), stage.ask(&on, most).await.err()]
    {
        let is_full = matches!(refused, Some(StepError::Refused(Refusal::TooLarge { unit: "steps", .. })));
        assert!(is_full, "{refused:?}");
    }
    stage.step(&on, 7, "step-7", Some(json!(2))).await.expect("it is stored, and can be repeated");
    stage.succeed(&on).await;
}

/// Every case, on one store.
async fn everything(store: Arc<dyn Store>) {
    the_order_is_checked(&store).await;
    a_dead_letter_names_its_step(&store).await;
    an_effect_follows_its_policy(&store).await;
    what_was_not_seen_is_begun_again(&store).await;
    an_unknown_effect_is_told_as_one_of_this_process(&store).await;
    a_wait_has_its_place(&store).await;
}

#[tokio::test]
async fn in_memory() {
    // W7, W8, W10
    stores::in_memory(async |store| {
        there_are_not_too_many(&store).await;
        everything(store).await;
    })
    .await;
}

#[tokio::test]
async fn on_sqlite() {
    // W7, W8, W10
    stores::on_sqlite("remote-steps", everything).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn on_postgres() {
    // W7, W8, W10
    stores::on_postgres("remote_steps", everything).await;
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn on_mysql() {
    // W7, W8, W10
    stores::on_mysql("remote_steps", everything).await;
}
