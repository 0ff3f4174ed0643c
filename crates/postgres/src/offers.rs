//! Claims that idle workers of this process leave with the store (L13): who waits, and for whom something is taken.

use std::sync::{Arc, Mutex, PoisonError};

use backstop_core::job::{NewJob, Start};
use backstop_store::{Claim, Claimed, Error};
use tokio::sync::oneshot;

/// The open offers, the oldest first.
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
pub(crate) struct Offer {
    number: u64,
    pub(crate) claim: Arc<Claim>,
    pub(crate) answer: oneshot::Sender<Option<Result<Claimed, Error>>>,
}

pub(crate) type Answered = oneshot::Receiver<Option<Result<Claimed, Error>>>;

impl Offers {
    /// Leaves a claim; its answer comes when something was taken for it.
    pub(crate) fn leave(&self, claim: Claim) -> (u64, Answered) {
        let (answer, answered) = oneshot::channel();
        let mut standing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        standing.last += 1;
        let number = standing.last;
        standing.offers.push(Offer { number, claim: Arc::new(claim), answer });
        (number, answered)
    }

    /// False when a transaction has taken the offer up: its answer is on the way.
    pub(crate) fn withdraw(&self, number: u64) -> bool {
        let mut standing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = standing.offers.len();
        standing.offers.retain(|offer| offer.number != number);
        standing.offers.len() < before
    }

    /// How many are open.
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
    pub(crate) fn meet(&self, jobs: &[NewJob]) -> Option<Offer> {
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
    pub(crate) fn part(&self, offer: &Offer) {
        let mut standing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        standing.taken_up.retain(|claim| !Arc::ptr_eq(claim, &offer.claim));
    }
}

fn waits_for(claim: &Claim, new: &NewJob) -> bool {
    let spec = &new.spec;
    let knows = || claim.kinds.iter().any(|known| known.covers(&spec.kind, spec.version));
    // A job that takes turns is not taken by the statement that takes for offers.
    new.start == Start::Now
        && spec.needs.is_none()
        && claim
            .queues
            .iter()
            .any(|wanted| wanted.queue == spec.queue && wanted.limit > 0 && (wanted.any_kind || knows()))
}

#[cfg(test)]
mod tests {
    use backstop_core::job::{Aging, Spec};
    use backstop_core::{JobId, WorkerId};
    use backstop_store::{ClaimQueue, KnownKind};

    use super::*;

    fn claim(queue: &str) -> Claim {
        let room = ClaimQueue { queue: queue.into(), limit: 1, start: 1, any_kind: false };
        let kinds = Arc::new([KnownKind { kind: "work".into(), version: 1 }]);
        Claim {
            worker: WorkerId::from_u128(1),
            queues: vec![room],
            kinds,
            aging: Aging::default(),
            limits: Default::default(),
        }
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
        assert!(!offers.are_for(&job("video")), "submits to other queues need not wait for each other");
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
