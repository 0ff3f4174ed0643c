//! How an application submits: one job, or many in one transaction.

use std::sync::Arc;

use backstop_core::admit::admit_vouched;
use backstop_core::job::NewJob;
use backstop_core::{Refusal, Timestamp};
use backstop_store::{Error as StoreError, Submit, Submitted};

use super::Enqueue;
use crate::engine::Backstop;
use crate::job::{Job, ResultOf};
use crate::parts::EngineParts;
use crate::signing;

impl Backstop {
    /// Prepares a typed job; nothing is stored before [`Enqueue::submit`].
    pub fn enqueue<J: Job>(&self, job: J) -> Enqueue<ResultOf<J>> {
        Enqueue::typed(&self.parts, &job)
    }

    /// Prepares a job by the name of its kind, with its payload as JSON text.
    pub fn enqueue_raw(&self, kind: &str, payload: impl Into<Arc<str>>) -> Enqueue {
        Enqueue::raw(&self.parts, kind, payload)
    }

    /// Stores many jobs in one transaction. `atomic` stores all or none. Jobs of several kinds become one list with
    /// [`Enqueue::untyped`].
    ///
    /// # Errors
    /// When the store is away. Refusals are answered per job.
    pub async fn submit_all<T>(
        &self,
        jobs: Vec<Enqueue<T>>,
        atomic: bool,
    ) -> Result<Vec<Result<Submitted, Refusal>>, StoreError> {
        submit_all(&self.parts, jobs, atomic).await
    }

    /// Stores jobs that were made by [`Enqueue::into_new_job`], here or in another program, as they are: they pass the
    /// checks of every submit, and where there are signing keys the signature that they carry is verified (L12).
    ///
    /// # Errors
    /// When the store is away. Refusals are answered per job.
    pub async fn submit_made(
        &self,
        jobs: Vec<NewJob>,
        atomic: bool,
    ) -> Result<Vec<Result<Submitted, Refusal>>, StoreError> {
        submit_made(&self.parts, jobs, atomic).await
    }
}

/// Submits many: what `admit` refuses never reaches the store.
async fn submit_all<T>(
    parts: &EngineParts,
    jobs: Vec<Enqueue<T>>,
    atomic: bool,
) -> Result<Vec<Result<Submitted, Refusal>>, StoreError> {
    check_count(parts, jobs.len())?;
    let now =
        if jobs.iter().any(Enqueue::counts_from_now) { parts.store.now().await? } else { Timestamp::EPOCH };
    store_admitted(parts, jobs.into_iter().map(|job| job.into_new_job_at(now)).collect(), atomic).await
}

/// Submits jobs that were made elsewhere, as they are.
async fn submit_made(
    parts: &EngineParts,
    jobs: Vec<NewJob>,
    atomic: bool,
) -> Result<Vec<Result<Submitted, Refusal>>, StoreError> {
    check_count(parts, jobs.len())?;
    let config = &parts.config;
    let admitted = jobs.into_iter().map(|mut job| {
        let gate = config.gate(&job.spec.queue);
        // Those of this program count, not those of whoever made it.
        job.depth_limits = config.depth_limits(&job.spec.queue);
        admit_vouched(&job, &config.limits, &gate, |spec| signing::vouched(config, spec))
            .map(|()| job)
            .inspect_err(|refusal| parts.figures.refused(refusal))
    });
    store_admitted(parts, admitted.collect(), atomic).await
}

fn check_count(parts: &EngineParts, actual: usize) -> Result<(), StoreError> {
    let limit = parts.config.limits.batch;
    if actual > limit { Err(StoreError::TooMany { what: "jobs", actual, limit }) } else { Ok(()) }
}

/// Stores what was admitted, and answers for all in their order.
async fn store_admitted(
    parts: &EngineParts,
    prepared: Vec<Result<NewJob, Refusal>>,
    atomic: bool,
) -> Result<Vec<Result<Submitted, Refusal>>, StoreError> {
    let refused = prepared.iter().position(Result::is_err);
    if let (true, Some(index)) = (atomic, refused) {
        let answer = |job: Result<NewJob, Refusal>| Err(job.err().unwrap_or(Refusal::BatchRefused { index }));
        return Ok(prepared.into_iter().map(answer).collect());
    }
    let mut accepted = Vec::with_capacity(prepared.len());
    let mut answers: Vec<Option<Refusal>> = Vec::with_capacity(prepared.len());
    for job in prepared {
        match job {
            Ok(job) => {
                accepted.push(job);
                answers.push(None);
            }
            Err(refusal) => answers.push(Some(refusal)),
        }
    }
    parts.circuits.own.mark(&*parts.store, &accepted).await;
    let mut stored = parts.store.submit(Submit { jobs: accepted, atomic }).await?.into_iter();
    let merge = |refusal: Option<Refusal>| match refusal {
        Some(refusal) => Err(refusal),
        None => stored.next().unwrap_or(Err(Refusal::BatchRefused { index: 0 })),
    };
    Ok(answers.into_iter().map(merge).collect())
}
