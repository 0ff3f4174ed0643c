//! A store over another one: a layer names the verbs that it changes, and every other goes straight through.
//!
//! The table of verbs stands here once. What watches, counts, spoils or loses calls is a layer, so that a new verb is
//! written into the contract, the stores and this table, and nowhere else.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::explain::ExplainContext;
use backstop_core::failure::Fingerprint;
use backstop_core::incident::IncidentUpdate;
use backstop_core::job::{
    Attempt, JobDetail, JobSummary, JobView, NewJob, NoteError, Operated, Operation, Retention, Stale, State,
};
use backstop_core::run_limit::{RunLimit, RunLimitView, SharedHold, SharingJob};
use backstop_core::{JobId, Lease, Refusal, Timestamp, WorkerId};

use crate::sharing::SharingWork;
use crate::{
    Amend, Amended, Answer, Archived, Claim, Claimed, Document, DocumentRange, Documents, Drawer, Duty,
    Finding, Finish, HandedRun, HeldLane, Holdings, Incident, IncidentFilter, InspectStore, JobFilter,
    LineRange, LineView, NewWorker, Note, Observer, Orphan, OutboxBacklog, Overdue, Page, PageRequest, Peek,
    QueueRange, QueueView, Renewed, Signal, Store, StoreInfo, Submit, Submitted, Survey, Term, Terms,
    WorkStore, WorkerView,
};

macro_rules! verbs {
    (
        WorkStore { $($work:ident($($work_name:ident: $work_type:ty),*) -> $work_answer:ty;)* }
        InspectStore { $($inspect:ident($($inspect_name:ident: $inspect_type:ty),*) -> $inspect_answer:ty;)* }
    ) => {
        /// A store over another one. Whoever implements it is a [`Store`].
        ///
        /// A verb that a layer does not name is passed on to the store below, through [`Layer::around`].
        pub trait Layer: Send + Sync + 'static {
            /// The store below.
            fn below(&self) -> &dyn Store;

            /// Makes a call to the store below. Overridden by layers that do something about every verb that they do
            /// not name: count it, time it, lose it.
            fn around<'a, T: Send + 'a>(
                &'a self,
                verb: &'static str,
                call: impl FnOnce(&'a dyn Store) -> Answer<'a, T>,
            ) -> Answer<'a, T> {
                let _ = verb;
                call(self.below())
            }

            /// As [`WorkStore::info`].
            fn info(&self) -> StoreInfo {
                self.below().info()
            }

            /// As [`WorkStore::observe`].
            fn observe(&self, observer: Arc<dyn Observer>) {
                self.below().observe(observer);
            }

            /// As [`WorkStore::offer`]. It waits for work by design, and so does not go through [`Layer::around`].
            fn offer<'a>(&'a self, claim: Claim, withdrawn: Signal<'a>) -> Answer<'a, Option<Claimed>> {
                self.below().offer(claim, withdrawn)
            }

            $(
                #[doc = concat!("As [`WorkStore::", stringify!($work), "`].")]
                fn $work(&self, $($work_name: $work_type),*) -> Answer<'_, $work_answer> {
                    self.around(stringify!($work), |store| store.$work($($work_name),*))
                }
            )*

            $(
                #[doc = concat!("As [`InspectStore::", stringify!($inspect), "`].")]
                fn $inspect(&self, $($inspect_name: $inspect_type),*) -> Answer<'_, $inspect_answer> {
                    self.around(stringify!($inspect), |store| store.$inspect($($inspect_name),*))
                }
            )*
        }

        impl<L: Layer> WorkStore for L {
            fn info(&self) -> StoreInfo {
                Layer::info(self)
            }

            fn observe(&self, observer: Arc<dyn Observer>) {
                Layer::observe(self, observer);
            }

            fn offer<'a>(&'a self, claim: Claim, withdrawn: Signal<'a>) -> Answer<'a, Option<Claimed>> {
                Layer::offer(self, claim, withdrawn)
            }

            $(
                fn $work(&self, $($work_name: $work_type),*) -> Answer<'_, $work_answer> {
                    Layer::$work(self, $($work_name),*)
                }
            )*
        }

        impl<L: Layer> InspectStore for L {
            $(
                fn $inspect(&self, $($inspect_name: $inspect_type),*) -> Answer<'_, $inspect_answer> {
                    Layer::$inspect(self, $($inspect_name),*)
                }
            )*
        }
    };
}

verbs! {
    WorkStore {
        now() -> Timestamp;
        submit(submit: Submit) -> Vec<Result<Submitted, Refusal>>;
        prepare(jobs: &[NewJob]) -> ();
        claim(claim: Claim) -> Claimed;
        peek(claim: &Claim) -> Peek;
        start(leases: Vec<Lease>) -> Vec<Result<(), Stale>>;
        finish(endings: Vec<Finish>) -> Vec<Result<State, Stale>>;
        annotate(notes: Vec<Note>) -> Vec<Result<(), NoteError>>;
        enlist(worker: NewWorker) -> ();
        renew(worker: WorkerId, lease: Duration, held: Vec<Lease>) -> Renewed;
        retire(worker: WorkerId) -> ();
        lead(node: WorkerId, duties: Vec<Duty>, ttl: Duration) -> Vec<Option<Term>>;
        fold(limit: usize) -> usize;
        advance_lines(limit: usize) -> usize;
        orphans(limit: usize) -> Vec<Orphan>;
        handed_out() -> Vec<HandedRun>;
        rescue(term: Term, endings: Vec<Finish>) -> Vec<Result<State, Stale>>;
        overdue(after: Option<Overdue>, limit: usize) -> Vec<Overdue>;
        expire(term: Term, jobs: Vec<Overdue>) -> usize;
        archive(term: Term, retention: Retention, limit: usize) -> usize;
        retire_lanes(term: Term, idle: Duration, limit: usize) -> usize;
        retire_incidents(term: Term, fingerprints: Vec<Fingerprint>, keep: Duration) -> usize;
        documents(range: DocumentRange) -> Documents;
        named_documents(names: Vec<(Drawer, String)>) -> Vec<Option<Document>>;
        outbox_backlog(sink: &str) -> OutboxBacklog;
        amend(amend: Amend) -> Amended;
        prune(term: Term, keep: Duration, limit: usize) -> usize;
    }
    InspectStore {
        terms() -> Terms;
        operate(jobs: Vec<JobId>, operation: Operation) -> Vec<Result<Operated, Refusal>>;
        pause_queue(queue: &str, paused: bool, note: Option<&str>) -> bool;
        jobs(ids: Vec<JobId>) -> Vec<Option<JobDetail>>;
        job_summaries(ids: Vec<JobId>) -> Vec<Option<JobSummary>>;
        archived(ids: Vec<JobId>) -> Vec<Option<Archived>>;
        list(filter: JobFilter, page: PageRequest<JobId>) -> Page<JobView, JobId>;
        attempts(job: JobId, page: PageRequest<u32>) -> Page<Attempt, u32>;
        surroundings(job: JobId) -> Option<(JobView, ExplainContext)>;
        queues() -> Vec<QueueView>;
        queue_page(range: QueueRange) -> Page<QueueView, String>;
        holdings(tenant: String, most: usize) -> Holdings;
        workers() -> Vec<WorkerView>;
        incidents_like(filter: IncidentFilter, limit: usize) -> Vec<Incident>;
        incidents_of(fingerprints: Vec<Fingerprint>) -> Vec<Option<Incident>>;
        say(fingerprints: Vec<Fingerprint>, statement: IncidentUpdate) -> Vec<Option<Incident>>;
        survey(filter: JobFilter, most: usize) -> Survey;
        purge(jobs: Vec<JobId>, only: Option<State>) -> Vec<Result<State, Refusal>>;
        prunable(keep: Duration, most: usize) -> usize;
        archive_page(page: PageRequest<JobId>) -> Page<(JobId, Archived), JobId>;
        held_lanes() -> Vec<HeldLane>;
        run_limits(limits: Vec<RunLimit>) -> Vec<RunLimitView>;
        shared_holds(jobs: Vec<SharingJob>, limits: Vec<RunLimit>) -> Vec<Option<SharedHold>>;
        sharing_work(queues: Vec<String>, limits: Vec<RunLimit>, most: usize) -> Vec<SharingWork>;
        lines(range: LineRange) -> Page<LineView, String>;
        check() -> Vec<Finding>;
    }
}
