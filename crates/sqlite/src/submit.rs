//! Storing jobs: the checks that need the store, and the writes that follow them (L10-L12, L22).

use backstop_core::job::{NewJob, OnConflict, Record, State};
use backstop_core::{JobId, Limits, Refusal, admit};
use backstop_store::{Error, NameRange, Submit, Submitted};

use crate::error::SqliteFailure;
use crate::rows::{self, StateRow};
use crate::sql;
use crate::transaction::WriteTransaction;
use crate::{archive, idempotency};

type Answers = Vec<Result<Submitted, Refusal>>;

/// Stores a batch.
pub(crate) fn submit(tx: &mut WriteTransaction<'_>, submit: &Submit) -> Result<Answers, SqliteFailure> {
    let limit = Limits::default().batch;
    let actual = submit.jobs.len();
    if actual > limit {
        return Err(SqliteFailure::Refused(Error::TooMany { what: "the batch", actual, limit }));
    }
    // A job without a business key that supersedes nothing cannot be refused, and most batches hold no other.
    if !submit.atomic || !submit.jobs.iter().any(can_be_refused) {
        return each(tx, &submit.jobs);
    }
    let mut answers =
        tx.with_savepoint(|tx| each(tx, &submit.jobs), |answers| answers.iter().all(Result::is_ok))?;
    if let Some(index) = answers.iter().position(Result::is_err) {
        for answer in answers.iter_mut().filter(|answer| answer.is_ok()) {
            *answer = Err(Refusal::BatchRefused { index });
        }
    }
    Ok(answers)
}

/// Stores jobs one by one, each for itself.
pub(crate) fn each(tx: &mut WriteTransaction<'_>, jobs: &[NewJob]) -> Result<Answers, SqliteFailure> {
    jobs.iter().map(|new| one(tx, new)).collect()
}

/// Refuses a job where as many wait as may (H12).
fn find_room(tx: &mut WriteTransaction<'_>, new: &NewJob) -> Result<Result<(), Refusal>, SqliteFailure> {
    for limit in &new.depth_limits {
        // The counts of lanes are about to be read. Nothing else is written: lines that go on would change what is
        // about to be replaced.
        tx.write_counts()?;
        let NameRange { from, end } = NameRange::of_depth(&limit.scope);
        let depth: Option<i64> = rows::value(&mut *tx.conn.prepare_cached(sql::DEPTH)?, [from, end])?;
        let depth = u64::try_from(depth.unwrap_or_default()).unwrap_or_default();
        if let Err(refusal) = admit::depth(limit, depth) {
            return Ok(Err(refusal));
        }
    }
    Ok(Ok(()))
}

fn can_be_refused(new: &NewJob) -> bool {
    new.supersedes.is_some() || new.spec.business_key.is_some() || !new.depth_limits.is_empty()
}

pub(crate) fn one(
    tx: &mut WriteTransaction<'_>,
    new: &NewJob,
) -> Result<Result<Submitted, Refusal>, SqliteFailure> {
    let id = new.spec.id;
    if !can_be_refused(new) && new.spec.idempotency_key.is_none() {
        // The insert itself finds a repeated id.
        return match tx.insert(new)? {
            Some(state) => Ok(Ok(Submitted { id, state, deduplicated: false })),
            None => deduplicated(tx, id, None).map(Ok),
        };
    }
    match plan(tx, new)? {
        Plan::Refused(refusal) => Ok(Err(refusal)),
        Plan::Deduplicated { by, ended } => deduplicated(tx, by, ended).map(Ok),
        Plan::Store { superseded } => {
            if let Err(refusal) = find_room(tx, new)? {
                return Ok(Err(refusal));
            }
            for (stored, before) in &superseded {
                tx.supersede(stored, before)?;
            }
            let state = tx.insert(new)?.ok_or_else(|| vanished(id))?;
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
    /// It is stored, and these are superseded; each with the record it had.
    Store {
        superseded: Vec<(StateRow, Record)>,
    },
}

/// Makes every check of an item without writing anything.
fn plan(tx: &mut WriteTransaction<'_>, new: &NewJob) -> Result<Plan, SqliteFailure> {
    let spec = &new.spec;
    if tx.find(spec.id)?.is_some() {
        return Ok(Plan::Deduplicated { by: spec.id, ended: None });
    }
    if let Some(key) = &spec.idempotency_key
        && let Some((by, ended)) = idempotency::first_job(tx.conn, key)?
    {
        return Ok(Plan::Deduplicated { by, ended });
    }
    let mut superseded = Vec::new();
    if let Some(old) = new.supersedes {
        let Some(mut stored) = tx.find(old)? else {
            return Ok(Plan::Refused(Refusal::NoSuchJob { job: old }));
        };
        let before = stored.record.clone();
        if let Err(refusal) = stored.record.supersede(old, spec.id, tx.now) {
            return Ok(Plan::Refused(refusal));
        }
        superseded.push((stored, before));
    }
    let Some(key) = spec.business_key.as_deref() else { return Ok(Plan::Store { superseded }) };
    let Some(mut holder) = tx.key_holder(key)?.filter(|holder| Some(holder.id) != new.supersedes) else {
        return Ok(Plan::Store { superseded });
    };
    let before = holder.record.clone();
    match new.on_conflict {
        OnConflict::Skip => Ok(Plan::Deduplicated { by: holder.id, ended: None }),
        OnConflict::Replace if holder.record.supersede(holder.id, spec.id, tx.now).is_ok() => {
            superseded.push((holder, before));
            Ok(Plan::Store { superseded })
        }
        OnConflict::Reject | OnConflict::Replace => Ok(Plan::Refused(conflict(key, &holder, before.state))),
    }
}

/// The refusal that names who holds a business key.
pub(crate) fn conflict(key: &str, holder: &StateRow, state: State) -> Refusal {
    Refusal::BusinessKeyConflict { key: key.to_owned(), holder: holder.id, state }
}

fn deduplicated(
    tx: &mut WriteTransaction<'_>,
    id: JobId,
    ended: Option<State>,
) -> Result<Submitted, SqliteFailure> {
    let state = match tx.find(id)? {
        Some(stored) => stored.record.state,
        // A key is remembered longer than its job is hot (L16), and longer than it is archived (D5).
        None => archive::state(tx.conn, id)?.or(ended).ok_or_else(|| vanished(id))?,
    };
    Ok(Submitted { id, state, deduplicated: true })
}

fn vanished(id: JobId) -> SqliteFailure {
    SqliteFailure::Unreadable(format!("job {id} is named by a key or an index, and has no record"))
}
