//! Effects (W8): what is done about a call to the outside that may have happened. Owns the decision by policy; what is
//! stored of effects is in `steps`.

use serde::{Deserialize, Serialize};

use super::{StepHistory, StepMark, StepReplay, StepState, StepsChanged};

/// What is done about an effect that may have happened, as its call says (W8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum EffectPolicy {
    /// It is called again with the same key: the other side knows the key and does it once.
    RetrySafe,
    /// The other side is asked whether it has seen the key.
    Verify,
    /// The job stops for a person.
    Ask,
}

/// What a call of an effect comes to under its policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffectReplay {
    /// That it is about to be called is stored, then it is called.
    Begin,
    /// It is called: that it was about to be is stored already.
    Run,
    /// The other side is asked first. It is called when that has not seen it.
    Verify,
    /// Its stored outcome answers it; that lies under this position.
    Stored(u32),
    /// It may have happened since this run began it, and a person has to find out.
    Unknown {
        /// Which run began it.
        run: u32,
    },
}

/// A call of an effect by a worker elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectCall<'a> {
    /// The order of the call in its run, if it is told.
    pub index: Option<u32>,
    /// The name of the effect.
    pub name: &'a str,
    /// What the other side knows it by.
    pub key: &'a str,
    /// What is done when it may have happened.
    pub policy: EffectPolicy,
    /// True when the other side was asked, under [`EffectPolicy::Verify`], and has not seen it: it is about to be
    /// called.
    pub not_seen: bool,
}

impl StepReplay {
    /// Decides what the call of an effect comes to under its policy.
    ///
    /// One that a person has confirmed is stored as begun again before it is called again: should its run die too,
    /// everybody sees that it is unknown once more.
    #[must_use]
    pub const fn under(self, policy: EffectPolicy) -> EffectReplay {
        match (self, policy) {
            (Self::Run, _)
            | (Self::Unknown { confirmed: true, .. }, EffectPolicy::RetrySafe | EffectPolicy::Ask) => {
                EffectReplay::Begin
            }
            (Self::Stored(position), _) => EffectReplay::Stored(position),
            (Self::Unknown { confirmed: false, .. }, EffectPolicy::RetrySafe) => EffectReplay::Run,
            (Self::Unknown { .. }, EffectPolicy::Verify) => EffectReplay::Verify,
            (Self::Unknown { run, confirmed: false }, EffectPolicy::Ask) => EffectReplay::Unknown { run },
        }
    }
}

impl StepHistory {
    /// Decides what the call of an effect by a worker elsewhere comes to, in run number `run`. Without an index it
    /// stands where its name does, or behind all that is stored.
    ///
    /// A run calls an effect once. So what this run itself has begun is asked for again because the answer was lost,
    /// and is answered as the first time.
    ///
    /// # Errors
    /// As [`replay`](Self::replay).
    pub fn replay_effect(&self, call: &EffectCall<'_>, run: u32) -> Result<EffectReplay, StepsChanged> {
        let EffectCall { index, name, key, policy, not_seen } = *call;
        let index = index.unwrap_or_else(|| self.index_of(name));
        Ok(match self.replay(index, name, Some(key))? {
            StepReplay::Unknown { run: began, confirmed: false } if began == run => EffectReplay::Run,
            replay => match replay.under(policy) {
                // From here on this run may have done it, also when a person has confirmed what an earlier one may
                // have done.
                EffectReplay::Verify if not_seen => EffectReplay::Begin,
                next => next,
            },
        })
    }

    /// True when this run has said that the effect did not happen. It does not call it once more: what it says of the
    /// first call may come late, and would be taken for what became of the second.
    #[must_use]
    pub fn is_over_in(&self, run: u32, name: &str) -> bool {
        let is_it =
            |mark: &StepMark| mark.name == name && mark.run == run && mark.state == StepState::NotDone;
        self.marks().iter().any(is_it)
    }

    /// True when an effect of this name was begun, and its outcome is not known to be a success.
    #[must_use]
    pub fn is_begun(&self, name: &str) -> bool {
        let is_it =
            |mark: &StepMark| mark.name == name && mark.key.is_some() && mark.state != StepState::Done;
        self.marks().iter().any(is_it)
    }
}
