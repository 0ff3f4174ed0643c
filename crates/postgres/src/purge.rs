//! Jobs that leave altogether (D5): all rows of theirs, hot or archived, but not their idempotency keys.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use backstop_core::job::State;
use backstop_core::{JobId, Refusal, Timestamp};
use backstop_store::desk::{File, Writes, lane_of};
use backstop_store::{Duty, Term};
use serde::Deserialize;

use crate::archive;
use crate::duty;
use crate::error::Failure;
use crate::flush::add;
use crate::load;
use crate::rows;
use crate::session::{Query, Session};
use crate::sql::archive as sql;
use crate::unit::Unit;
use crate::values::{Row, Value};

/// Idempotency keys, each with its job and how that ended.
#[derive(Default)]
pub(crate) struct Endings(Vec<(String, JobId, State)>);

impl Endings {
    /// Notes the key of a job, if it has one.
    pub(crate) fn note(&mut self, key: Option<String>, job: JobId, state: State) {
        self.0.extend(key.map(|key| (key, job, state)));
    }

    /// Adds the statement that writes them down.
    pub(crate) fn write(mut self, out: &mut Vec<Query>) {
        self.0.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        self.0.dedup_by(|one, other| one.0 == other.0);
        let row = |(key, job, state): (String, JobId, State)| {
            vec![Value::text(key), Value::job(job), Value::Int(Some(rows::status_code(state)))]
        };
        add(out, sql::KEYS_END, self.0.into_iter().map(row).collect());
    }
}

/// The idempotency key that the document of an archived job tells.
pub(crate) fn key_in(document: &str) -> Result<Option<String>, Failure> {
    #[derive(Deserialize)]
    struct Document {
        job: Keyed,
    }
    #[derive(Deserialize)]
    struct Keyed {
        idempotency_key: Option<String>,
    }
    Ok(serde_json::from_str::<Document>(document)?.job.idempotency_key)
}

/// Removes jobs that have ended, hot or archived, and answers how each had ended.
pub(crate) async fn purge(
    unit: &mut Unit,
    ids: &[JobId],
    only: Option<State>,
) -> Result<Vec<Result<State, Refusal>>, Failure> {
    let now = unit.now().await?;
    let mut hot: HashMap<JobId, File> =
        lock_hot(unit, ids).await?.into_iter().map(|file| (file.job.spec.id, file)).collect();
    // After the hot tables: what moves, moves from there into the archive.
    let mut archived: HashMap<JobId, (State, Option<String>)> = HashMap::new();
    for mut row in unit.one(Query::new(sql::LOCK, vec![Value::jobs(ids)])).await? {
        let (id, state) = (row.job()?, rows::state_of(row.int()?)?);
        archived.insert(id, (state, key_in(&row.text()?)?));
    }
    let (mut answers, mut leaving, mut outworn) = (Vec::new(), Vec::new(), Vec::new());
    let mut endings = Endings::default();
    for id in ids {
        let found = hot.get(id).map(|file| file.record.state).or(archived.get(id).map(|gone| gone.0));
        let allowed = found.ok_or(Refusal::NoSuchJob { job: *id });
        let state = match allowed.and_then(|state| state.may_be_purged(*id, only).map(|()| state)) {
            Ok(state) => state,
            Err(refusal) => {
                answers.push(Err(refusal));
                continue;
            }
        };
        let (file, gone) = (hot.remove(id), archived.remove(id));
        if let Some(file) = file {
            endings.note(file.job.spec.idempotency_key.clone(), *id, state);
            leaving.push(file);
        }
        if let Some((_, key)) = gone {
            endings.note(key, *id, state);
            outworn.push(*id);
        }
        answers.push(Ok(state));
    }
    let (mut queries, writes) = leave(&leaving);
    forget(&mut queries, &outworn, endings);
    unit.write_after(queries, writes, now).await?;
    Ok(answers)
}

/// Finds hot jobs and locks them, so that nobody archives or purges them meanwhile.
async fn lock_hot(unit: &mut Unit, ids: &[JobId]) -> Result<Vec<File>, Failure> {
    let shared = unit.shared.clone();
    let files = load::lock(unit, &shared.lanes, ids).await?.files;
    let is_done = |file: &&File| file.record.state == State::Succeeded;
    let done: Vec<JobId> = files.iter().filter(is_done).map(|file| file.job.spec.id).collect();
    if done.is_empty() {
        return Ok(files);
    }
    let rows = unit.one(Query::new(sql::DONE_LOCK, vec![Value::jobs(&done)])).await?;
    let there = rows.into_iter().map(|mut row| row.job()).collect::<Result<HashSet<JobId>, _>>()?;
    // One that succeeded cannot change any more: it is there, or it has been archived or purged.
    let stays = |file: &File| file.record.state != State::Succeeded || there.contains(&file.job.spec.id);
    Ok(files.into_iter().filter(stays).collect())
}

/// All rows of hot jobs go; what is counted is counted down.
fn leave(files: &[File]) -> (Vec<Query>, Writes) {
    let (mut queries, mut writes) = (Vec::new(), Writes::default());
    for File { job, record, .. } in files {
        writes.count(&lane_of(&job.spec), Some(record.state), None);
        writes.count_open(record.incident(), None);
    }
    archive::take_out(&mut queries, files.iter().map(|file| &file.job.spec));
    (queries, writes)
}

/// Archived jobs go; what is left is what their keys answer.
fn forget(out: &mut Vec<Query>, ids: &[JobId], endings: Endings) {
    endings.write(out);
    if !ids.is_empty() {
        out.push(Query::new(sql::DELETE, vec![Value::jobs(ids)]));
    }
}

/// Archived at or before this moment, a job has been kept for `keep`; none when no moment is that long ago.
fn cutoff(keep: Duration, now: Timestamp) -> Option<Timestamp> {
    (keep <= now.since(Timestamp::MIN)).then(|| now.before(keep))
}

/// Removes up to `limit` archived jobs that ran and have been kept long enough.
pub(crate) async fn prune(
    unit: &mut Unit,
    term: &Term,
    keep: Duration,
    limit: usize,
) -> Result<usize, Failure> {
    let now = duty::lead_on(unit, term, Duty::Prune).await?;
    let Some(cutoff) = cutoff(keep, now) else { return Ok(0) };
    loop {
        let met = unit.one(Query::new(sql::OUTWORN, vec![Value::at(cutoff), Value::count(limit)])).await?;
        let (outworn, never_ran, endings) = sort_out(met)?;
        if never_ran.is_empty() {
            let mut queries = Vec::new();
            forget(&mut queries, &outworn, endings);
            unit.commit(queries).await?;
            return Ok(outworn.len());
        }
        // Written by the first version, which did not say so; from now on the search passes them by.
        unit.one(Query::new(sql::NEVER_RAN, vec![Value::jobs(&never_ran)])).await?;
    }
}

/// Which jobs of these rows go, which stay because they never ran, and what the keys of the first ones answer.
fn sort_out(met: Vec<Row>) -> Result<(Vec<JobId>, Vec<JobId>, Endings), Failure> {
    let (mut outworn, mut never_ran, mut endings) = (Vec::new(), Vec::new(), Endings::default());
    for mut row in met {
        let (id, state, ran) = (row.job()?, rows::state_of(row.int()?)?, row.bool()?);
        if ran {
            endings.note(key_in(&row.text()?)?, id, state);
            outworn.push(id);
        } else {
            never_ran.push(id);
        }
    }
    Ok((outworn, never_ran, endings))
}

/// How many archived jobs [`prune`] would remove, counted up to `most`.
pub(crate) async fn prunable(unit: &mut Unit, keep: Duration, most: usize) -> Result<usize, Failure> {
    let now = unit.now().await?;
    let Some(cutoff) = cutoff(keep, now) else { return Ok(0) };
    let rows = unit.one(Query::new(sql::OUTWORN_COUNT, vec![Value::at(cutoff), Value::count(most)])).await?;
    rows.into_iter().next().map_or(Ok(0), |mut row| row.number())
}
