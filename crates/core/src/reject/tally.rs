//! What a job's record knows of its rejects.

use serde::{Deserialize, Serialize};

use super::RejectBatch;

/// How many items of a job were rejected. The rejects themselves stand beside the record.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RejectTally {
    /// Items whose rejects the store was given, over all runs: one that several runs reject counts once.
    pub stored: u64,
    /// The run that rejected last.
    pub run: u32,
    /// Items that it has rejected.
    pub rejected: u64,
    /// Items that it says it has seen.
    pub seen: u64,
    /// Batches that were written.
    #[serde(default)]
    pub batches: u32,
    /// The batch that was written last.
    #[serde(default)]
    pub last: String,
}

/// The same as every interface shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RejectCounts {
    /// Items whose rejects the store was given, over all runs: one that several runs reject counts once.
    pub stored: u64,
    /// The run that rejected last.
    pub run: u32,
    /// Items that it has rejected.
    pub rejected: u64,
    /// Items that it says it has seen; 0 when it has not said.
    pub seen: u64,
}

impl From<&RejectTally> for RejectCounts {
    fn from(tally: &RejectTally) -> Self {
        let RejectTally { stored, run, rejected, seen, .. } = *tally;
        Self { stored, run, rejected, seen }
    }
}

impl RejectTally {
    /// True when others have written since the rejects of this batch were told apart from those that are stored.
    pub(crate) fn is_behind(&self, batch: &RejectBatch) -> bool {
        batch.behind.is_some_and(|known| known != self.batches) && self.last != batch.id()
    }

    /// Takes a batch; answers its number, unless there is nothing to keep of it or it was stored already.
    pub(crate) fn take(&mut self, batch: &RejectBatch) -> Option<u32> {
        (self.run, self.rejected, self.seen) = (batch.run, batch.rejected, batch.seen);
        batch.identities().next()?;
        let id = batch.id();
        if self.last == id {
            return None;
        }
        let (number, count) = (self.batches, batch.rejects.iter().map(|reject| reject.count));
        self.stored = count.fold(self.stored, u64::saturating_add);
        self.batches = self.batches.saturating_add(1);
        self.last = id;
        Some(number)
    }
}
