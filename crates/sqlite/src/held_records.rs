//! The records of jobs that workers hold, kept in the writer's memory between their claim and their end.
//!
//! Every held job is written again soon, mostly by the process that claimed it; remembering its record saves the
//! look into two trees, a sixth of the cost of claim and finish. What is kept is right as long as every write goes
//! through `WriteTransaction::save`, no transaction was rolled back, and no other connection has written; after any of
//! these, [`HeldRecords::forget`] drops it all and the tables are read again.

use std::collections::HashMap;

use backstop_core::JobId;

use crate::rows::StateRow;

/// Records kept at most: some 15 MB.
const MOST: usize = 50_000;

/// The records of held jobs.
#[derive(Debug, Default)]
pub(crate) struct HeldRecords(HashMap<JobId, StateRow>);

impl HeldRecords {
    pub(crate) fn get(&self, id: JobId) -> Option<&StateRow> {
        self.0.get(&id)
    }

    /// Notes what was just written.
    pub(crate) fn note(&mut self, stored: &StateRow) {
        if stored.record.hold.is_none() {
            self.0.remove(&stored.id);
        } else if self.0.len() < MOST || self.0.contains_key(&stored.id) {
            self.0.insert(stored.id, stored.clone());
        }
    }

    /// Drops everything.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }
}
