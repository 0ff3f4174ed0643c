//! Dead steps are dead letters like any others: one incident, one plan, and every workflow goes on from its own dead
//! step.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backstop::State;
use backstop::workflows::{SubmittedWorkflow, WorkflowStatus};
use backstop_core::redrive::{Plan, PlanPhase, PlanSelector};
use backstop_store::{Answer, DocumentRange, Documents, Drawer, Layer, Store};

use super::{Add, AddTo, Badly, Frail, Stage, Well, job_of};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// How many workflows die of the one error.
const FLOWS: usize = 40;

/// W4, D4: a plan over an incident of steps tries one, halts while the error is there, and then continues every
/// workflow from its dead step: what was done before stays done, what waited after it runs once.
pub(super) async fn a_plan_continues_every_workflow_from_its_dead_step(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    stage.site.broken.store(true, Ordering::SeqCst);
    let flows = submit_all(&stage).await;
    stage.drain().await;
    assert_eq!(ended(&stage, &flows, WorkflowStatus::Failed).await, FLOWS);

    let incidents = stage.engine.incidents().list(100).await.expect("the store is there");
    let incident = incidents.iter().find(|incident| &*incident.kind == "frail").expect("it was counted");
    let dead_of_it = incident.dead;
    assert!(dead_of_it >= FLOWS as u64, "{dead_of_it} of one error are one incident");
    let of_incident = PlanSelector::incident(incident.fingerprint.clone());
    let selector = PlanSelector { tag: Some("driven".into()), ..of_incident };
    let redrives = stage.engine.redrives();
    let plan = redrives.plan(selector).batch(15).per_second(10_000).by("ann").create().await.expect("made");
    assert_eq!(plan.expected, FLOWS as u64);

    redrives.start(&plan.id, "ann").await.expect("planned");
    let halted = reach(&stage, &plan, PlanPhase::Halted).await;
    assert_eq!((halted.counts.driven, halted.counts.failed_same), (1, 1), "{}", halted.describe());
    assert_eq!(ended(&stage, &flows, WorkflowStatus::Failed).await, FLOWS, "the tried one has failed again");

    stage.site.broken.store(false, Ordering::SeqCst);
    redrives.resume(&plan.id, "ann").await.expect("halted");
    let done = reach(&stage, &plan, PlanPhase::Done).await;
    assert_eq!(done.counts.succeeded, FLOWS as u64, "{}", done.describe());
    stage.drain().await;
    assert_eq!(ended(&stage, &flows, WorkflowStatus::Succeeded).await, FLOWS);
    let tried = halted.halted.expect("it says why").job;
    for flow in &flows {
        went_on_from_its_dead_step(&stage, flow, if job_of(flow, "frail") == tried { 3 } else { 2 }).await;
    }
}

async fn submit_all(stage: &Stage) -> Vec<SubmittedWorkflow> {
    let engine = &stage.engine;
    let mut flows = Vec::new();
    for _ in 0..FLOWS {
        let mut flow = engine.workflow("driven");
        let first = flow.step("first", engine.enqueue(Add { a: 1, b: 1 })).add();
        let frail = flow.step("frail", engine.enqueue(Frail {}).tag("driven")).after(&first).add();
        flow.step("next", engine.enqueue(AddTo { step: "frail".into(), more: 1 })).after(&frail).add();
        flows.push(flow.submit().await.expect("a shape that can be"));
    }
    flows
}

/// How many of these workflows have this status.
async fn ended(stage: &Stage, flows: &[SubmittedWorkflow], status: WorkflowStatus) -> usize {
    let mut count = 0;
    for flow in flows {
        count += usize::from(stage.view(flow).await.status == status);
    }
    count
}

/// Maintenance and work in turns, until the plan is in `phase` with nothing in flight.
async fn reach(stage: &Stage, plan: &Plan, phase: PlanPhase) -> Plan {
    for _ in 0..100_000 {
        stage.drain().await;
        let plan = stage.engine.redrives().get(&plan.id).await.expect("the plan is there");
        if plan.phase == phase && plan.open == 0 {
            return plan;
        }
        assert!(!plan.phase.is_final(), "{}", plan.describe());
    }
    panic!("the plan never became {phase}");
}

async fn went_on_from_its_dead_step(stage: &Stage, flow: &SubmittedWorkflow, runs: u32) {
    let view = stage.view(flow).await;
    let mut seen = Vec::new();
    for node in &view.nodes {
        let job = stage.engine.job(node.job).await.expect("the store is there").expect("it is stored").view;
        seen.push((node.name.to_string(), job.record.runs, job.result.as_deref().unwrap_or("").to_owned()));
    }
    let wanted = [("first", 1, "2"), ("frail", runs, "1"), ("next", 1, "2")];
    let wanted = wanted.map(|(name, runs, result)| (name.to_owned(), runs, result.to_owned()));
    assert_eq!(seen, wanted, "of {}", flow.id);
}

/// W4: a dead step that is driven again is seen as it is, held back and called off with its workflow; dead ones that
/// are not stay dead letters.
pub(super) async fn a_dead_step_that_is_driven_again_is_part_of_its_workflow(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let (engine, workflows) = (&stage.engine, stage.engine.workflows());
    stage.site.broken.store(true, Ordering::SeqCst);
    let mut flow = engine.workflow("driven and called off");
    let frail = flow.step("frail", engine.enqueue(Frail {})).add();
    flow.step("dead", engine.enqueue(Frail {})).add();
    flow.step("next", engine.enqueue(AddTo { step: "frail".into(), more: 1 })).after(&frail).add();
    let submitted = flow.submit().await.expect("a shape that can be");
    assert_eq!(stage.drain().await, 2);
    stage.site.broken.store(false, Ordering::SeqCst);
    engine.retry(job_of(&submitted, "frail")).await.expect("a dead letter");
    let seen = async || {
        let view = stage.view(&submitted).await;
        let states: Vec<_> = view.nodes.iter().map(|node| node.job_state).collect();
        (states[0], states[1])
    };
    assert_eq!(seen().await, (Some(State::Pending), Some(State::Failed)));
    assert_eq!(workflows.pause(submitted.id).await.expect("it is stored"), 1);
    assert_eq!(seen().await, (Some(State::Paused), Some(State::Failed)));
    assert_eq!(stage.drain().await, 0);
    assert_eq!(workflows.resume(submitted.id).await.expect("it is stored"), 1);
    assert_eq!(seen().await, (Some(State::Pending), Some(State::Failed)));
    assert_eq!(workflows.cancel(submitted.id, "enough").await.expect("it is stored"), 1);
    assert_eq!(stage.drain().await, 0, "nothing goes on behind it");
    assert_eq!(stage.state(&submitted, "frail").await, (State::Canceled, Some("enough".into())));
    assert_eq!(stage.state(&submitted, "dead").await.0, State::Failed);
}

/// W4: what runs after all, because the dead step before it was driven again, is paused while its workflow is.
pub(super) async fn what_runs_after_all_is_paused_with_its_workflow(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let (engine, workflows) = (&stage.engine, stage.engine.workflows());
    stage.site.broken.store(true, Ordering::SeqCst);
    let mut flow = engine.workflow("driven while it is paused");
    let frail = flow.step("frail", engine.enqueue(Frail {})).add();
    flow.step("next", engine.enqueue(AddTo { step: "frail".into(), more: 1 })).after(&frail).add();
    // It is not over as long as this waits.
    flow.step("later", engine.enqueue(Add { a: 1, b: 1 }).delay(HOUR)).add();
    let submitted = flow.submit().await.expect("a shape that can be");
    assert_eq!(stage.drain().await, 1);
    stage.site.broken.store(false, Ordering::SeqCst);
    workflows.pause(submitted.id).await.expect("it is stored");
    assert_eq!(stage.view(&submitted).await.status, WorkflowStatus::Paused);
    engine.retry(job_of(&submitted, "frail")).await.expect("a dead letter");
    assert_eq!(stage.drain().await, 1, "a person drives the dead step alone");
    let next = async || stage.view(&submitted).await.nodes[1].job_state;
    assert_eq!(next().await, Some(State::Paused));
    workflows.resume(submitted.id).await.expect("it is stored");
    assert_eq!(next().await, Some(State::Pending));
    assert_eq!(stage.drain().await, 1);
    let job = stage.view(&submitted).await.nodes[1].job;
    let ended = engine.job(job).await.expect("the store is there").expect("it is stored").view;
    assert_eq!((ended.state(), ended.result.as_deref()), (State::Succeeded, Some("2")));
}

/// W4: a workflow that had ended is held back while a dead step of it is driven again, with what runs after all.
pub(super) async fn one_that_had_ended_is_paused_while_a_dead_step_is_driven_again(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let (engine, workflows) = (&stage.engine, stage.engine.workflows());
    stage.site.broken.store(true, Ordering::SeqCst);
    let mut flow = engine.workflow("had ended").on_success(&Well {}).on_failure(&Badly {});
    let frail = flow.step("frail", engine.enqueue(Frail {})).add();
    flow.step("next", engine.enqueue(AddTo { step: "frail".into(), more: 1 })).after(&frail).add();
    let submitted = flow.submit().await.expect("a shape that can be");
    assert_eq!(stage.drain().await, 2, "the step, and the callback");
    let status = async || stage.view(&submitted).await.status;
    assert_eq!(workflows.pause(submitted.id).await.expect("it is stored"), 0);
    assert_eq!(status().await, WorkflowStatus::Failed, "nothing of it goes on");

    stage.site.broken.store(false, Ordering::SeqCst);
    engine.retry(job_of(&submitted, "frail")).await.expect("a dead letter");
    assert_eq!(workflows.pause(submitted.id).await.expect("it is stored"), 1);
    assert_eq!((stage.drain().await, status().await), (0, WorkflowStatus::Paused));
    engine.resume(job_of(&submitted, "frail")).await.expect("paused");
    assert_eq!(stage.drain().await, 1, "a person lets the dead step alone go on");
    let view = stage.view(&submitted).await;
    assert_eq!((view.status, view.nodes[1].job_state), (WorkflowStatus::Paused, Some(State::Paused)));
    workflows.resume(submitted.id).await.expect("it is stored");
    assert_eq!(stage.drain().await, 2, "what follows, and the callback");
    assert_eq!(status().await, WorkflowStatus::Succeeded);
    let told = [&stage.site.ended_well, &stage.site.ended_badly].map(|count| count.load(Ordering::SeqCst));
    assert_eq!(told, [1, 1]);
}

/// W3, W4: a workflow goes on while a dead step of it is driven again: it is not forgotten, and a wait goes on too.
pub(super) async fn who_waits_sees_what_a_dead_step_comes_to(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let (engine, workflows) = (&stage.engine, stage.engine.workflows());
    stage.site.broken.store(true, Ordering::SeqCst);
    let chain = engine.chain("waited for", engine.enqueue(Frail {})).submit().await.expect("stored");
    assert_eq!(stage.drain().await, 1);
    assert_eq!(workflows.wait(chain.id, |_| {}).await.expect("it is stored").status, WorkflowStatus::Failed);
    stage.site.broken.store(false, Ordering::SeqCst);
    engine.retry(job_of(&chain, "frail")).await.expect("a dead letter");
    let refused = workflows.forget(chain.id).await.expect_err("it goes on").to_string();
    assert!(refused.contains("was retried"), "{refused}");
    let (ended, ran) = tokio::join!(workflows.wait(chain.id, |_| {}), stage.drain());
    assert_eq!((ended.expect("it is stored").status, ran), (WorkflowStatus::Succeeded, 1));
    workflows.forget(chain.id).await.expect("it has ended");
}

/// W4, L8: a dead step that is put aside is not canceled with its workflow, and has not died again when it is back.
pub(super) async fn a_dead_step_that_is_put_aside_stays_as_it_was(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let (engine, workflows) = (&stage.engine, stage.engine.workflows());
    stage.site.broken.store(true, Ordering::SeqCst);
    let mut flow = engine.workflow("put aside").on_failure(&Badly {});
    flow.step("frail", engine.enqueue(Frail {})).add();
    let submitted = flow.submit().await.expect("a shape that can be");
    assert_eq!(stage.drain().await, 2, "the step, and the callback");
    let frail = job_of(&submitted, "frail");
    engine.pause(frail).await.expect("a dead letter");
    assert_eq!(workflows.cancel(submitted.id, "enough").await.expect("it is stored"), 0);
    assert_eq!(stage.state(&submitted, "frail").await, (State::Paused, None));
    engine.resume(frail).await.expect("paused");
    assert_eq!(stage.state(&submitted, "frail").await, (State::Failed, None));
    assert_eq!(stage.drain().await, 0, "no callback once more");
    assert_eq!(stage.site.ended_badly.load(Ordering::SeqCst), 1);
    assert_eq!(stage.view(&submitted).await.status, WorkflowStatus::Failed);
}

/// A store in which nobody sees the notes of ends for a while.
struct LateNotes {
    below: Arc<dyn Store>,
    are_late: AtomicBool,
}

impl Layer for LateNotes {
    fn below(&self) -> &dyn Store {
        &*self.below
    }

    fn documents(&self, range: DocumentRange) -> Answer<'_, Documents> {
        Box::pin(async move {
            let is_note = range.drawer == Drawer::WorkflowEnds;
            let mut found = self.below.documents(range).await?;
            if is_note && self.are_late.load(Ordering::SeqCst) {
                (found.items, found.more) = (Vec::new(), false);
            }
            Ok(found)
        })
    }
}

/// W4: a step that died is driven again, and its workflow is paused, before anybody has looked at its death: that death
/// is told, and the workflow stays paused and goes on from there.
pub(super) async fn a_pause_holds_although_a_death_is_looked_at_late(store: Arc<dyn Store>) {
    let layer = Arc::new(LateNotes { below: store, are_late: AtomicBool::new(true) });
    let store: Arc<dyn Store> = layer.clone();
    let stage = Stage::on(&store);
    let (engine, workflows) = (&stage.engine, stage.engine.workflows());
    stage.site.broken.store(true, Ordering::SeqCst);
    let mut flow = engine.workflow("looked at late").on_success(&Well {}).on_failure(&Badly {});
    let frail = flow.step("frail", engine.enqueue(Frail {})).add();
    flow.step("next", engine.enqueue(AddTo { step: "frail".into(), more: 1 })).after(&frail).add();
    let submitted = flow.submit().await.expect("a shape that can be");
    assert_eq!(stage.drain().await, 1);
    stage.site.broken.store(false, Ordering::SeqCst);
    engine.retry(job_of(&submitted, "frail")).await.expect("a dead letter");
    assert_eq!(workflows.pause(submitted.id).await.expect("it is stored"), 2);

    layer.are_late.store(false, Ordering::SeqCst);
    assert_eq!(stage.drain().await, 1, "the callback of the first death");
    let view = stage.view(&submitted).await;
    assert_eq!((view.status, view.finished_at), (WorkflowStatus::Paused, None));
    assert_eq!(view.nodes[0].job_state, Some(State::Paused));
    workflows.resume(submitted.id).await.expect("it is stored");
    assert_eq!(stage.drain().await, 3, "the step, what follows, and the callback");
    let view = stage.view(&submitted).await;
    assert_eq!((view.status, view.finished_at.is_some()), (WorkflowStatus::Succeeded, true));
    let told = [&stage.site.ended_well, &stage.site.ended_badly].map(|count| count.load(Ordering::SeqCst));
    assert_eq!(told, [1, 1]);
}
