//! Storing jobs: the checks that need the store, and what follows from them (L10-L12, L22).

use backstop_core::job::{NewJob, OnConflict, Operation, Record, State};
use backstop_core::{JobId, Limits, Refusal, event};

use super::Desk;
use crate::{Error, Submit, Submitted};

/// What a submit must find on the desk, beside the jobs that its keys lead to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SubmitNeeds {
    /// Jobs by id: the new ones, which may be there already, and those to supersede.
    pub jobs: Vec<JobId>,
    /// Idempotency keys.
    pub idempotency_keys: Vec<String>,
    /// Business keys.
    pub business_keys: Vec<String>,
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
            new.supersedes.is_none() && new.spec.idempotency_key.is_none() && new.spec.business_key.is_none()
        };
        jobs.iter().all(plain)
    }
}

/// What an item leads to once every check has been made.
enum Plan {
    Refused(Refusal),
    /// Another job stands for it.
    Deduplicated(JobId),
    /// It is stored, and these, with the records they get, take their leave.
    Store {
        superseded: Vec<(JobId, Record)>,
    },
}

impl Desk {
    /// Stores a batch. All that [`SubmitNeeds`] names, and the jobs that its keys lead to, must be on the desk.
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
            // The desk holds this call only, so dropping every change undoes the batch.
            *self = Self::new(self.now, self.wants);
            for answer in answers.iter_mut().filter(|answer| answer.is_ok()) {
                *answer = Err(Refusal::BatchRefused { index });
            }
        }
        Ok(answers)
    }

    fn submit_one(&mut self, new: &NewJob) -> Result<Result<Submitted, Refusal>, Error> {
        let superseded = match self.plan(new) {
            Plan::Refused(refusal) => return Ok(Err(refusal)),
            Plan::Deduplicated(id) => return self.deduplicated(id).map(Ok),
            Plan::Store { superseded } => superseded,
        };
        for (id, record) in superseded {
            let reason = record.cancel_reason.clone().unwrap_or_default();
            let header = self.file(id).map(|file| file.job.spec.header());
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
    fn plan(&self, new: &NewJob) -> Plan {
        let spec = &new.spec;
        if self.file(spec.id).is_some() {
            return Plan::Deduplicated(spec.id);
        }
        if let Some(owner) = spec.idempotency_key.as_ref().and_then(|key| self.idempotency.get(key)) {
            return Plan::Deduplicated(*owner);
        }
        let mut superseded = Vec::new();
        if let Some(old) = new.supersedes {
            let Some(file) = self.file(old) else { return Plan::Refused(Refusal::NoSuchJob { job: old }) };
            let mut record = file.record.clone();
            if let Err(refusal) = record.supersede(old, spec.id, self.now) {
                return Plan::Refused(refusal);
            }
            superseded.push((old, record));
        }
        let Some(key) = spec.business_key.as_deref() else { return Plan::Store { superseded } };
        let Some(holder) = self.holder(key).filter(|holder| Some(*holder) != new.supersedes) else {
            return Plan::Store { superseded };
        };
        let Some(file) = self.file(holder) else { return Plan::Store { superseded } };
        let mut record = file.record.clone();
        match new.on_conflict {
            OnConflict::Skip => Plan::Deduplicated(holder),
            OnConflict::Replace if record.supersede(holder, spec.id, self.now).is_ok() => {
                superseded.push((holder, record));
                Plan::Store { superseded }
            }
            OnConflict::Reject | OnConflict::Replace => {
                Plan::Refused(conflict(key, holder, file.record.state))
            }
        }
    }

    /// The live job that holds a business key.
    pub(super) fn holder(&self, key: &str) -> Option<JobId> {
        self.holders.get(key).copied()
    }

    fn deduplicated(&self, id: JobId) -> Result<Submitted, Error> {
        let hot = self.file(id).map(|file| file.record.state);
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
