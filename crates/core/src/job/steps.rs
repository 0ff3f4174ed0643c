//! Durable steps and effects of a job (W7, W8): what is stored of them, and what a call of one comes to.
//!
//! The history stands on the record, so whoever holds a job knows its names, its order and what is unknown without
//! asking; only the results lie elsewhere, each under its position. Names are unique in a job, and a step's index is
//! the order of its call. Owns the decision whether a step runs or is answered from the store; it never runs one.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::steps_changed::Called;
use super::{StepPlace, StepsChanged, signal_of_step, signal_step};

/// Steps and effects of one job at most: all of their names stand on its record.
pub const MOST_STEPS: usize = 1_000;

/// What is stored of a job's steps, in the order in which it was stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StepHistory(Vec<StepMark>);

/// One step or effect of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Step))]
pub struct StepMark {
    /// The order of its call in a run, from 0.
    pub index: u32,
    /// Its name: no other step of this job has it.
    pub name: String,
    /// The run that wrote it last.
    pub run: u32,
    /// What is known of it.
    pub state: StepState,
    /// The key that an effect shows to the outside (W8); none for a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// What is known of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// It succeeded, and its result is stored: it never runs again.
    Done,
    /// An effect was begun and nobody wrote how it ended: it may have happened.
    Unknown,
    /// The same, and a person has driven the job again since: it may be called again.
    Confirmed,
    /// An effect was begun, and its code said that it did not happen.
    NotDone,
}

impl StepState {
    /// Its name, as interfaces show it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Unknown => "unknown",
            Self::Confirmed => "confirmed",
            Self::NotDone => "not_done",
        }
    }
}

impl fmt::Display for StepState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a run writes of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepWrite {
    /// The order of its call; none puts it behind all that are stored.
    pub index: Option<u32>,
    /// Its name.
    pub name: String,
    /// What is written.
    pub fact: StepFact,
}

/// What there is to write of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepFact {
    /// It succeeded with this result, as JSON text or sealed.
    Done(Arc<str>),
    /// An effect with this key is about to be called.
    Begun(String),
    /// An effect that was begun did not happen.
    NotDone,
}

/// What a call of a step comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepReplay {
    /// It has to be run.
    Run,
    /// Its stored result answers it; that lies under this position.
    Stored(u32),
    /// It is an effect that was begun by this run, and may have happened.
    Unknown {
        /// Which run began it.
        run: u32,
        /// True when a person has driven the job again since.
        confirmed: bool,
    },
}

impl StepMark {
    /// What is known of it, in words for whoever asks about its job.
    #[must_use]
    pub fn sentence(&self) -> String {
        let (what, run) = (self.place(), self.run);
        match self.state {
            StepState::Done => format!("{what} is done: run {run} stored its result"),
            StepState::Unknown => format!(
                "{what} is unknown: run {run} began it and did not store how it ended, so it may have happened"
            ),
            StepState::Confirmed => {
                format!(
                    "{what} is unknown since run {run}, and the job was driven again: it may be called again"
                )
            }
            StepState::NotDone => format!("{what} did not happen in run {run}"),
        }
    }

    pub(super) fn place(&self) -> StepPlace {
        StepPlace { index: self.index, name: self.name.clone(), key: self.key.clone() }
    }
}

impl StepHistory {
    /// That of a job without steps.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// All of it.
    #[must_use]
    pub fn marks(&self) -> &[StepMark] {
        &self.0
    }

    /// True when nothing is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The positions under which results are stored, each with its step.
    pub fn results(&self) -> impl Iterator<Item = (u32, &StepMark)> {
        let done = |(_, mark): &(usize, &StepMark)| mark.state == StepState::Done;
        self.0.iter().enumerate().filter(done).map(|(at, mark)| (position(at), mark))
    }

    /// Where the step of this name is.
    #[must_use]
    pub fn position_of(&self, name: &str) -> Option<u32> {
        self.0.iter().position(|mark| mark.name == name).map(position)
    }

    /// Effects of which nobody knows whether they happened.
    pub fn unknown(&self) -> impl Iterator<Item = &StepMark> {
        self.0.iter().filter(|mark| mark.state == StepState::Unknown)
    }

    /// The first index that has not succeeded: where the next run goes on.
    #[must_use]
    pub fn next_index(&self) -> u32 {
        let mut done: Vec<u32> = self.results().map(|(_, mark)| mark.index).collect();
        done.sort_unstable();
        (0..)
            .zip(&done)
            .find(|(expected, index)| *expected != **index)
            .map_or(position(done.len()), |at| at.0)
    }

    /// Decides what a call comes to: `index` is its order in this run, `key` that of an effect.
    ///
    /// # Errors
    /// [`StepsChanged`] when what is stored tells of another step in this place, or of this step in another.
    pub fn replay(&self, index: u32, name: &str, key: Option<&str>) -> Result<StepReplay, StepsChanged> {
        let Some((at, mark)) = self.placed(index, name, key)? else { return Ok(StepReplay::Run) };
        if mark.key.as_deref() != key {
            return Err(StepsChanged::called_instead(mark, index, name, key));
        }
        Ok(match mark.state {
            StepState::Done => StepReplay::Stored(position(at)),
            StepState::Unknown => StepReplay::Unknown { run: mark.run, confirmed: false },
            StepState::Confirmed => StepReplay::Unknown { run: mark.run, confirmed: true },
            StepState::NotDone => StepReplay::Run,
        })
    }

    /// Checks the place of a step whose outcome a worker elsewhere wants to store; whether it is an effect is for what
    /// is stored to say. Without an index every place is right.
    ///
    /// # Errors
    /// As [`replay`](Self::replay).
    pub fn check_place(&self, index: Option<u32>, name: &str) -> Result<(), StepsChanged> {
        index.map_or(Ok(()), |index| self.placed(index, name, None).map(drop))
    }

    /// Checks the place of a step that is written: two calls of one run may be on their way, and the one that comes
    /// second knows nothing of the first.
    pub(super) fn check_write(&self, write: &StepWrite) -> Result<(), StepsChanged> {
        let key = match &write.fact {
            StepFact::Begun(key) => Some(&**key),
            StepFact::Done(_) | StepFact::NotDone => None,
        };
        write.index.map_or(Ok(()), |index| self.placed(index, &write.name, key).map(drop))
    }

    /// Checks the place of a wait for a signal by a worker elsewhere, likewise. One that is answered already is no
    /// other step: then the run waits for it once more.
    ///
    /// # Errors
    /// [`StepsChanged`] when what is stored tells of something else in this place.
    pub fn check_wait(&self, index: Option<u32>, signal: &str) -> Result<(), StepsChanged> {
        let Some(index) = index else { return Ok(()) };
        let is_other = |mark: &&StepMark| mark.index == index && signal_of_step(&mark.name) != Some(signal);
        self.0.iter().find(is_other).map_or(Ok(()), |mark| {
            Err(StepsChanged::called_instead(mark, index, &signal_step(signal, 1), None))
        })
    }

    /// Whether there is room for a step of this name: it is stored, or there are fewer than a job may have.
    #[must_use]
    pub fn has_room_for(&self, name: &str) -> bool {
        self.0.len() < MOST_STEPS || self.position_of(name).is_some()
    }

    /// What is stored of the step in this place, if it is stored in no other and nothing else is in this one.
    fn placed(
        &self,
        index: u32,
        name: &str,
        key: Option<&str>,
    ) -> Result<Option<(usize, &StepMark)>, StepsChanged> {
        let of_name = self.0.iter().enumerate().find(|(_, mark)| mark.name == name);
        let wrong = match of_name {
            Some((_, mark)) => Some(mark).filter(|mark| mark.index != index),
            None => self.0.iter().find(|mark| mark.index == index),
        };
        wrong.map_or(Ok(of_name), |mark| Err(StepsChanged::called_instead(mark, index, name, key)))
    }

    /// The index of a step that says none.
    pub(super) fn index_of(&self, name: &str) -> u32 {
        let known = self.0.iter().find(|mark| mark.name == name).map(|mark| mark.index);
        known.unwrap_or_else(|| self.behind())
    }

    /// The index behind all that is stored.
    fn behind(&self) -> u32 {
        self.0.iter().map(|mark| mark.index.saturating_add(1)).max().unwrap_or(0)
    }

    /// Checks a run that went well and has called so many steps: it must have called all that are stored.
    ///
    /// # Errors
    /// [`StepsChanged`] with the first that it did not call.
    pub fn all_called(&self, calls: u32) -> Result<(), StepsChanged> {
        let missed = self.0.iter().filter(|mark| mark.index >= calls).min_by_key(|mark| mark.index);
        missed.map_or(Ok(()), |mark| Err(StepsChanged::new(mark, Called::Only(calls))))
    }

    /// Writes what run number `run` says; answers under which position the result is to be kept, if there is one.
    ///
    /// A success that is stored stays as it is: whoever writes it again, with an answer that was lost, changes nothing.
    pub(super) fn write(&mut self, write: &StepWrite, run: u32) -> Option<u32> {
        let found = self.0.iter().position(|mark| mark.name == write.name);
        let at = match found {
            Some(at) if self.0[at].state == StepState::Done => return None,
            Some(at) => at,
            None => {
                let index = write.index.unwrap_or_else(|| self.behind());
                let name = write.name.clone();
                self.0.push(StepMark { index, name, run, state: StepState::NotDone, key: None });
                self.0.len() - 1
            }
        };
        let mark = &mut self.0[at];
        mark.run = run;
        match &write.fact {
            StepFact::Done(_) => {
                mark.state = StepState::Done;
                Some(position(at))
            }
            StepFact::Begun(key) => {
                mark.state = StepState::Unknown;
                mark.key = Some(key.clone());
                None
            }
            StepFact::NotDone => {
                mark.state = StepState::NotDone;
                None
            }
        }
    }

    /// A person has driven the job again: what was unknown was looked at.
    pub(super) fn confirm(&mut self) {
        for mark in self.0.iter_mut().filter(|mark| mark.state == StepState::Unknown) {
            mark.state = StepState::Confirmed;
        }
    }
}

/// Where a result is kept.
fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[path = "steps_tests.rs"]
mod tests;
