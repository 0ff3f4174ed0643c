//! The trait that every store implements.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::explain::Surroundings;
use backstop_core::job::{Attempt, JobDetail, JobView, Operated, Operation, Stale, State};
use backstop_core::{JobId, Lease, Refusal, Timestamp, WorkerId};

use crate::{
    Claim, Claimed, Duty, Error, Finding, Finish, HeldLane, Incident, JobFilter, NewWorker, Note, Observer,
    Orphan, Page, PageRequest, Peek, QueueView, Renewed, StoreInfo, Submit, Submitted, Term, WorkerView,
};

/// What a verb returns: a boxed future, so that the trait stays object-safe.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// A durable keeper of jobs.
///
/// Promises that hold for every verb:
/// - an `Ok` means that what it says is durable;
/// - an `Err` means that nothing of the batch was stored, except [`Error::is_unknown`], after which the same call
///   can be made again: every verb is safe to repeat;
/// - a job is in exactly one state at every commit, and moves only as `backstop_core` decides;
/// - events of a commit reach the [`Observer`] after it, in commit order.
pub trait Store: Send + Sync + 'static {
    /// What kind of store this is, and where.
    fn info(&self) -> StoreInfo;

    /// Sets who hears of commits and wake-ups. A later call replaces the earlier observer.
    fn observe(&self, observer: Arc<dyn Observer>);

    /// The store's clock.
    fn now(&self) -> Answer<'_, Timestamp>;

    /// Stores jobs (L10-L12, L22). One answer per job, in order.
    ///
    /// The jobs have passed `backstop_core::admit`. The checks here, in order: the id itself (a repeated submit
    /// answers as deduplicated), the idempotency key, the business key. An `atomic` batch with a refused item
    /// stores nothing, and its other items answer [`Refusal::BatchRefused`].
    fn submit(&self, submit: Submit) -> Answer<'_, Vec<Result<Submitted, Refusal>>>;

    /// Takes due jobs for a worker (L2-L5), in the order of their rank. Never blocks on what others hold.
    ///
    /// A due job that must not start any more is failed as expired instead (L19).
    ///
    /// # Errors
    /// [`Error::NotEnlisted`] when the worker is unknown or its lease has run out.
    fn claim(&self, claim: Claim) -> Answer<'_, Claimed>;

    /// Says, without writing, whether a claim would find work and when the next job becomes due.
    fn peek(&self, claim: &Claim) -> Answer<'_, Peek>;

    /// Counts the start of prefetched jobs before their handlers run (C5).
    fn start(&self, leases: Vec<Lease>) -> Answer<'_, Vec<Result<(), Stale>>>;

    /// Ends runs: record, ledger row, counts, incident, callback, all in one transaction (F12).
    ///
    /// A lease whose worker has let it run out is stale, even when nobody has taken the job yet.
    fn finish(&self, endings: Vec<Finish>) -> Answer<'_, Vec<Result<State, Stale>>>;

    /// Keeps what handlers say of their progress.
    fn annotate(&self, notes: Vec<Note>) -> Answer<'_, Vec<Result<(), Stale>>>;

    /// Makes a worker known, with the queues it serves and the kinds it knows.
    fn enlist(&self, worker: NewWorker) -> Answer<'_, ()>;

    /// Renews everything the worker holds for `lease` from now, and tells which of `held` it has lost.
    ///
    /// # Errors
    /// [`Error::NotEnlisted`] when the worker is unknown or its lease has run out: then all is lost.
    fn renew(&self, worker: WorkerId, lease: Duration, held: Vec<Lease>) -> Answer<'_, Renewed>;

    /// Forgets a worker that has handed everything back. What it still holds is orphaned at once.
    fn retire(&self, worker: WorkerId) -> Answer<'_, ()>;

    /// Asks for the leadership of duties, or renews it, for `ttl` from now (L17). One answer per duty.
    fn lead(&self, node: WorkerId, duties: Vec<Duty>, ttl: Duration) -> Answer<'_, Vec<Option<Term>>>;

    /// Jobs whose worker has stopped renewing, oldest hold first (L15).
    fn orphans(&self, limit: usize) -> Answer<'_, Vec<Orphan>>;

    /// Ends the runs of orphans. Each is refused as stale unless it is still an orphan of that very hold.
    ///
    /// # Errors
    /// [`Error::Deposed`] when the term has passed on; then nothing was written.
    fn rescue(&self, term: Term, endings: Vec<Finish>) -> Answer<'_, Vec<Result<State, Stale>>>;

    /// Fails up to `limit` unclaimed jobs whose time to start has passed (L19), and says how many.
    ///
    /// # Errors
    /// [`Error::Deposed`] when the term has passed on; then nothing was written.
    fn expire(&self, term: Term, limit: usize) -> Answer<'_, usize>;

    /// Does what a person asks of each job. One answer per job, in order.
    fn operate(&self, jobs: Vec<JobId>, operation: Operation) -> Answer<'_, Vec<Result<Operated, Refusal>>>;

    /// Pauses or resumes a queue; answers whether that changed anything.
    fn pause_queue(&self, queue: &str, paused: bool) -> Answer<'_, bool>;

    /// Looks jobs up by id. One answer per id, in order.
    fn jobs(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<JobDetail>>>;

    /// Lists jobs, newest id first, by keyset.
    fn list(&self, filter: JobFilter, page: PageRequest<JobId>) -> Answer<'_, Page<JobView, JobId>>;

    /// The ledger of a job, latest run first, by keyset on the run's number.
    fn attempts(&self, job: JobId, page: PageRequest<u32>) -> Answer<'_, Page<Attempt, u32>>;

    /// A job with what surrounds it, for `explain` (F20).
    fn surroundings(&self, job: JobId) -> Answer<'_, Option<(JobView, Surroundings)>>;

    /// Every queue with its counts, by name. Counts are kept, not counted.
    fn queues(&self) -> Answer<'_, Vec<QueueView>>;

    /// Every worker that is live, or was until it stopped renewing, by name.
    fn workers(&self) -> Answer<'_, Vec<WorkerView>>;

    /// Incidents, latest seen first.
    fn incidents(&self, limit: usize) -> Answer<'_, Vec<Incident>>;

    /// Lanes with pending jobs on a served queue that no live worker knows the kind of (H10).
    fn held_lanes(&self) -> Answer<'_, Vec<HeldLane>>;

    /// What `doctor` says of this store.
    fn check(&self) -> Answer<'_, Vec<Finding>>;
}
