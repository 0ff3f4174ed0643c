//! A layer that writes down what a client asks of a store, before, and what it was told, after.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use backstop::{Backstop, Config, JobId, Refusal, State, WorkerId};
use backstop_core::Lease;
use backstop_core::job::{Operated, Operation, Stale};
use backstop_store::{
    Amend, Amended, Answer, Claim, Claimed, Error, Finish, Layer, NewWorker, Renewed, Signal, Store, Submit,
    Submitted, Term,
};

use crate::journal::{Journal, JournalEntry, TriedSubmit, hundredths_since_start};
use crate::stepped::{self, FileClock};

/// One answer for each job of a batch of submits.
pub type SubmitAnswers = Vec<Result<Submitted, Refusal>>;
/// One answer for each ending of a batch.
pub type EndingAnswers = Vec<Result<State, Stale>>;

/// The layer.
pub struct JournalLayer {
    below: Arc<dyn Store>,
    journal: Arc<Journal>,
}

impl JournalLayer {
    /// A store that writes its client's journal.
    #[must_use]
    pub fn over(below: Arc<dyn Store>, journal: Arc<Journal>) -> Arc<dyn Store> {
        Arc::new(Self { below, journal })
    }

    /// Lets an answer through; an error that no fault explains is written down.
    fn heard<T>(&self, answer: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &answer
            && !error.is_transient()
            && !matches!(error, Error::NotEnlisted { .. } | Error::Deposed { .. })
        {
            self.journal.write(JournalEntry::Broken(error.to_string()));
        }
        answer
    }

    async fn end(
        &self,
        endings: Vec<Finish>,
        ask: impl AsyncFnOnce(Vec<Finish>) -> Result<EndingAnswers, Error>,
    ) -> Result<EndingAnswers, Error> {
        let leases: Vec<Lease> = endings.iter().map(|finish| finish.lease).collect();
        self.journal.write_all(endings.iter().map(|finish| JournalEntry::Finishing {
            lease: finish.lease,
            cause: finish.ending.cause,
            verdict: finish.ending.decision.verdict.clone(),
        }));
        let answers = self.heard(ask(endings).await)?;
        self.journal.write_all(leases.iter().zip(&answers).map(|(lease, answer)| match answer {
            Ok(state) => JournalEntry::Finished { lease: *lease, state: *state },
            Err(_) => JournalEntry::Refused(*lease),
        }));
        Ok(answers)
    }
}

/// Opens a store whose calls are written down.
///
/// # Errors
/// As [`Backstop::open`].
pub async fn open(url: &str, journal: Arc<Journal>) -> Result<Backstop, backstop::Error> {
    open_with(url, journal, Config::default()).await
}

/// The same, configured.
///
/// # Errors
/// As [`Backstop::open`].
pub async fn open_with(
    url: &str,
    journal: Arc<Journal>,
    config: Config,
) -> Result<Backstop, backstop::Error> {
    let clock = std::env::var_os(stepped::VARIABLE).map(|file| FileClock::new(file.into()));
    let store = stepped::open(url, clock).await?;
    Ok(Backstop::on(JournalLayer::over(store, journal), config))
}

impl fmt::Debug for JournalLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Witness").finish_non_exhaustive()
    }
}

impl Layer for JournalLayer {
    fn below(&self) -> &dyn Store {
        &*self.below
    }

    fn submit(&self, submit: Submit) -> Answer<'_, SubmitAnswers> {
        Box::pin(async move {
            let ids: Vec<JobId> = submit.jobs.iter().map(|job| job.spec.id).collect();
            self.journal
                .write_all(submit.jobs.iter().map(|job| JournalEntry::Trying(TriedSubmit::from(job))));
            let answers = self.heard(self.below.submit(submit).await)?;
            let stored = ids.iter().zip(&answers).filter_map(|(job, answer)| {
                let answer = answer.as_ref().ok()?.id;
                Some(JournalEntry::Acked { job: *job, answer })
            });
            self.journal.write_all(stored);
            Ok(answers)
        })
    }

    fn amend(&self, amend: Amend) -> Answer<'_, Amended> {
        Box::pin(async move {
            let ids: Vec<JobId> = amend.jobs.iter().map(|job| job.spec.id).collect();
            self.journal.write_all(amend.jobs.iter().map(|job| JournalEntry::Trying(TriedSubmit::from(job))));
            let amended = self.heard(self.below.amend(amend).await)?;
            if let Amended::Done { submitted, .. } = &amended {
                let acked = ids.iter().zip(submitted);
                let acked = acked.map(|(job, answer)| JournalEntry::Acked { job: *job, answer: answer.id });
                self.journal.write_all(acked);
            }
            Ok(amended)
        })
    }

    fn claim(&self, claim: Claim) -> Answer<'_, Claimed> {
        Box::pin(async move {
            let asked = hundredths_since_start();
            let claimed = self.heard(self.below.claim(claim).await)?;
            self.journal
                .write_all(claimed.jobs.iter().map(|job| JournalEntry::Held { lease: job.lease, asked }));
            Ok(claimed)
        })
    }

    fn offer<'a>(&'a self, claim: Claim, withdrawn: Signal<'a>) -> Answer<'a, Option<Claimed>> {
        Box::pin(async move {
            let asked = hundredths_since_start();
            let claimed = self.heard(self.below.offer(claim, withdrawn).await)?;
            let held = claimed.iter().flat_map(|claimed| &claimed.jobs);
            self.journal.write_all(held.map(|job| JournalEntry::Held { lease: job.lease, asked }));
            Ok(claimed)
        })
    }

    fn finish(&self, endings: Vec<Finish>) -> Answer<'_, EndingAnswers> {
        Box::pin(self.end(endings, async |endings| self.below.finish(endings).await))
    }

    fn rescue(&self, term: Term, endings: Vec<Finish>) -> Answer<'_, EndingAnswers> {
        Box::pin(self.end(endings, async move |endings| self.below.rescue(term, endings).await))
    }

    fn enlist(&self, worker: NewWorker) -> Answer<'_, ()> {
        Box::pin(async move {
            let (id, lease) = (worker.id, worker.lease);
            let earliest = self.below.now().await?.after(lease);
            self.heard(self.below.enlist(worker).await)?;
            // A store that went away between two calls leaves this worker, and its lease, unmentioned.
            if let Ok(now) = self.below.now().await {
                self.journal.write(JournalEntry::Enlisted { worker: id, earliest, latest: now.after(lease) });
            }
            Ok(())
        })
    }

    fn renew(&self, worker: WorkerId, lease: Duration, held: Vec<Lease>) -> Answer<'_, Renewed> {
        Box::pin(async move {
            self.journal.write(JournalEntry::Renewing(worker));
            let renewed = self.heard(self.below.renew(worker, lease, held).await)?;
            self.journal.write(JournalEntry::Renewed(worker, renewed.expires_at));
            Ok(renewed)
        })
    }

    fn operate(&self, jobs: Vec<JobId>, operation: Operation) -> Answer<'_, Vec<Result<Operated, Refusal>>> {
        Box::pin(async move {
            let ids = jobs.clone();
            let answers = self.heard(self.below.operate(jobs, operation).await)?;
            let canceled = |answer: &Result<Operated, Refusal>| {
                answer.as_ref().is_ok_and(|done| done.changed && done.state == State::Canceled)
            };
            let ids = ids.iter().zip(&answers).filter(|(_, answer)| canceled(answer));
            self.journal.write_all(ids.map(|(job, _)| JournalEntry::Canceled(*job)));
            Ok(answers)
        })
    }
}
