//! What a process remembers of its own claims.
//!
//! Every held job is written again soon, mostly by the process that claimed it. Remembering its record saves reading
//! the claim's ids, the job and its past. What is remembered of a claim is believed while its row has been changed as
//! often as we have seen it changed, and it is compared under the lock on that row.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use backstop_core::job::Record;
use backstop_core::{Fence, JobId};

use super::{File, Grip};

/// Jobs remembered at most.
const MOST: usize = 100_000;

/// What this process remembers of its own claims.
#[derive(Debug, Default)]
pub struct Hands(Mutex<Remembered>);

/// The oldest claims come first: they go first when there are too many, because a claim that nobody asked about for so
/// long was ended by others.
#[derive(Debug, Default)]
struct Remembered {
    claims: BTreeMap<Fence, Hand>,
    jobs: usize,
}

/// One claim.
#[derive(Debug)]
struct Hand {
    jobs: Arc<Vec<JobId>>,
    files: HashMap<JobId, File>,
    edits: i32,
}

impl Hands {
    /// Keeps a claim that was committed.
    pub fn keep(&self, fence: Fence, jobs: Vec<JobId>, files: HashMap<JobId, File>) {
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        memory.jobs += files.len();
        memory.claims.insert(fence, Hand { jobs: Arc::new(jobs), files, edits: 0 });
        while memory.jobs > MOST
            && let Some((_, oldest)) = memory.claims.pop_first()
        {
            memory.jobs -= oldest.files.len();
        }
    }

    /// Drops a claim.
    pub fn forget(&self, fence: Fence) {
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hand) = memory.claims.remove(&fence) {
            memory.jobs -= hand.files.len();
        }
    }

    /// True when something of the claim is remembered.
    #[must_use]
    pub fn knows(&self, fence: Fence) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).claims.contains_key(&fence)
    }

    /// Completes a claim that was read without its ids, and answers the files of `wanted`, if what is remembered is
    /// what is stored.
    pub fn recall(&self, grip: &mut Grip, slots: &[u8], wanted: &BTreeSet<JobId>) -> Option<Vec<File>> {
        let memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let hand = memory.claims.get(&grip.fence).filter(|hand| hand.edits == grip.edits)?;
        grip.slots = Grip::decode_slots(slots, hand.jobs.len(), grip.claimed_at)?;
        grip.jobs = hand.jobs.to_vec();
        Some(wanted.iter().filter_map(|id| hand.files.get(id).cloned()).collect())
    }

    /// Follows a change of a claim that we have committed.
    pub fn follow(&self, grip: &Grip, records: impl IntoIterator<Item = (JobId, Option<Record>)>) {
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut gone = 0;
        if let Some(hand) = memory.claims.get_mut(&grip.fence) {
            hand.edits += 1;
            for (id, record) in records {
                match (record, hand.files.get_mut(&id)) {
                    (Some(record), Some(file)) => file.record = record,
                    (None, Some(_)) => {
                        hand.files.remove(&id);
                        gone += 1;
                    }
                    (_, None) => {}
                }
            }
        }
        memory.jobs -= gone;
        if grip.is_spent()
            && let Some(hand) = memory.claims.remove(&grip.fence)
        {
            memory.jobs -= hand.files.len();
        }
    }
}
