//! Graphs of which every result takes certain branches, all that match or the first that does (W2).

use backstop::workflows::{NodeEnd, NodeState, Step, SubmittedWorkflow, WorkflowStatus};
use backstop_chaos::branches::{BRANCHES, PREDICATES, taken};
use backstop_chaos::joining::JoinJob;
use backstop_chaos::rounds;
use serde_json::Value;

use super::{CampaignStage, Family, callback, job};

/// Numbers of their jobs.
const NUMBERS: u64 = 100_000_000;

/// How many graphs there are.
pub(super) fn count() -> u64 {
    u64::try_from(rounds(9, 270)).unwrap_or(9)
}

/// How many of their jobs succeed, at least: the one that decides, a branch, and what follows it.
pub(super) fn successes() -> u64 {
    3 * count()
}

/// What decides in a graph, and whether only the first branch that matches runs.
fn decides(number: u64) -> (u64, bool) {
    (JoinJob::ends(number), number.is_multiple_of(2))
}

pub(super) async fn submit_all(stage: &CampaignStage) -> Vec<SubmittedWorkflow> {
    let mut submitted = Vec::new();
    for number in 0..count() {
        submitted.push(submit(stage, number).await);
    }
    submitted
}

async fn submit(stage: &CampaignStage, number: u64) -> SubmittedWorkflow {
    let (engine, (result, first_match)) = (&stage.submitter, decides(number));
    let mut flow = engine.workflow(format!("branches {number}"));
    let deciding = flow.step("decide", job(engine, NUMBERS + number * 10 + result)).add();
    if first_match {
        flow.first_match(&deciding);
    }
    let mut branches: Vec<Step<Value>> = Vec::new();
    for (place, branch) in (3..).zip(BRANCHES) {
        let step = flow.step(branch, job(engine, NUMBERS + number * 10 + place)).after(&deciding);
        let step = match branch {
            "four" => step.when_result("", 4),
            name if PREDICATES.contains(&name) => step.when_predicate(name),
            _ => step,
        };
        branches.push(step.add());
    }
    flow.step("next", job(engine, NUMBERS + number * 10 + 8)).after_all(&branches).join_any().add();
    let callback = callback(Family::Branches, number);
    flow.on_success(&callback).on_failure(&callback).submit().await.expect("stored")
}

/// The branches that the result takes have run, and no other; the checker holds that those never began.
pub(super) async fn check_all(stage: &CampaignStage, submitted: &[SubmittedWorkflow]) {
    for (number, workflow) in (0..).zip(submitted) {
        let (result, first_match) = decides(number);
        let (view, taken) = (stage.workflow(workflow.id).await, taken(result, first_match));
        assert_eq!(view.status, WorkflowStatus::Succeeded, "branches {number}: {view:?}");
        for node in view.nodes.iter().filter(|node| node.predicate.is_none()) {
            let runs = ["decide", "next"].contains(&&*node.name) || taken.contains(&&*node.name);
            let expected = if runs { NodeEnd::Succeeded } else { NodeEnd::NotTaken };
            let text = format!("step {} of branches {number}, which takes {taken:?}", node.name);
            assert_eq!(node.state, NodeState::Ended(expected), "{text}: {view:?}");
        }
    }
}
