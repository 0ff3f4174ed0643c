//! Workflows with a dead step that a plan drives again: each goes on from there, and only there (W4, D4).

use std::collections::BTreeMap;
use std::time::Duration;

use backstop::redrive::{PlanId, PlanPhase, PlanSelector};
use backstop::workflows::{NodeEnd, NodeState, SubmittedWorkflow, WorkflowStatus};
use backstop::{Job, JobId, State};
use backstop_chaos::driven::DeadLetterJob;
use backstop_chaos::group::PATIENCE;
use backstop_chaos::rounds;
use backstop_chaos::stall::StallGuard;
use backstop_chaos::work::policy;

use super::{CampaignStage, Family, callback, job};

/// Numbers of their jobs.
const NUMBERS: u64 = 400_000_000;

/// What has ended before the dead step is driven again, and stays as it is.
const BEFORE: [&str; 3] = ["first", "aside", "mourn"];

/// What waits behind it, and runs as another job.
const BEHIND: [&str; 2] = ["next", "last"];

/// How many workflows there are.
pub(super) fn count() -> u64 {
    u64::try_from(rounds(6, 120)).unwrap_or(6)
}

/// How many of their jobs succeed before anything is driven.
pub(super) fn successes() -> u64 {
    BEFORE.len() as u64 * count()
}

/// A plan under way, and the runs of what it must not touch.
pub(super) struct DrivenPlan {
    plan: PlanId,
    runs: BTreeMap<JobId, u32>,
}

pub(super) async fn submit_all(stage: &CampaignStage) -> Vec<SubmittedWorkflow> {
    std::fs::write(DeadLetterJob::sign_in(&stage.folder), "").expect("the folder can be written");
    let mut submitted = Vec::new();
    for number in 0..count() {
        submitted.push(submit(stage, number).await);
    }
    submitted
}

async fn submit(stage: &CampaignStage, number: u64) -> SubmittedWorkflow {
    let engine = &stage.submitter;
    let own = |place: u64| job(engine, NUMBERS + number * 10 + place);
    let mut flow = engine.workflow(format!("driven {number}"));
    let first = flow.step("first", own(0)).add();
    let frail =
        engine.enqueue(DeadLetterJob { sign: DeadLetterJob::sign_in(&stage.folder) }).policy(policy());
    let frail = flow.step("frail", frail).after(&first).add();
    flow.step("aside", own(1)).after(&first).add();
    flow.step("mourn", own(3)).after(&frail).on_failure().add();
    let next = flow.step(BEHIND[0], own(4)).after(&frail).add();
    flow.step(BEHIND[1], own(5)).after(&next).add();
    // It fails first, and succeeds then: each of the two is told once.
    let flow = flow.on_failure(&callback(Family::Dead, number));
    flow.on_success(&callback(Family::Driven, number)).submit().await.expect("stored")
}

/// Waits until all of them have failed, mends what is broken, and starts the plan.
pub(super) async fn mend(stage: &CampaignStage, submitted: &[SubmittedWorkflow]) -> DrivenPlan {
    reach(stage, submitted, WorkflowStatus::Failed, moment).await;
    let mut runs = BTreeMap::new();
    for (_, id) in before(submitted) {
        let view = stage.job(id).await;
        assert_eq!(view.state(), State::Succeeded, "job {id} follows no success of the dead step");
        runs.insert(id, view.record.runs);
    }
    std::fs::remove_file(DeadLetterJob::sign_in(&stage.folder)).expect("it is there");
    let selector = PlanSelector { kind: Some(DeadLetterJob::KIND.to_owned()), ..PlanSelector::default() };
    let redrives = stage.submitter.redrives();
    let plan = redrives.plan(selector).per_second(1_000).by("the campaign").create().await.expect("made");
    assert_eq!(plan.expected, submitted.len() as u64, "dead steps");
    redrives.start(&plan.id, "the campaign").await.expect("planned");
    DrivenPlan { plan: plan.id, runs }
}

fn before(submitted: &[SubmittedWorkflow]) -> impl Iterator<Item = (&str, JobId)> {
    let nodes = submitted.iter().flat_map(|workflow| &workflow.nodes);
    nodes.map(|(name, id)| (&**name, *id)).filter(|(name, _)| BEFORE.contains(name))
}

/// Returns when all of them have this status; as long as one has not, `meanwhile` goes on.
pub(super) async fn reach(
    stage: &CampaignStage,
    submitted: &[SubmittedWorkflow],
    status: WorkflowStatus,
    mut meanwhile: impl AsyncFnMut(),
) {
    let mut stall = StallGuard::new(PATIENCE);
    for (place, workflow) in submitted.iter().enumerate() {
        loop {
            let view = stage.workflow(workflow.id).await;
            if view.status == status {
                break;
            }
            assert!(!stall.is_over((place, view.counts)), "it never becomes {status}: {view:?}");
            meanwhile().await;
        }
    }
}

/// A moment in which others get further.
pub(super) async fn moment() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

impl DrivenPlan {
    /// Whoever drives it hears of the last end a moment later than the workflow.
    pub(super) async fn reach_its_end(&self, stage: &CampaignStage) {
        let mut stall = StallGuard::new(PATIENCE);
        loop {
            let plan = stage.engine.redrives().get(&self.plan).await.expect("it is stored");
            if plan.phase == PlanPhase::Done {
                return;
            }
            assert!(!stall.is_over(plan.counts.succeeded), "it is never done: {}", plan.describe());
            moment().await;
        }
    }

    /// Every workflow went on from its dead step, and only from there.
    pub(super) async fn check(self, stage: &CampaignStage, submitted: &[SubmittedWorkflow]) {
        let plan = stage.engine.redrives().get(&self.plan).await.expect("it is stored");
        let done = (plan.phase, plan.counts.succeeded);
        assert_eq!(done, (PlanPhase::Done, submitted.len() as u64), "{}", plan.describe());
        for (name, id) in before(submitted) {
            let runs = stage.job(id).await.record.runs;
            assert_eq!(Some(&runs), self.runs.get(&id), "step {name} ran again, as job {id}");
        }
        for workflow in submitted {
            let view = stage.workflow(workflow.id).await;
            assert_eq!(view.status, WorkflowStatus::Succeeded, "{view:?}");
            for (node, (name, first)) in view.nodes.iter().zip(&workflow.nodes) {
                assert_eq!(node.state, NodeState::Ended(NodeEnd::Succeeded), "step {name}: {view:?}");
                let redrives = stage.job(node.job).await.record.redrives;
                assert_eq!(redrives, u32::from(&**name == "frail"), "how often step {name} was driven again");
                let (renewed, old) = (node.job != *first, stage.job(*first).await);
                assert_eq!(renewed, BEHIND.contains(&&**name), "step {name} stands for another job");
                assert!(
                    !renewed || old.record.runs == 0,
                    "the job of step {name} that was called off has run"
                );
            }
        }
    }
}
