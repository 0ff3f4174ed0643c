//! A worker without loops: runs due jobs one after another in the calling task.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use backstop_core::JobId;
use backstop_core::failure::Cause;
use backstop_core::job::State;
use backstop_store::{Claim, ClaimQueue, ClaimedJob, Error as StoreError, KnownKind, NewWorker};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::execute::{Closing, Executor};
use super::parts::WorkerParts;
use super::slots::{QueueSlots, RunSlot};
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
        Ok(self.run_together(1).await?.pop())
    }

    /// Runs the next due job. If it is of a bulk kind, others of its kind and queue that are due run with it, in one
    /// call, up to `limit` jobs (W12).
    ///
    /// # Errors
    /// When the store is away.
    pub async fn run_together(&self, limit: usize) -> Result<Vec<Ran>, Error> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let store = &self.executor.engine.parts.store;
        let worker = crate::ids::worker_id();
        store.enlist(self.introduction(worker)).await?;
        let mut ran = Vec::new();
        for queue in &self.queues {
            let claim = self.claim(worker, queue, self.executor.kinds.known(), 1);
            if let Some(first) = self.take(claim).await?.pop() {
                ran = self.run_all(worker, first, limit).await?;
                break;
            }
        }
        store.retire(worker).await?;
        Ok(ran)
    }

    /// Claims within the limits that are in force.
    async fn take(&self, mut claim: Claim) -> Result<Vec<ClaimedJob>, StoreError> {
        let parts = &self.executor.engine.parts;
        let limits = parts.limits.read(&*parts.store, &parts.config).await?;
        parts.limits.apply(limits, &mut claim);
        Ok(parts.store.claim(claim).await?.jobs)
    }

    /// Runs a job, and with it what one call of its kind can have.
    async fn run_all(
        &self,
        worker: backstop_core::WorkerId,
        first: ClaimedJob,
        limit: usize,
    ) -> Result<Vec<Ran>, Error> {
        let parts = &self.executor.engine.parts;
        let (spec, most) = (&first.job.spec, self.executor.kinds.most_together(&first.job.spec).min(limit));
        let mut others = Vec::new();
        // A suspect runs alone (C3).
        if most > 1 && first.is_started() {
            let known = self.executor.kinds.known();
            let kinds = known.iter().filter(|known| known.kind == spec.kind).cloned().collect();
            let claim = self.claim(worker, &spec.queue, kinds, most - 1);
            others = self.take(claim).await?;
        }
        others.insert(0, first);
        let part = others.iter().any(|claimed| claimed.job.spec.part_of().is_some());
        let (together, alone): (Vec<_>, Vec<_>) = others.into_iter().partition(ClaimedJob::is_started);
        let count = together.len();
        let mut slots = together.first().map(|first| slots_of(first, count).reserve(count));
        let runs = together.into_iter().filter_map(|claimed| Some(self.run(claimed, slots.as_mut()?.take())));
        let mut ran = all(runs.collect()).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        for mut claimed in alone {
            let started = parts.store.start(vec![claimed.lease]).await?;
            if started.iter().all(Result::is_ok) && claimed.note_started() {
                let slot = slots_of(&claimed, 1).reserve(1).take();
                ran.push(self.run(claimed, slot).await?);
            }
        }
        if part {
            // No loop does it here.
            advance_all(parts, NoteScope::OwnRuns, None).await?;
        }
        Ok(ran)
    }

    /// Runs due jobs until none is left, or `limit` have run; those of bulk kinds together (W12).
    ///
    /// # Errors
    /// When the store is away.
    pub async fn drain(&self, limit: usize) -> Result<Vec<Ran>, Error> {
        let mut ran = Vec::new();
        while ran.len() < limit {
            let more = self.run_together(limit - ran.len()).await?;
            if more.is_empty() {
                break;
            }
            ran.extend(more);
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

    fn claim(
        &self,
        worker: backstop_core::WorkerId,
        queue: &Arc<str>,
        kinds: Arc<[KnownKind]>,
        limit: usize,
    ) -> Claim {
        let config = &self.executor.engine.parts.config;
        let fails = config.queues.get(&**queue).is_some_and(|queue| queue.fail_unknown_kind);
        // Whoever asks for some of the kinds does not want the unknown ones.
        let any_kind = fails && kinds.len() == self.executor.kinds.known().len();
        Claim {
            worker,
            queues: vec![ClaimQueue { queue: queue.clone(), limit, start: limit, any_kind }],
            kinds,
            aging: config.aging,
            limits: Arc::default(),
        }
    }

    async fn run(&self, claimed: ClaimedJob, slot: RunSlot) -> Result<Ran, StoreError> {
        let engine = &self.executor.engine.parts;
        let (job, kind) = (claimed.lease.job, claimed.job.spec.kind.clone());
        let first = claimed.record.runs == 1;
        let canceled = CancellationToken::new();
        engine.runs.add(job, canceled.clone());
        let slot = Arc::new(slot);
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

/// Room for `count` runs beside a claimed one, and for no more: nobody waits for others that cannot come.
fn slots_of(claimed: &ClaimedJob, count: usize) -> Arc<QueueSlots> {
    QueueSlots::new(claimed.job.spec.queue.clone(), count, Arc::new(Notify::new()))
}

/// What all of them come to, in the same order, side by side in the calling task.
async fn all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|cx| {
        for (future, output) in futures.iter_mut().filter(|(_, output)| output.is_none()) {
            if let Poll::Ready(ready) = future.as_mut().poll(cx) {
                *output = Some(ready);
            }
        }
        if futures.iter().all(|(_, output)| output.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    futures.into_iter().filter_map(|(_, output)| output).collect()
}
