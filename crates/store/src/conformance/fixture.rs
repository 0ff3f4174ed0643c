//! What the cases share: a store with its clock and observer, and short ways to say what happens to it.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::job::{Aging, Attempt, Ending, JobDetail, Operated, Operation, Record, Stale, State};
use backstop_core::{JobId, Lease, Refusal, Timestamp, WorkerId};

use super::build::{JobDraft, WorkerDraft, id, knows, worker_id};
use super::place::StorePlace;
use super::told::ObservedEvents;
use crate::{
    Claim, ClaimQueue, Claimed, ClaimedJob, Clock, Duty, Error, Finish, JobFilter, ManualClock, PageRequest,
    QueueView, Store, Submit, Submitted, Term,
};

type Opening = Pin<Box<dyn Future<Output = Arc<dyn Store>>>>;
type Losing = Pin<Box<dyn Future<Output = bool>>>;

/// A store, its clock, and what it has told.
pub struct Fixture {
    /// The store under test.
    pub(super) store: Arc<dyn Store>,
    /// The clock it reads.
    pub(super) clock: ManualClock,
    /// What its observer has heard.
    pub(super) told: Arc<ObservedEvents>,
    open: Box<dyn Fn() -> Opening>,
    lose_fences: Box<dyn Fn() -> Losing>,
}

/// How long workers of the cases may be silent.
pub(super) const LEASE: Duration = secs(30);

pub(super) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl Fixture {
    /// A new store in a new place.
    pub(super) async fn fresh<P: StorePlace>() -> Self {
        Self::fresh_at::<P>(ManualClock::default()).await
    }

    /// A new store in a new place that reads `clock`.
    pub(super) async fn fresh_at<P: StorePlace>(clock: ManualClock) -> Self {
        let (place, time) = (Rc::new(P::fresh()), clock.clone());
        let restored = place.clone();
        let lose_fences: Box<dyn Fn() -> Losing> = Box::new(move || {
            let place = restored.clone();
            Box::pin(async move { place.lose_fences().await })
        });
        let open: Box<dyn Fn() -> Opening> = Box::new(move || {
            let (place, time) = (place.clone(), time.clone());
            Box::pin(async move { place.open(time).await })
        });
        let store = open().await;
        let told = Arc::new(ObservedEvents::default());
        store.observe(told.clone());
        Self { store, clock, told, open, lose_fences }
    }

    /// Sets the counter of fences back, as a restore that lost it does; false for a store that cannot lose it.
    pub(super) async fn lose_fences(&self) -> bool {
        (self.lose_fences)().await
    }

    /// The same data in a store that was opened again.
    pub(super) async fn reopen(self) -> Self {
        let Self { store, clock, told, open, lose_fences } = self;
        drop(store);
        let store = open().await;
        store.observe(told.clone());
        Self { store, clock, told, open, lose_fences }
    }

    /// The same data in a store of another process, as far as this one can tell.
    pub(super) async fn beside(&self) -> Arc<dyn Store> {
        (self.open)().await
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn pass(&self, span: Duration) {
        self.clock.advance(span);
    }

    /// Submits jobs and answers what became of each.
    pub(super) async fn offer_all(
        &self,
        atomic: bool,
        drafts: impl IntoIterator<Item = JobDraft>,
    ) -> Vec<Result<Submitted, Refusal>> {
        let jobs = drafts.into_iter().map(|draft| draft.0).collect();
        self.store.submit(Submit { jobs, atomic }).await.expect("submit")
    }

    /// Submits one job.
    pub(super) async fn offer(&self, draft: JobDraft) -> Result<Submitted, Refusal> {
        let mut answers = self.offer_all(true, [draft]).await;
        assert_eq!(answers.len(), 1, "one answer per job");
        answers.remove(0)
    }

    /// Submits one job that must be stored.
    pub(super) async fn submit(&self, draft: JobDraft) -> JobId {
        let answer = self.offer(draft).await.expect("nothing stands in its way");
        assert!(!answer.deduplicated, "it is new");
        answer.id
    }

    pub(super) async fn enlist(&self, crew: WorkerDraft) -> WorkerId {
        let id = crew.0.id;
        self.store.enlist(crew.0).await.expect("enlist");
        id
    }

    /// Enlists worker `number` for the queue `default` and the kind `work`.
    pub(super) async fn worker(&self, number: u64) -> WorkerId {
        self.enlist(WorkerDraft::new(number)).await
    }

    /// Claims from the queue `default`, and starts all that is taken.
    pub(super) async fn claim(&self, worker: WorkerId, limit: usize) -> Vec<ClaimedJob> {
        self.claim_with(claim(worker, limit)).await.jobs
    }

    pub(super) async fn claim_with(&self, claim: Claim) -> Claimed {
        self.store.claim(claim).await.expect("claim")
    }

    /// Claims and starts exactly one job.
    pub(super) async fn take(&self, worker: WorkerId) -> ClaimedJob {
        let mut claimed = self.claim(worker, 1).await.pop().expect("a job is due");
        if !claimed.record.starts_when_claimed() {
            let started = self.store.start(vec![claimed.lease]).await.expect("start");
            assert!(started == [Ok(())] && claimed.note_started(), "a suspect is started by itself (C3)");
        }
        claimed
    }

    /// Claims exactly one job without starting it.
    pub(super) async fn prefetch(&self, worker: WorkerId) -> ClaimedJob {
        let mut wanted = claim(worker, 1);
        wanted.queues[0].start = 0;
        self.claim_with(wanted).await.jobs.pop().expect("a job is due")
    }

    /// Submits a job and lets a worker take it.
    pub(super) async fn running(&self, draft: JobDraft) -> ClaimedJob {
        let worker = self.worker(1).await;
        let wanted = self.submit(draft).await;
        let claimed = self.take(worker).await;
        assert_eq!(claimed.job.spec.id, wanted, "nothing else is due");
        claimed
    }

    /// Ends one run.
    pub(super) async fn try_finish(&self, lease: Lease, ending: Ending) -> Result<State, Stale> {
        let mut answers = self.store.finish(vec![Finish { lease, ending }]).await.expect("finish");
        assert_eq!(answers.len(), 1, "one answer per ending");
        answers.remove(0)
    }

    /// Ends a run that is held.
    pub(super) async fn finish(&self, claimed: &ClaimedJob, ending: Ending) -> State {
        self.try_finish(claimed.lease, ending).await.expect("the lease is current")
    }

    pub(super) async fn start(&self, lease: Lease) -> Result<(), Stale> {
        self.store.start(vec![lease]).await.expect("start").remove(0)
    }

    pub(super) async fn operate(&self, job: JobId, operation: Operation) -> Result<Operated, Refusal> {
        let mut answers = self.store.operate(vec![job], operation).await.expect("operate");
        assert_eq!(answers.len(), 1, "one answer per job");
        answers.remove(0)
    }

    pub(super) async fn cancel(&self, job: JobId) -> Operated {
        self.operate(job, Operation::Cancel { reason: "enough".into() }).await.expect("cancel never refuses")
    }

    pub(super) async fn detail(&self, job: JobId) -> JobDetail {
        let mut found = self.store.jobs(vec![job]).await.expect("jobs");
        found.remove(0).expect("the job is stored")
    }

    pub(super) async fn exists(&self, job: JobId) -> bool {
        self.store.jobs(vec![job]).await.expect("jobs")[0].is_some()
    }

    pub(super) async fn record(&self, job: JobId) -> Record {
        self.detail(job).await.view.record
    }

    /// The state as it is shown.
    pub(super) async fn state(&self, job: JobId) -> State {
        self.detail(job).await.view.state()
    }

    /// The whole ledger of a job, latest run first.
    pub(super) async fn runs(&self, job: JobId) -> Vec<Attempt> {
        self.store.attempts(job, PageRequest::first(1_000)).await.expect("attempts").items
    }

    /// The ids that a filter lets through, newest first.
    pub(super) async fn listed(&self, filter: JobFilter) -> Vec<JobId> {
        let page = self.store.list(filter, PageRequest::first(1_000)).await.expect("list");
        page.items.into_iter().map(|view| view.job.spec.id).collect()
    }

    pub(super) async fn queue(&self, name: &str) -> QueueView {
        let queues = self.store.queues().await.expect("queues");
        queues.into_iter().find(|queue| queue.name == name).expect("the queue is known")
    }

    /// Leads a duty as node `number`.
    pub(super) async fn lead(&self, number: u64, duty: Duty) -> Option<Term> {
        self.store.lead(worker_id(number), vec![duty], secs(60)).await.expect("lead").remove(0)
    }

    pub(super) async fn leader(&self, duty: Duty) -> Term {
        self.lead(99, duty).await.expect("nobody else leads")
    }

    /// Fails what is overdue, as the leader does.
    pub(super) async fn expire(&self, term: Term, limit: usize) -> Result<usize, Error> {
        let overdue = self.store.overdue(None, limit).await.expect("overdue");
        self.store.expire(term, overdue).await
    }

    /// Ends a run of a dead worker, as the leader does.
    pub(super) async fn rescue(&self, lease: Lease, ending: Ending) -> Result<State, Stale> {
        let term = self.leader(Duty::Rescue).await;
        self.store.rescue(term, vec![Finish { lease, ending }]).await.expect("the term runs").remove(0)
    }
}

/// A claim on the queue `default` that starts all it takes.
pub(super) fn claim(worker: WorkerId, limit: usize) -> Claim {
    Claim {
        worker,
        queues: vec![room("default", limit)],
        kinds: knows(&[("work", 1)]),
        aging: Aging::default(),
        limits: Default::default(),
    }
}

/// Room in a queue for `limit` jobs that start at once.
pub(super) fn room(queue: &str, limit: usize) -> ClaimQueue {
    ClaimQueue { queue: queue.into(), limit, start: limit, any_kind: false }
}

/// The numbers of claimed jobs, in the order they were taken.
pub(super) fn numbers(claimed: &[ClaimedJob]) -> Vec<u64> {
    claimed.iter().map(|taken| super::build::number(taken.job.spec.id)).collect()
}

/// The ids with these numbers.
pub(super) fn ids(numbers: &[u64]) -> Vec<JobId> {
    numbers.iter().copied().map(id).collect()
}
