//! Bugs put into a store on purpose: a layer that misbehaves in exactly one way. A checker that misses one is too weak.

mod bug;
mod workflows;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop::{Cause, JobId, Refusal, State, WorkerId};
use backstop_core::failure::{Decision, Verdict};
use backstop_core::job::{Ending, JobSummary, NoteError, Operated, Operation, Remark, Stale, Start};
use backstop_core::{Fence, Lease};
use backstop_store::{
    Amend, Amended, Answer, Claim, Claimed, ClaimedJob, Error, Finish, JobFilter, Layer, NewWorker, Note,
    Observer, Orphan, PageRequest, Peek, QueueView, Renewed, Signal, Silent, Store, Submit, Submitted, Term,
};

use crate::journal_layer::{EndingAnswers, SubmitAnswers};

pub use bug::Bug;

/// A store with a bug; none makes it an honest one.
pub struct SabotagedStore {
    below: Arc<dyn Store>,
    bug: Option<Bug>,
    calls: AtomicU64,
    /// Claims that were handed out, for those that are handed out again.
    given: Mutex<Vec<ClaimedJob>>,
    /// Workers as they made themselves known.
    known: Mutex<Vec<NewWorker>>,
}

impl fmt::Debug for SabotagedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sabotaged").field("bug", &self.bug).finish_non_exhaustive()
    }
}

impl SabotagedStore {
    /// A store over an honest one. All clients of a campaign share it.
    #[must_use]
    pub fn over(below: Arc<dyn Store>, bug: Option<Bug>) -> Arc<dyn Store> {
        let calls = AtomicU64::new(0);
        Arc::new(Self { below, bug, calls, given: Mutex::default(), known: Mutex::default() })
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// True for every fourth call, if the store has this bug.
    fn fourth(&self, bug: Bug) -> bool {
        self.has(bug) && self.calls.fetch_add(1, Ordering::Relaxed) % 4 == 3
    }

    /// Spoils a submit; answers what is told without being stored.
    fn spoil_submit(&self, submit: &mut Submit) -> Option<SubmitAnswers> {
        for job in &mut submit.jobs {
            match self.bug {
                Some(Bug::IdempotencyKeyIgnored) => job.spec.idempotency_key = None,
                Some(Bug::BusinessKeyIgnored) => job.spec.business_key = None,
                Some(Bug::OrderingKeyIgnored) => job.spec.ordering_key = None,
                Some(Bug::DelayIgnored) => job.start = Start::Now,
                Some(Bug::PayloadMixedUp) if self.fourth(Bug::PayloadMixedUp) => {
                    job.spec.payload = r#"{"number":3}"#.into();
                }
                _ => {}
            }
        }
        let answer = |job: &backstop_core::job::NewJob| {
            Ok(Submitted { id: job.spec.id, state: State::Pending, deduplicated: false })
        };
        let is_lost = self.fourth(Bug::AckBeforeCommit) || self.meets_fires(Bug::FireLost, submit);
        is_lost.then(|| submit.jobs.iter().map(answer).collect())
    }

    /// The current hold of a job.
    async fn holder(&self, job: JobId) -> Option<Lease> {
        let detail = self.below.jobs(vec![job]).await.ok()?.pop()??;
        let record = detail.view.record;
        record.hold.map(|hold| Lease { job, worker: hold.worker, fence: record.fence })
    }

    /// Gives a stale end another chance, as a store without fences would.
    async fn insist(&self, finish: &Finish) -> Option<State> {
        let mut finish = finish.clone();
        match self.bug? {
            Bug::FenceDropped => finish.lease = self.holder(finish.lease.job).await?,
            Bug::ExpiredLeaseAccepted => {
                let worker = finish.lease.worker;
                let mut again = self.introduction(worker)?;
                again.lease = Duration::from_millis(20);
                self.below.enlist(again).await.ok()?;
            }
            _ => return None,
        }
        self.below.finish(vec![finish]).await.ok()?.pop()?.ok()
    }

    fn introduction(&self, worker: WorkerId) -> Option<NewWorker> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|one| one.id == worker).cloned()
    }

    fn spoil_ending(&self, finish: &mut Finish) {
        let verdict = &mut finish.ending.decision.verdict;
        match (self.bug, &*verdict) {
            (Some(Bug::BudgetIgnored), Verdict::Dead { .. }) => {
                *verdict = Verdict::Retry { delay: Duration::ZERO };
            }
            (Some(Bug::RetryAtOnce), Verdict::Retry { .. }) => {
                *verdict = Verdict::Retry { delay: Duration::ZERO };
            }
            (Some(Bug::RetryAtOnce), Verdict::Defer { .. }) => {
                *verdict = Verdict::Defer { delay: Duration::ZERO };
            }
            (Some(Bug::CrashBlamed), _) if finish.ending.cause == Cause::Crash => {
                finish.ending.cause = Cause::Error;
            }
            _ => {}
        }
    }

    /// What the worker of a frozen fence shows, as the store knows it.
    async fn thawed(&self, lease: Lease) -> Lease {
        match self.bug {
            Some(Bug::FenceFrozen) => self.holder(lease.job).await.unwrap_or(lease),
            _ => lease,
        }
    }

    /// Spoils what a claim has taken.
    fn spoil_claim(&self, claimed: &mut Claimed) {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        match self.bug {
            Some(Bug::ClaimLost) if !claimed.jobs.is_empty() && self.fourth(Bug::ClaimLost) => {
                claimed.jobs.pop();
            }
            Some(Bug::StepsForgotten) => claimed.jobs.iter_mut().for_each(|job| job.record.marks = None),
            Some(Bug::FenceFrozen) => claimed.jobs.iter_mut().for_each(|job| job.lease.fence = Fence(1)),
            Some(Bug::HandedOutTwice | Bug::SuccessRunAgain)
                if self.fourth(self.bug.unwrap_or(Bug::ClaimLost)) =>
            {
                claimed.jobs.extend(given.pop());
            }
            Some(Bug::HandedOutTwice) => given.extend(claimed.jobs.first().cloned()),
            _ => {}
        }
    }
}

impl Layer for SabotagedStore {
    fn below(&self) -> &dyn Store {
        &*self.below
    }

    fn observe(&self, observer: Arc<dyn Observer>) {
        self.below.observe(if self.has(Bug::NoPolling) { Arc::new(Silent) } else { observer });
    }

    fn submit(&self, mut submit: Submit) -> Answer<'_, SubmitAnswers> {
        Box::pin(async move {
            if let Some(untrue) = self.spoil_submit(&mut submit) {
                return Ok(untrue);
            }
            let is_again = self.fourth(Bug::StoredTwice) || self.meets_fires(Bug::FireTwice, &submit);
            let again = is_again.then(|| {
                let mut again = submit.clone();
                for job in &mut again.jobs {
                    job.spec.id = backstop::job_id();
                    (job.spec.idempotency_key, job.spec.business_key) = (None, None);
                }
                again
            });
            let answers = self.below.submit(submit).await?;
            if let Some(again) = again {
                self.below.submit(again).await?;
            }
            Ok(answers)
        })
    }

    fn amend(&self, mut amend: Amend) -> Answer<'_, Amended> {
        Box::pin(async move {
            self.release_early(&mut amend);
            match self.swallow_signals(&amend).await? {
                Some(untrue) => Ok(untrue),
                None => self.below.amend(amend).await,
            }
        })
    }

    fn job_summaries(&self, jobs: Vec<JobId>) -> Answer<'_, Vec<Option<JobSummary>>> {
        Box::pin(async move {
            match self.has(Bug::OverlapIgnored) {
                true => Ok(vec![None; jobs.len()]),
                false => self.below.job_summaries(jobs).await,
            }
        })
    }

    fn annotate(&self, notes: Vec<Note>) -> Answer<'_, Vec<Result<(), NoteError>>> {
        Box::pin(async move {
            let is_step =
                |note: &Note| matches!(note.remark, Remark::Step(_)) && !note.documents(0).is_empty();
            if notes.len() == 1 && is_step(&notes[0]) && self.fourth(Bug::StepLost) {
                return Ok(vec![Ok(())]);
            }
            self.below.annotate(notes).await
        })
    }

    fn claim(&self, claim: Claim) -> Answer<'_, Claimed> {
        Box::pin(async move {
            let mut claimed = self.below.claim(claim).await?;
            self.end_early(&claimed).await?;
            self.spoil_claim(&mut claimed);
            Ok(claimed)
        })
    }

    fn offer<'a>(&'a self, claim: Claim, withdrawn: Signal<'a>) -> Answer<'a, Option<Claimed>> {
        Box::pin(async move {
            let mut claimed = self.below.offer(claim, withdrawn).await?;
            if let Some(claimed) = &claimed {
                self.end_early(claimed).await?;
            }
            claimed.iter_mut().for_each(|claimed| self.spoil_claim(claimed));
            Ok(claimed)
        })
    }

    fn peek<'a>(&'a self, claim: &Claim) -> Answer<'a, Peek> {
        let claim = claim.clone();
        Box::pin(async move {
            let mut peek = self.below.peek(&claim).await?;
            match self.bug {
                Some(Bug::NoPolling) => peek.next_due = None,
                // There is always something to hand out once more.
                Some(Bug::SuccessRunAgain) => peek.next_due = Some(peek.now),
                _ => {}
            }
            Ok(peek)
        })
    }

    fn start(&self, mut leases: Vec<Lease>) -> Answer<'_, Vec<Result<(), Stale>>> {
        Box::pin(async move {
            if self.has(Bug::StartNotCounted) {
                return Ok(leases.iter().map(|_| Ok(())).collect());
            }
            for lease in &mut leases {
                *lease = self.thawed(*lease).await;
            }
            self.below.start(leases).await
        })
    }

    fn finish(&self, mut endings: Vec<Finish>) -> Answer<'_, EndingAnswers> {
        Box::pin(async move {
            let told = endings.clone();
            for finish in &mut endings {
                finish.lease = self.thawed(finish.lease).await;
                self.spoil_ending(finish);
            }
            if self.has(Bug::AckEarly) || self.fourth(Bug::FinishLost) {
                return Ok(endings.iter().map(|_| Ok(State::Succeeded)).collect());
            }
            let mut answers = self.below.finish(endings).await?;
            if self.fourth(Bug::EndLost) {
                self.forget_ends().await?;
            }
            for (finish, answer) in told.iter().zip(&mut answers) {
                if answer.is_err()
                    && let Some(state) = self.insist(finish).await
                {
                    *answer = Ok(state);
                }
                if self.fourth(Bug::FinishDenied) {
                    *answer = Err(Stale { job: finish.lease.job, fence: finish.lease.fence });
                }
            }
            self.remember_success(&told, &answers).await;
            Ok(answers)
        })
    }

    fn enlist(&self, worker: NewWorker) -> Answer<'_, ()> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).push(worker.clone());
        self.below.enlist(worker)
    }

    fn renew(&self, worker: WorkerId, lease: Duration, held: Vec<Lease>) -> Answer<'_, Renewed> {
        Box::pin(async move {
            let mut renewed = self.below.renew(worker, lease, held).await?;
            if matches!(
                self.bug,
                Some(Bug::FenceFrozen | Bug::HandedOutTwice | Bug::SuccessRunAgain | Bug::AckEarly)
            ) {
                renewed.lost.clear();
            }
            Ok(renewed)
        })
    }

    fn orphans(&self, limit: usize) -> Answer<'_, Vec<Orphan>> {
        Box::pin(async move {
            match self.bug {
                Some(Bug::OrphansIgnored) => Ok(Vec::new()),
                Some(Bug::RescueById) => self.all_held(limit).await,
                _ => self.below.orphans(limit).await,
            }
        })
    }

    fn rescue(&self, term: Term, mut endings: Vec<Finish>) -> Answer<'_, EndingAnswers> {
        Box::pin(async move {
            endings.iter_mut().for_each(|finish| self.spoil_ending(finish));
            if self.has(Bug::RescueById) {
                return self.below.finish(endings).await;
            }
            self.below.rescue(term, endings).await
        })
    }

    fn operate(&self, jobs: Vec<JobId>, operation: Operation) -> Answer<'_, Vec<Result<Operated, Refusal>>> {
        Box::pin(async move {
            if self.has(Bug::CancelForgotten) && matches!(operation, Operation::Cancel { .. }) {
                let done = Operated { changed: true, state: State::Canceled, ended_run: None };
                return Ok(jobs.iter().map(|_| Ok(done.clone())).collect());
            }
            self.below.operate(jobs, operation).await
        })
    }

    fn queues(&self) -> Answer<'_, Vec<QueueView>> {
        Box::pin(async move {
            let mut queues = self.below.queues().await?;
            if self.has(Bug::CountsDrift) {
                queues.iter_mut().for_each(|queue| queue.succeeded += 1);
            }
            Ok(queues)
        })
    }
}

impl SabotagedStore {
    /// Ends the runs of a claim before they have begun.
    async fn end_early(&self, claimed: &Claimed) -> Result<(), Error> {
        if !self.has(Bug::AckEarly) || claimed.jobs.is_empty() {
            return Ok(());
        }
        let end = |job: &ClaimedJob| Finish {
            lease: job.lease,
            ending: Ending::plain(job.job.spec.header(), Cause::Succeeded, Decision::succeeded()),
        };
        self.below.finish(claimed.jobs.iter().map(end).collect()).await.map(drop)
    }

    /// Every running job, as if its worker were dead.
    async fn all_held(&self, limit: usize) -> Result<Vec<Orphan>, Error> {
        let running = JobFilter { state: Some(State::Running), ..JobFilter::default() };
        let page = self.below.list(running, PageRequest::first(limit)).await?;
        let orphan = |view: backstop_core::job::JobView| {
            let hold = view.record.hold?;
            let lease = Lease { job: view.job.spec.id, worker: hold.worker, fence: view.record.fence };
            Some(Orphan { job: Arc::new(view.job), record: view.record, lease, code_version: None })
        };
        Ok(page.items.into_iter().filter_map(orphan).collect())
    }

    /// Keeps what has succeeded, to hand it out again as it was.
    async fn remember_success(&self, told: &[Finish], answers: &EndingAnswers) {
        if !self.has(Bug::SuccessRunAgain) {
            return;
        }
        for (finish, answer) in told.iter().zip(answers) {
            let Ok(State::Succeeded) = answer else { continue };
            let Ok(mut found) = self.below.jobs(vec![finish.lease.job]).await else { continue };
            let Some(view) = found.pop().flatten().map(|detail| detail.view) else { continue };
            let mut record = view.record;
            record.state = State::Running;
            let moment = record.finished_at.unwrap_or(record.run_at);
            record.hold = Some(backstop_core::job::Hold {
                worker: finish.lease.worker,
                claimed_at: moment,
                started_at: Some(moment),
            });
            let again = ClaimedJob { job: Arc::new(view.job), record, lease: finish.lease };
            self.given.lock().unwrap_or_else(PoisonError::into_inner).push(again);
        }
    }
}
