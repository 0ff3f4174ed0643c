//! New identities: time-ordered, and ordered within one process also inside a millisecond.
//!
//! The first of a millisecond is random; those that follow in it are larger by a random step. So the system is asked
//! for randomness once a millisecond and not once an id, which a bulk of submits would notice.

use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use backstop_core::{JobId, Timestamp as Moment, WorkerId};
use uuid::{ContextV7, Timestamp, Uuid};

static ORDER: Mutex<Order> = Mutex::new(Order { millis: 0, last: 0, seed: 0 });

/// The bits of a version 7 id that are free to choose: twelve after the version, 62 after the variant.
const HIGH: u128 = 0xfff << 64;
const LOW: u128 = (1 << 62) - 1;

/// What the ids of this process have come to.
struct Order {
    millis: u64,
    last: u128,
    seed: u64,
}

impl Order {
    fn next(&mut self, now: u64) -> Uuid {
        // A clock that was set back does not make ids smaller.
        if now <= self.millis
            && let Some(next) = self.step()
        {
            self.last = next;
            return Uuid::from_u128(next);
        }
        // Also when the millisecond is full, which no machine manages: then the next one is begun early.
        self.millis = now.max(self.millis + 1);
        let fresh = Uuid::new_v7(Timestamp::from_unix(
            ContextV7::new(),
            self.millis / 1_000,
            u32::try_from(self.millis % 1_000).unwrap_or(0) * 1_000_000,
        ));
        (self.last, self.seed) = (fresh.as_u128(), fresh.as_u64_pair().1 | 1);
        fresh
    }

    /// The last id, a random step further; none when that would leave its millisecond.
    fn step(&mut self) -> Option<u128> {
        // Any generator will do: what must not be guessed is never an id.
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        let step = u128::from(self.seed >> 32) + 1;
        let low = (self.last & LOW) + step;
        let carried = (self.last & HIGH) + if low > LOW { 1 << 64 } else { 0 };
        let fixed = self.last & !HIGH & !LOW;
        (carried <= HIGH).then_some(fixed | carried | (low & LOW))
    }
}

fn next() -> Uuid {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let mut order = ORDER.lock().unwrap_or_else(PoisonError::into_inner);
    order.next(u64::try_from(now).unwrap_or(u64::MAX))
}

/// A new job id, greater than every earlier one of this process.
#[must_use]
pub fn job_id() -> JobId {
    JobId::from_uuid(next())
}

/// When an id was made, by the clock of the process that made it. Of an id that says nothing of time, the epoch.
pub(crate) fn made_at(id: JobId) -> Moment {
    let uuid = Uuid::from_bytes(*id.as_bytes());
    let micros = uuid.get_timestamp().map(|moment| {
        let (seconds, nanos) = moment.to_unix();
        i64::try_from(seconds).unwrap_or_default().saturating_mul(1_000_000) + i64::from(nanos / 1_000)
    });
    Moment::from_micros(micros.unwrap_or_default())
}

/// A new worker id.
#[must_use]
pub fn worker_id() -> WorkerId {
    WorkerId::from_uuid(next())
}

/// Which bits of a batch's id say whose it is: the upper ones of those that are free to choose at the end, so that the
/// steps between ids of one millisecond are left.
const OWNER: u128 = ((1 << 28) - 1) << 34;

/// The id of jobs that the worker `of` takes together (E7).
pub(crate) fn batch_id(of: WorkerId) -> WorkerId {
    WorkerId::from_u128((next().as_u128() & !OWNER) | (number(of) & OWNER))
}

/// True when a batch is of the worker `of`. Two workers in a quarter of a billion are taken for each other.
pub(crate) fn is_batch_of(batch: WorkerId, of: WorkerId) -> bool {
    number(batch) & OWNER == number(of) & OWNER
}

/// What the ids of a worker and of its batches have in common, for a key.
pub(crate) fn owner(id: WorkerId) -> String {
    format!("{:07x}", (number(id) & OWNER) >> OWNER.trailing_zeros())
}

fn number(id: WorkerId) -> u128 {
    u128::from_be_bytes(*id.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Order {
        Order { millis: 0, last: 0, seed: 0 }
    }

    #[test]
    fn ids_grow_whatever_the_clock_does_and_are_of_version_7() {
        let mut order = order();
        let ids: Vec<Uuid> =
            [5, 5, 5, 9, 8, 2, 9, 10].into_iter().cycle().take(4_000).map(|ms| order.next(ms)).collect();
        assert!(ids.windows(2).all(|two| two[0] < two[1]));
        assert!(ids.iter().all(|id| id.get_version_num() == 7 && id.get_variant() == uuid::Variant::RFC4122));
        let millis = |id: &Uuid| id.as_u128() >> 80;
        assert_eq!((millis(&ids[0]), millis(&ids[3]), millis(&ids[3_999])), (5, 9, 10));
    }

    #[test]
    fn a_full_millisecond_ends_early() {
        let mut order = order();
        let first = order.next(7).as_u128();
        let end = first | HIGH | LOW;
        order.last = end;
        let next = order.next(7);
        assert_eq!(next.as_u128() >> 80, 8);
        assert!(next.as_u128() > end);
        // The carry from one part to the other.
        order.last = (next.as_u128() & !HIGH) | LOW;
        let carried = order.next(8).as_u128();
        assert_eq!((carried & HIGH) >> 64, 1);
    }

    #[test]
    fn two_processes_do_not_meet() {
        let (mut one, mut other) = (order(), order());
        let of =
            |order: &mut Order| (0..1_000).map(|_| order.next(3)).collect::<std::collections::HashSet<_>>();
        assert!(of(&mut one).is_disjoint(&of(&mut other)));
    }

    #[test]
    fn a_batch_says_whose_it_is() {
        let workers = ["one", "two", "three"].map(|name| WorkerId::named("", name));
        for of in workers {
            let batches: std::collections::HashSet<WorkerId> = (0..10_000).map(|_| batch_id(of)).collect();
            assert_eq!(batches.len(), 10_000, "no two are the same");
            for batch in batches {
                let uuid = Uuid::from_bytes(*batch.as_bytes());
                assert_eq!((uuid.get_version_num(), uuid.get_variant()), (7, uuid::Variant::RFC4122));
                assert_eq!(owner(batch), owner(of));
                let owners: Vec<_> = workers.iter().filter(|worker| is_batch_of(batch, **worker)).collect();
                assert_eq!(owners, [&of]);
            }
        }
    }
}
