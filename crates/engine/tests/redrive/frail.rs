//! A store in whose calls a test can put a hand: each call is counted, and one of them can be lost or overtaken.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use backstop::State;
use backstop::core::explain::Surroundings;
use backstop::core::failure::Fingerprint;
use backstop::core::incident::Statement;
use backstop::core::job::{Attempt, Glance, JobDetail, JobView, Operated, Operation, Retention, Stale};
use backstop::core::{JobId, Lease, Refusal, Timestamp, WorkerId};
use backstop::store::*;

/// Something that happens before a call, such as another node being faster.
pub(crate) type Before = Box<dyn Fn() -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// What happens to the chosen call.
pub(crate) enum Trouble {
    /// It is not made, and the process loses the store for good.
    DieBefore,
    /// It is made, its answer is lost, and the process loses the store for good.
    DieAfter,
    /// It is made, and its answer is lost.
    Forgotten,
    /// Something else happens first, then it is made.
    Overtaken(Before),
}

/// A store that gives trouble at one call, counted from 1.
pub(crate) struct Frail {
    inner: Arc<dyn Store>,
    call: usize,
    trouble: Trouble,
    calls: AtomicUsize,
    looks: AtomicUsize,
}

impl Frail {
    pub(crate) fn new(inner: Arc<dyn Store>, call: usize, trouble: Trouble) -> Arc<Self> {
        Arc::new(Self { inner, call, trouble, calls: AtomicUsize::new(0), looks: AtomicUsize::new(0) })
    }

    /// True when the trouble has come.
    pub(crate) fn has_struck(&self) -> bool {
        self.calls.load(Ordering::SeqCst) >= self.call
    }

    /// How many jobs were looked at for what became of them, each time counted.
    pub(crate) fn looks(&self) -> usize {
        self.looks.load(Ordering::SeqCst)
    }

    fn through<'a, T: Send + 'a>(&'a self, verb: Answer<'a, T>) -> Answer<'a, T> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let location = "frail".to_owned();
        let lost = Error::Unavailable { location: location.clone(), problem: "dead".into(), source: None };
        match &self.trouble {
            Trouble::DieBefore if call >= self.call => Box::pin(std::future::ready(Err(lost))),
            Trouble::DieAfter if call > self.call => Box::pin(std::future::ready(Err(lost))),
            Trouble::DieAfter | Trouble::Forgotten if call == self.call => Box::pin(async move {
                verb.await?;
                Err(Error::Unknown { location, source: None })
            }),
            Trouble::Overtaken(before) if call == self.call => Box::pin(async move {
                before().await;
                verb.await
            }),
            _ => verb,
        }
    }
}

macro_rules! counted {
    ($($verb:ident($($name:ident: $taken:ty),*) -> $answered:ty;)*) => {
        $(fn $verb(&self, $($name: $taken),*) -> Answer<'_, $answered> {
            self.through(self.inner.$verb($($name),*))
        })*
    };
}

impl Store for Frail {
    fn info(&self) -> StoreInfo {
        self.inner.info()
    }

    fn observe(&self, observer: Arc<dyn Observer>) {
        self.inner.observe(observer);
    }

    fn glance(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<Glance>>> {
        self.looks.fetch_add(ids.len(), Ordering::SeqCst);
        self.through(self.inner.glance(ids))
    }

    counted! {
        now() -> Timestamp;
        submit(submit: Submit) -> Vec<Result<Submitted, Refusal>>;
        claim(claim: Claim) -> Claimed;
        peek(claim: &Claim) -> Peek;
        start(leases: Vec<Lease>) -> Vec<Result<(), Stale>>;
        finish(endings: Vec<Finish>) -> Vec<Result<State, Stale>>;
        annotate(notes: Vec<Note>) -> Vec<Result<(), Stale>>;
        enlist(worker: NewWorker) -> ();
        renew(worker: WorkerId, lease: Duration, held: Vec<Lease>) -> Renewed;
        retire(worker: WorkerId) -> ();
        lead(node: WorkerId, duties: Vec<Duty>, ttl: Duration) -> Vec<Option<Term>>;
        terms() -> Terms;
        fold(limit: usize) -> usize;
        orphans(limit: usize) -> Vec<Orphan>;
        handed_out() -> Vec<HandedRun>;
        rescue(term: Term, endings: Vec<Finish>) -> Vec<Result<State, Stale>>;
        expire(term: Term, limit: usize) -> usize;
        archive(term: Term, retention: Retention, limit: usize) -> usize;
        operate(jobs: Vec<JobId>, operation: Operation) -> Vec<Result<Operated, Refusal>>;
        pause_queue(queue: &str, paused: bool, note: Option<&str>) -> bool;
        jobs(ids: Vec<JobId>) -> Vec<Option<JobDetail>>;
        archived(ids: Vec<JobId>) -> Vec<Option<Archived>>;
        list(filter: JobFilter, page: PageRequest<JobId>) -> Page<JobView, JobId>;
        attempts(job: JobId, page: PageRequest<u32>) -> Page<Attempt, u32>;
        surroundings(job: JobId) -> Option<(JobView, Surroundings)>;
        queues() -> Vec<QueueView>;
        workers() -> Vec<WorkerView>;
        incidents_like(filter: IncidentFilter, limit: usize) -> Vec<Incident>;
        incidents_of(fingerprints: Vec<Fingerprint>) -> Vec<Option<Incident>>;
        say(fingerprints: Vec<Fingerprint>, statement: Statement) -> Vec<Option<Incident>>;
        survey(filter: JobFilter, most: usize) -> Survey;
        documents(shelf: Shelf) -> Documents;
        amend(amend: Amend) -> Amended;
        purge(jobs: Vec<JobId>, only: Option<State>) -> Vec<Result<State, Refusal>>;
        prune(term: Term, keep: Duration, limit: usize) -> usize;
        prunable(keep: Duration, most: usize) -> usize;
        archive_page(page: PageRequest<JobId>) -> Page<(JobId, Archived), JobId>;
        held_lanes() -> Vec<HeldLane>;
        check() -> Vec<Finding>;
    }
}
