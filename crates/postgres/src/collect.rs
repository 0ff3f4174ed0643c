//! Single submits that come at the same time share a transaction.
//!
//! A commit costs the same for one job as for a hundred. While transactions of this kind are under way, the calls that
//! arrive wait for the next one; a call that finds none under way starts at once, so nobody waits for company.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use backstop_core::job::NewJob;
use backstop_sql::access::Class;
use backstop_sql::connection::Mode;
use backstop_sql::submit::{self, Answers};
use backstop_sql::{Call, SqlFailure, Transaction};
use backstop_store::working_set::SubmitNeeds;
use backstop_store::{Error, Submit};
use tokio::sync::oneshot;

use crate::collector::Submission;
use crate::hand_over::{self, Recipient, TakenRows, unknown};
use crate::state::Process;

/// Transactions under way at the same time: as one waits for the disk, the next one is built.
const MOST_TRANSACTIONS: usize = 3;

/// The transactions that are made one after the other while somebody waits. However they end, they are not counted any
/// more.
struct Group {
    process: Process,
    ended: bool,
}

impl Group {
    /// The submits of the next transaction; none when nobody waits.
    fn next(&mut self) -> Vec<Submission> {
        let submissions = self.process.state.collector.next();
        self.ended = submissions.is_empty();
        submissions
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.ended {
            self.process.state.collector.cut_short();
        }
    }
}

/// Stores one job, together with others that come at the same time.
pub(crate) async fn submit_one(process: &Process, job: NewJob) -> Result<Answers, Error> {
    let (answer, mut answered) = oneshot::channel();
    let Process { shared, state } = process;
    // A second transaction would find nobody to take for: an idle worker makes one offer at a time.
    let most = if state.offers.are_for(&job) { 1 } else { MOST_TRANSACTIONS };
    let mut submission = Some(Submission { job, answer });
    loop {
        let cut = state.collector.cut.notified();
        let begins = match submission.take() {
            Some(submission) => state.collector.add(submission, most),
            None => state.collector.may_begin(most),
        };
        if begins {
            tokio::spawn(store_all(Group { process: process.clone(), ended: false }));
        }
        tokio::select! {
            biased;
            // A submit whose transaction was cut short with its runtime may have been stored.
            answer = &mut answered => return answer.unwrap_or_else(|_| Err(unknown(shared))),
            () = cut => {}
        }
    }
}

async fn store_all(mut group: Group) {
    // Whoever is ready to submit at this moment comes along.
    tokio::task::yield_now().await;
    loop {
        let submissions = group.next();
        if submissions.is_empty() {
            return;
        }
        store_group(&group.process, submissions).await;
    }
}

async fn store_group(process: &Process, submissions: Vec<Submission>) {
    let jobs: Vec<NewJob> = submissions.iter().map(|submission| submission.job.clone()).collect();
    let alone = jobs.len() == 1;
    let recipient = Arc::new(Recipient::new(process));
    match store(process, Submit { jobs, atomic: false }, Some(recipient.clone())).await {
        Ok((stored, taken)) => {
            for (submission, stored) in submissions.into_iter().zip(stored) {
                // Whoever does not wait any more has gone away.
                let _ = submission.answer.send(Ok(vec![stored]));
            }
            recipient.serve(taken).await;
        }
        Err(error) => {
            recipient.decline(&error);
            let met_a_lock = matches!(error, Error::Busy { .. });
            let mut only = Some(error);
            for submission in submissions {
                match only.as_ref().and_then(for_everyone) {
                    Some(error) => drop(submission.answer.send(Err(error))),
                    None if alone && !met_a_lock => {
                        let error = only.take().unwrap_or_else(|| unknown(&process.shared));
                        drop(submission.answer.send(Err(error)));
                    }
                    // One of them waits for somebody, or cannot be stored at all: it must not keep the others from it,
                    // nor those who come next.
                    None => drop(tokio::spawn(store_alone(process.clone(), submission))),
                }
            }
        }
    }
}

async fn store_alone(process: Process, submission: Submission) {
    let stored = store(&process, Submit { jobs: vec![submission.job], atomic: false }, None).await;
    let _ = submission.answer.send(stored.map(|(answers, _)| answers));
}

/// An error that concerns every job of a transaction, once more; none when it may be about one of them.
fn for_everyone(error: &Error) -> Option<Error> {
    match error {
        Error::Unavailable { location, problem, .. } => {
            Some(Error::Unavailable { location: location.clone(), problem: problem.clone(), source: None })
        }
        Error::Unknown { location, .. } => Some(Error::Unknown { location: location.clone(), source: None }),
        Error::DiskFull { location, .. } => {
            Some(Error::DiskFull { location: location.clone(), source: None })
        }
        Error::Unusable { location, problem, hint } => {
            Some(Error::Unusable { location: location.clone(), problem: problem.clone(), hint: hint.clone() })
        }
        _ => None,
    }
}

/// Stores a batch, and takes for a claim that waits for one of its jobs; answers what that took. With a recipient it is
/// the transaction of several calls.
async fn store(
    process: &Process,
    batch: Submit,
    recipient: Option<Arc<Recipient>>,
) -> Result<(Answers, Option<TakenRows>), Error> {
    let mode = if SubmitNeeds::are_plain(&batch.jobs) { Mode::WriteByKey } else { Mode::Write };
    let mut call = Call::new(mode, Class::Write);
    if recipient.is_some() {
        call = call.for_group();
    }
    let (batch, process) = (Arc::new(batch), Arc::new(process.clone()));
    // Plain jobs are stored without a look at first. When that meets a repeated id, the next try looks.
    let tried = Arc::new(AtomicBool::new(false));
    let shared = process.shared.clone();
    let stored = shared.transact(call, move |tx| {
        let (batch, first) = (batch.clone(), !tried.swap(true, Ordering::Relaxed));
        let (process, recipient) = (process.clone(), recipient.clone());
        Box::pin(async move { store_once(tx, &process, &batch, first, recipient.as_deref()).await })
    });
    stored.await
}

async fn store_once(
    tx: &mut Transaction,
    process: &Process,
    batch: &Submit,
    optimistic: bool,
    recipient: Option<&Recipient>,
) -> Result<(Answers, Option<TakenRows>), SqlFailure> {
    let decided = submit::decide(tx, batch, optimistic).await?;
    let recipient = recipient.filter(|_| decided.writes.work_arrived);
    // As late as can be: who was served a moment ago has had time to come back.
    let claim = recipient.and_then(|recipient| recipient.claim(&batch.jobs));
    let query = |claim: Arc<_>| hand_over::query(&process.state, &process.shared, &claim, &batch.jobs);
    let Some((query, start)) = claim.and_then(query) else {
        tx.write(decided.writes, decided.now).await?;
        return Ok((decided.answers, None));
    };
    let rows = tx.write_before(decided.writes, query.into(), decided.now).await?;
    tx.nothing_arrived(&hand_over::emptied(&batch.jobs, &rows));
    Ok((decided.answers, Some(TakenRows { rows, start })))
}
