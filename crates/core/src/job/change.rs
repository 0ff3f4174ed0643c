//! What a person does to many jobs at once, and the states that it leads out of (L7, L8).

use serde::{Deserialize, Serialize};

use super::{PausedFrom, State, Trigger, next};

/// What is done to each of many jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = JobChange))]
pub enum JobChangeVerb {
    /// They are called off, those that run too.
    Cancel,
    /// They are held back.
    Pause,
    /// They go on where they were.
    Resume,
}

impl JobChangeVerb {
    /// All.
    pub const ALL: [Self; 3] = [Self::Cancel, Self::Pause, Self::Resume];

    /// Its name, as interfaces show it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }

    /// True when it moves a job that is in `state`: the state table allows it, and leads elsewhere.
    #[must_use]
    pub fn leads_out_of(self, state: State) -> bool {
        let trigger = match self {
            Self::Cancel => Trigger::Cancel,
            Self::Pause => Trigger::Pause,
            // Where to says the job. That it may go is the same for all.
            Self::Resume => Trigger::Resume { into: PausedFrom::Pending },
        };
        next(state, trigger).is_ok_and(|into| into != state)
    }

    /// The states that it leads out of.
    pub fn states(self) -> impl Iterator<Item = State> {
        State::ALL.into_iter().filter(move |state| self.leads_out_of(*state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_many_jobs_leads_out_of_the_states_of_the_table() {
        // L7, L8: a paused job is not paused again, and nothing moves what has ended well or was called off.
        let states = JobChangeVerb::ALL.map(|verb| verb.states().collect::<Vec<_>>());
        let [cancel, pause, resume] = states;
        assert_eq!(cancel, [State::Pending, State::Running, State::Paused, State::Waiting]);
        assert_eq!(pause, [State::Pending, State::Failed, State::Waiting]);
        assert_eq!(resume, [State::Paused]);
    }
}
