//! One flush for a job and its claim (L13).
//!
//! A job is durable before it is acknowledged, and its claim before its handler starts: two flushes, and the job waits
//! for the second. But a worker that waits says beforehand what it would take. So the transaction that stores a job
//! takes for it as well, by the same statement as any claim, and one flush serves both.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use backstop_core::JobId;
use backstop_core::job::NewJob;
use backstop_sql::claim::{rooms, rounds};
use backstop_sql::decode::LANE_COLUMN;
use backstop_sql::{Call, Query, Row, Shared, SqlFailure};
use backstop_store::{Claim, Claimed, Error, Signal};

use crate::claim::start;
use crate::cursors::ClaimStart;
use crate::offers::Offer;
use crate::short_claim::{self, TakenClaim};
use crate::state::{ServerState, StoreHandle};

/// Leaves a claim until something is taken for it, or it is withdrawn.
pub(crate) async fn offer(
    handle: &StoreHandle,
    claim: Claim,
    withdrawn: Signal<'_>,
) -> Result<Option<Claimed>, Error> {
    let offers = &handle.state.offers;
    let (number, mut answered) = offers.leave(claim);
    let answer = tokio::select! {
        biased;
        answer = &mut answered => answer,
        () = withdrawn => {
            if offers.withdraw(number) {
                return Ok(None);
            }
            answered.await
        }
    };
    // A transaction that never came back was cut short with its runtime, perhaps after its commit.
    answer.map_or_else(|_| Err(unknown(&handle.shared)), Option::transpose)
}

/// What it means that a transaction did not come back.
pub(crate) fn unknown(shared: &Shared) -> Error {
    Error::Unknown { location: shared.location().to_owned(), source: None }
}

/// Who a transaction that stores jobs takes for: nobody, until one of its jobs is waited for.
pub(crate) struct ServedOffer {
    handle: StoreHandle,
    offer: Mutex<Option<Offer>>,
}

impl ServedOffer {
    pub(crate) fn new(handle: &StoreHandle) -> Self {
        Self { handle: handle.clone(), offer: Mutex::default() }
    }

    /// The claim to take for, if one waits for any of these jobs: the same one in every try of a transaction.
    pub(crate) fn claim(&self, jobs: &[NewJob]) -> Option<Arc<Claim>> {
        let mut offer = self.offer.lock().unwrap_or_else(PoisonError::into_inner);
        if offer.is_none() {
            *offer = self.handle.state.offers.meet(jobs);
        }
        offer.as_ref().map(|offer| offer.claim.clone())
    }

    fn leave(&self) -> Option<Offer> {
        let offer = self.offer.lock().unwrap_or_else(PoisonError::into_inner).take();
        offer.inspect(|offer| self.handle.state.offers.part(offer))
    }

    /// The transaction was not committed, unless `error` says that nobody knows.
    pub(crate) fn decline(&self, error: &Error) {
        if let Some(offer) = self.leave() {
            let _ = offer.answer.send(error.is_unknown().then(|| Err(unknown(&self.handle.shared))));
        }
    }

    /// Hands over what was taken, once that is committed.
    pub(crate) async fn serve(&self, taken: Option<TakenRows>) {
        let Some(offer) = self.leave() else { return };
        let answer = match taken {
            Some(taken) => hand_over(&self.handle, &offer.claim, taken).await.transpose(),
            None => None,
        };
        // A worker that no longer waits has died with the jobs it holds: its lease runs out.
        let _ = offer.answer.send(answer);
    }
}

impl Drop for ServedOffer {
    fn drop(&mut self) {
        drop(self.leave());
    }
}

/// The query that takes for an offer out of the queues of these jobs, and where it begins; none when a claim like it is
/// more than one statement. In its other queues there was nothing when the offer was left.
pub(crate) fn query(
    state: &ServerState,
    shared: &Shared,
    claim: &Claim,
    jobs: &[NewJob],
) -> Option<(Query, ClaimStart)> {
    let mut claim = claim.clone();
    claim.queues.retain(|wanted| jobs.iter().any(|job| job.spec.queue == wanted.queue));
    let rounds = rounds(&claim.queues);
    let [round] = &*rounds else { return None };
    let may = !shared.wants().events && short_claim::is_plain(shared, &claim, round);
    may.then(|| {
        let start = start(state, &claim.queues);
        (short_claim::query(shared, &claim, &rooms(round, usize::MAX), &start), start)
    })
}

/// What a transaction took for an offer, and where that began.
pub(crate) struct TakenRows {
    pub(crate) rows: Vec<Row>,
    pub(crate) start: ClaimStart,
}

/// The queues of which every job that was stored has been taken.
pub(crate) fn emptied(stored: &[NewJob], rows: &[Row]) -> BTreeSet<Arc<str>> {
    let taken: HashSet<JobId> = rows.iter().skip(1).filter_map(|row| row.peek_job(1)).collect();
    let (gone, left): (Vec<&NewJob>, Vec<&NewJob>) =
        stored.iter().partition(|job| taken.contains(&job.spec.id));
    let mut queues: BTreeSet<Arc<str>> = gone.iter().map(|job| job.spec.queue.clone()).collect();
    queues.retain(|queue| left.iter().all(|job| job.spec.queue != *queue));
    queues
}

/// What was taken, as a claim answers it; none when that is nothing.
async fn hand_over(handle: &StoreHandle, claim: &Claim, taken: TakenRows) -> Result<Option<Claimed>, Error> {
    let StoreHandle { shared, state } = handle;
    let refused = |failure: SqlFailure| failure.into_error(shared.location(), false);
    let answer = TakenClaim::read(claim, taken.rows).map_err(refused)?;
    if answer.rows.is_empty() {
        return Ok(None);
    }
    let lanes: Vec<i64> = answer.rows.iter().filter_map(|row| row.peek_int(1 + LANE_COLUMN)).collect();
    if !shared.lanes.know(&lanes) {
        let met = shared.transact(Call::read(), |tx| {
            let (shared, lanes) = (tx.shared.clone(), lanes.clone());
            Box::pin(async move { shared.lanes.meet(tx, lanes).await })
        });
        met.await.map_err(|_| unknown(shared))?;
    }
    let rounds = rounds(&claim.queues);
    let round = rounds.first().map(Vec::as_slice).unwrap_or_default();
    // It is committed: a worker that gets no answer finds its jobs by looking for them.
    let claimed = answer.hand_out(state, shared, claim, &rooms(round, usize::MAX), &taken.start);
    claimed.map(Some).map_err(|_| unknown(shared))
}
