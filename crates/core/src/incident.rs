//! Incidents: all failures with one fingerprint, what people say of them, and when they come back (D2, D7).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::failure::Fingerprint;
use crate::id::JobId;
use crate::time::Timestamp;
use crate::version;

/// All failures with one fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Incident {
    /// What they have in common.
    pub fingerprint: Fingerprint,
    /// The kind of job.
    pub kind: String,
    /// The error's type.
    pub error_type: String,
    /// The sanitized text of the first one.
    pub message: String,
    /// Failed runs.
    pub failures: u64,
    /// Of these, runs that made a dead letter.
    pub dead: u64,
    /// Dead letters that are here now: those that died of it and were neither driven again nor taken away.
    pub open: u64,
    /// The first one.
    pub first_seen: Timestamp,
    /// The latest one.
    pub last_seen: Timestamp,
    /// The version of the code of the first one, if its worker said it.
    pub first_version: Option<String>,
    /// The version of the code of the latest one, if its worker said it.
    pub last_version: Option<String>,
    /// The latest job.
    pub sample_job: JobId,
    /// What people said of it, and whether it came back.
    #[serde(flatten)]
    pub standing: Standing,
}

impl Incident {
    /// True when nobody needs it any more at `cutoff`: no dead letter of it is here, and neither did it happen nor did
    /// anybody speak of it since. What a person said, a mute too, counts for as long as a failure does.
    #[must_use]
    pub fn is_outworn(&self, cutoff: Timestamp) -> bool {
        let spoken_of = self.standing.changed_at.is_some_and(|at| at > cutoff);
        self.open == 0 && self.last_seen <= cutoff && !spoken_of
    }
}

/// Where an incident stands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = IncidentStanding))]
pub struct Standing {
    /// Its state.
    #[serde(default)]
    pub state: IncidentState,
    /// The version it is fixed in, once somebody said so; none for "whatever runs from now on".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed_in: Option<String>,
    /// When somebody last said something of it, or when it came back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<Timestamp>,
    /// Who said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_by: Option<String>,
    /// In which words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// How often it came back after it was said to be fixed.
    #[serde(default)]
    pub regressions: u32,
}

/// The states of an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum IncidentState {
    /// Nobody has looked at it.
    #[default]
    New,
    /// Somebody looks after it.
    Acknowledged,
    /// Somebody says that it is fixed.
    Fixed,
    /// It came back after that.
    Regressed,
    /// It is known and nobody wants to hear of it.
    Muted,
}

impl IncidentState {
    /// Every state.
    pub const ALL: [Self; 5] = [Self::New, Self::Acknowledged, Self::Fixed, Self::Regressed, Self::Muted];

    /// The word used in every interface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Acknowledged => "acknowledged",
            Self::Fixed => "fixed",
            Self::Regressed => "regressed",
            Self::Muted => "muted",
        }
    }
}

impl fmt::Display for IncidentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that names no state of an incident.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a state of an incident; they are new, acknowledged, fixed, regressed and muted")]
pub struct UnknownIncidentState(String);

impl FromStr for IncidentState {
    type Err = UnknownIncidentState;

    fn from_str(text: &str) -> Result<Self, UnknownIncidentState> {
        let found = Self::ALL.into_iter().find(|state| state.as_str() == text);
        found.ok_or_else(|| UnknownIncidentState(crate::text::truncate_chars(text, 40).into_owned()))
    }
}

/// What a person says of an incident.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncidentUpdate {
    /// What.
    pub verb: IncidentVerb,
    /// Who.
    pub by: String,
    /// In which words.
    pub note: Option<String>,
}

/// What can be said of an incident.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IncidentVerb {
    /// I look after it.
    Acknowledge,
    /// It is fixed, from this version on, or at once.
    Fix {
        /// The first version of the code without the bug.
        version: Option<String>,
    },
    /// Do not tell of it any more.
    Mute,
    /// Treat it as if nobody had said anything.
    Reopen,
}

impl Standing {
    /// Follows what a person says. Any state can follow any: people correct each other.
    pub fn say(&mut self, statement: &IncidentUpdate, now: Timestamp) {
        self.fixed_in = None;
        self.state = match &statement.verb {
            IncidentVerb::Acknowledge => IncidentState::Acknowledged,
            IncidentVerb::Mute => IncidentState::Muted,
            IncidentVerb::Reopen => IncidentState::New,
            IncidentVerb::Fix { version } => {
                self.fixed_in.clone_from(version);
                IncidentState::Fixed
            }
        };
        self.changed_at = Some(now);
        self.changed_by = Some(statement.by.clone());
        self.note.clone_from(&statement.note);
    }

    /// Follows a further failure in code of `version`; true when that makes it a regression (D7).
    ///
    /// With a version to be fixed in, only code that is provably as new counts: old workers that still run while a
    /// fix is rolled out prove nothing.
    pub fn recur(&mut self, version: Option<&str>, now: Timestamp) -> bool {
        let proves = match &self.fixed_in {
            Some(fixed_in) => version.is_some_and(|version| version::at_least(version, fixed_in)),
            None => true,
        };
        if self.state != IncidentState::Fixed || !proves {
            return false;
        }
        self.state = IncidentState::Regressed;
        self.regressions = self.regressions.saturating_add(1);
        self.changed_at = Some(now);
        self.changed_by = None;
        true
    }

    /// The standing as stores keep it; none when nobody has said anything.
    #[must_use]
    pub fn to_text(&self) -> Option<String> {
        // A struct of texts and numbers has no way to fail.
        (*self != Self::default()).then(|| serde_json::to_string(self).unwrap_or_default())
    }

    /// Reads what [`Standing::to_text`] wrote. Anything else is read as if nobody had said anything: it must not keep
    /// the runs that fail like this from ending (C7).
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);
    const SECOND: std::time::Duration = std::time::Duration::from_secs(1);

    fn say(verb: IncidentVerb) -> Standing {
        let mut standing = Standing::default();
        standing.say(&IncidentUpdate { verb, by: "ann".into(), note: Some("looking".into()) }, NOW);
        standing
    }

    #[test]
    fn people_can_say_every_state_but_regressed() {
        // D2
        let table = [
            (IncidentVerb::Acknowledge, IncidentState::Acknowledged),
            (IncidentVerb::Fix { version: Some("1.4".into()) }, IncidentState::Fixed),
            (IncidentVerb::Mute, IncidentState::Muted),
            (IncidentVerb::Reopen, IncidentState::New),
        ];
        for (verb, state) in table {
            let standing = say(verb.clone());
            assert_eq!(standing.state, state);
            assert_eq!(standing.fixed_in.is_some(), matches!(verb, IncidentVerb::Fix { .. }));
            assert_eq!(standing.changed_by.as_deref(), Some("ann"));
            assert_eq!(Standing::from_text(&standing.to_text().unwrap()), standing);
        }
        assert_eq!(Standing::default().to_text(), None);
        // C7
        assert_eq!(Standing::from_text("{"), Standing::default());
    }

    #[test]
    fn only_the_fixed_code_can_regress() {
        // D7
        let fixed = || say(IncidentVerb::Fix { version: Some("1.4".into()) });
        for (version, regresses) in
            [(None, false), (Some("1.3"), false), (Some("1.4"), true), (Some("2.0"), true)]
        {
            let mut standing = fixed();
            assert_eq!(standing.recur(version, NOW), regresses, "{version:?}");
            let state = if regresses { IncidentState::Regressed } else { IncidentState::Fixed };
            assert_eq!((standing.state, standing.regressions), (state, u32::from(regresses)), "{version:?}");
        }
    }

    #[test]
    fn a_fix_without_a_version_regresses_with_the_next_failure() {
        // D2
        let mut standing = say(IncidentVerb::Fix { version: None });
        assert!(standing.recur(None, NOW));
        assert!(!standing.recur(None, NOW), "once is enough");
        assert_eq!(standing.regressions, 1);
    }

    #[test]
    fn what_is_not_fixed_cannot_regress() {
        // D2
        for verb in [IncidentVerb::Acknowledge, IncidentVerb::Mute, IncidentVerb::Reopen] {
            let mut standing = say(verb);
            let before = standing.clone();
            assert!(!standing.recur(Some("9"), NOW));
            assert_eq!(standing, before);
        }
    }

    #[test]
    fn an_incident_is_outworn_by_its_last_failure_and_its_last_word() {
        // D2
        let cutoff = NOW;
        let (before, after) = (NOW.before(SECOND), NOW.after(SECOND));
        let table = [
            (0, before, None, true),
            (0, cutoff, Some(cutoff), true),
            (1, before, None, false),
            (0, after, None, false),
            (0, before, Some(after), false),
        ];
        for (open, last_seen, changed_at, outworn) in table {
            let standing = Standing { changed_at, state: IncidentState::Muted, ..Standing::default() };
            let incident = Incident {
                fingerprint: crate::failure::fingerprint::fingerprint("work", "E", "text"),
                kind: "work".into(),
                error_type: "E".into(),
                message: "text".into(),
                failures: 1,
                dead: 1,
                open,
                first_seen: before,
                last_seen,
                first_version: None,
                last_version: None,
                sample_job: JobId::from_u128(1),
                standing,
            };
            assert_eq!(incident.is_outworn(cutoff), outworn, "{open} {last_seen} {changed_at:?}");
        }
    }

    #[test]
    fn words_go_round() {
        for state in IncidentState::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
        }
        assert!("open".parse::<IncidentState>().is_err());
    }
}
