//! What jobs need that name it themselves, or whose payloads do, as far as somebody looks at it (H3).
//!
//! Their kinds do not say it, so such jobs are looked at one by one, up to a bound: a look at circuits must not cost
//! more with every job that waits.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use backstop_core::job::State;
use backstop_store::{Error as StoreError, JobFilter, PageRequest};

use crate::parts::EngineParts;

/// Jobs of one kind that are looked at: one page.
const MOST_OF_KIND: usize = 1_000;

/// Jobs of all kinds that are looked at.
const MOST: usize = 4_000;

/// How many pending jobs need what, of kinds whose jobs differ in that: by kind and key.
#[derive(Debug, Default)]
pub(super) struct OwnNeeds(HashMap<(Arc<str>, Arc<str>), u64>);

impl OwnNeeds {
    /// Looks at the newest pending jobs of each such kind.
    pub(super) async fn read(parts: &EngineParts) -> Result<Self, StoreError> {
        let EngineParts { store, config, circuits, .. } = parts;
        circuits.own.keep_up(&**store).await?;
        let by_payload = config.dependency_fields.keys().map(|kind| Arc::from(kind.as_str()));
        let kinds: BTreeSet<Arc<str>> = circuits.own.kinds().into_iter().chain(by_payload).collect();
        let (mut needs, mut left) = (Self::default(), MOST);
        for kind in kinds {
            let filter = JobFilter {
                kind: Some(kind.to_string()),
                state: Some(State::Pending),
                ..JobFilter::default()
            };
            let found = store.list(filter, PageRequest::first(left.min(MOST_OF_KIND))).await?.items;
            let need = config.need_of(&kind);
            for view in &found {
                if let Some(key) = config.needed_by(&view.job.spec, need.as_ref()) {
                    *needs.0.entry((kind.clone(), key)).or_default() += 1;
                }
            }
            left -= found.len();
            if left == 0 {
                break;
            }
        }
        Ok(needs)
    }

    /// How many jobs wait for a circuit, if these kinds need it unless a job says otherwise, with so many pending jobs
    /// of each.
    pub(super) fn waiting_for(&self, key: &str, kinds: &[(&str, u64)]) -> u64 {
        let of_kind = |(kind, pending): &(&str, u64)| {
            pending.saturating_sub(self.sum(|of, needed| of == *kind && needed != key))
        };
        let by_themselves =
            |of: &str, needed: &str| needed == key && kinds.iter().all(|(kind, _)| *kind != of);
        kinds.iter().map(of_kind).sum::<u64>() + self.sum(by_themselves)
    }

    fn sum(&self, is_meant: impl Fn(&str, &str) -> bool) -> u64 {
        self.0.iter().filter(|((kind, key), _)| is_meant(kind, key)).map(|(_, count)| *count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_that_name_their_own_dependency_count_for_that_and_for_no_other() {
        // H3
        let found = [("pay", "bank", 3), ("pay", "other", 2), ("call", "site:eu", 7), ("call", "bank", 1)];
        let found = found.map(|(kind, key, count)| ((Arc::from(kind), Arc::from(key)), count));
        let needs = OwnNeeds(found.into_iter().collect());
        assert_eq!(needs.waiting_for("bank", &[("pay", 100), ("refund", 10)]), 98 + 10 + 1);
        assert_eq!(needs.waiting_for("other", &[]), 2);
        assert_eq!(needs.waiting_for("site:eu", &[]), 7);
        assert_eq!(
            needs.waiting_for("bank", &[("pay", 1)]),
            1,
            "jobs that have started since do not make it negative"
        );
        assert_eq!(OwnNeeds::default().waiting_for("bank", &[("pay", 5)]), 5);
    }
}
