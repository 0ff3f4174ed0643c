//! Steps that were called off and run after all, because the dead step before them was driven again (W4).
//!
//! What was called off stays so: another job takes its place, made of what had been submitted. Dead letters stay longer
//! than canceled jobs, so that may be in the archive by then.

use std::collections::BTreeSet;

use backstop_core::job::{NewJob, Spec};
use backstop_core::workflow::{Advance, EndNote, JobEnd, NodeEnd, PartOf, WorkflowMark};
use backstop_core::{JobId, Timestamp};
use backstop_store::Error as StoreError;

use super::stored::StoredWorkflow;
use crate::parts::EngineParts;
use crate::{sealing, signing};

/// The jobs that take the places of those called off. A step of which nothing is left any more fails, with what follows
/// from that, and so does one whose job is `refused`, because another job holds its business key. None when the payload
/// of one cannot be opened here: its workflow waits for whoever has the key.
pub(super) async fn renewed(
    parts: &EngineParts,
    stored: &mut StoredWorkflow,
    follows: &mut Advance,
    refused: &BTreeSet<JobId>,
    now: Timestamp,
) -> Result<Option<Vec<NewJob>>, StoreError> {
    let mut jobs = Vec::new();
    loop {
        let wanted = std::mem::take(&mut follows.renew);
        if wanted.is_empty() {
            return Ok(Some(jobs));
        }
        let mut lost = Vec::new();
        let found = submitted(parts, wanted.iter().map(|(_, old, _)| *old).collect()).await?;
        for ((number, old, again), spec) in wanted.into_iter().zip(found) {
            match spec {
                Some(spec) if !refused.contains(&again) => match anew(parts, spec, again) {
                    Ok(job) => jobs.push(job),
                    Err(problem) => {
                        tracing::error!(job = %old, problem, "a step cannot run again, and its workflow waits");
                        return Ok(None);
                    }
                },
                spec => {
                    // Of one that is refused it was said why.
                    if spec.is_none() {
                        tracing::error!(job = %old, "a step cannot run again and has failed: it was purged");
                    }
                    let mark = WorkflowMark { id: stored.workflow.id, number };
                    let note = EndNote { job: again, mark, end: NodeEnd::Failed, again: false };
                    lost.push(JobEnd { note, result: None });
                }
            }
        }
        if !lost.is_empty() {
            let graph = stored.graph.clone();
            follows.extend(stored.workflow.advance(graph.as_deref(), &lost, now));
        }
    }
}

/// What was submitted as these jobs, hot or archived.
async fn submitted(parts: &EngineParts, jobs: Vec<JobId>) -> Result<Vec<Option<Spec>>, StoreError> {
    let hot = parts.store.jobs(jobs.clone()).await?;
    let mut specs: Vec<Option<Spec>> =
        hot.into_iter().map(|detail| detail.map(|detail| detail.view.job.spec)).collect();
    let gone: Vec<usize> = (0..specs.len()).filter(|at| specs[*at].is_none()).collect();
    if !gone.is_empty() {
        let archived = parts.store.archived(gone.iter().map(|at| jobs[*at]).collect()).await?;
        for (at, archived) in gone.into_iter().zip(archived) {
            specs[at] = archived.and_then(|archived| archived.submitted());
        }
    }
    Ok(specs)
}

/// The same under another id.
fn anew(parts: &EngineParts, mut spec: Spec, again: JobId) -> Result<NewJob, String> {
    // What is sealed is bound to its job.
    sealing::reopen(&parts.config, &mut spec).map_err(|problem| problem.to_string())?;
    spec.id = again;
    if let Some(PartOf { renewed, .. }) = &mut spec.provenance_mut().part_of {
        *renewed = true;
    }
    sealing::close(&parts.config, &mut spec).map_err(|refusal| refusal.to_string())?;
    signing::vouch(&parts.config, &mut spec);
    Ok(NewJob::new(spec))
}
