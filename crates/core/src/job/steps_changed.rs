//! What is said of code that calls other steps than the ones that are stored (W7).

use std::fmt;

use serde::Serialize;

use super::StepMark;

/// Where a step or an effect stands among the calls of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepPlace {
    /// The order of its call, from 0.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// The key of an effect; none for a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl fmt::Display for StepPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, name, key } = self;
        match key {
            Some(key) => write!(f, "effect `{name}` with key `{key}` at index {index}"),
            None => write!(f, "step `{name}` at index {index}"),
        }
    }
}

/// The code calls other steps than the ones that are stored (W7).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the steps of this job have changed: {stored} is stored, and the code {called}; run the job with the code that \
     stored it, or submit a new job"
)]
pub struct StepsChanged {
    stored: Box<StepPlace>,
    called: Called,
}

/// What the code called where something else is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Called {
    Step(StepPlace),
    /// So many, and then it ended.
    Only(u32),
}

impl fmt::Display for Called {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step(place) => write!(f, "calls {place}"),
            Self::Only(0) => f.write_str("called no step and ended"),
            Self::Only(calls) => write!(f, "called only {calls} and ended"),
        }
    }
}

impl StepsChanged {
    pub(super) fn new(stored: &StepMark, called: Called) -> Self {
        Self { stored: Box::new(stored.place()), called }
    }

    pub(super) fn called_instead(stored: &StepMark, index: u32, name: &str, key: Option<&str>) -> Self {
        let place = StepPlace { index, name: name.to_owned(), key: key.map(str::to_owned) };
        Self::new(stored, Called::Step(place))
    }

    /// What is stored in that place, or under that name.
    #[must_use]
    pub const fn stored(&self) -> &StepPlace {
        &self.stored
    }

    /// What the code called; none when it ended without calling all that is stored.
    #[must_use]
    pub const fn called(&self) -> Option<&StepPlace> {
        match &self.called {
            Called::Step(place) => Some(place),
            Called::Only(_) => None,
        }
    }
}
