//! A store seen through a meter: every verb is timed, and what passes is counted. It changes nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop_core::explain::Surroundings;
use backstop_core::failure::{Cause, Fingerprint, TerminalReason, Verdict};
use backstop_core::incident::{Incident, Statement};
use backstop_core::job::{
    Attempt, Ending, Glance, JobDetail, JobView, NewJob, Operated, Operation, Retention, Stale, State,
};
use backstop_core::{JobId, Lease, Refusal, Timestamp, WorkerId};
use backstop_store::{
    Amend, Amended, Answer, Archived, Claim, Claimed, Documents, Duty, Finding, Finish, HandedRun, HeldLane,
    IncidentFilter, JobFilter, NewWorker, Note, Observer, Orphan, Page, PageRequest, Peek, QueueView,
    Renewed, Shelf, Signal, Store, StoreInfo, Submit, Submitted, Survey, Term, Terms, WorkerView,
};

use super::{Figures, LONG, SHORT};

/// The meter.
pub(crate) struct Metered {
    inner: Arc<dyn Store>,
    figures: Arc<Figures>,
}

impl Metered {
    pub(crate) const fn new(inner: Arc<dyn Store>, figures: Arc<Figures>) -> Self {
        Self { inner, figures }
    }

    /// Times a call and, when it went well, counts by its answer.
    fn timed<'a, T: Send + 'a>(
        &'a self,
        verb: &'static str,
        call: Answer<'a, T>,
        count: impl FnOnce(&Figures, &T) + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            let began = Instant::now();
            let answer = call.await;
            self.figures.store_time.add("", verb, SHORT, began.elapsed());
            match &answer {
                Ok(answer) => count(&self.figures, answer),
                Err(error) => self.figures.store_errors.add(verb, error.code(), 1),
            }
            answer
        })
    }

    /// Times the end of runs and counts those that the store has taken.
    fn endings<'a>(
        &'a self,
        verb: &'static str,
        endings: Vec<Finish>,
        call: impl FnOnce(&'a dyn Store, Vec<Finish>) -> Answer<'a, Vec<Result<State, Stale>>>,
    ) -> Answer<'a, Vec<Result<State, Stale>>> {
        let ended: Vec<_> = endings.iter().map(|finish| brief(&finish.ending)).collect();
        self.timed(verb, call(&*self.inner, endings), move |figures, answers| {
            for ((kind, cause, dead), answer) in ended.iter().zip(answers) {
                match answer {
                    Ok(_) => figures.ended(kind, *cause, *dead),
                    Err(_) => figures.events.add("", "stale_ending", 1),
                }
            }
            if verb == "rescue" {
                let rescued = answers.iter().filter(|answer| answer.is_ok()).count();
                figures.events.add("", "rescued", u64::try_from(rescued).unwrap_or(u64::MAX));
            }
        })
    }
}

/// What is counted of an ending.
fn brief(ending: &Ending) -> (Arc<str>, Cause, Option<TerminalReason>) {
    let dead = match &ending.decision.verdict {
        Verdict::Dead { reason } => Some(*reason),
        _ => None,
    };
    (ending.job.kind.clone(), ending.cause, dead)
}

/// Counts what a claim has taken: how long each job was due, and whether this is its last attempt.
fn taken(figures: &Figures, claimed: &Claimed) {
    for one in &claimed.jobs {
        figures.wait_time.add(&one.job.spec.queue, "", LONG, claimed.now.since(one.record.run_at));
        let most = one.job.spec.policy.max_retries;
        if most > 0 && one.record.attempt >= most {
            figures.last_attempts.add(&one.job.spec.kind, "", 1);
        }
    }
    if claimed.expired > 0 {
        figures.events.add("", "expired", u64::try_from(claimed.expired).unwrap_or(u64::MAX));
    }
}

macro_rules! timed {
    ($($verb:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(fn $verb(&self, $($arg: $type),*) -> Answer<'_, $answer> {
            self.timed(stringify!($verb), self.inner.$verb($($arg),*), |_, _| ())
        })*
    };
}

impl Store for Metered {
    fn info(&self) -> StoreInfo {
        self.inner.info()
    }

    fn observe(&self, observer: Arc<dyn Observer>) {
        self.inner.observe(observer);
    }

    fn submit(&self, submit: Submit) -> Answer<'_, Vec<Result<Submitted, Refusal>>> {
        let queues: Vec<Arc<str>> = submit.jobs.iter().map(|job| job.spec.queue.clone()).collect();
        self.timed("submit", self.inner.submit(submit), move |figures, answers| {
            for (queue, answer) in queues.iter().zip(answers) {
                match answer {
                    Ok(submitted) if submitted.deduplicated => figures.duplicates.add(queue, "", 1),
                    Ok(_) => figures.submitted.add(queue, "", 1),
                    Err(refusal) => figures.refused(refusal),
                }
            }
        })
    }

    fn prepare(&self, jobs: &[NewJob]) -> Answer<'_, ()> {
        self.inner.prepare(jobs)
    }

    fn claim(&self, claim: Claim) -> Answer<'_, Claimed> {
        self.timed("claim", self.inner.claim(claim), taken)
    }

    /// How long it took says nothing of the store: it waited for work.
    fn offer<'a>(&'a self, claim: Claim, withdrawn: Signal<'a>) -> Answer<'a, Option<Claimed>> {
        Box::pin(async move {
            let answer = self.inner.offer(claim, withdrawn).await;
            match &answer {
                Ok(claimed) => claimed.iter().for_each(|claimed| taken(&self.figures, claimed)),
                Err(error) => self.figures.store_errors.add("offer", error.code(), 1),
            }
            answer
        })
    }

    fn finish(&self, endings: Vec<Finish>) -> Answer<'_, Vec<Result<State, Stale>>> {
        self.endings("finish", endings, |store, endings| store.finish(endings))
    }

    fn rescue(&self, term: Term, endings: Vec<Finish>) -> Answer<'_, Vec<Result<State, Stale>>> {
        self.endings("rescue", endings, move |store, endings| store.rescue(term, endings))
    }

    fn renew(&self, worker: WorkerId, lease: Duration, held: Vec<Lease>) -> Answer<'_, Renewed> {
        self.timed("renew", self.inner.renew(worker, lease, held), |figures, renewed| {
            if !renewed.lost.is_empty() {
                let lost = u64::try_from(renewed.lost.len()).unwrap_or(u64::MAX);
                figures.events.add("", "lease_lost", lost);
            }
        })
    }

    fn peek(&self, claim: &Claim) -> Answer<'_, Peek> {
        self.timed("peek", self.inner.peek(claim), |_, _| ())
    }

    fn pause_queue(&self, queue: &str, paused: bool, note: Option<&str>) -> Answer<'_, bool> {
        self.timed("pause_queue", self.inner.pause_queue(queue, paused, note), |_, _| ())
    }

    timed! {
        now() -> Timestamp;
        start(leases: Vec<Lease>) -> Vec<Result<(), Stale>>;
        annotate(notes: Vec<Note>) -> Vec<Result<(), Stale>>;
        enlist(worker: NewWorker) -> ();
        retire(worker: WorkerId) -> ();
        lead(node: WorkerId, duties: Vec<Duty>, ttl: Duration) -> Vec<Option<Term>>;
        terms() -> Terms;
        fold(limit: usize) -> usize;
        orphans(limit: usize) -> Vec<Orphan>;
        handed_out() -> Vec<HandedRun>;
        expire(term: Term, limit: usize) -> usize;
        archive(term: Term, retention: Retention, limit: usize) -> usize;
        operate(jobs: Vec<JobId>, operation: Operation) -> Vec<Result<Operated, Refusal>>;
        jobs(ids: Vec<JobId>) -> Vec<Option<JobDetail>>;
        glance(ids: Vec<JobId>) -> Vec<Option<Glance>>;
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
