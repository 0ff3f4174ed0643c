//! A store over another one: what a layer does not override goes straight through.
//!
//! [`crate::witness`] writes down what passes, [`crate::sabotage`] spoils it. Neither may know which store is below.

use std::sync::Arc;
use std::time::Duration;

use backstop::core::Lease;
use backstop::core::explain::Surroundings;
use backstop::core::failure::Fingerprint;
use backstop::core::incident::Statement;
use backstop::core::job::{
    Attempt, Glance, JobDetail, JobView, Operated, Operation, Retention, Stale, State,
};
use backstop::store::{
    Amend, Amended, Answer, Archived, Claim, Claimed, Documents, Duty, Finding, Finish, HandedRun, HeldLane,
    Incident, IncidentFilter, JobFilter, NewWorker, Note, Observer, Orphan, Page, PageRequest, Peek,
    QueueView, Renewed, Shelf, Signal, Store, StoreInfo, Submit, Submitted, Survey, Term, Terms, WorkerView,
};
use backstop::{JobId, Refusal, Timestamp, WorkerId};

/// One answer for each job of a batch of submits.
pub type Stored = Vec<Result<Submitted, Refusal>>;
/// One answer for each ending of a batch.
pub type Endings = Vec<Result<State, Stale>>;

/// The verbs that layers look at. Each passes its call on unless it is overridden.
pub trait Layer: Send + Sync + 'static {
    /// The store below.
    fn below(&self) -> &Arc<dyn Store>;

    /// See [`Store::observe`].
    fn observe(&self, observer: Arc<dyn Observer>) {
        self.below().observe(observer);
    }

    /// See [`Store::submit`].
    fn submit(&self, submit: Submit) -> Answer<'_, Stored> {
        self.below().submit(submit)
    }

    /// See [`Store::claim`].
    fn claim(&self, claim: Claim) -> Answer<'_, Claimed> {
        self.below().claim(claim)
    }

    /// See [`Store::offer`].
    fn offer<'a>(&'a self, claim: Claim, withdrawn: Signal<'a>) -> Answer<'a, Option<Claimed>> {
        self.below().offer(claim, withdrawn)
    }

    /// See [`Store::peek`].
    fn peek<'a>(&'a self, claim: &Claim) -> Answer<'a, Peek> {
        self.below().peek(claim)
    }

    /// See [`Store::start`].
    fn start(&self, leases: Vec<Lease>) -> Answer<'_, Vec<Result<(), Stale>>> {
        self.below().start(leases)
    }

    /// See [`Store::finish`].
    fn finish(&self, endings: Vec<Finish>) -> Answer<'_, Endings> {
        self.below().finish(endings)
    }

    /// See [`Store::enlist`].
    fn enlist(&self, worker: NewWorker) -> Answer<'_, ()> {
        self.below().enlist(worker)
    }

    /// See [`Store::renew`].
    fn renew(&self, worker: WorkerId, lease: Duration, held: Vec<Lease>) -> Answer<'_, Renewed> {
        self.below().renew(worker, lease, held)
    }

    /// See [`Store::handed_out`].
    fn handed_out(&self) -> Answer<'_, Vec<HandedRun>> {
        self.below().handed_out()
    }

    /// See [`Store::orphans`].
    fn orphans(&self, limit: usize) -> Answer<'_, Vec<Orphan>> {
        self.below().orphans(limit)
    }

    /// See [`Store::rescue`].
    fn rescue(&self, term: Term, endings: Vec<Finish>) -> Answer<'_, Endings> {
        self.below().rescue(term, endings)
    }

    /// See [`Store::operate`].
    fn operate(&self, jobs: Vec<JobId>, operation: Operation) -> Answer<'_, Vec<Result<Operated, Refusal>>> {
        self.below().operate(jobs, operation)
    }

    /// See [`Store::queues`].
    fn queues(&self) -> Answer<'_, Vec<QueueView>> {
        self.below().queues()
    }
}

/// A layer as a store.
#[derive(Debug)]
pub struct Over<L>(pub L);

impl<L: Layer> Store for Over<L> {
    fn info(&self) -> StoreInfo {
        self.0.below().info()
    }
    fn observe(&self, observer: Arc<dyn Observer>) {
        self.0.observe(observer);
    }
    fn now(&self) -> Answer<'_, Timestamp> {
        self.0.below().now()
    }
    fn submit(&self, submit: Submit) -> Answer<'_, Stored> {
        self.0.submit(submit)
    }
    fn claim(&self, claim: Claim) -> Answer<'_, Claimed> {
        self.0.claim(claim)
    }
    fn offer<'a>(&'a self, claim: Claim, withdrawn: Signal<'a>) -> Answer<'a, Option<Claimed>> {
        self.0.offer(claim, withdrawn)
    }
    fn peek(&self, claim: &Claim) -> Answer<'_, Peek> {
        self.0.peek(claim)
    }
    fn start(&self, leases: Vec<Lease>) -> Answer<'_, Vec<Result<(), Stale>>> {
        self.0.start(leases)
    }
    fn finish(&self, endings: Vec<Finish>) -> Answer<'_, Endings> {
        self.0.finish(endings)
    }
    fn annotate(&self, notes: Vec<Note>) -> Answer<'_, Vec<Result<(), Stale>>> {
        self.0.below().annotate(notes)
    }
    fn enlist(&self, worker: NewWorker) -> Answer<'_, ()> {
        self.0.enlist(worker)
    }
    fn renew(&self, worker: WorkerId, lease: Duration, held: Vec<Lease>) -> Answer<'_, Renewed> {
        self.0.renew(worker, lease, held)
    }
    fn retire(&self, worker: WorkerId) -> Answer<'_, ()> {
        self.0.below().retire(worker)
    }
    fn lead(&self, node: WorkerId, duties: Vec<Duty>, ttl: Duration) -> Answer<'_, Vec<Option<Term>>> {
        self.0.below().lead(node, duties, ttl)
    }
    fn terms(&self) -> Answer<'_, Terms> {
        self.0.below().terms()
    }
    fn fold(&self, limit: usize) -> Answer<'_, usize> {
        self.0.below().fold(limit)
    }
    fn handed_out(&self) -> Answer<'_, Vec<HandedRun>> {
        self.0.below().handed_out()
    }
    fn orphans(&self, limit: usize) -> Answer<'_, Vec<Orphan>> {
        self.0.orphans(limit)
    }
    fn rescue(&self, term: Term, endings: Vec<Finish>) -> Answer<'_, Endings> {
        self.0.rescue(term, endings)
    }
    fn expire(&self, term: Term, limit: usize) -> Answer<'_, usize> {
        self.0.below().expire(term, limit)
    }
    fn archive(&self, term: Term, retention: Retention, limit: usize) -> Answer<'_, usize> {
        self.0.below().archive(term, retention, limit)
    }
    fn operate(&self, jobs: Vec<JobId>, operation: Operation) -> Answer<'_, Vec<Result<Operated, Refusal>>> {
        self.0.operate(jobs, operation)
    }
    fn pause_queue(&self, queue: &str, paused: bool, note: Option<&str>) -> Answer<'_, bool> {
        self.0.below().pause_queue(queue, paused, note)
    }
    fn jobs(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<JobDetail>>> {
        self.0.below().jobs(ids)
    }
    fn glance(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<Glance>>> {
        self.0.below().glance(ids)
    }
    fn archived(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<Archived>>> {
        self.0.below().archived(ids)
    }
    fn list(&self, filter: JobFilter, page: PageRequest<JobId>) -> Answer<'_, Page<JobView, JobId>> {
        self.0.below().list(filter, page)
    }
    fn attempts(&self, job: JobId, page: PageRequest<u32>) -> Answer<'_, Page<Attempt, u32>> {
        self.0.below().attempts(job, page)
    }
    fn surroundings(&self, job: JobId) -> Answer<'_, Option<(JobView, Surroundings)>> {
        self.0.below().surroundings(job)
    }
    fn queues(&self) -> Answer<'_, Vec<QueueView>> {
        self.0.queues()
    }
    fn workers(&self) -> Answer<'_, Vec<WorkerView>> {
        self.0.below().workers()
    }
    fn incidents_like(&self, filter: IncidentFilter, limit: usize) -> Answer<'_, Vec<Incident>> {
        self.0.below().incidents_like(filter, limit)
    }
    fn incidents_of(&self, fingerprints: Vec<Fingerprint>) -> Answer<'_, Vec<Option<Incident>>> {
        self.0.below().incidents_of(fingerprints)
    }
    fn say(&self, fingerprints: Vec<Fingerprint>, statement: Statement) -> Answer<'_, Vec<Option<Incident>>> {
        self.0.below().say(fingerprints, statement)
    }
    fn survey(&self, filter: JobFilter, most: usize) -> Answer<'_, Survey> {
        self.0.below().survey(filter, most)
    }
    fn documents(&self, shelf: Shelf) -> Answer<'_, Documents> {
        self.0.below().documents(shelf)
    }
    fn amend(&self, amend: Amend) -> Answer<'_, Amended> {
        self.0.below().amend(amend)
    }
    fn purge(&self, jobs: Vec<JobId>, only: Option<State>) -> Answer<'_, Vec<Result<State, Refusal>>> {
        self.0.below().purge(jobs, only)
    }
    fn prune(&self, term: Term, keep: Duration, limit: usize) -> Answer<'_, usize> {
        self.0.below().prune(term, keep, limit)
    }
    fn prunable(&self, keep: Duration, most: usize) -> Answer<'_, usize> {
        self.0.below().prunable(keep, most)
    }
    fn archive_page(&self, page: PageRequest<JobId>) -> Answer<'_, Page<(JobId, Archived), JobId>> {
        self.0.below().archive_page(page)
    }
    fn held_lanes(&self) -> Answer<'_, Vec<HeldLane>> {
        self.0.below().held_lanes()
    }
    fn check(&self) -> Answer<'_, Vec<Finding>> {
        self.0.below().check()
    }
}
