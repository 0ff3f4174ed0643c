//! Counting the jobs that a filter finds, by what they have in common.

use std::collections::HashMap;
use std::sync::Arc;

use backstop_core::failure::TerminalReason;
use backstop_store::{JobFilter, Survey, SurveyGroup};

use crate::error::SqliteFailure;
use crate::query::Snapshot;
use crate::rows;
use crate::sql;
use crate::worker::roster;

/// How many jobs there are by lane, stored reason and fingerprint.
type Sums = HashMap<(i64, Option<String>, Option<String>), u64>;
/// What the jobs of a group have in common: lanes that differ in version or priority are one.
type Common = (Arc<str>, Arc<str>, Option<TerminalReason>, Option<String>);

impl Snapshot<'_> {
    /// Counts the newest jobs that a filter finds, `most` of them at most.
    pub(crate) fn survey(&mut self, filter: &JobFilter, most: usize) -> Result<Survey, SqliteFailure> {
        let roster = roster(self.conn, self.now)?;
        let scope = self.scope(filter, &roster)?;
        if scope.empty {
            return Ok(Survey::of(Vec::new(), true));
        }
        // One more than is counted, to see whether that was all.
        let listing = self.listing(filter, &scope, None, most.saturating_add(1))?;
        let mut found =
            listing.read(self.conn, sql::SURVEY, |row| Ok((row.get(1)?, row.get(2)?, row.get(3)?)))?;
        let complete = found.len() <= most;
        found.truncate(most);
        let mut sums = Sums::new();
        found.into_iter().for_each(|row| *sums.entry(row).or_default() += 1);
        let mut groups: HashMap<Common, u64> = HashMap::new();
        for ((lane, reason, fingerprint), jobs) in sums {
            let lane = self.lanes.get(self.conn, lane)?;
            let reason = reason.as_deref().map(rows::word).transpose()?;
            *groups.entry((lane.queue.clone(), lane.kind.clone(), reason, fingerprint)).or_default() += jobs;
        }
        let group = |((queue, kind, reason, fingerprint), jobs): (Common, u64)| SurveyGroup {
            queue: queue.to_string(),
            kind: kind.to_string(),
            reason,
            fingerprint,
            jobs,
        };
        Ok(Survey::of(groups.into_iter().map(group).collect(), complete))
    }
}
