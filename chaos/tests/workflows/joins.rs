//! A graph of one step, many that follow it, and one that follows all of those (W6).

use backstop::workflows::{Step, SubmittedWorkflow, WorkflowStatus};
use backstop::{Cause, State};
use backstop_chaos::joining::JoinJob;
use backstop_chaos::rounds;
use backstop_chaos::work::{CampaignJob, policy};
use backstop_store::PageRequest;
use serde_json::Value;

use super::{CampaignStage, Family, callback, job};

/// Numbers of its jobs.
const NUMBERS: u64 = 200_000_000;

/// How many steps are between the first and the last.
fn width() -> u64 {
    u64::try_from(rounds(200, 10_000)).unwrap_or(200)
}

/// How many of its jobs succeed.
pub(super) fn successes() -> u64 {
    width()
}

pub(super) async fn submit(stage: &CampaignStage) -> SubmittedWorkflow {
    let engine = &stage.submitter;
    let mut flow = engine.workflow("join");
    let first = flow.step("first", job(engine, NUMBERS + 3)).add();
    let mut parents: Vec<Step<Value>> = Vec::new();
    for place in 0..width() {
        let CampaignJob { number } = JoinJob::job(NUMBERS, place);
        parents.push(flow.step(JoinJob::parent(place), job(engine, number)).after(&first).add());
    }
    let join = engine.enqueue(JoinJob { parents: width() }).policy(policy());
    let join = flow.step("join", join).after_all(&parents).add();
    flow.step("any", job(engine, NUMBERS + 4)).after_all(&parents).join_any().add();
    flow.step("last", job(engine, NUMBERS + 5)).after(&join).add();
    let callback = callback(Family::Joins, 0);
    flow.on_success(&callback).on_failure(&callback).submit().await.expect("stored")
}

/// The step that joins has succeeded once, with the results of all the others.
pub(super) async fn check(stage: &CampaignStage, submitted: &SubmittedWorkflow) {
    let view = stage.workflow(submitted.id).await;
    assert_eq!(view.status, WorkflowStatus::Succeeded, "{:?}", view.counts);
    assert_eq!((view.counts.total, view.counts.succeeded), (width() + 4, width() + 4));
    let join = view.nodes.iter().find(|node| &*node.name == "join").expect("it was submitted");
    let job = stage.job(join.job).await;
    let sum: u64 = (0..width()).map(JoinJob::ends).sum();
    assert_eq!((job.state(), job.result.as_deref()), (State::Succeeded, Some(&*sum.to_string())));
    let rows = stage.engine.attempts(join.job, PageRequest::first(1_000)).await.expect("readable").items;
    // Whoever takes it may die, with it or on the way to it.
    let lost = [Cause::Crash, Cause::Interrupted];
    let ends = rows.iter().map(|row| row.cause).filter(|cause| !lost.contains(cause));
    assert_eq!(ends.collect::<Vec<_>>(), [Cause::Succeeded], "it failed or ran again");
}
