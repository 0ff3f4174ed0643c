//! The dry run: what a plan would find, counted without touching anything.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::selector::CandidateChoice;
use super::{LeftOut, PlanError, PlanSelector, PlanSettings};
use crate::failure::{Fingerprint, TerminalReason};
use crate::id::JobId;
use crate::job::{JobView, StepHistory};

/// Groups that are told apart; jobs of further ones are only counted.
const MAX_GROUPS: usize = 1_000;

/// What a plan would find now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlanSurvey {
    /// Which dead letters.
    pub selector: PlanSelector,
    /// How many would be driven.
    pub jobs: u64,
    /// The same by kind, queue, reason and fingerprint, largest first once it is finished.
    pub groups: Vec<PlanSurveyGroup>,
    /// How many are left out although the conditions fit them, by why.
    pub left_out: BTreeMap<LeftOut, u64>,
    /// Effects of these jobs that may have happened, some of them when there are many: a drive lets each be called
    /// again with its key (W8).
    #[serde(default)]
    pub unknown_effects: Vec<UnknownEffect>,
    /// False when there was more than was looked at: then the counts are least ones.
    pub complete: bool,
    #[serde(skip)]
    ceiling: u32,
    #[serde(skip)]
    index: BTreeMap<Key, usize>,
}

type Key = (String, String, Option<TerminalReason>, Option<Fingerprint>);

/// An effect of a job of which nobody knows whether it happened (W8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UnknownEffect {
    /// The job.
    pub job: JobId,
    /// The name of the effect.
    pub name: String,
    /// The key that it showed to the outside.
    pub key: String,
    /// The run that began it.
    pub run: u32,
}

/// Dead letters of one sort.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlanSurveyGroup {
    /// Their kind.
    pub kind: String,
    /// Their queue.
    pub queue: String,
    /// Why they are dead.
    pub reason: Option<TerminalReason>,
    /// What they died of.
    pub fingerprint: Option<Fingerprint>,
    /// The sanitized error of the first one that was met.
    pub sample: Option<String>,
    /// How many.
    pub jobs: u64,
}

impl PlanSurvey {
    /// An empty survey.
    #[must_use]
    pub fn new(selector: PlanSelector, settings: PlanSettings) -> Self {
        Self {
            selector,
            jobs: 0,
            groups: Vec::new(),
            left_out: BTreeMap::new(),
            unknown_effects: Vec::new(),
            complete: true,
            ceiling: settings.ceiling,
            index: BTreeMap::new(),
        }
    }

    /// Counts one dead letter.
    pub fn count(&mut self, view: &JobView) {
        match self.selector.judge(view, self.ceiling) {
            CandidateChoice::Pass => {}
            CandidateChoice::LeaveOut(why) => *self.left_out.entry(why).or_default() += 1,
            CandidateChoice::Drive => {
                self.jobs += 1;
                self.group(view);
                self.note_unknown(view);
            }
        }
    }

    /// Takes the sums of a store instead of counting one by one, when there is too much to look at. Jobs over the
    /// ceiling, which no sum tells, stay among them until the plan meets them.
    pub fn widen(&mut self, groups: Vec<PlanSurveyGroup>, complete: bool) {
        let never = |group: &PlanSurveyGroup| {
            self.selector.reason.is_none() && group.reason.is_some_and(|reason| !reason.is_retryable())
        };
        let (left_out, groups): (Vec<_>, Vec<_>) = groups.into_iter().partition(never);
        let sum = |groups: &[PlanSurveyGroup]| groups.iter().map(|group| group.jobs).sum::<u64>();
        if !left_out.is_empty() {
            self.left_out.insert(LeftOut::NeverRetry, sum(&left_out));
        }
        self.jobs = sum(&groups);
        self.groups = groups;
        self.complete = complete;
    }

    /// Puts the largest groups first, and refuses what would drive nothing.
    ///
    /// # Errors
    /// [`PlanError::MatchesNothing`] when no job would be driven.
    pub fn finish(mut self) -> Result<Self, PlanError> {
        if self.jobs == 0 {
            let selector = Box::new(self.selector.clone());
            return Err(PlanError::MatchesNothing { selector, left_out: self.left_out_in_words() });
        }
        self.groups.sort_by(|a, b| b.jobs.cmp(&a.jobs).then_with(|| a.kind.cmp(&b.kind)));
        self.index.clear();
        Ok(self)
    }

    fn note_unknown(&mut self, view: &JobView) {
        let room = MAX_GROUPS.saturating_sub(self.unknown_effects.len());
        let unknown = view.record.step_history().into_iter().flat_map(StepHistory::unknown);
        self.unknown_effects.extend(unknown.take(room).map(|effect| UnknownEffect {
            job: view.job.spec.id,
            name: effect.name.clone(),
            key: effect.key.clone().unwrap_or_default(),
            run: effect.run,
        }));
    }

    fn group(&mut self, view: &JobView) {
        let (spec, failure) = (&view.job.spec, view.last_failure.as_ref());
        let fingerprint = failure.map(|failure| failure.fingerprint.clone());
        let key = (spec.kind.to_string(), spec.queue.to_string(), view.record.reason, fingerprint);
        let at = match self.index.get(&key) {
            Some(at) => *at,
            None if self.groups.len() >= MAX_GROUPS => return,
            None => {
                let (kind, queue, reason, fingerprint) = key.clone();
                let sample = failure.map(|failure| failure.message.clone());
                self.groups.push(PlanSurveyGroup { kind, queue, reason, fingerprint, sample, jobs: 0 });
                self.index.insert(key, self.groups.len() - 1);
                self.groups.len() - 1
            }
        };
        self.groups[at].jobs += 1;
    }

    fn left_out_in_words(&self) -> String {
        let words: Vec<_> = self.left_out.iter().map(|(why, many)| format!("{many} by {why}")).collect();
        if words.is_empty() { String::new() } else { format!(" (left out: {})", words.join(", ")) }
    }
}
