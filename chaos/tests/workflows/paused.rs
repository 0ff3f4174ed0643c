//! Workflows that people hold back for a while (W4).

use std::collections::BTreeMap;

use backstop::workflows::{SubmittedWorkflow, WorkflowId, WorkflowStatus};
use backstop::{JobId, State};
use backstop_store::{JobFilter, PageRequest};

use super::CampaignStage;

/// What is held back: the jobs that had not started when a workflow was paused, with the runs that they had had.
#[derive(Debug, Default)]
pub(super) struct HeldJobs(BTreeMap<WorkflowId, BTreeMap<JobId, u32>>);

impl HeldJobs {
    /// Pauses a third of the graphs, whose signals nobody has sent by then.
    pub(super) async fn pause_graphs(&mut self, stage: &CampaignStage, submitted: &[SubmittedWorkflow]) {
        for workflow in submitted.iter().skip(1).step_by(3) {
            let jobs = workflow.nodes.iter().map(|(_, job)| *job).collect();
            self.pause(stage, workflow.id, jobs).await;
        }
    }

    /// Pauses a batch.
    pub(super) async fn pause_batch(&mut self, stage: &CampaignStage, id: WorkflowId) {
        let filter = JobFilter { tag: Some(format!("batch:{id}")), ..JobFilter::default() };
        let (mut jobs, mut page) = (Vec::new(), PageRequest::first(1_000));
        loop {
            let found = stage.engine.jobs(filter.clone(), page).await.expect("readable");
            jobs.extend(found.items.iter().map(|view| view.job.spec.id));
            match found.next {
                Some(next) => page.after = Some(next),
                None => break,
            }
        }
        assert!(!jobs.is_empty(), "the jobs of a batch have its tag");
        self.pause(stage, id, jobs).await;
    }

    async fn pause(&mut self, stage: &CampaignStage, id: WorkflowId, jobs: Vec<JobId>) {
        stage.submitter.workflows().pause(id).await.expect("it is stored");
        let mut held = BTreeMap::new();
        for job in jobs {
            let view = stage.job(job).await;
            if view.state() == State::Paused {
                held.insert(job, view.record.runs);
            }
        }
        let status = stage.workflow(id).await.status;
        assert!(status == WorkflowStatus::Paused || held.is_empty(), "{id} holds {held:?}, and is {status}");
        self.0.insert(id, held);
    }

    /// Nothing of it has run; then all of it may.
    pub(super) async fn resume(self, stage: &CampaignStage) -> usize {
        let held_back = self.0.values().map(BTreeMap::len).sum();
        assert!(held_back > 0, "the pauses met something to hold back");
        for (id, held) in self.0 {
            for (job, runs) in &held {
                let view = stage.job(*job).await;
                let (state, now) = (view.state(), view.record.runs);
                // A run that was under way may die meanwhile, and calls off what waits for it, paused or not.
                let is_still = matches!(state, State::Paused | State::Canceled) && now == *runs;
                assert!(is_still, "job {job} of {id} went on in a pause: {state}, {now} runs after {runs}");
            }
            stage.submitter.workflows().resume(id).await.expect("it is stored");
            for job in held.keys() {
                assert_ne!(stage.job(*job).await.state(), State::Paused, "job {job} of {id} is held back");
            }
        }
        held_back
    }
}
