//! A cache of the jobs that this process has claimed.
//!
//! Every held job is written again soon, mostly by the process that claimed it. Remembering its record saves reading
//! the claim's ids, the job and its past. What is remembered of a claim is believed while its row has been changed as
//! often as we have seen it changed, and it is compared under the lock on that row.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

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
    /// Every job that it took, by slot.
    ids: Arc<Vec<JobId>>,
    /// Those of them that are still held.
    jobs: HashMap<JobId, LoadedJob>,
    edits: i32,
}

impl HeldJobs {
    /// Keeps a claim that was committed.
    pub fn keep(&self, fence: Fence, ids: Vec<JobId>, jobs: HashMap<JobId, LoadedJob>) {
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        memory.jobs += jobs.len();
        memory.claims.insert(fence, HeldClaim { ids: Arc::new(ids), jobs, edits: 0 });
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
        let held = memory.claims.get(&claim.fence).filter(|held| held.edits == claim.edits)?;
        claim.slots = ClaimRow::decode_slots(slots, held.ids.len(), claim.claimed_at)?;
        claim.jobs = held.ids.to_vec();
        Some(wanted.iter().filter_map(|id| held.jobs.get(id).cloned()).collect())
    }

    /// Follows a change of a claim that we have committed.
    pub fn follow(&self, claim: &ClaimRow, records: impl IntoIterator<Item = (JobId, Option<Record>)>) {
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut gone = 0;
        if let Some(held) = memory.claims.get_mut(&claim.fence) {
            held.edits += 1;
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
