//! Jobs that leave for good, and what is kept of them outside (L16, D5).
//!
//! Nothing here decides what may go: the store refuses what has not ended, and age never removes a job that did not
//! run.

pub use backstop_store::Archived;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::job::{Attempt, JobDetail, State};
use backstop_core::{JobId, Refusal, WorkerId};
use backstop_store::{Duty, Error as StoreError, JobFilter, Page, PageRequest, Survey};
use serde::Serialize;

use crate::engine::Backstop;
use crate::parts::EngineParts;
use crate::rejects;

/// Jobs that are read and removed together, so that no transaction is long.
const BATCH: usize = 500;

/// Runs of a job that are read at once.
const RUNS: usize = 1_000;

/// A job as it is exported: all that is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exported {
    /// The job.
    pub id: JobId,
    /// How it ended, or where it is.
    pub state: State,
    /// JSON text: `job` and `attempts`, the runs oldest first, as in the archive.
    pub document: Arc<str>,
}

impl Exported {
    /// An archived job, as [`Archive::page`] lists it.
    #[must_use]
    pub fn archived(id: JobId, archived: Archived) -> Self {
        Self { id, state: archived.state, document: archived.document }
    }
}

/// What a purge did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Purged {
    /// Jobs that are gone.
    pub purged: u64,
    /// Jobs that were driven again or taken by others before their turn came, and stay as they are.
    pub left: u64,
}

/// Why a purge stopped; every batch before it is gone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PurgeError<E: std::error::Error + 'static> {
    /// What was to be done with a batch before it goes failed; the batch is still there.
    #[error(transparent)]
    Batch(E),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A node that prunes by itself is done with a round within moments: pruning by hand waits for that, so often and so
/// long.
const MOST_TRIES: u32 = 20;
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// Jobs that have ended: see [`Backstop::archive`].
#[derive(Debug, Clone, Copy)]
pub struct Archive<'a> {
    parts: &'a Arc<EngineParts>,
}

impl Backstop {
    /// Jobs that have ended: reading them when they have left the hot tables, exporting them, removing them (L16, D5).
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// # use std::time::Duration;
    /// # use backstop::{Config, Retention};
    /// # #[job]
    /// # async fn greet() {}
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// let at_once = Retention::default().succeeded(Some(Duration::ZERO));
    /// let engine = Backstop::open_with("memory:", Config::default().retention(at_once)).await?;
    /// let job = engine.enqueue(Greet {}).submit().await?;
    /// engine.worker(()).register::<Greet>().queue("default", 1).inline()?.drain(1).await?;
    /// engine.maintain(backstop::worker_id(), Duration::from_secs(30)).await?;
    /// assert!(engine.job(job.id).await?.is_none());
    /// let archived = engine.archive().get(job.id).await?.ok_or("it has ended")?;
    /// assert_eq!(archived.state, backstop::State::Succeeded);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub const fn archive(&self) -> Archive<'_> {
        Archive { parts: &self.parts }
    }
}

impl Archive<'_> {
    /// Looks an archived job up: how it ended, and all that was known of it as JSON text (L16).
    ///
    /// # Errors
    /// When the store is away.
    pub async fn get(self, job: JobId) -> Result<Option<Archived>, StoreError> {
        Ok(self.parts.store.archived(vec![job]).await?.pop().flatten())
    }

    /// Removes jobs that have ended, hot or archived, for good (D5). One answer per job, in order: how it had ended,
    /// or why it stays. Idempotency keys keep answering (L10).
    ///
    /// # Errors
    /// When the store is away.
    pub async fn purge(self, jobs: Vec<JobId>) -> Result<Vec<Result<State, Refusal>>, StoreError> {
        let mut answers = Vec::with_capacity(jobs.len());
        for batch in jobs.chunks(BATCH) {
            answers.extend(self.purge_batch(batch, None).await?);
        }
        Ok(answers)
    }

    /// Removes every hot job that the filter finds, in bounded batches, newest first (D5).
    ///
    /// Each batch is shown to `before`, which may keep it elsewhere with [`Archive::export_jobs`], and goes when
    /// that has succeeded. Jobs that have not ended stay.
    ///
    /// # Errors
    /// [`PurgeError::Batch`] with the answer of `before`, or when the store is away. What went before stays gone.
    pub async fn purge_matching<F, Fut, E>(
        self,
        filter: JobFilter,
        mut before: F,
    ) -> Result<Purged, PurgeError<E>>
    where
        F: FnMut(Vec<JobId>) -> Fut,
        Fut: Future<Output = Result<(), E>>,
        E: std::error::Error + 'static,
    {
        let mut sum = Purged::default();
        let mut after = None;
        loop {
            let (batch, next) = self.ended_page(&filter, after).await?;
            if !batch.is_empty() {
                before(batch.clone()).await.map_err(PurgeError::Batch)?;
                let Purged { purged, left } = self.purge_those(batch, filter.state).await?;
                sum.purged += purged;
                sum.left += left;
            }
            match next {
                // Keyset by id: what stays is behind the cursor and is not seen again.
                Some(_) => after = next,
                None => return Ok(sum),
            }
        }
    }

    /// Removes one batch of what [`Archive::purge_matching`] removes: the newest behind `after`. Answers where to go
    /// on; none when there are no more.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn purge_page(
        self,
        filter: &JobFilter,
        after: Option<JobId>,
    ) -> Result<(Purged, Option<JobId>), StoreError> {
        let (batch, next) = self.ended_page(filter, after).await?;
        Ok((self.purge_those(batch, filter.state).await?, next))
    }

    /// Removes these jobs for good where they are in the state `only`, and leaves the others (D5).
    ///
    /// # Errors
    /// When the store is away.
    pub async fn purge_those(self, jobs: Vec<JobId>, only: Option<State>) -> Result<Purged, StoreError> {
        let mut sum = Purged::default();
        for batch in jobs.chunks(BATCH) {
            // What was driven again since it was listed, and is done by now, is not what was asked for.
            for answer in self.purge_batch(batch, only).await? {
                *(if answer.is_ok() { &mut sum.purged } else { &mut sum.left }) += 1;
            }
        }
        Ok(sum)
    }

    /// Removes jobs, and after them what they have rejected (W9). A process that dies in between leaves rejects to
    /// their own retention.
    async fn purge_batch(
        self,
        jobs: &[JobId],
        only: Option<State>,
    ) -> Result<Vec<Result<State, Refusal>>, StoreError> {
        let store = &*self.parts.store;
        let owners = rejects::stored::owners(store, jobs).await?;
        let answers = store.purge(jobs.to_vec(), only).await?;
        for (job, queue) in owners {
            let purged = jobs.iter().zip(&answers).any(|(one, answer)| *one == job && answer.is_ok());
            if purged {
                rejects::stored::forget_job(store, &queue, job).await?;
            }
        }
        Ok(answers)
    }

    /// The jobs of a page that have ended, and where the next page begins.
    async fn ended_page(
        self,
        filter: &JobFilter,
        after: Option<JobId>,
    ) -> Result<(Vec<JobId>, Option<JobId>), StoreError> {
        let found = self.parts.store.list(filter.clone(), PageRequest { limit: BATCH, after }).await?;
        let ended = found.items.iter().filter(|view| view.record.state.is_terminal());
        Ok((ended.map(|view| view.job.spec.id).collect(), found.next))
    }

    /// Counts the jobs that a filter finds by what they have in common, `most` of them at most: a dry run (D5).
    ///
    /// # Errors
    /// When the store is away.
    pub async fn survey(self, filter: JobFilter, most: usize) -> Result<Survey, StoreError> {
        self.parts.store.survey(filter, most).await
    }

    /// A page of hot jobs with all that is known of each, newest first.
    ///
    /// # Errors
    /// When the store is away or the page is too large.
    pub async fn export(
        self,
        filter: JobFilter,
        page: PageRequest<JobId>,
    ) -> Result<Page<Exported, JobId>, StoreError> {
        self.parts.config.check_page(page.limit)?;
        let found = self.parts.store.list(filter, page).await?;
        let ids = found.items.iter().map(|view| view.job.spec.id).collect();
        Ok(Page { items: self.export_jobs(ids).await?, next: found.next })
    }

    /// All that is known of these hot jobs, in order; one that is gone is left out.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn export_jobs(self, jobs: Vec<JobId>) -> Result<Vec<Exported>, StoreError> {
        let store = &self.parts.store;
        let mut items = Vec::with_capacity(jobs.len());
        for detail in store.jobs(jobs).await?.into_iter().flatten() {
            let runs = self.all_runs(&detail).await?;
            let state = detail.view.record.state;
            // The document of the archive, so that whoever reads one can read the other.
            let archived = Archived::new(&detail, &runs, detail.view.job.created_at).map_err(|problem| {
                StoreError::Corrupt { location: store.info().location, problem: problem.to_string() }
            })?;
            items.push(Exported { id: detail.view.job.spec.id, state, document: archived.document });
        }
        Ok(items)
    }

    /// The runs of a job that have ended, oldest first.
    async fn all_runs(self, detail: &JobDetail) -> Result<Vec<Attempt>, StoreError> {
        let (mut runs, mut page) = (Vec::new(), PageRequest::first(RUNS));
        if detail.view.record.runs == 0 {
            return Ok(runs);
        }
        loop {
            let found = self.parts.store.attempts(detail.view.job.spec.id, page).await?;
            runs.extend(found.items);
            match found.next {
                Some(next) => page.after = Some(next),
                None => break,
            }
        }
        runs.reverse();
        Ok(runs)
    }

    /// A page of archived jobs, newest first (L16).
    ///
    /// # Errors
    /// When the store is away or the page is too large.
    pub async fn page(self, page: PageRequest<JobId>) -> Result<Page<(JobId, Archived), JobId>, StoreError> {
        self.parts.config.check_page(page.limit)?;
        self.parts.store.archive_page(page).await
    }

    /// How many archived jobs [`Archive::prune`] would remove, counted up to `most` (D5).
    ///
    /// # Errors
    /// When the store is away.
    pub async fn prunable(self, keep: Duration, most: usize) -> Result<usize, StoreError> {
        self.parts.store.prunable(keep, most).await
    }

    /// Removes one batch of archived jobs that were archived `keep` ago or earlier, and says how many and whether more
    /// may be left (D5). One that never ran stays, whatever its age (L16).
    ///
    /// Maintenance does this by itself, by [`Retention::archive`](crate::Retention); `node` leads that duty for
    /// `term`. None when another node leads it now.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn prune(
        self,
        node: WorkerId,
        term: Duration,
        keep: Duration,
    ) -> Result<Option<(usize, bool)>, StoreError> {
        let store = &self.parts.store;
        let mut tries = 0;
        let term = loop {
            match store.lead(node, vec![Duty::Prune], term).await?.pop().flatten() {
                Some(term) => break term,
                None if tries == MOST_TRIES => return Ok(None),
                None => tries += 1,
            }
            tokio::time::sleep(TRY_AGAIN).await;
        };
        match store.prune(term, keep, BATCH).await {
            Ok(pruned) => Ok(Some((pruned, pruned == BATCH))),
            Err(StoreError::Deposed { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
