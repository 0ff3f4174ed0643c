//! A store seen through a meter: every verb is timed, and what passes is counted. It changes nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop_core::failure::{Cause, TerminalReason, Verdict};
use backstop_core::job::{Ending, NewJob, NoteError, Remark, Stale, State};
use backstop_core::{Lease, Refusal, WorkerId};
use backstop_store::{
    Amend, Amended, Answer, Claim, Claimed, Finish, Layer, Note, Overdue, Renewed, Signal, Store, Submit,
    Submitted, Term,
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
}

impl Layer for Metered {
    fn below(&self) -> &dyn Store {
        &*self.inner
    }

    fn around<'a, T: Send + 'a>(
        &'a self,
        verb: &'static str,
        call: impl FnOnce(&'a dyn Store) -> Answer<'a, T>,
    ) -> Answer<'a, T> {
        self.timed(verb, call(&*self.inner), |_, _| ())
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

    /// Jobs of fires count wherever they are submitted; those of workflows are counted as such.
    fn amend(&self, amend: Amend) -> Answer<'_, Amended> {
        let fired: Vec<Option<Arc<str>>> =
            amend.jobs.iter().map(|job| job.spec.schedule().map(|_| job.spec.queue.clone())).collect();
        self.timed("amend", self.inner.amend(amend), move |figures, amended| {
            let Amended::Done { submitted, .. } = amended else { return };
            for (queue, submitted) in fired.iter().zip(submitted) {
                match queue {
                    Some(queue) if submitted.deduplicated => figures.duplicates.add(queue, "", 1),
                    Some(queue) => figures.submitted.add(queue, "", 1),
                    None => {}
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

    fn annotate(&self, notes: Vec<Note>) -> Answer<'_, Vec<Result<(), NoteError>>> {
        let rejects: Vec<(usize, Arc<str>, usize)> = notes
            .iter()
            .enumerate()
            .filter_map(|(place, note)| match &note.remark {
                Remark::Rejects(batch) => Some((place, batch.kind.clone(), batch.rejects.len())),
                _ => None,
            })
            .collect();
        self.timed("annotate", self.inner.annotate(notes), move |figures, answers| {
            for (place, kind, count) in rejects.iter().filter(|(_, _, count)| *count > 0) {
                if answers.get(*place).is_some_and(Result::is_ok) {
                    figures.rejected(kind, "store", *count);
                }
            }
        })
    }

    fn expire(&self, term: Term, jobs: Vec<Overdue>) -> Answer<'_, usize> {
        self.timed("expire", self.inner.expire(term, jobs), |figures, expired| {
            figures.events.add("", "expired", u64::try_from(*expired).unwrap_or(u64::MAX));
        })
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
}
