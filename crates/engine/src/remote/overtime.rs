//! The time of runs that were handed to workers elsewhere (F10). Such a worker keeps to the limit itself, if it is
//! kind; this is for all others: over its limit the hold ends as a timeout, and what the worker says after that is
//! stale.
//!
//! Whoever leads the rescue of orphans looks at the store once a round.

use std::collections::HashMap;
use std::sync::Arc;

use backstop_core::event::EventKind;
use backstop_core::{JobId, Lease};
use backstop_store::{Error as StoreError, Finish};

use super::Remote;
use super::clocks::{Due, lease};
use super::finish::RemoteEnding;
use crate::circuits::stored::DeadTries;
use crate::outcome::{Failed, Reply};
use crate::run::end::overtime;

/// Jobs that are read in one call at most.
const BATCH: usize = 500;

impl Remote {
    /// Ends what has run longer than it may, and warns of what soon will.
    ///
    /// # Errors
    /// When the store is away.
    pub(crate) async fn keep_time(&self) -> Result<(), StoreError> {
        let store = &self.parts.store;
        let runs = store.handed_out().await?;
        let clocks = &self.memory.clocks;
        for ids in clocks.unknown(&runs).chunks(BATCH) {
            clocks.learn(store.jobs(ids.to_vec()).await?.into_iter().flatten());
        }
        if runs.is_empty() {
            return Ok(());
        }
        let due = clocks.due(&runs, store.now().await?);
        for some in due.chunks(BATCH) {
            self.act(some).await?;
        }
        Ok(())
    }

    async fn act(&self, due: &[(Lease, Due)]) -> Result<(), StoreError> {
        let store = &self.parts.store;
        let details = store.jobs(due.iter().map(|(lease, _)| lease.job).collect()).await?;
        let mut ends = Vec::new();
        for ((held, what), detail) in due.iter().zip(details) {
            let Some(detail) = detail.filter(|detail| lease(detail) == Some(*held)) else { continue };
            match what {
                Due::Warning => {
                    let run = detail.view.record.runs;
                    self.parts.publish(&detail.view.job, EventKind::TimeoutNear { run }).await;
                }
                Due::End(limit) => ends.push((*held, *limit, detail)),
            }
        }
        if ends.is_empty() {
            return Ok(());
        }
        let versions: HashMap<_, _> =
            store.workers().await?.into_iter().map(|worker| (worker.id, worker.code_version)).collect();
        let mut reports = Vec::with_capacity(ends.len());
        for (lease, limit, detail) in ends {
            let code_version = versions.get(&lease.worker).cloned().flatten().map(Arc::from);
            let (job, record) = (Arc::new(detail.view.job), detail.view.record);
            tracing::warn!(job = %lease.job, kind = %job.spec.kind, ?limit,
                "a remote worker ran a job past its time limit: the run was ended");
            let first = record.runs == 1;
            let reply = Reply(Err(Failed::plain(overtime(limit))));
            let ending = self.end(job, record, reply, None, code_version).await;
            reports.push(RemoteEnding { finish: Finish { lease, ending }, first, suspect: None });
        }
        let jobs: Vec<JobId> = reports.iter().map(|report| report.finish.lease.job).collect();
        let tries = DeadTries::of(&**store, &jobs).await?;
        let answers = self.write(reports).await?;
        let ended = jobs.into_iter().zip(answers).filter_map(|(job, answer)| answer.ok().map(|_| job));
        // Their workers are not asked any more what they think of the dependency.
        self.parts.circuits.note_overdue(&tries, &ended.collect::<Vec<_>>());
        self.parts.circuits.tell(&(&*self.parts).into()).await;
        Ok(())
    }
}
