//! The verbs of the contract as values, so that a random sequence of them can be played, compared and printed.

use std::fmt::Debug;
use std::time::Duration;

use backstop_core::failure::Fingerprint;
use backstop_core::incident::IncidentUpdate;
use backstop_core::job::{Operation, Retention, State};
use backstop_core::{JobId, Lease, WorkerId};

use crate::{
    Amend, Claim, ClaimedJob, DocumentRange, Duty, Error, Finish, IncidentFilter, JobFilter, NewWorker, Note,
    PageRequest, Store, Submit, Term,
};

/// One step of a script.
#[derive(Debug, Clone)]
pub(super) enum ScriptCommand {
    /// The clock moves; no store is asked.
    Advance(Duration),
    /// The store is closed and opened; no store is asked.
    Reopen,
    Submit(Submit),
    Claim(Claim),
    Peek(Claim),
    Start(Vec<Lease>),
    Finish(Vec<Finish>),
    Annotate(Vec<Note>),
    Enlist(NewWorker),
    Renew(WorkerId, Duration, Vec<Lease>),
    Retire(WorkerId),
    Lead(WorkerId, Vec<Duty>, Duration),
    Orphans(usize),
    Rescue(Term, Vec<Finish>),
    Expire(Term, usize),
    Archive(Term, Retention, usize),
    Operate(Vec<JobId>, Operation),
    PauseQueue(String, bool),
    Jobs(Vec<JobId>),
    Archived(Vec<JobId>),
    List(Box<JobFilter>, PageRequest<JobId>),
    Attempts(JobId, PageRequest<u32>),
    Surroundings(JobId),
    Queues,
    Workers,
    Incidents(IncidentFilter, usize),
    HeldLanes,
    Say(Vec<Fingerprint>, IncidentUpdate),
    Survey(Box<JobFilter>, usize),
    Documents(DocumentRange),
    Amend(Amend),
    Purge(Vec<JobId>, Option<State>),
    Prune(Term, Duration, usize),
    ArchivePage(PageRequest<JobId>),
}

/// What later commands can build on.
#[derive(Debug, Default)]
pub(super) struct ScriptState {
    /// Jobs that a worker now holds.
    pub(super) claimed: Vec<ClaimedJob>,
    /// Jobs whose worker is silent.
    pub(super) orphans: Vec<ClaimedJob>,
    /// Leadership that was granted.
    pub(super) terms: Vec<Term>,
}

impl ScriptCommand {
    /// Asks `store`, and answers what it said in full, as text that can be compared and printed.
    pub(super) async fn play(&self, store: &dyn Store) -> (String, ScriptState) {
        let mut learned = ScriptState::default();
        let said = match self.clone() {
            Self::Advance(_) | Self::Reopen => String::new(),
            Self::Claim(claim) => {
                let answer = store.claim(claim).await;
                learned.claimed = answer.as_ref().map(|claimed| claimed.jobs.clone()).unwrap_or_default();
                said(answer)
            }
            Self::Orphans(limit) => {
                let answer = store.orphans(limit).await;
                let found = answer.iter().flatten().map(|orphan| ClaimedJob {
                    job: orphan.job.clone(),
                    record: orphan.record.clone(),
                    lease: orphan.lease,
                });
                learned.orphans = found.collect();
                said(answer)
            }
            Self::Lead(node, duties, ttl) => {
                let answer = store.lead(node, duties, ttl).await;
                learned.terms = answer.iter().flatten().flatten().copied().collect();
                said(answer)
            }
            Self::Submit(submit) => said(store.submit(submit).await),
            Self::Start(leases) => said(store.start(leases).await),
            Self::Finish(endings) => said(store.finish(endings).await),
            Self::Annotate(notes) => said(store.annotate(notes).await),
            Self::Enlist(worker) => said(store.enlist(worker).await),
            Self::Renew(worker, lease, held) => said(store.renew(worker, lease, held).await),
            Self::Retire(worker) => said(store.retire(worker).await),
            Self::Rescue(term, endings) => said(store.rescue(term, endings).await),
            Self::Expire(term, limit) => {
                let overdue = store.overdue(None, limit).await;
                let found = overdue.as_ref().cloned().unwrap_or_default();
                said(overdue) + &said(store.expire(term, found).await)
            }
            Self::Archive(term, retention, limit) => said(store.archive(term, retention, limit).await),
            Self::Operate(jobs, operation) => said(store.operate(jobs, operation).await),
            Self::PauseQueue(queue, paused) => {
                said(store.pause_queue(&queue, paused, paused.then_some("a note")).await)
            }
            Self::Say(fingerprints, statement) => said(store.say(fingerprints, statement).await),
            Self::Amend(amend) => said(store.amend(amend).await),
            Self::Purge(jobs, only) => said(store.purge(jobs, only).await),
            Self::Prune(term, keep, limit) => said(store.prune(term, keep, limit).await),
            question => question.ask(store).await,
        };
        (said, learned)
    }

    /// The verbs that only read.
    async fn ask(&self, store: &dyn Store) -> String {
        match self.clone() {
            Self::Peek(claim) => said(store.peek(&claim).await),
            Self::Jobs(ids) => said(store.jobs(ids).await),
            Self::Archived(ids) => said(store.archived(ids).await),
            Self::List(filter, page) => said(store.list(*filter, page).await),
            Self::Attempts(job, page) => said(store.attempts(job, page).await),
            Self::Surroundings(job) => said(store.surroundings(job).await),
            Self::Queues => said(store.queues().await),
            Self::Workers => said(store.workers().await),
            Self::Incidents(filter, limit) => said(store.incidents_like(filter, limit).await),
            Self::HeldLanes => said(store.held_lanes().await),
            Self::Survey(filter, most) => said(store.survey(*filter, most).await),
            Self::Documents(range) => said(store.documents(range).await),
            Self::ArchivePage(page) => said(store.archive_page(page).await),
            other => format!("{other:?} only writes"),
        }
    }
}

/// An answer as text. Errors are compared by their code: their words may name the store.
pub(super) fn said<T: Debug>(answer: Result<T, Error>) -> String {
    match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(error) => format!("error {}", error.code()),
    }
}
