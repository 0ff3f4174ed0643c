//! Dependencies that single jobs name and no kind needs, as one worker finds them (H1).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backstop_core::Timestamp;
use backstop_core::health::{DependencyEvent, DependencyReport, DependencyState};

/// Those that are remembered at once: names come with jobs, and jobs are many.
const MOST: usize = 1_000;

/// Those that a run found unavailable since one last went well.
#[derive(Debug, Default)]
pub(super) struct OwnDependencies(Mutex<BTreeMap<Arc<str>, DependencyState>>);

impl OwnDependencies {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, DependencyState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows the end of a run; answers whether it turned red.
    pub(super) fn follow(&self, key: &str, event: DependencyEvent, now: Timestamp) -> bool {
        let mut known = self.lock();
        if event == DependencyEvent::RunSucceeded {
            known.remove(key);
            return false;
        }
        if known.len() >= MOST && !known.contains_key(key) {
            known.retain(|_, state| state.due().is_some_and(|due| due > now));
            if known.len() >= MOST {
                return false;
            }
        }
        let state = known.entry(key.into()).or_insert_with(|| DependencyState::new(None, now));
        state.follow(DependencyEvent::Tick, now);
        state.follow(event, now)
    }

    /// How long one is red; none when it may be tried.
    pub(super) fn red_for(&self, key: &str, now: Timestamp) -> Option<Duration> {
        let due = self.lock().get(key).filter(|state| !state.is_ok()).and_then(DependencyState::due)?;
        (due > now).then(|| now.until(due))
    }

    /// Those that are red, for others to see. No kind is left out because of them.
    pub(super) fn reports(&self, now: Timestamp) -> Vec<DependencyReport> {
        let red = |state: &DependencyState| !state.is_ok() && state.due().is_some_and(|due| due > now);
        let known = self.lock();
        known.iter().filter(|(_, state)| red(state)).map(|(key, one)| one.report(key, Vec::new())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::EPOCH.after(Duration::from_secs(seconds))
    }

    #[test]
    fn one_is_red_for_a_while_that_grows_until_a_run_goes_well() {
        // H1
        let own = OwnDependencies::default();
        assert_eq!(own.red_for("eu", at(0)), None);
        assert!(own.follow("eu", DependencyEvent::RunFailed, at(0)));
        assert!(!own.follow("eu", DependencyEvent::RunFailed, at(0)), "the same news");
        assert_eq!(own.red_for("eu", at(0)), Some(Duration::from_secs(1)));
        assert_eq!((own.red_for("us", at(0)), own.reports(at(0)).len()), (None, 1));
        assert_eq!((own.red_for("eu", at(1)), own.reports(at(1)).len()), (None, 0), "it is tried again");
        assert!(own.follow("eu", DependencyEvent::RunFailed, at(1)));
        assert_eq!(own.red_for("eu", at(1)), Some(Duration::from_secs(2)));
        own.follow("eu", DependencyEvent::RunSucceeded, at(3));
        own.follow("eu", DependencyEvent::RunFailed, at(4));
        assert_eq!(own.red_for("eu", at(4)), Some(Duration::from_secs(1)));
    }

    #[test]
    fn no_more_are_remembered_than_there_is_room_for() {
        // H1
        let own = OwnDependencies::default();
        for number in 0..MOST {
            own.follow(&number.to_string(), DependencyEvent::RunFailed, at(0));
        }
        assert!(!own.follow("late", DependencyEvent::RunFailed, at(0)));
        assert_eq!(own.red_for("late", at(0)), None);
        assert!(own.follow("late", DependencyEvent::RunFailed, at(10)), "the others are over");
        assert_eq!(own.lock().len(), 1);
    }
}
