//! Circuits (H3): a dependency that fails is left alone for a while, by every node, and nobody is charged for it.
//!
//! One circuit belongs to one dependency, and one document of the store to one circuit. Nodes count the ends of runs by
//! themselves and add what they counted to it now and then; who adds the call that is one failure too many opens it.
//! Every change of its state has a number, the generation, and what was begun under another one counts no more.

mod admission;
mod alert;
mod need;
mod window;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use crate::failure::CallResult;
pub use admission::CircuitAdmission;
pub use alert::{CircuitAlert, CircuitNotice};
pub use need::{KindDependency, is_one_of};
use window::CircuitWindow;

use crate::id::JobId;
use crate::limits::Limits;
use crate::refusal::Refusal;
use crate::time::{Timestamp, millis};

/// When a circuit opens, and how it closes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CircuitSettings {
    /// The time in which calls are counted.
    #[serde(rename = "window_ms", with = "millis")]
    pub window: Duration,
    /// It opens when so many of a hundred calls failed …
    pub failure_rate: u8,
    /// … of so many calls at least.
    pub min_calls: u64,
    /// How long it stays open before it is tried again.
    #[serde(rename = "open_ms", with = "millis")]
    pub open: Duration,
    /// Runs that try it then, on all nodes together. All of them have to succeed.
    pub probes: u64,
    /// The time over which jobs are let go again when it has closed.
    #[serde(rename = "slow_start_ms", with = "millis")]
    pub slow_start: Duration,
}

impl Default for CircuitSettings {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(60),
            failure_rate: 50,
            min_calls: 20,
            open: Duration::from_secs(30),
            probes: 3,
            slow_start: Duration::from_secs(30),
        }
    }
}

impl CircuitSettings {
    /// True when these calls open a circuit.
    #[must_use]
    pub fn opens(&self, counts: CallCounts) -> bool {
        let CallCounts { calls, failures, .. } = counts;
        let share = failures.saturating_mul(100) >= calls.saturating_mul(u64::from(self.failure_rate));
        calls >= self.min_calls && failures > 0 && share
    }

    /// Checks what a person asked for.
    ///
    /// # Errors
    /// A [`Refusal`] that names what is wrong.
    pub fn check(&self) -> Result<(), Refusal> {
        const DAY: Duration = Duration::from_secs(86_400);
        let spans = [("window", self.window), ("open", self.open)];
        for (name, span) in spans {
            if span < Duration::from_millis(10) || span > DAY {
                return Err(Refusal::invalid(name, "it is between 10 ms and a day"));
            }
        }
        if self.slow_start > DAY {
            return Err(Refusal::invalid("slow_start", "it is at most a day"));
        }
        if !(1..=100).contains(&self.failure_rate) {
            return Err(Refusal::invalid("failure_rate", "it is a percentage from 1 to 100"));
        }
        if self.min_calls == 0 || self.probes == 0 {
            let field = if self.probes == 0 { "probes" } else { "min_calls" };
            return Err(Refusal::invalid(field, "with 0 it could never decide: the minimum is 1"));
        }
        Ok(())
    }
}

/// What a circuit lets through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum CircuitState {
    /// Everything.
    #[default]
    Closed,
    /// Nothing.
    Open,
    /// A few runs that try whether the dependency is back.
    HalfOpen,
}

impl CircuitState {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// Calls that have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallCounts {
    /// All that count.
    pub calls: u64,
    /// Those that failed.
    pub failures: u64,
}

impl CallCounts {
    /// Adds one.
    pub fn add(&mut self, result: CallResult) {
        self.calls += u64::from(result != CallResult::Ignored);
        self.failures += u64::from(result == CallResult::Failure);
    }

    /// Failures of a hundred calls.
    #[must_use]
    pub const fn failure_rate(self) -> u64 {
        match self.failures.saturating_mul(100).checked_div(self.calls) {
            Some(rate) => rate,
            None => 0,
        }
    }
}

/// A circuit, as a store keeps it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Circuit {
    /// What it lets through.
    pub state: CircuitState,
    /// Grows with every change of the state.
    pub generation: u64,
    /// When it became so; none when it has never been otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// When it is tried again, while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Who opened or closed it by hand; none when calls did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Calls of the last time, while it is closed.
    #[serde(default)]
    window: CircuitWindow,
    /// Runs that try it, while it is half open.
    #[serde(default)]
    probes: Vec<CircuitProbe>,
    /// Those of them that have ended well.
    #[serde(default)]
    proven: u64,
}

/// A run that tries whether the dependency is back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CircuitProbe {
    /// When it was let through.
    pub since: Timestamp,
    /// Whose run it is.
    pub job: JobId,
}

/// A change of the state of a circuit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CircuitChange {
    /// What it lets through now.
    pub state: CircuitState,
    /// The number of this change.
    pub generation: u64,
    /// What was counted that led to it.
    pub counts: CallCounts,
    /// When it is tried again, if it is open.
    pub until: Option<Timestamp>,
}

impl Circuit {
    /// Calls of the last time.
    #[must_use]
    pub fn counts(&self, settings: &CircuitSettings, now: Timestamp) -> CallCounts {
        self.window.counts(settings.window, now)
    }

    /// True when nobody has called its dependency for this long, though everybody might: nobody needs it any more.
    #[must_use]
    pub fn is_idle(&self, span: Duration, now: Timestamp) -> bool {
        self.until.or(self.since).is_none_or(|changed| changed.after(span) <= now)
            && self.window.counts(span, now) == CallCounts::default()
    }

    fn turn(&mut self, state: CircuitState, until: Option<Timestamp>, now: Timestamp) {
        *self = Self { state, generation: self.generation + 1, since: Some(now), until, ..Self::default() };
    }

    /// Adds calls that were let through in a generation; answers the change that this leads to. What was let through in
    /// another generation says nothing of this one.
    pub fn record(
        &mut self,
        generation: u64,
        counts: CallCounts,
        settings: &CircuitSettings,
        now: Timestamp,
    ) -> Option<CircuitChange> {
        if generation != self.generation {
            return None;
        }
        let mut decisive = counts;
        match self.state {
            CircuitState::Closed => {
                self.window.add(counts, settings.window, now);
                decisive = self.counts(settings, now);
                if !settings.opens(decisive) {
                    return None;
                }
                self.turn(CircuitState::Open, Some(now.after(settings.open)), now);
            }
            CircuitState::HalfOpen if counts.failures > 0 => {
                self.turn(CircuitState::Open, Some(now.after(settings.open)), now);
            }
            CircuitState::HalfOpen => {
                self.proven += counts.calls;
                if self.proven < settings.probes {
                    return None;
                }
                self.turn(CircuitState::Closed, None, now);
            }
            CircuitState::Open => return None,
        }
        Some(CircuitChange {
            state: self.state,
            generation: self.generation,
            counts: decisive,
            until: self.until,
        })
    }

    /// Opens it by hand, for this long; answers whether anything changed.
    pub fn open_by_hand(&mut self, by: &str, span: Duration, now: Timestamp) -> CircuitChange {
        let counts = CallCounts::default();
        self.turn(CircuitState::Open, Some(now.after(span)), now);
        self.by = Some(by.to_owned());
        CircuitChange { state: self.state, generation: self.generation, counts, until: self.until }
    }

    /// Closes it by hand: jobs are let go at once, and what was counted is forgotten.
    pub fn close_by_hand(&mut self, by: &str, now: Timestamp) -> CircuitChange {
        self.turn(CircuitState::Closed, None, now);
        self.by = Some(by.to_owned());
        CircuitChange {
            state: self.state,
            generation: self.generation,
            counts: CallCounts::default(),
            until: None,
        }
    }
}

/// Checks the name of a dependency.
///
/// # Errors
/// A [`Refusal`] that names what is wrong.
pub fn check_key(key: &str, limits: &Limits) -> Result<(), Refusal> {
    crate::admit::name("dependency", key, limits)
}

#[cfg(test)]
mod tests;
