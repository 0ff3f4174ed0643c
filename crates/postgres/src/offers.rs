//! Claims that idle workers of this process leave with the store (L13).
//!
//! A job is durable before it is acknowledged, and its claim before its handler starts: two flushes, and the job waits
//! for the second. But a worker that waits says beforehand what it would take. So the transaction that stores a job
//! takes for it as well, by the same statement as any claim, and one flush serves both.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use backstop_core::JobId;
use backstop_core::job::{NewJob, Start};
use backstop_store::{Claim, Claimed, Error, Signal};
use tokio::sync::oneshot;

use crate::claim::{rooms, rounds};
use crate::cursors::Begin;
use crate::error::Failure;
use crate::rows::LANE_COLUMN;
use crate::session::Query;
use crate::shared::Shared;
use crate::sql;
use crate::take::{self, Taken};
use crate::values::Row;

/// The offers that stand, those that have waited longest first.
#[derive(Default)]
pub(crate) struct Offers(Mutex<Standing>);

#[derive(Default)]
struct Standing {
    offers: Vec<Offer>,
    last: u64,
    /// The claims that transactions take for just now.
    taken_up: Vec<Arc<Claim>>,
}

/// A claim that waits for work.
struct Offer {
    number: u64,
    claim: Arc<Claim>,
    answer: oneshot::Sender<Option<Result<Claimed, Error>>>,
}

type Answered = oneshot::Receiver<Option<Result<Claimed, Error>>>;

impl Offers {
    fn leave(&self, claim: Claim) -> (u64, Answered) {
        let (answer, answered) = oneshot::channel();
        let mut standing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        standing.last += 1;
        let number = standing.last;
        standing.offers.push(Offer { number, claim: Arc::new(claim), answer });
        (number, answered)
    }

    /// False when a transaction has taken the offer up: its answer is on the way.
    fn withdraw(&self, number: u64) -> bool {
        let mut standing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = standing.offers.len();
        standing.offers.retain(|offer| offer.number != number);
        standing.offers.len() < before
    }

    /// How many stand.
    pub(crate) fn standing(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).offers.len()
    }

    /// True when a worker waits for this job, or has waited until a transaction that is under way.
    pub(crate) fn are_for(&self, job: &NewJob) -> bool {
        let standing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let claims = standing.offers.iter().map(|offer| &offer.claim).chain(&standing.taken_up);
        claims.into_iter().any(|claim| waits_for(claim, job))
    }

    /// An offer that waits for one of these jobs, which nobody else gets now.
    fn meet(&self, jobs: &[NewJob]) -> Option<Offer> {
        let mut standing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever left it may be gone.
        standing.offers.retain(|offer| !offer.answer.is_closed());
        let met =
            standing.offers.iter().position(|offer| jobs.iter().any(|job| waits_for(&offer.claim, job)))?;
        let offer = standing.offers.remove(met);
        standing.taken_up.push(offer.claim.clone());
        Some(offer)
    }

    /// The transaction that took an offer up has ended.
    fn part(&self, offer: &Offer) {
        let mut standing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        standing.taken_up.retain(|claim| !Arc::ptr_eq(claim, &offer.claim));
    }
}

fn waits_for(claim: &Claim, new: &NewJob) -> bool {
    let spec = &new.spec;
    let knows = || claim.kinds.iter().any(|known| known.covers(&spec.kind, spec.version));
    new.start == Start::Now
        && claim
            .queues
            .iter()
            .any(|wanted| wanted.queue == spec.queue && wanted.limit > 0 && (wanted.any_kind || knows()))
}

/// Leaves a claim until something is taken for it, or it is withdrawn.
pub(crate) async fn offer(
    shared: &Shared,
    claim: Claim,
    withdrawn: Signal<'_>,
) -> Result<Option<Claimed>, Error> {
    let (number, mut answered) = shared.offers.leave(claim);
    let answer = tokio::select! {
        biased;
        answer = &mut answered => answer,
        () = withdrawn => {
            if shared.offers.withdraw(number) {
                return Ok(None);
            }
            answered.await
        }
    };
    // A transaction that never came back was cut short with its runtime, perhaps after its commit.
    answer.map_or_else(|_| Err(unknown(shared)), Option::transpose)
}

fn unknown(shared: &Shared) -> Error {
    Error::Unknown { location: shared.location.clone(), source: None }
}

/// The place for an offer in a transaction that stores jobs.
pub(crate) struct Seat {
    shared: Arc<Shared>,
    offer: Mutex<Option<Offer>>,
}

impl Seat {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: shared.clone(), offer: Mutex::default() }
    }

    /// The claim to take for, if one waits for any of these jobs: the same one in every try of a transaction.
    pub(crate) fn claim(&self, jobs: &[NewJob]) -> Option<Arc<Claim>> {
        let mut offer = self.offer.lock().unwrap_or_else(PoisonError::into_inner);
        if offer.is_none() {
            *offer = self.shared.offers.meet(jobs);
        }
        offer.as_ref().map(|offer| offer.claim.clone())
    }

    fn leave(&self) -> Option<Offer> {
        let offer = self.offer.lock().unwrap_or_else(PoisonError::into_inner).take();
        offer.inspect(|offer| self.shared.offers.part(offer))
    }

    /// The transaction was not committed, unless `error` says that nobody knows.
    pub(crate) fn decline(&self, error: &Error) {
        if let Some(offer) = self.leave() {
            let _ = offer.answer.send(error.is_unknown().then(|| Err(unknown(&self.shared))));
        }
    }

    /// Hands over what the statement took, once that is committed.
    pub(crate) async fn serve(&self, took: Option<Took>) {
        let Some(offer) = self.leave() else { return };
        let answer = match took {
            Some(took) => hand_over(&self.shared, &offer.claim, took).await.transpose(),
            None => None,
        };
        // Whoever does not wait any more has died with what it held: its lease runs out.
        let _ = offer.answer.send(answer);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        drop(self.leave());
    }
}

/// The statement that takes for an offer out of the queues of these jobs, and where it begins; none when a claim like
/// it is more than one statement. In its other queues there was nothing when the offer was left.
pub(crate) fn statement(shared: &Shared, claim: &Claim, jobs: &[NewJob]) -> Option<(Query, Begin)> {
    let mut claim = claim.clone();
    claim.queues.retain(|wanted| jobs.iter().any(|job| job.spec.queue == wanted.queue));
    let rounds = rounds(&claim.queues);
    let [round] = &*rounds else { return None };
    let may = !shared.observer().wants_events() && take::is_plain(shared, round);
    may.then(|| {
        let start = shared.start(&claim.queues);
        (take::statement(shared, &claim, &rooms(round, usize::MAX), &start), start)
    })
}

/// What a transaction took for an offer, and where that began.
pub(crate) struct Took {
    pub(crate) rows: Vec<Row>,
    pub(crate) start: Begin,
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
async fn hand_over(shared: &Arc<Shared>, claim: &Claim, took: Took) -> Result<Option<Claimed>, Error> {
    let refused = |failure: Failure| failure.into_error(&shared.location, false);
    let taken = Taken::read(claim, took.rows).map_err(refused)?;
    if taken.rows.is_empty() {
        return Ok(None);
    }
    let lanes: Vec<i64> = taken.rows.iter().filter_map(|row| row.peek_int(1 + LANE_COLUMN)).collect();
    if !shared.lanes.know(&lanes) {
        shared
            .transact(sql::BEGIN_READ, |unit| {
                let (shared, lanes) = (unit.shared.clone(), lanes.clone());
                Box::pin(async move { shared.lanes.meet(unit, lanes).await })
            })
            .await
            .map_err(|_| unknown(shared))?;
    }
    let rounds = rounds(&claim.queues);
    let round = rounds.first().map(Vec::as_slice).unwrap_or_default();
    // It is committed: whoever cannot be told of it has to look for it.
    taken
        .hand_out(shared, claim, &rooms(round, usize::MAX), &took.start)
        .map(Some)
        .map_err(|_| unknown(shared))
}

#[cfg(test)]
mod tests {
    use backstop_core::WorkerId;
    use backstop_core::job::{Aging, Spec};
    use backstop_store::{ClaimQueue, KnownKind};

    use super::*;

    fn claim(queue: &str) -> Claim {
        let room = ClaimQueue { queue: queue.into(), limit: 1, start: 1, any_kind: false };
        let kinds = Arc::new([KnownKind { kind: "work".into(), version: 1 }]);
        Claim { worker: WorkerId::from_u128(1), queues: vec![room], kinds, aging: Aging::default() }
    }

    fn job(queue: &str) -> NewJob {
        let mut spec = Spec::new(JobId::from_u128(1), "work", "{}");
        spec.queue = queue.into();
        NewJob::new(spec)
    }

    #[test]
    fn an_offer_is_for_one_transaction_at_a_time() {
        // L13
        let offers = Offers::default();
        let (number, answered) = offers.leave(claim("mail"));
        assert!(offers.are_for(&job("mail")));
        assert!(!offers.are_for(&job("video")), "whoever stores those need not wait for each other");
        assert!(offers.meet(&[job("video")]).is_none());
        let offer = offers.meet(&[job("video"), job("mail")]).expect("it waits for the second");
        assert!(offers.meet(&[job("mail")]).is_none());
        assert!(!offers.withdraw(number), "too late: something may be taken for it");
        assert!(offers.are_for(&job("mail")), "the next offer comes when this one is served");
        offers.part(&offer);
        assert!(!offers.are_for(&job("mail")));
        drop((offer, answered));
    }

    #[test]
    fn who_has_waited_longest_is_served_first() {
        // L13: of several workers each gets its turn.
        let offers = Offers::default();
        let (first, first_answered) = offers.leave(claim("mail"));
        let (second, second_answered) = offers.leave(claim("mail"));
        let met = || offers.meet(&[job("mail")]).map(|offer| offer.number);
        assert_eq!((met(), met(), met()), (Some(first), Some(second), None));
        drop((first_answered, second_answered));
    }

    #[test]
    fn nothing_is_taken_for_who_is_gone() {
        // L13
        let offers = Offers::default();
        let (_, answered) = offers.leave(claim("mail"));
        drop(answered);
        assert!(offers.meet(&[job("mail")]).is_none());
        let (number, _answered) = offers.leave(claim("mail"));
        assert!(offers.withdraw(number));
        assert_eq!(offers.standing(), 0);
    }
}
