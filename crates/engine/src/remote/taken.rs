//! Jobs between the store and the worker that asked for them. Whoever hangs up in between takes nothing.

use std::sync::Arc;

use backstop_core::WorkerId;
use backstop_core::failure::{Cause, Decision};
use backstop_core::job::Ending;
use backstop_store::Finish;

use super::work::Handed;
use crate::parts::EngineParts;

/// Jobs of one batch that nobody has been told of yet: dropped, they go back without blame (C2).
pub(super) struct Taken {
    parts: Arc<EngineParts>,
    batch: WorkerId,
    pub(super) jobs: Vec<Handed>,
}

impl Taken {
    pub(super) const fn new(parts: Arc<EngineParts>, batch: WorkerId) -> Self {
        Self { parts, batch, jobs: Vec::new() }
    }

    /// Hands the jobs over. From here on they are the caller's.
    pub(super) fn keep(mut self) -> Vec<Handed> {
        std::mem::take(&mut self.jobs)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let jobs = std::mem::take(&mut self.jobs);
        // Without a runtime the process ends, and the lease finds them.
        let (false, Ok(runtime)) = (jobs.is_empty(), tokio::runtime::Handle::try_current()) else { return };
        let (parts, batch) = (self.parts.clone(), self.batch);
        runtime.spawn(async move { hand_back(&parts, batch, &jobs).await });
    }
}

async fn hand_back(parts: &EngineParts, batch: WorkerId, jobs: &[Handed]) {
    let store = &parts.store;
    for handed in jobs {
        parts.give_try_back(handed.grant.circuit, &handed.view.job.spec).await;
    }
    let endings = jobs.iter().map(|handed| {
        let header = handed.view.job.spec.header();
        let ending = Ending::plain(header, Cause::Interrupted, Decision::handed_back());
        Finish { lease: handed.grant.lease, ending }
    });
    // While jobs are held, the row stays: without it they would count as crashed at once.
    let done = match store.finish(endings.collect()).await {
        Ok(_) => store.retire(batch).await,
        Err(error) => Err(error),
    };
    if let Err(error) = done {
        tracing::warn!(%error, jobs = jobs.len(), "jobs that nobody waited for are requeued when their lease expires");
    }
}
