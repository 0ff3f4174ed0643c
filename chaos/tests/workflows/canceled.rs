//! Workflows that people call off: all of one, or a step with what is behind it (W4).

use std::collections::BTreeMap;

use backstop::workflows::{NodeEnd, NodeState, Step, SubmittedWorkflow, WorkflowStatus};
use backstop::{JobId, State};
use backstop_chaos::errand::SignalJob;
use backstop_chaos::rounds;
use backstop_chaos::work::policy;
use serde_json::Value;

use super::{CampaignStage, Family, callback, job};

/// Numbers of their jobs, and of those that wait for signals which nobody sends.
const NUMBERS: u64 = 300_000_000;
const UNSENT: u64 = 800_000_000;

/// Steps beside those that wait.
const WIDTH: u64 = 6;

/// What waits for a signal, and what waits for that.
const GATE: &str = "gate";
const BEHIND: [&str; 2] = ["behind", "last"];

/// How many graphs there are.
pub(super) fn count() -> u64 {
    u64::try_from(rounds(6, 120)).unwrap_or(6)
}

/// Where the jobs of workflows were when they had been called off, with the runs that they had had.
pub(super) type Ends = BTreeMap<JobId, (State, u32)>;

pub(super) async fn submit_all(stage: &CampaignStage) -> Vec<SubmittedWorkflow> {
    let mut submitted = Vec::new();
    for number in 0..count() {
        submitted.push(submit(stage, number).await);
    }
    submitted
}

async fn submit(stage: &CampaignStage, number: u64) -> SubmittedWorkflow {
    let engine = &stage.submitter;
    let own = |place: u64| job(engine, NUMBERS + number * 100 + place);
    let mut flow = engine.workflow(format!("canceled {number}"));
    let gate = engine.enqueue(SignalJob { number: UNSENT + number }).policy(policy());
    let gate = flow.step(GATE, gate).add();
    let behind = flow.step(BEHIND[0], own(3)).after(&gate).add();
    flow.step(BEHIND[1], own(4)).after(&behind).add();
    let beside = flow.step("beside", own(5)).add();
    let mut wide: Vec<Step<Value>> = Vec::new();
    for place in 0..WIDTH {
        wide.push(flow.step(format!("beside {place}"), own(10 * place + 6)).after(&beside).add());
    }
    flow.step("beside all", own(7)).after_all(&wide).add();
    let callback = callback(Family::Canceled, number);
    flow.on_success(&callback).on_failure(&callback).submit().await.expect("stored")
}

/// True when all of it is called off; otherwise it is one step.
const fn is_whole(number: usize) -> bool {
    number.is_multiple_of(2)
}

/// Calls some of them off, and says where that left their jobs: nothing of a workflow goes on.
pub(super) async fn cancel(
    stage: &CampaignStage,
    submitted: &[SubmittedWorkflow],
    numbers: &[usize],
    ends: &mut Ends,
) {
    for &number in numbers {
        let workflow = &submitted[number];
        if !is_whole(number) {
            let gate = workflow.nodes.iter().find(|(name, _)| &**name == GATE).expect("it was submitted");
            let called_off = stage.submitter.cancel(gate.1, "the campaign").await.expect("stored");
            assert!(called_off.changed, "it waits for ever");
            continue;
        }
        stage.submitter.workflows().cancel(workflow.id, "the campaign").await.expect("it is stored");
        for (name, id) in &workflow.nodes {
            let view = stage.job(*id).await;
            assert!(view.state().is_terminal(), "step {name} of {} is {}", workflow.id, view.state());
            ends.insert(*id, (view.state(), view.record.runs));
        }
    }
}

/// What was called off has stayed so, and what is behind it has never run.
pub(super) async fn check_all(stage: &CampaignStage, submitted: &[SubmittedWorkflow], ends: &Ends) {
    for (id, end) in ends {
        let view = stage.job(*id).await;
        assert_eq!((view.state(), view.record.runs), *end, "job {id} went on when it had been called off");
    }
    for (number, workflow) in submitted.iter().enumerate() {
        let view = stage.workflow(workflow.id).await;
        assert_eq!(view.status, WorkflowStatus::Canceled, "canceled {number}: {view:?}");
        for node in &view.nodes {
            let behind = BEHIND.contains(&&*node.name);
            let expected = match behind || &*node.name == GATE {
                true => NodeEnd::Canceled,
                false if is_whole(number) => continue,
                false => NodeEnd::Succeeded,
            };
            assert_eq!(node.state, NodeState::Ended(expected), "step {} of canceled {number}", node.name);
            let runs = stage.job(node.job).await.record.runs;
            assert!(!behind || runs == 0, "step {} of canceled {number} has run {runs} times", node.name);
        }
    }
}
