//! How one dependency is for one worker, and when it is looked at again (H1).
//!
//! With a check, the check decides: it is red until the first one has passed, and a run that finds the dependency away
//! turns it red until the next one passes. Without one, it is red for a while after such a run, then it is tried again.
//! That while grows with every try that fails: a check that passes and runs that fail must not chase each other.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::report::DependencyReport;
use crate::time::Timestamp;

/// How long a dependency stays red after the first run that found it away; doubled with every one that follows.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// How long that becomes at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What was last seen of a dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub enum DependencyResult {
    /// Its check passed.
    Passed,
    /// Its check failed.
    Failed,
    /// Its check gave no answer in time.
    TimedOut,
    /// A run found it unavailable.
    RunFailed,
}

impl DependencyResult {
    /// Its name, as in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::RunFailed => "run_failed",
        }
    }
}

/// The last result, with its moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CheckResult {
    /// When.
    pub at: Timestamp,
    /// What was seen.
    pub result: DependencyResult,
    /// What the check said, if it failed.
    pub problem: Option<String>,
}

/// What has happened to a dependency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DependencyEvent {
    /// A run ended because it was unavailable.
    RunFailed,
    /// A run of a kind that needs it went well.
    RunSucceeded,
    /// Its check passed.
    CheckPassed,
    /// Its check failed, and said this.
    CheckFailed(String),
    /// Its check gave no answer in time.
    CheckTimedOut,
    /// Time has passed.
    Tick,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DependencyState {
    /// How often it is checked; none when nothing can be checked.
    every: Option<Duration>,
    ok: bool,
    since: Timestamp,
    last: Option<CheckResult>,
    /// Times it turned red by a run since a run last went well.
    failed_tries: u32,
    /// When it is checked or tried again.
    due: Option<Timestamp>,
}

impl DependencyState {
    /// As a worker starts: one with a check is red until that has passed.
    #[must_use]
    pub const fn new(every: Option<Duration>, now: Timestamp) -> Self {
        let (ok, due) = if every.is_some() { (false, Some(now)) } else { (true, None) };
        Self { every, ok, since: now, last: None, failed_tries: 0, due }
    }

    /// As it was told; of one that cannot be checked.
    #[must_use]
    pub fn told(report: &DependencyReport) -> Self {
        Self {
            every: None,
            ok: report.ok,
            since: report.since,
            last: report.last.clone(),
            failed_tries: report.failed_tries,
            due: report.next_at,
        }
    }

    /// What to tell of it.
    #[must_use]
    pub fn report(&self, dependency: &str, kinds: Vec<String>) -> DependencyReport {
        DependencyReport {
            dependency: dependency.to_owned(),
            kinds,
            ok: self.ok,
            since: self.since,
            last: self.last.clone(),
            next_at: self.due,
            failed_tries: self.failed_tries,
        }
    }

    /// True when kinds that need it may be claimed.
    #[must_use]
    pub const fn is_ok(&self) -> bool {
        self.ok
    }

    /// Since when it is as it is.
    #[must_use]
    pub const fn since(&self) -> Timestamp {
        self.since
    }

    /// What was last seen of it; none before the first check.
    #[must_use]
    pub const fn last(&self) -> Option<&CheckResult> {
        self.last.as_ref()
    }

    /// When its check is to be made, or without one, when a [`DependencyEvent::Tick`] turns it green to be tried again.
    #[must_use]
    pub const fn due(&self) -> Option<Timestamp> {
        self.due
    }

    /// Follows what has happened; answers whether it turned red or green.
    pub fn follow(&mut self, event: DependencyEvent, now: Timestamp) -> bool {
        match event {
            DependencyEvent::RunFailed => self.run_failed(now),
            DependencyEvent::RunSucceeded => {
                // One that began before it turned red says nothing of now.
                if self.ok {
                    self.failed_tries = 0;
                }
                false
            }
            DependencyEvent::CheckPassed => self.checked(DependencyResult::Passed, None, now),
            DependencyEvent::CheckFailed(problem) => {
                self.checked(DependencyResult::Failed, Some(problem), now)
            }
            DependencyEvent::CheckTimedOut => self.checked(DependencyResult::TimedOut, None, now),
            DependencyEvent::Tick => {
                let again = self.every.is_none() && self.due.is_some_and(|due| due <= now);
                if again {
                    self.due = None;
                }
                again && self.turn(true, now)
            }
        }
    }

    fn run_failed(&mut self, now: Timestamp) -> bool {
        self.last = Some(CheckResult { at: now, result: DependencyResult::RunFailed, problem: None });
        // Others that ran beside the first come late with the same news.
        if !self.ok {
            return false;
        }
        self.failed_tries = self.failed_tries.saturating_add(1);
        let pause = pause(self.failed_tries);
        self.due = Some(now.after(self.every.map_or(pause, |every| every.min(pause))));
        self.turn(false, now)
    }

    fn checked(&mut self, result: DependencyResult, problem: Option<String>, now: Timestamp) -> bool {
        self.last = Some(CheckResult { at: now, result, problem });
        self.due = self.every.map(|every| now.after(every));
        self.turn(result == DependencyResult::Passed, now)
    }

    fn turn(&mut self, ok: bool, now: Timestamp) -> bool {
        let turned = self.ok != ok;
        if turned {
            (self.ok, self.since) = (ok, now);
        }
        turned
    }
}

/// How long it stays red after it was found away so often in a row.
fn pause(failed_tries: u32) -> Duration {
    let doublings = failed_tries.saturating_sub(1).min(16);
    FIRST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    /// Plays events at seconds; each with whether it turned, whether it is green then, and when it is due.
    fn play(every: Option<u64>, rows: &[(i64, DependencyEvent, bool, bool, Option<i64>)]) {
        let mut state = DependencyState::new(every.map(Duration::from_secs), at(0));
        for (second, event, turned, ok, due) in rows {
            assert_eq!(state.follow(event.clone(), at(*second)), *turned, "{event:?} at {second}");
            assert_eq!((state.is_ok(), state.due()), (*ok, due.map(at)), "{event:?} at {second}");
        }
    }

    #[test]
    fn with_a_check_it_is_green_when_the_check_passes() {
        // H1
        use DependencyEvent::{CheckFailed, CheckPassed, CheckTimedOut, RunFailed, RunSucceeded, Tick};
        play(
            Some(10),
            &[
                // Nothing is known before the first check.
                (0, Tick, false, false, Some(0)),
                (0, CheckPassed, true, true, Some(10)),
                (10, CheckFailed("no".into()), true, false, Some(20)),
                (20, CheckTimedOut, false, false, Some(30)),
                (30, CheckPassed, true, true, Some(40)),
                // A run that finds it away has it checked soon, later each time, and never later than usual.
                (31, RunFailed, true, false, Some(32)),
                (31, RunFailed, false, false, Some(32)),
                (32, Tick, false, false, Some(32)),
                (32, CheckPassed, true, true, Some(42)),
                (33, RunFailed, true, false, Some(35)),
                (35, CheckPassed, true, true, Some(45)),
                (36, RunFailed, true, false, Some(40)),
                (40, CheckPassed, true, true, Some(50)),
                (41, RunFailed, true, false, Some(49)),
                (49, CheckPassed, true, true, Some(59)),
                (50, RunFailed, true, false, Some(60)),
                // One that went well before the check says nothing; one after it forgets what was.
                (51, RunSucceeded, false, false, Some(60)),
                (60, CheckPassed, true, true, Some(70)),
                (61, RunSucceeded, false, true, Some(70)),
                (62, RunFailed, true, false, Some(63)),
            ],
        );
    }

    #[test]
    fn without_a_check_it_is_tried_again_after_a_pause_that_grows() {
        // H1
        use DependencyEvent::{RunFailed, RunSucceeded, Tick};
        play(
            None,
            &[
                (0, Tick, false, true, None),
                (5, RunFailed, true, false, Some(6)),
                (5, Tick, false, false, Some(6)),
                (6, Tick, true, true, None),
                (7, RunFailed, true, false, Some(9)),
                (9, Tick, true, true, None),
                (9, RunFailed, true, false, Some(13)),
                (13, Tick, true, true, None),
                (14, RunSucceeded, false, true, None),
                (15, RunFailed, true, false, Some(16)),
            ],
        );
        assert_eq!(pause(6), Duration::from_secs(32));
        assert_eq!(pause(7), LONGEST_PAUSE);
        assert_eq!(pause(u32::MAX), LONGEST_PAUSE);
    }

    #[test]
    fn what_is_told_is_what_goes_on_elsewhere() {
        // H1
        let mut state = DependencyState::new(None, at(0));
        state.follow(DependencyEvent::RunFailed, at(5));
        let mut elsewhere = DependencyState::told(&state.report("smtp", vec!["mail".into()]));
        assert_eq!(elsewhere, state);
        assert!(elsewhere.follow(DependencyEvent::Tick, at(6)));
        assert!(elsewhere.follow(DependencyEvent::RunFailed, at(6)));
        assert_eq!(elsewhere.due(), Some(at(8)), "the second try that failed");
    }

    #[test]
    fn it_tells_its_last_result_and_since_when() {
        // H2
        let mut state = DependencyState::new(Some(Duration::from_secs(10)), at(0));
        assert_eq!((state.since(), state.last()), (at(0), None));
        state.follow(DependencyEvent::CheckPassed, at(1));
        state.follow(DependencyEvent::CheckPassed, at(11));
        let last = CheckResult { at: at(11), result: DependencyResult::Passed, problem: None };
        assert_eq!((state.since(), state.last()), (at(1), Some(&last)));
        state.follow(DependencyEvent::CheckFailed("refused".into()), at(21));
        state.follow(DependencyEvent::CheckFailed("refused".into()), at(31));
        let problem = Some("refused".to_owned());
        let last = CheckResult { at: at(31), result: DependencyResult::Failed, problem };
        assert_eq!((state.since(), state.last()), (at(21), Some(&last)));
        for (result, name) in [
            (DependencyResult::Passed, "\"passed\""),
            (DependencyResult::Failed, "\"failed\""),
            (DependencyResult::TimedOut, "\"timed_out\""),
            (DependencyResult::RunFailed, "\"run_failed\""),
        ] {
            assert_eq!(serde_json::to_string(&result).ok().as_deref(), Some(name));
            assert_eq!(format!("\"{}\"", result.as_str()), name);
        }
    }
}
