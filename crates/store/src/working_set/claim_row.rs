//! A claim as it is stored: who took which jobs, and which of them are still held.
//!
//! One row for a whole claim costs a quarter of one row per held job, and a claim that ends as a whole leaves one dead
//! row behind, not hundreds. The ids never change; what changes is the short list of slots.

use backstop_core::job::Record;
use backstop_core::{Fence, JobId, Lease, Timestamp, WorkerId};

use crate::HandedRun;

/// What one slot says of its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// The hold has ended.
    Closed,
    /// Held, and its run has not started (C2).
    Open,
    /// Held, and its run started at this moment.
    Started(Timestamp),
}

/// One claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRow {
    /// The fence that all its jobs share.
    pub fence: Fence,
    /// Who claimed.
    pub worker: WorkerId,
    /// When.
    pub claimed_at: Timestamp,
    /// The jobs, by slot.
    pub jobs: Vec<JobId>,
    /// What each slot says.
    pub slots: Vec<Slot>,
    /// How often the stored row was changed: whoever remembers another number remembers too little.
    pub edits: i32,
}

/// Codes of a slot in the stored form. Larger ones name a moment in the list that follows.
const CLOSED: u16 = 0;
const OPEN: u16 = 1;
const AT_CLAIM: u16 = 2;
const FIRST_MOMENT: u16 = 3;

impl ClaimRow {
    /// Jobs that one claim takes at most, whatever it asks for.
    pub const MOST: usize = 10_000;

    /// The slot of a job that is still held.
    #[must_use]
    pub fn open_slot(&self, job: JobId) -> Option<usize> {
        let held = |slot: &usize| self.slots.get(*slot).is_some_and(|slot| *slot != Slot::Closed);
        // Jobs that were submitted one after the other are claimed so: mostly they are in order, and asked for one by
        // one. Where they are not, the search may miss what is there, and all of them are looked at.
        let slot = self.jobs.binary_search(&job).ok();
        slot.or_else(|| self.jobs.iter().position(|id| *id == job)).filter(held)
    }

    /// The jobs that are still held, with their slots.
    pub fn held(&self) -> impl Iterator<Item = (JobId, Slot)> + '_ {
        let pairs = self.jobs.iter().copied().zip(self.slots.iter().copied());
        pairs.filter(|(_, slot)| *slot != Slot::Closed)
    }

    /// The runs among them that have started.
    pub fn started(&self) -> impl Iterator<Item = HandedRun> + '_ {
        self.held().filter_map(|(job, slot)| match slot {
            Slot::Started(started_at) => Some(HandedRun { lease: self.lease(job), started_at }),
            _ => None,
        })
    }

    /// True when no job is held by it any more.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.slots.iter().all(|slot| *slot == Slot::Closed)
    }

    /// The lease on one of its jobs.
    #[must_use]
    pub const fn lease(&self, job: JobId) -> Lease {
        Lease { job, worker: self.worker, fence: self.fence }
    }

    /// Does the claim again on a waiting record, with the core's own functions; none when the record is not one of a
    /// job that waits, which a slot of ours cannot hold.
    #[must_use]
    pub fn replay(&self, job: JobId, slot: Slot, mut record: Record) -> Option<Record> {
        let at_once = slot == Slot::Started(self.claimed_at);
        record.claim_again(self.worker, self.fence, self.claimed_at, at_once).ok()?;
        if let Slot::Started(moment) = slot {
            // It cannot be stale: the hold was made two lines above.
            let _ = record.start(&self.lease(job), moment);
        }
        Some(record)
    }

    /// The ids as they are stored: sixteen bytes each.
    #[must_use]
    pub fn encode_jobs(&self) -> Vec<u8> {
        self.jobs.iter().flat_map(|id| *id.as_bytes()).collect()
    }

    /// The slots as they are stored: two bytes each, then the moments they name, eight bytes each.
    #[must_use]
    pub fn encode_slots(&self) -> Vec<u8> {
        let mut moments: Vec<i64> = Vec::new();
        let mut bytes = Vec::with_capacity(self.slots.len() * 2);
        for slot in &self.slots {
            let code = match slot {
                Slot::Closed => CLOSED,
                Slot::Open => OPEN,
                Slot::Started(moment) if *moment == self.claimed_at => AT_CLAIM,
                Slot::Started(moment) => code_of(&mut moments, moment.as_micros()),
            };
            bytes.extend_from_slice(&code.to_be_bytes());
        }
        bytes.extend(moments.into_iter().flat_map(i64::to_be_bytes));
        bytes
    }

    /// Reads the ids; none when the bytes are not of that form.
    #[must_use]
    pub fn decode_jobs(bytes: &[u8]) -> Option<Vec<JobId>> {
        let (ids, rest) = bytes.as_chunks::<16>();
        rest.is_empty().then(|| ids.iter().map(|id| JobId::from_bytes(*id)).collect())
    }

    /// Reads the slots of `jobs` jobs; none when the bytes are not of that form.
    #[must_use]
    pub fn decode_slots(bytes: &[u8], jobs: usize, claimed_at: Timestamp) -> Option<Vec<Slot>> {
        let (codes, moments) = bytes.split_at_checked(jobs.checked_mul(2)?)?;
        let (moments, rest) = moments.as_chunks::<8>();
        if !rest.is_empty() {
            return None;
        }
        let slot = |code: &[u8; 2]| match u16::from_be_bytes(*code) {
            CLOSED => Some(Slot::Closed),
            OPEN => Some(Slot::Open),
            AT_CLAIM => Some(Slot::Started(claimed_at)),
            code => {
                let moment = moments.get(usize::from(code - FIRST_MOMENT))?;
                Some(Slot::Started(Timestamp::from_micros(i64::from_be_bytes(*moment))))
            }
        };
        codes.as_chunks::<2>().0.iter().map(slot).collect()
    }
}

/// What queues get of a claim that may not take all they ask for: their share each, and what others leave of theirs. So
/// the last of many queues is served as surely as the first.
#[must_use]
pub fn shares(limits: &[usize], most: usize) -> Vec<usize> {
    let even = most / limits.len().max(1);
    let mut given: Vec<usize> = limits.iter().map(|limit| *limit.min(&even)).collect();
    let mut left = most - given.iter().sum::<usize>();
    for (given, limit) in given.iter_mut().zip(limits) {
        let more = (limit - *given).min(left);
        *given += more;
        left -= more;
    }
    given
}

/// The code that names a moment. Those of one batch of starts are alike, so the list stays short.
fn code_of(moments: &mut Vec<i64>, moment: i64) -> u16 {
    let index = moments.iter().rposition(|known| *known == moment).unwrap_or_else(|| {
        moments.push(moment);
        moments.len() - 1
    });
    // A claim is far smaller than this: see `ClaimRow::MOST`.
    u16::try_from(index).unwrap_or(u16::MAX - FIRST_MOMENT) + FIRST_MOMENT
}

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_core::job::Spec;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn claim(slots: Vec<Slot>) -> ClaimRow {
        let jobs = (1..).take(slots.len()).map(JobId::from_u128).collect();
        ClaimRow {
            fence: Fence(7),
            worker: WorkerId::from_u128(9),
            claimed_at: at(100),
            jobs,
            slots,
            edits: 0,
        }
    }

    #[test]
    fn what_is_stored_reads_back() {
        let slots = vec![
            Slot::Started(at(100)),
            Slot::Closed,
            Slot::Open,
            Slot::Started(at(250)),
            Slot::Started(at(-3)),
            Slot::Started(at(250)),
        ];
        let claim = claim(slots.clone());
        assert_eq!(ClaimRow::decode_jobs(&claim.encode_jobs()), Some(claim.jobs.clone()));
        let bytes = claim.encode_slots();
        assert_eq!(bytes.len(), 6 * 2 + 2 * 8, "equal moments are written once");
        assert_eq!(ClaimRow::decode_slots(&bytes, 6, at(100)), Some(slots));
    }

    #[test]
    fn every_slot_of_the_largest_claim_may_start_at_its_own_moment() {
        let slots: Vec<Slot> = (0..5_000).map(|n| Slot::Started(at(n * 10))).collect();
        let claim = claim(slots.clone());
        assert_eq!(ClaimRow::decode_slots(&claim.encode_slots(), slots.len(), at(100)), Some(slots));
    }

    #[test]
    fn the_last_of_many_queues_gets_its_share() {
        assert_eq!(shares(&[3, 5], 10), [3, 5], "there is enough");
        assert_eq!(shares(&[100, 1, 100], 10), [6, 1, 3], "what one leaves goes to the others");
        assert_eq!(shares(&[500; 200], 10_000), [50; 200]);
        assert_eq!(shares(&[], 10), [0; 0]);
    }

    #[test]
    fn other_bytes_are_refused() {
        assert_eq!(ClaimRow::decode_jobs(&[1; 17]), None);
        assert_eq!(ClaimRow::decode_slots(&[0, 1, 0], 1, at(0)), None, "half a moment");
        assert_eq!(ClaimRow::decode_slots(&[0, 3], 1, at(0)), None, "a moment that is not there");
        assert_eq!(ClaimRow::decode_slots(&[0, 1], 2, at(0)), None, "a slot too few");
    }

    #[test]
    fn a_claim_done_again_gives_the_same_record() {
        // L5, C5
        let spec = Spec::new(JobId::from_u128(1), "work", "{}");
        let waiting = Record::new(&spec, at(50));
        let claim = claim(vec![Slot::Open]);
        let lease = claim.lease(spec.id);
        let mut claimed = waiting.clone();
        claimed.claim(claim.worker, claim.fence, claim.claimed_at, false).expect("it waits");
        assert_eq!(claim.replay(spec.id, Slot::Open, waiting.clone()), Some(claimed.clone()));
        claimed.start(&lease, at(170)).expect("held");
        assert_eq!(claim.replay(spec.id, Slot::Started(at(170)), waiting.clone()), Some(claimed));
        let mut at_once = waiting.clone();
        at_once.claim(claim.worker, claim.fence, claim.claimed_at, true).expect("it waits");
        assert_eq!(claim.replay(spec.id, Slot::Started(at(100)), waiting), Some(at_once));
    }

    #[test]
    fn a_claim_on_any_stored_record_is_no_panic() {
        // L5: what a store holds after a restore may be anything.
        let spec = Spec::new(JobId::from_u128(1), "work", "{}");
        let claim = claim(vec![Slot::Open]);
        for state in backstop_core::job::State::ALL {
            for fence in [i64::MIN, 0, 6, 7, 8, i64::MAX] {
                for runs in [0, u32::MAX] {
                    let fence = Fence(fence);
                    let record = Record { state, fence, runs, ..Record::new(&spec, at(i64::MAX)) };
                    for slot in [Slot::Open, Slot::Started(at(i64::MIN)), Slot::Started(at(100))] {
                        let held = claim.replay(spec.id, slot, record.clone());
                        let waits = state == backstop_core::job::State::Pending;
                        assert_eq!(held.is_some(), waits, "{state} {fence}");
                        assert!(held.is_none_or(|held| held.held_by(&claim.lease(spec.id)).is_ok()));
                    }
                }
            }
        }
    }
}
