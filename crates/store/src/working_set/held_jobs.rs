//! A cache of the jobs that this process has claimed.
//!
//! Every held job is written again soon, mostly by the process that claimed it. Remembering its record saves reading
//! the claim's ids, the job and its past. What is remembered of a claim is believed while its row has been changed as
//! often as we have seen it changed, and it is compared under the lock on that row.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use backstop_core::job::Record;
use backstop_core::{Fence, JobId};

use super::{ClaimRow, LoadedJob};

/// Jobs remembered at most.
const MOST: usize = 100_000;

/// The jobs that this process has claimed, as far as it remembers them.
#[derive(Debug, Default)]
pub struct HeldJobs(Mutex<Remembered>);

/// The oldest claims come first: they go first when there are too many, because a claim that nobody asked about for so
/// long was ended by others.
#[derive(Debug, Default)]
struct Remembered {
    claims: BTreeMap<Fence, HeldClaim>,
    jobs: usize,
}

/// One claim.
#[derive(Debug)]
struct HeldClaim {
    /// As its row is stored, as far as we have seen it changed.
    claim: ClaimRow,
    /// Those of its jobs that are still held.
    jobs: HashMap<JobId, LoadedJob>,
}

impl HeldJobs {
    /// Keeps a claim that was committed.
    pub fn keep(&self, claim: ClaimRow, jobs: HashMap<JobId, LoadedJob>) {
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        memory.jobs += jobs.len();
        memory.claims.insert(claim.fence, HeldClaim { claim, jobs });
        while memory.jobs > MOST
            && let Some((_, oldest)) = memory.claims.pop_first()
        {
            memory.jobs -= oldest.jobs.len();
        }
    }

    /// Drops a claim.
    pub fn forget(&self, fence: Fence) {
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = memory.claims.remove(&fence) {
            memory.jobs -= held.jobs.len();
        }
    }

    /// True when something of the claim is remembered.
    #[must_use]
    pub fn knows(&self, fence: Fence) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).claims.contains_key(&fence)
    }

    /// Completes a claim that was read without its ids, and answers the jobs of `wanted`, if what is remembered is
    /// what is stored.
    pub fn recall(
        &self,
        claim: &mut ClaimRow,
        slots: &[u8],
        wanted: &BTreeSet<JobId>,
    ) -> Option<Vec<LoadedJob>> {
        let memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let held = memory.claims.get(&claim.fence).filter(|held| held.claim.edits == claim.edits)?;
        claim.slots = ClaimRow::decode_slots(slots, held.claim.jobs.len(), claim.claimed_at)?;
        claim.jobs.clone_from(&held.claim.jobs);
        Some(wanted.iter().filter_map(|id| held.jobs.get(id).cloned()).collect())
    }

    /// A claim with all the jobs of `wanted` as they are remembered; none when one of them is not. What is written by
    /// it must be compared with what is stored, under the lock on its row.
    #[must_use]
    pub fn believed(&self, fence: Fence, wanted: &BTreeSet<JobId>) -> Option<(ClaimRow, Vec<LoadedJob>)> {
        let memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let held = memory.claims.get(&fence)?;
        let jobs = wanted.iter().map(|id| held.jobs.get(id).cloned()).collect::<Option<_>>()?;
        Some((held.claim.clone(), jobs))
    }

    /// Follows a change of a claim that we have committed.
    pub fn follow(&self, claim: &ClaimRow, records: impl IntoIterator<Item = (JobId, Option<Record>)>) {
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut gone = 0;
        if let Some(held) = memory.claims.get_mut(&claim.fence) {
            held.claim.edits += 1;
            held.claim.slots.clone_from(&claim.slots);
            for (id, record) in records {
                match (record, held.jobs.get_mut(&id)) {
                    (Some(record), Some(loaded)) => loaded.record = record,
                    (None, Some(_)) => {
                        held.jobs.remove(&id);
                        gone += 1;
                    }
                    (_, None) => {}
                }
            }
        }
        memory.jobs -= gone;
        if claim.is_spent()
            && let Some(held) = memory.claims.remove(&claim.fence)
        {
            memory.jobs -= held.jobs.len();
        }
    }
}
