//! A worker without loops: runs due jobs one after another in the calling task.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::JobId;
use backstop_core::failure::Cause;
use backstop_core::job::State;
use backstop_store::{Claim, ClaimQueue, ClaimedJob, Error as StoreError, NewWorker};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::execute::{Closing, Executor};
use super::parts::WorkerParts;
use super::slots::QueueSlots;
use crate::error::Error;
use crate::workflows::advance::{NoteScope, advance_all};

/// Long enough that no test and no drain outlives it between two renewals.
const LEASE: Duration = Duration::from_secs(600);

/// A worker that does nothing by itself.
///
/// ```
/// # use backstop::prelude::*;
/// use backstop::{Cause, Ran};
///
/// # #[job]
/// # async fn greet() {}
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> JobResult {
/// # let engine = Backstop::open("memory:").await?;
/// engine.enqueue(Greet {}).submit().await?;
/// let worker = engine.worker(()).register::<Greet>().queue("default", 1).inline()?;
/// let Some(Ran { cause, .. }) = worker.run_next().await? else { return Err("one is due".into()) };
/// assert_eq!(cause, Cause::Succeeded);
/// # Ok(()) }
/// ```
pub struct InlineWorker {
    executor: Executor,
    queues: Vec<Arc<str>>,
    name: String,
}

/// One run that an [`InlineWorker`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// The job.
    pub job: JobId,
    /// Its kind.
    pub kind: Arc<str>,
    /// The cause its run ended by.
    pub cause: Cause,
    /// Where the job is now; none when its lease was lost meanwhile.
    pub state: Option<State>,
}

impl InlineWorker {
    pub(crate) fn new(parts: WorkerParts) -> Self {
        let queues = parts.queues.into_iter().map(|queue| queue.name).collect();
        Self { executor: parts.executor, queues, name: parts.name }
    }

    /// Runs the next due job, if there is one.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn run_next(&self) -> Result<Option<Ran>, Error> {
        let parts = &self.executor.engine.parts;
        let store = &parts.store;
        let worker = crate::ids::worker_id();
        store.enlist(self.introduction(worker)).await?;
        let limits = parts.limits.read(&**store, &parts.config).await?;
        let mut next = None;
        for queue in &self.queues {
            let mut claim = self.claim(worker, queue);
            parts.limits.apply(limits.clone(), &mut claim);
            let claimed = store.claim(claim).await?;
            if let Some(mut job) = claimed.jobs.into_iter().next() {
                // A suspect is alone here by itself (C3).
                let started = job.is_started()
                    || (store.start(vec![job.lease]).await?.iter().all(Result::is_ok) && job.note_started());
                let part = job.job.spec.part_of().is_some();
                next = if started { Some(self.run(job).await?) } else { None };
                if part {
                    // No loop does it here.
                    advance_all(parts, NoteScope::OwnRuns, None).await?;
                }
                break;
            }
        }
        store.retire(worker).await?;
        Ok(next)
    }

    /// Runs due jobs until none is left, or `limit` have run.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn drain(&self, limit: usize) -> Result<Vec<Ran>, Error> {
        let mut ran = Vec::new();
        while ran.len() < limit {
            match self.run_next().await? {
                Some(one) => ran.push(one),
                None => break,
            }
        }
        Ok(ran)
    }

    fn introduction(&self, id: backstop_core::WorkerId) -> NewWorker {
        NewWorker {
            id,
            name: self.name.clone(),
            code_version: self.executor.code_version.as_deref().map(str::to_owned),
            queues: self.queues.clone(),
            kinds: self.executor.kinds.known(),
            lease: LEASE,
        }
    }

    fn claim(&self, worker: backstop_core::WorkerId, queue: &Arc<str>) -> Claim {
        let config = &self.executor.engine.parts.config;
        let any_kind = config.queues.get(&**queue).is_some_and(|queue| queue.fail_unknown_kind);
        Claim {
            worker,
            queues: vec![ClaimQueue { queue: queue.clone(), limit: 1, start: 1, any_kind }],
            kinds: self.executor.kinds.known(),
            aging: config.aging,
            limits: Arc::default(),
        }
    }

    async fn run(&self, claimed: ClaimedJob) -> Result<Ran, StoreError> {
        let engine = &self.executor.engine.parts;
        let (job, kind) = (claimed.lease.job, claimed.job.spec.kind.clone());
        let first = claimed.record.runs == 1;
        let canceled = CancellationToken::new();
        engine.runs.add(job, canceled.clone());
        let slots = QueueSlots::new(claimed.job.spec.queue.clone(), 1, Arc::new(Notify::new()));
        let slot = Arc::new(slots.reserve(1).take());
        let needs = self.executor.needs_of(&claimed.job.spec);
        let closing = self.executor.execute(claimed, needs, canceled, CancellationToken::new(), slot).await;
        engine.runs.remove(job);
        let finish = match closing {
            Closing::Write { finish, .. } => *finish,
            Closing::Completed => {
                return Ok(Ran { job, kind, cause: Cause::Succeeded, state: Some(State::Succeeded) });
            }
            Closing::Lost => return Ok(Ran { job, kind, cause: Cause::Canceled, state: None }),
        };
        let cause = finish.ending.cause;
        let mut endings = [finish];
        engine.place(&mut endings).await;
        if first {
            engine.budgets.note_first_run(&kind);
        }
        let answer = engine.store.finish(endings.into()).await?.pop();
        Ok(Ran { job, kind, cause, state: answer.and_then(Result::ok) })
    }
}
