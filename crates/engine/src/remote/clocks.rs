//! The time limits of the runs that remote workers have under way (F10).
//!
//! What is remembered only saves reading the limits of the same runs again; all of it can be lost without harm.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use backstop_core::job::JobDetail;
use backstop_core::{JobId, Lease, Timestamp};
use backstop_store::HandedRun;

/// The share of its time at which a run is warned of.
const NEAR: f64 = 0.8;

/// The limits of the runs under way, as far as this process has looked.
#[derive(Debug, Default)]
pub(super) struct Clocks(Mutex<HashMap<Lease, Clock>>);

#[derive(Debug, Clone, Copy)]
struct Clock {
    limit: Option<Duration>,
    warned: bool,
}

/// What is to be done about a run now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    Warning,
    End(Duration),
}

impl Clocks {
    /// Forgets what is over, and answers the jobs whose limits are not known yet.
    pub(super) fn unknown(&self, runs: &[HandedRun]) -> Vec<JobId> {
        let mut clocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *clocks);
        let known = |run: &HandedRun| Some((run.lease, *before.get(&run.lease)?));
        clocks.extend(runs.iter().filter_map(known));
        runs.iter()
            .map(|run| run.lease)
            .filter(|lease| !clocks.contains_key(lease))
            .map(|lease| lease.job)
            .collect()
    }

    pub(super) fn learn(&self, details: impl IntoIterator<Item = JobDetail>) {
        let mut clocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for detail in details {
            if let Some(lease) = lease(&detail) {
                let limit = detail.view.job.spec.policy.timeout;
                clocks.insert(lease, Clock { limit, warned: false });
            }
        }
    }

    /// What is due at `now`; each run is warned of once.
    pub(super) fn due(&self, runs: &[HandedRun], now: Timestamp) -> Vec<(Lease, Due)> {
        let mut clocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut due = |run: &HandedRun| {
            let clock = clocks.get_mut(&run.lease)?;
            let limit = clock.limit?;
            if now >= run.started_at.after(limit) {
                return Some((run.lease, Due::End(limit)));
            }
            let near = !clock.warned && now >= run.started_at.after(limit.mul_f64(NEAR));
            clock.warned |= near;
            near.then_some((run.lease, Due::Warning))
        };
        runs.iter().filter_map(&mut due).collect()
    }
}

/// The hold that a job is under.
pub(super) fn lease(detail: &JobDetail) -> Option<Lease> {
    let record = &detail.view.record;
    let hold = record.hold?;
    Some(Lease { job: detail.view.job.spec.id, worker: hold.worker, fence: record.fence })
}

#[cfg(test)]
mod tests {
    use backstop_core::{Fence, WorkerId};

    use super::*;

    fn run(job: u128) -> HandedRun {
        let lease = Lease { job: JobId::from_u128(job), worker: WorkerId::from_u128(9), fence: Fence(1) };
        HandedRun { lease, started_at: Timestamp::from_micros(0) }
    }

    #[test]
    fn a_run_is_warned_of_once_and_ended_over_its_limit() {
        // F10
        let clocks = Clocks::default();
        let runs = [run(1), run(2)];
        assert_eq!(clocks.unknown(&runs), [runs[0].lease.job, runs[1].lease.job]);
        {
            let mut known = clocks.0.lock().unwrap_or_else(PoisonError::into_inner);
            let limit = Some(Duration::from_secs(10));
            known.insert(runs[0].lease, Clock { limit, warned: false });
            known.insert(runs[1].lease, Clock { limit: None, warned: false });
        }
        let at = |millis: i64| Timestamp::from_micros(millis * 1_000);
        let first = runs[0].lease;
        assert!(clocks.unknown(&runs).is_empty());
        assert_eq!(clocks.due(&runs, at(7_999)), []);
        assert_eq!(clocks.due(&runs, at(8_000)), [(first, Due::Warning)]);
        assert_eq!(clocks.due(&runs, at(9_999)), []);
        assert_eq!(clocks.due(&runs, at(10_000)), [(first, Due::End(Duration::from_secs(10)))]);
        assert!(clocks.unknown(&[]).is_empty());
        assert_eq!(clocks.unknown(&runs).len(), 2, "what is over is forgotten");
    }
}
