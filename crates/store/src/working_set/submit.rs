//! Storing jobs: the checks that need the store, and what follows from them (L10-L12, L22).

use std::collections::BTreeSet;

use backstop_core::depth::DepthScope;
use backstop_core::job::{NewJob, OnConflict, Operation, Record, State};
use backstop_core::{JobId, Limits, Refusal, admit, event};

use super::WorkingSet;
use crate::{Error, Submit, Submitted};

/// What a submit must find in the working set, beside the jobs that its keys lead to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SubmitNeeds {
    /// Jobs by id: the new ones, which may be there already, and those to supersede.
    pub jobs: Vec<JobId>,
    /// Idempotency keys.
    pub idempotency_keys: Vec<String>,
    /// Business keys.
    pub business_keys: Vec<String>,
    /// Places where waiting jobs are counted (H12).
    pub depths: BTreeSet<DepthScope>,
}

impl SubmitNeeds {
    /// What these jobs ask for, sorted: whoever locks in one order never waits in a circle.
    #[must_use]
    pub fn of(jobs: &[NewJob]) -> Self {
        let mut needs = Self::default();
        for new in jobs {
            needs.jobs.push(new.spec.id);
            needs.jobs.extend(new.supersedes);
            needs.idempotency_keys.extend(new.spec.idempotency_key.clone());
            needs.business_keys.extend(new.spec.business_key.clone());
            needs.depths.extend(new.depth_limits.iter().map(|limit| limit.scope.clone()));
        }
        needs.jobs.sort_unstable();
        needs.jobs.dedup();
        for keys in [&mut needs.idempotency_keys, &mut needs.business_keys] {
            keys.sort_unstable();
            keys.dedup();
        }
        needs
    }

    /// True when nothing but a repeated id can stand in the way, and the insert itself would find that.
    #[must_use]
    pub fn are_plain(jobs: &[NewJob]) -> bool {
        let plain = |new: &NewJob| {
            new.supersedes.is_none()
                && new.spec.idempotency_key.is_none()
                && new.spec.business_key.is_none()
                && new.depth_limits.is_empty()
        };
        jobs.iter().all(plain)
    }
}

/// What an item leads to once every check has been made.
enum Effect {
    Refused(Refusal),
    /// Another job stands for it.
    Deduplicated(JobId),
    /// It is stored, and these, with the records they get, take their leave.
    Store {
        superseded: Vec<(JobId, Record)>,
    },
}

impl WorkingSet {
    /// Stores a batch. All that [`SubmitNeeds`] names, and the jobs that its keys lead to, must be in the working set.
    ///
    /// # Errors
    /// [`Error::TooMany`] for more than `Limits::batch` jobs.
    pub fn submit(&mut self, submit: &Submit) -> Result<Vec<Result<Submitted, Refusal>>, Error> {
        let (limit, actual) = (Limits::default().batch, submit.jobs.len());
        if actual > limit {
            return Err(Error::TooMany { what: "the batch", actual, limit });
        }
        self.expect(actual);
        let mut answers: Vec<_> =
            submit.jobs.iter().map(|new| self.submit_one(new)).collect::<Result<_, _>>()?;
        if let Some(index) = answers.iter().position(Result::is_err).filter(|_| submit.atomic) {
            // The working set holds this call only, so dropping every change undoes the batch.
            *self = Self::new(self.now, self.wants.clone());
            for answer in answers.iter_mut().filter(|answer| answer.is_ok()) {
                *answer = Err(Refusal::BatchRefused { index });
            }
        }
        Ok(answers)
    }

    /// Stores jobs, all or none: answers for each of them, or the first one that is refused, and then nothing of this
    /// working set may be written. What they need must be in it, as for [`WorkingSet::submit`].
    ///
    /// # Errors
    /// When what is stored contradicts itself.
    pub fn store_all(&mut self, jobs: &[NewJob]) -> Result<Result<Vec<Submitted>, (usize, Refusal)>, Error> {
        self.expect(jobs.len());
        let mut stored = Vec::with_capacity(jobs.len());
        for (index, new) in jobs.iter().enumerate() {
            match self.submit_one(new)? {
                Ok(submitted) => stored.push(submitted),
                Err(refusal) => return Ok(Err((index, refusal))),
            }
        }
        Ok(Ok(stored))
    }

    fn submit_one(&mut self, new: &NewJob) -> Result<Result<Submitted, Refusal>, Error> {
        let superseded = match self.effect_of(new) {
            Effect::Refused(refusal) => return Ok(Err(refusal)),
            Effect::Deduplicated(id) => return self.deduplicated(id).map(Ok),
            Effect::Store { superseded } => superseded,
        };
        for limit in &new.depth_limits {
            let depth = self.depths.get(&limit.scope).copied().unwrap_or_default();
            if let Err(refusal) = admit::depth(limit, depth) {
                return Ok(Err(refusal));
            }
        }
        for (id, record) in superseded {
            let reason = record.cancel_reason.clone().unwrap_or_default();
            let header = self.job(id).map(|loaded| loaded.job.spec.header());
            self.save(id, record);
            if let Some(header) = header {
                let now = self.now;
                self.tell(|| event::operated(header, &Operation::Cancel { reason }, now));
            }
        }
        let id = new.spec.id;
        let state = self.insert(new).unwrap_or(State::Pending);
        Ok(Ok(Submitted { id, state, deduplicated: false }))
    }

    /// Makes every check of an item without changing anything.
    fn effect_of(&self, new: &NewJob) -> Effect {
        let spec = &new.spec;
        if self.job(spec.id).is_some() {
            return Effect::Deduplicated(spec.id);
        }
        if let Some(owner) = spec.idempotency_key.as_ref().and_then(|key| self.idempotency.get(key)) {
            return Effect::Deduplicated(*owner);
        }
        let mut superseded = Vec::new();
        if let Some(old) = new.supersedes {
            let Some(loaded) = self.job(old) else { return Effect::Refused(Refusal::NoSuchJob { job: old }) };
            let mut record = loaded.record.clone();
            if let Err(refusal) = record.supersede(old, spec.id, self.now) {
                return Effect::Refused(refusal);
            }
            superseded.push((old, record));
        }
        let Some(key) = spec.business_key.as_deref() else { return Effect::Store { superseded } };
        let Some(holder) = self.holder(key).filter(|holder| Some(*holder) != new.supersedes) else {
            return Effect::Store { superseded };
        };
        let Some(loaded) = self.job(holder) else { return Effect::Store { superseded } };
        let mut record = loaded.record.clone();
        match new.on_conflict {
            OnConflict::Skip => Effect::Deduplicated(holder),
            OnConflict::Replace if record.supersede(holder, spec.id, self.now).is_ok() => {
                superseded.push((holder, record));
                Effect::Store { superseded }
            }
            OnConflict::Reject | OnConflict::Replace => {
                Effect::Refused(conflict(key, holder, loaded.record.state))
            }
        }
    }

    /// The live job that holds a business key.
    pub(super) fn holder(&self, key: &str) -> Option<JobId> {
        self.holders.get(key).copied()
    }

    fn deduplicated(&self, id: JobId) -> Result<Submitted, Error> {
        let hot = self.job(id).map(|loaded| loaded.record.state);
        // A key is remembered longer than its job is hot (L16).
        let state = hot.or_else(|| self.archived.get(&id).copied()).ok_or_else(|| Error::Corrupt {
            location: "of this batch".to_owned(),
            problem: format!("job {id} is named by a key, and is neither stored nor archived"),
        })?;
        Ok(Submitted { id, state, deduplicated: true })
    }
}

/// The refusal that names who holds a business key.
pub(super) fn conflict(key: &str, holder: JobId, state: State) -> Refusal {
    Refusal::BusinessKeyConflict { key: key.to_owned(), holder, state }
}
