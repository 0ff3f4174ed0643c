//! Single submits that come at the same time share a transaction.
//!
//! A commit costs the same for one job as for a hundred. While transactions of this kind are under way, the calls that
//! arrive wait for the next one; a call that finds none under way starts at once, so that no call waits for others to
//! arrive.

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

use crate::claim_at_submit::{self, ServedOffer, TakenRows, unknown};
use crate::state::StoreHandle;
use crate::waiting_submits::WaitingSubmit;

/// Transactions under way at the same time: as one waits for the disk, the next one is built.
const MOST_TRANSACTIONS: usize = 3;

/// The transactions that are made one after the other while somebody waits. However they end, they are not counted any
/// more.
struct Group {
    handle: StoreHandle,
    ended: bool,
}

impl Group {
    /// The submits of the next transaction; none when nobody waits.
    fn next(&mut self) -> Vec<WaitingSubmit> {
        let submits = self.handle.state.submits.next();
        self.ended = submits.is_empty();
        submits
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.ended {
            self.handle.state.submits.cut_short();
        }
    }
}

/// Stores one job, together with others that come at the same time.
pub(crate) async fn submit_one(handle: &StoreHandle, job: NewJob) -> Result<Answers, Error> {
    let (answer, mut answered) = oneshot::channel();
    let StoreHandle { shared, state } = handle;
    // A second transaction would find nobody to take for: an idle worker makes one offer at a time.
    let most = if state.offers.are_for(&job) { 1 } else { MOST_TRANSACTIONS };
    let mut submit = Some(WaitingSubmit { job, answer });
    loop {
        let cut = state.submits.cut.notified();
        let begins = match submit.take() {
            Some(submit) => state.submits.add(submit, most),
            None => state.submits.may_begin(most),
        };
        if begins {
            tokio::spawn(store_all(Group { handle: handle.clone(), ended: false }));
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
    // Calls that are ready to submit at this moment are included.
    tokio::task::yield_now().await;
    loop {
        let submits = group.next();
        if submits.is_empty() {
            return;
        }
        store_group(&group.handle, submits).await;
    }
}

async fn store_group(handle: &StoreHandle, submits: Vec<WaitingSubmit>) {
    let jobs: Vec<NewJob> = submits.iter().map(|submit| submit.job.clone()).collect();
    let alone = jobs.len() == 1;
    let offer = Arc::new(ServedOffer::new(handle));
    match store(handle, Submit { jobs, atomic: false }, Some(offer.clone())).await {
        Ok((stored, taken)) => {
            for (submit, stored) in submits.into_iter().zip(stored) {
                // The caller may have stopped waiting.
                let _ = submit.answer.send(Ok(vec![stored]));
            }
            offer.serve(taken).await;
        }
        Err(error) => {
            offer.decline(&error);
            let met_a_lock = matches!(error, Error::Busy { .. });
            let mut only = Some(error);
            for submit in submits {
                match only.as_ref().and_then(for_everyone) {
                    Some(error) => drop(submit.answer.send(Err(error))),
                    None if alone && !met_a_lock => {
                        let error = only.take().unwrap_or_else(|| unknown(&handle.shared));
                        drop(submit.answer.send(Err(error)));
                    }
                    // One of them waits for somebody, or cannot be stored at all: it must not keep the others from it,
                    // nor those who come next.
                    None => drop(tokio::spawn(store_alone(handle.clone(), submit))),
                }
            }
        }
    }
}

async fn store_alone(handle: StoreHandle, submit: WaitingSubmit) {
    let stored = store(&handle, Submit { jobs: vec![submit.job], atomic: false }, None).await;
    let _ = submit.answer.send(stored.map(|(answers, _)| answers));
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

/// Stores a batch, and takes for a claim that waits for one of its jobs; answers what that took. With an offer it is
/// the transaction of several calls.
async fn store(
    handle: &StoreHandle,
    batch: Submit,
    offer: Option<Arc<ServedOffer>>,
) -> Result<(Answers, Option<TakenRows>), Error> {
    let mode = if SubmitNeeds::are_plain(&batch.jobs) { Mode::WriteByKey } else { Mode::Write };
    let mut call = Call::new(mode, Class::Submit);
    if offer.is_some() {
        call = call.for_group();
    }
    let (batch, handle) = (Arc::new(batch), Arc::new(handle.clone()));
    // Plain jobs are stored without a look at first. When that meets a repeated id, the next try looks.
    let tried = Arc::new(AtomicBool::new(false));
    let shared = handle.shared.clone();
    let stored = shared.transact(call, move |tx| {
        let (batch, first) = (batch.clone(), !tried.swap(true, Ordering::Relaxed));
        let (handle, offer) = (handle.clone(), offer.clone());
        Box::pin(async move { store_once(tx, &handle, &batch, first, offer.as_deref()).await })
    });
    stored.await
}

async fn store_once(
    tx: &mut Transaction,
    handle: &StoreHandle,
    batch: &Submit,
    optimistic: bool,
    offer: Option<&ServedOffer>,
) -> Result<(Answers, Option<TakenRows>), SqlFailure> {
    let decided = submit::decide(tx, batch, optimistic).await?;
    let offer = offer.filter(|_| decided.writes.work_arrived);
    // As late as can be: who was served a moment ago has had time to come back.
    let claim = offer.and_then(|offer| offer.claim(&batch.jobs));
    let query = |claim: Arc<_>| claim_at_submit::query(&handle.state, &handle.shared, &claim, &batch.jobs);
    let Some((query, start)) = claim.and_then(query) else {
        tx.write(decided.writes, decided.now).await?;
        return Ok((decided.answers, None));
    };
    let rows = tx.write_before(decided.writes, query.into(), decided.now).await?;
    tx.nothing_arrived(&claim_at_submit::emptied(&batch.jobs, &rows));
    Ok((decided.answers, Some(TakenRows { rows, start })))
}
