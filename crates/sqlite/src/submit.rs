//! Storing jobs: the checks that need the store, and the writes that follow them (L10-L12, L22).

use backstop_core::job::{NewJob, OnConflict, Record, State};
use backstop_core::{JobId, Limits, Refusal};
use backstop_store::{Error, Submit, Submitted};

use crate::archive;
use crate::error::Failure;
use crate::rows::{self, Stored};
use crate::sql;
use crate::unit::Unit;

type Answers = Vec<Result<Submitted, Refusal>>;

/// Stores a batch.
pub(crate) fn submit(unit: &mut Unit<'_>, submit: &Submit) -> Result<Answers, Failure> {
    let limit = Limits::default().batch;
    let actual = submit.jobs.len();
    if actual > limit {
        return Err(Failure::Refused(Error::TooMany { what: "the batch", actual, limit }));
    }
    // A job without a business key that supersedes nothing cannot be refused, and most batches hold no other.
    if !submit.atomic || !submit.jobs.iter().any(can_be_refused) {
        return each(unit, &submit.jobs);
    }
    let mut answers =
        unit.undoable(|unit| each(unit, &submit.jobs), |answers| answers.iter().all(Result::is_ok))?;
    if let Some(index) = answers.iter().position(Result::is_err) {
        for answer in answers.iter_mut().filter(|answer| answer.is_ok()) {
            *answer = Err(Refusal::BatchRefused { index });
        }
    }
    Ok(answers)
}

/// Stores jobs one by one, each for itself.
pub(crate) fn each(unit: &mut Unit<'_>, jobs: &[NewJob]) -> Result<Answers, Failure> {
    jobs.iter().map(|new| one(unit, new)).collect()
}

fn can_be_refused(new: &NewJob) -> bool {
    new.supersedes.is_some() || new.spec.business_key.is_some()
}

fn one(unit: &mut Unit<'_>, new: &NewJob) -> Result<Result<Submitted, Refusal>, Failure> {
    let id = new.spec.id;
    if !can_be_refused(new) && new.spec.idempotency_key.is_none() {
        // The insert itself finds a repeated id.
        return match unit.insert(new)? {
            Some(state) => Ok(Ok(Submitted { id, state, deduplicated: false })),
            None => deduplicated(unit, id, None).map(Ok),
        };
    }
    match plan(unit, new)? {
        Plan::Refused(refusal) => Ok(Err(refusal)),
        Plan::Deduplicated { by, ended } => deduplicated(unit, by, ended).map(Ok),
        Plan::Store { superseded } => {
            for (stored, before) in &superseded {
                unit.supersede(stored, before)?;
            }
            let state = unit.insert(new)?.ok_or_else(|| vanished(id))?;
            Ok(Ok(Submitted { id, state, deduplicated: false }))
        }
    }
}

/// What an item leads to once every check has been made.
enum Plan {
    Refused(Refusal),
    /// Another job stands for it.
    Deduplicated {
        by: JobId,
        /// How that job had ended, when it was purged.
        ended: Option<State>,
    },
    /// It is stored, and these, with the record they had, take their leave.
    Store {
        superseded: Vec<(Stored, Record)>,
    },
}

/// Makes every check of an item without writing anything.
fn plan(unit: &mut Unit<'_>, new: &NewJob) -> Result<Plan, Failure> {
    let spec = &new.spec;
    if unit.find(spec.id)?.is_some() {
        return Ok(Plan::Deduplicated { by: spec.id, ended: None });
    }
    if let Some((by, ended)) = remembered(unit, new)? {
        return Ok(Plan::Deduplicated { by, ended });
    }
    let mut superseded = Vec::new();
    if let Some(old) = new.supersedes {
        let Some(mut stored) = unit.find(old)? else {
            return Ok(Plan::Refused(Refusal::NoSuchJob { job: old }));
        };
        let before = stored.record.clone();
        if let Err(refusal) = stored.record.supersede(old, spec.id, unit.now) {
            return Ok(Plan::Refused(refusal));
        }
        superseded.push((stored, before));
    }
    let Some(key) = spec.business_key.as_deref() else { return Ok(Plan::Store { superseded }) };
    let Some(mut holder) = unit.key_holder(key)?.filter(|holder| Some(holder.id) != new.supersedes) else {
        return Ok(Plan::Store { superseded });
    };
    let before = holder.record.clone();
    match new.on_conflict {
        OnConflict::Skip => Ok(Plan::Deduplicated { by: holder.id, ended: None }),
        OnConflict::Replace if holder.record.supersede(holder.id, spec.id, unit.now).is_ok() => {
            superseded.push((holder, before));
            Ok(Plan::Store { superseded })
        }
        OnConflict::Reject | OnConflict::Replace => Ok(Plan::Refused(conflict(key, &holder, before.state))),
    }
}

/// The refusal that names who holds a business key.
pub(crate) fn conflict(key: &str, holder: &Stored, state: State) -> Refusal {
    Refusal::BusinessKeyConflict { key: key.to_owned(), holder: holder.id, state }
}

/// The job that brought this idempotency key first, and how it had ended if it was purged.
fn remembered(unit: &Unit<'_>, new: &NewJob) -> Result<Option<(JobId, Option<State>)>, Failure> {
    let Some(key) = &new.spec.idempotency_key else { return Ok(None) };
    let mut select = unit.conn.prepare_cached(sql::IDEMPOTENCY_FIND)?;
    rows::first(&mut select, [key], |row| {
        let ended: Option<i64> = row.get(1)?;
        Ok((rows::job_id(row, 0)?, ended.map(rows::state_of).transpose()?))
    })
}

fn deduplicated(unit: &mut Unit<'_>, id: JobId, ended: Option<State>) -> Result<Submitted, Failure> {
    let state = match unit.find(id)? {
        Some(stored) => stored.record.state,
        // A key is remembered longer than its job is hot (L16), and longer than it is archived (D5).
        None => archive::state(unit.conn, id)?.or(ended).ok_or_else(|| vanished(id))?,
    };
    Ok(Submitted { id, state, deduplicated: true })
}

fn vanished(id: JobId) -> Failure {
    Failure::Unreadable(format!("job {id} is named by a key or an index, and has no record"))
}
