//! Storing jobs: the checks that need the store, and the writes that follow them.

use backstop_core::depth::DepthScope;
use backstop_core::event;
use backstop_core::job::{NewJob, OnConflict, Operation, Record};
use backstop_core::workflow::EndNote;
use backstop_core::{JobId, Limits, Refusal, admit};

use super::tables::{ModelCommit, ModelJob, Tables};
use crate::{Error, NameRange, Submit, Submitted};

/// What an item leads to once every check has been made.
enum Plan {
    /// Another job stands for it.
    Deduplicated(Submitted),
    /// It is stored, and these take their leave.
    Store { superseded: Vec<(JobId, Record)> },
}

/// The answers to jobs all of which were stored, or the first one that was refused.
pub(super) fn all_stored(
    answers: Vec<Result<Submitted, Refusal>>,
) -> Result<Vec<Submitted>, (usize, Refusal)> {
    let placed = answers.into_iter().enumerate();
    placed.map(|(index, answer)| answer.map_err(|refusal| (index, refusal))).collect()
}

/// What undoes an atomic batch.
#[derive(Default)]
pub(super) struct Undo {
    inserted: Vec<NewJob>,
    superseded: Vec<(JobId, Record)>,
}

impl Tables {
    pub(super) fn submit(
        &mut self,
        submit: &Submit,
        commit: &mut ModelCommit,
    ) -> Result<Vec<Result<Submitted, Refusal>>, Error> {
        let limit = Limits::default().batch;
        if submit.jobs.len() > limit {
            return Err(Error::TooMany { what: "the batch", actual: submit.jobs.len(), limit });
        }
        let mut undo = Undo::default();
        let mut answers: Vec<_> =
            submit.jobs.iter().map(|new| self.submit_one(new, &mut undo, commit)).collect();
        if let Some(index) = answers.iter().position(Result::is_err).filter(|_| submit.atomic) {
            self.undo(undo);
            *commit = ModelCommit::at(commit.now, commit.wants.clone());
            for answer in answers.iter_mut().filter(|answer| answer.is_ok()) {
                *answer = Err(Refusal::BatchRefused { index });
            }
        }
        Ok(answers)
    }

    pub(super) fn submit_one(
        &mut self,
        new: &NewJob,
        undo: &mut Undo,
        commit: &mut ModelCommit,
    ) -> Result<Submitted, Refusal> {
        let superseded = match self.plan(new, commit)? {
            Plan::Deduplicated(answer) => return Ok(answer),
            Plan::Store { superseded } => superseded,
        };
        for limit in &new.depth_limits {
            admit::depth(limit, self.depth(&limit.scope))?;
        }
        for (id, record) in superseded {
            self.supersede(id, record, undo, commit);
        }
        self.insert(new, commit);
        if let Some(key) = &new.spec.idempotency_key {
            self.idempotency_keys.insert(key.clone(), new.spec.id);
        }
        undo.inserted.push(new.clone());
        let state = self.jobs[&new.spec.id].record.state;
        Ok(Submitted { id: new.spec.id, state, deduplicated: false })
    }

    /// How many jobs wait in a place (H12).
    fn depth(&self, scope: &DepthScope) -> u64 {
        let names = NameRange::of_depth(scope);
        let waits = |row: &&ModelJob| row.record.state.adds_depth();
        super::lanes::count(self.jobs.values().filter(waits).filter(|row| names.holds(&row.job.spec.queue)))
    }

    /// Makes every check of an item without writing anything (L10, L11, L22).
    fn plan(&self, new: &NewJob, commit: &ModelCommit) -> Result<Plan, Refusal> {
        let spec = &new.spec;
        let known = spec.idempotency_key.as_ref().and_then(|key| self.idempotency_keys.get(key)).copied();
        let same = self.jobs.contains_key(&spec.id).then_some(spec.id);
        if let Some(id) = same.or(known) {
            return Ok(self.deduplicated(id));
        }
        let mut superseded = Vec::new();
        if let Some(old) = new.supersedes {
            let row = self.jobs.get(&old).ok_or(Refusal::NoSuchJob { job: old })?;
            let mut record = row.record.clone();
            record.supersede(old, spec.id, commit.now)?;
            superseded.push((old, record));
        }
        if let Some((holder, row)) = self.key_holder(spec.business_key.as_deref(), new.supersedes) {
            let mut record = row.record.clone();
            match new.on_conflict {
                OnConflict::Skip => return Ok(self.deduplicated(holder)),
                OnConflict::Replace if record.supersede(holder, spec.id, commit.now).is_ok() => {
                    superseded.push((holder, record));
                }
                OnConflict::Reject | OnConflict::Replace => {
                    let key = spec.business_key.clone().unwrap_or_default();
                    return Err(Refusal::BusinessKeyConflict { key, holder, state: row.record.state });
                }
            }
        }
        Ok(Plan::Store { superseded })
    }

    fn deduplicated(&self, id: JobId) -> Plan {
        let hot = self.jobs.get(&id).map(|row| row.record.state);
        let state =
            hot.or_else(|| self.archive.get(&id).map(|gone| gone.state)).unwrap_or_else(|| self.purged[&id]);
        Plan::Deduplicated(Submitted { id, state, deduplicated: true })
    }

    fn supersede(&mut self, id: JobId, record: Record, undo: &mut Undo, commit: &mut ModelCommit) {
        let Some(row) = self.jobs.get_mut(&id) else { return };
        let reason = record.cancel_reason.clone().unwrap_or_default();
        let before = std::mem::replace(&mut row.record, record);
        commit.ended.extend(EndNote::of(id, Some(&before), &row.record));
        commit.events.push(event::operated(row.job.spec.header(), &Operation::Cancel { reason }, commit.now));
        undo.superseded.push((id, before));
    }

    pub(super) fn undo(&mut self, undo: Undo) {
        // In any order: nothing is superseded twice, and what the batch brought goes altogether.
        for (id, record) in undo.superseded {
            if let Some(row) = self.jobs.get_mut(&id) {
                row.record = record;
            }
        }
        for new in undo.inserted {
            self.jobs.remove(&new.spec.id);
            if let Some(key) = &new.spec.idempotency_key {
                self.idempotency_keys.remove(key);
            }
        }
    }
}
