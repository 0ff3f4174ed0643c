//! Batches, of which one is handled many jobs at a time.

use backstop::workflows::{WorkflowId, WorkflowStatus};
use backstop_chaos::rounds;
use backstop_chaos::shape::CampaignShape::Workers;
use backstop_chaos::together::BulkCampaignJob;
use backstop_chaos::work::policy;

use super::{CampaignStage, Family, callback, job};

/// How many batches there are.
pub(super) const COUNT: u64 = 2;

/// Jobs of each batch. A tenth of them never works.
fn children() -> u64 {
    u64::try_from(rounds(100, 10_000)).unwrap_or(100)
}

/// How many of their jobs succeed.
pub(super) fn successes() -> u64 {
    COUNT * children() * 9 / 10
}

pub(super) async fn submit(stage: &CampaignStage, number: u64) -> WorkflowId {
    let (engine, children) = (&stage.submitter, children());
    let batch = engine.batch(format!("batch {number}")).failures_at_most(children / 10);
    let batch = batch.then_on_success(callback(Family::Batches, number));
    let batch = batch.then_on_failure(callback(Family::Batches, number));
    // A remote worker gets one job at a time.
    let together = number == 1 && stage.shape == Workers;
    let child = |child| match together {
        true => engine.enqueue(BulkCampaignJob { number: child }).policy(policy()).untyped(),
        false => job(engine, 10 * children * (number + 1) + child),
    };
    batch.for_each(0..children, child).await.expect("stored").id
}

pub(super) async fn check_all(stage: &CampaignStage, submitted: &[WorkflowId]) {
    let children = children();
    for (number, id) in submitted.iter().enumerate() {
        let view = stage.workflow(*id).await;
        let progress = view.batch.expect("a batch");
        let ended = [progress.total, progress.succeeded, progress.failed, progress.canceled];
        assert_eq!(ended, [children, children * 9 / 10, children / 10, 0], "batch {number}");
        assert_eq!(view.status, WorkflowStatus::Succeeded, "batch {number}");
    }
}
