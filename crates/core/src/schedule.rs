//! Schedules (W11): when they fire, what is made up for what was missed, and what becomes of a fire while the job of
//! the last one still goes on.
//!
//! Everything here is a function of the schedule, of what was decided before, and of the store's clock. Who decides,
//! and how a fire is submitted exactly once, stands in the engine.

mod calendar;
mod cron;
mod decide;
mod fire_times;
#[cfg(test)]
mod oracle_tests;
mod state;
#[cfg(test)]
mod tests;

pub use cron::Cron;
pub use decide::{DueFires, MISSED_AFTER};
pub use fire_times::FireTimes;
pub use state::{Fire, MOST_QUEUED, PassReason, PassedFire, Pause, ScheduleState};

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::admit;
use crate::job::NewJob;
use crate::limits::Limits;
use crate::refusal::Refusal;
use crate::time::{Timestamp, millis};

/// The shortest interval. Cron counts in seconds too.
pub const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// The longest interval: ten years.
pub const LONGEST_INTERVAL: Duration = Duration::from_secs(3_652 * 86_400);

/// The longest payload of a schedule, in bytes: whoever fires keeps all schedules in memory.
pub const MOST_PAYLOAD: usize = 16 * 1024;

/// The most fires that are made up for.
pub const MOST_CAUGHT_UP: u32 = 100;

/// When a schedule fires: by a cron expression in a time zone, or every so often.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// Five fields (minute, hour, day of month, month, day of week), or six with seconds in front.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<Arc<str>>,
    /// So often, counted from when the schedule was set.
    #[serde(default, rename = "every_ms", with = "millis::option", skip_serializing_if = "Option::is_none")]
    pub every: Option<Duration>,
    /// Whose clock a cron expression means, such as `Europe/Berlin`; UTC unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<Arc<str>>,
}

/// What becomes of fire times that nobody was there for: those that are late by [`MISSED_AFTER`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Misfire {
    /// They are passed over.
    Skip,
    /// The latest one is made up for, unless a later one is on time.
    #[default]
    FireOnce,
    /// The latest so many are made up for, in order.
    CatchUp(u32),
}

/// What becomes of a fire while the job of the last one has not ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Overlap {
    /// It is submitted all the same.
    #[default]
    Allow,
    /// It is passed over.
    Skip,
    /// It is submitted when the last one has ended, in order.
    Queue,
}

impl Overlap {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Skip => "skip",
            Self::Queue => "queue",
        }
    }
}

impl FromStr for Overlap {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let known = [Self::Allow, Self::Skip, Self::Queue].into_iter().find(|one| one.as_str() == word);
        known.ok_or_else(|| format!("`{word}` is not allow, skip or queue"))
    }
}

/// As it is written in settings: `skip`, `fire_once`, `catch_up:5`.
impl fmt::Display for Misfire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skip => f.write_str("skip"),
            Self::FireOnce => f.write_str("fire_once"),
            Self::CatchUp(count) => write!(f, "catch_up:{count}"),
        }
    }
}

impl FromStr for Misfire {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let count = || {
            let count = text.strip_prefix("catch_up:")?.parse().ok()?;
            (1..=MOST_CAUGHT_UP).contains(&count).then_some(Self::CatchUp(count))
        };
        match text {
            "skip" => Ok(Self::Skip),
            "fire_once" => Ok(Self::FireOnce),
            _ => count().ok_or_else(|| {
                format!("`{text}` is not skip, fire_once or catch_up:N with N from 1 to {MOST_CAUGHT_UP}")
            }),
        }
    }
}

/// A schedule: when it fires, and the job that is submitted each time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Schedule {
    /// When it fires.
    #[serde(flatten)]
    pub timing: Timing,
    /// What becomes of fire times that were missed.
    #[serde(default)]
    pub misfire: Misfire,
    /// What becomes of a fire while the job of the last one has not ended.
    #[serde(default)]
    pub overlap: Overlap,
    /// The job; each fire has an id and a key of its own.
    pub job: NewJob,
    /// Each job may start at the latest so long after the moment at which it may first run (L19).
    #[serde(
        default,
        rename = "expires_in_ms",
        with = "millis::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub expires_in: Option<Duration>,
}

impl Schedule {
    /// A schedule of this job.
    #[must_use]
    pub const fn new(timing: Timing, job: NewJob) -> Self {
        Self { timing, misfire: Misfire::FireOnce, overlap: Overlap::Allow, job, expires_in: None }
    }

    /// Refuses what could never fire, or would fire what cannot be meant.
    ///
    /// # Errors
    /// The first [`Refusal`].
    pub fn check(&self) -> Result<(), Refusal> {
        self.timing.check()?;
        if let Misfire::CatchUp(count) = self.misfire
            && !(1..=MOST_CAUGHT_UP).contains(&count)
        {
            let problem = format!("catch_up is between 1 and {MOST_CAUGHT_UP}; use skip to make up for none");
            return Err(Refusal::invalid("misfire", problem));
        }
        let spec = &self.job.spec;
        if spec.payload.len() > MOST_PAYLOAD {
            let (actual, limit) = (spec.payload.len(), MOST_PAYLOAD);
            return Err(Refusal::TooLarge { field: "payload", actual, limit, unit: "bytes" });
        }
        let refused = [
            ("idempotency_key", spec.idempotency_key.is_some(), "each fire has one of its own"),
            (
                "run_at",
                matches!(self.job.start, crate::job::Start::At(_)),
                "the schedule says when; use delay",
            ),
            ("expires_at", spec.expires_at.is_some(), "a schedule fires again and again; use expires_in"),
            ("replaces", self.job.supersedes.is_some(), "a job can be replaced only once"),
        ];
        match refused.into_iter().find(|(_, is_given, _)| *is_given) {
            Some((field, _, why)) => {
                Err(Refusal::invalid(field, format!("a schedule cannot have it: {why}")))
            }
            None => Ok(()),
        }
    }
}

/// Checks the name of a schedule.
///
/// # Errors
/// A [`Refusal`] that says what is wrong with it.
pub fn check_name(name: &str, limits: &Limits) -> Result<(), Refusal> {
    admit::name("schedule", name, limits)?;
    match name.contains('/') {
        true => Err(Refusal::invalid("schedule", "a name of a schedule has no slash")),
        false => Ok(()),
    }
}

/// The idempotency key of one fire: no fire time of a schedule is submitted twice, whoever does it (L10).
#[must_use]
pub fn fire_key(name: &str, fire_time: Timestamp) -> String {
    format!("backstop.schedule/{name}/{fire_time}")
}

impl Timing {
    /// By a cron expression, in UTC.
    pub fn cron(expression: impl Into<Arc<str>>) -> Self {
        Self { cron: Some(expression.into()), ..Self::default() }
    }

    /// Every so often.
    #[must_use]
    pub fn every(interval: Duration) -> Self {
        Self { every: Some(interval), ..Self::default() }
    }

    /// The same by the clock of a time zone.
    #[must_use]
    pub fn time_zone(mut self, zone: impl Into<Arc<str>>) -> Self {
        self.time_zone = Some(zone.into());
        self
    }

    /// Refuses what cannot be read, or never fires.
    ///
    /// # Errors
    /// A [`Refusal`] of the field that is wrong.
    pub fn check(&self) -> Result<(), Refusal> {
        // Any moment will do: what fires at all fires within the span that is searched.
        match self.fire_times(Timestamp::EPOCH)?.next(Timestamp::EPOCH) {
            Some(_) => Ok(()),
            None => Err(Refusal::invalid("cron", "it never fires: no day of the calendar matches it")),
        }
    }

    /// The fire times; an interval is counted from `anchor`.
    ///
    /// # Errors
    /// A [`Refusal`] of the field that is wrong.
    pub fn fire_times(&self, anchor: Timestamp) -> Result<FireTimes, Refusal> {
        match (&self.cron, self.every) {
            (Some(expression), None) => {
                FireTimes::cron(expression.parse()?, self.time_zone.as_deref().unwrap_or("UTC"))
            }
            (None, Some(_)) if self.time_zone.is_some() => {
                Err(Refusal::invalid("time_zone", "an interval has none; give it with cron only"))
            }
            (None, Some(every)) if !(SHORTEST_INTERVAL..=LONGEST_INTERVAL).contains(&every) => {
                Err(Refusal::invalid("every_ms", "an interval is between one second and ten years"))
            }
            (None, Some(every)) => Ok(FireTimes::every(every, anchor)),
            (Some(_), Some(_)) => {
                Err(Refusal::invalid("every_ms", "give either cron or an interval, not both"))
            }
            (None, None) => Err(Refusal::invalid("cron", "give cron or an interval")),
        }
    }
}

/// As people read it: `0 3 * * * Europe/Berlin`, `every 90 s`.
impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.cron, self.every) {
            (Some(cron), _) => write!(f, "{cron} {}", self.time_zone.as_deref().unwrap_or("UTC")),
            (None, Some(every)) => write!(f, "every {} s", every.as_secs_f64()),
            (None, None) => f.write_str("never"),
        }
    }
}

/// Who says what a schedule is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "by", content = "program")]
pub enum ScheduleOwner {
    /// A person, over the API or the command line.
    Api,
    /// A settings file.
    Settings,
    /// The code of this program.
    Code(Arc<str>),
}

impl fmt::Display for ScheduleOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Api => f.write_str("the API"),
            Self::Settings => f.write_str("backstop.toml"),
            Self::Code(program) => write!(f, "the code of {program}"),
        }
    }
}
