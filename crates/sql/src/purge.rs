//! Jobs that leave altogether (D5): all rows of theirs, hot or archived, but not their idempotency keys.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use backstop_core::job::{Record, Spec, State};
use backstop_core::{JobId, Refusal, Timestamp};
use backstop_store::working_set::{LoadedJob, Writes, lane_of};
use backstop_store::{Drawer, Duty, Term};
use serde::Deserialize;

use crate::columns::Columns;
use crate::decode::state_of;
use crate::encode::status_code;
use crate::failure::SqlFailure;
use crate::load;
use crate::row::{self, Row};
use crate::session::Session as _;
use crate::statement::{Request, Statement};
use crate::term::lead_on;
use crate::transaction::Transaction;
use crate::value::Value;

/// A job of which nothing is left but what its keys answer (L10).
struct Gone {
    id: JobId,
    state: State,
    /// The idempotency keys that lead to it: its own, and that of an archived job with its id.
    keys: BTreeSet<String>,
}

/// Removes jobs that have ended, hot or archived, and answers how each had ended.
pub(crate) async fn purge(
    tx: &mut Transaction,
    jobs: &[JobId],
    only: Option<State>,
) -> Result<Vec<Result<State, Refusal>>, SqlFailure> {
    let now = tx.now().await?;
    let mut hot = lock_hot(tx, jobs).await?;
    // After the hot tables: what moves, moves from there into the archive.
    let mut archived = lock_archived(tx, jobs).await?;
    let (mut gone, mut leaving) = (Vec::new(), Vec::new());
    let mut purge_one = |id: &JobId| {
        let found = hot.get(id).map(|hot| hot.record.state).or(archived.get(id).map(|cold| cold.0));
        let state = found.ok_or(Refusal::NoSuchJob { job: *id })?;
        state.may_be_purged(*id, only)?;
        let (hot, cold) = (hot.remove(id), archived.remove(id));
        let own = hot.as_ref().and_then(|hot| hot.job.spec.idempotency_key.clone());
        let keys = own.into_iter().chain(cold.and_then(|(_, key)| key)).collect();
        gone.push(Gone { id: *id, state, keys });
        leaving.extend(hot);
        Ok(state)
    };
    let answers = jobs.iter().map(&mut purge_one).collect();
    let mut writes = Writes::default();
    for LoadedJob { job, record, .. } in &leaving {
        writes.count(&lane_of(&job.spec), Some(record.state), None);
        writes.count_open(record.incident(), None);
        writes.lines.leave(&job.spec, Some(record));
    }
    let mut requests = leave(leaving.iter().map(|loaded| (&loaded.job.spec, &loaded.record)));
    requests.extend(forget(&gone));
    tx.write_after(requests, writes, now).await?;
    Ok(answers)
}

/// Those of the jobs that are hot, locked, so that nobody archives or purges them meanwhile.
async fn lock_hot(tx: &mut Transaction, ids: &[JobId]) -> Result<HashMap<JobId, LoadedJob>, SqlFailure> {
    let shared = tx.shared.clone();
    let locked = load::lock(tx, &shared.lanes, ids).await?;
    let mut jobs: HashMap<JobId, LoadedJob> =
        locked.jobs.into_iter().map(|loaded| (loaded.job.spec.id, loaded)).collect();
    let ended_well = |loaded: &&LoadedJob| loaded.record.state == State::Succeeded;
    let done: BTreeSet<JobId> = jobs.values().filter(ended_well).map(|loaded| loaded.job.spec.id).collect();
    let there: HashSet<JobId> = row::jobs(tx.ask(Statement::LockDone.each_job(&done)).await?)?;
    // One that succeeded cannot change any more: it is there, or it has been archived or purged.
    done.iter().filter(|id| !there.contains(id)).for_each(|id| drop(jobs.remove(id)));
    Ok(jobs)
}

/// How archived jobs had ended, and their idempotency keys; locked.
async fn lock_archived(
    tx: &mut Transaction,
    ids: &[JobId],
) -> Result<HashMap<JobId, (State, Option<String>)>, SqlFailure> {
    let ids: BTreeSet<&JobId> = ids.iter().collect();
    let mut found = HashMap::new();
    for mut row in tx.ask(Statement::LockArchived.each_job(ids)).await? {
        found.insert(row.job()?, (state_of(row.int()?)?, key_in(&mut row)?));
    }
    Ok(found)
}

/// Reads the idempotency key that the archived document in the next column tells; one that is left out has none.
fn key_in(row: &mut Row) -> Result<Option<String>, SqlFailure> {
    #[derive(Deserialize)]
    struct Document {
        job: Keyed,
    }
    #[derive(Deserialize)]
    struct Keyed {
        idempotency_key: Option<String>,
    }
    let document: Option<Document> = row.maybe_json()?;
    Ok(document.and_then(|document| document.job.idempotency_key))
}

/// Takes ended jobs out of every hot table, and the results of their steps with them (W7).
pub(crate) fn leave<'s>(jobs: impl Iterator<Item = (&'s Spec, &'s Record)>) -> Vec<Request> {
    let (mut ids, mut tags, mut steps) = (Vec::new(), Columns::default(), Columns::default());
    for (spec, record) in jobs {
        ids.push(spec.id);
        for tag in &spec.tags {
            tags.row().text(tag).job(spec.id);
        }
        for position in record.step_results() {
            steps.row().text(Drawer::Steps.as_str()).text(&Drawer::step(spec.id, position));
        }
    }
    let tables =
        [Statement::DeleteRecords, Statement::DeleteDone, Statement::DeleteAttempts, Statement::DeleteJobs];
    let rows = tables.map(|statement| statement.each_job(&ids));
    let own = [Statement::DeleteTags.rows(tags), Statement::DeleteDocuments.rows(steps)];
    own.into_iter().chain(rows).collect()
}

/// Archived jobs go; what is left is what their keys answer.
fn forget(gone: &[Gone]) -> Vec<Request> {
    let (mut ends, mut again) = (Vec::new(), Columns::default());
    for Gone { id, state, keys } in gone {
        ends.extend(keys.iter().map(|key| (key.clone(), *id, *state)));
        if keys.is_empty() {
            again.row().job(*id).int(status_code(*state));
        }
    }
    let archived = Statement::DeleteArchived.each_job(gone.iter().map(|gone| &gone.id));
    vec![keep_ends(ends), Statement::EndAgain.rows(again), archived]
}

/// Keeps what idempotency keys answer once nothing else is left of their jobs.
fn keep_ends(mut ends: Vec<(String, JobId, State)>) -> Request {
    ends.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    ends.dedup_by(|one, other| one.0 == other.0);
    let mut rows = Columns::default();
    for (key, job, state) in ends {
        rows.row().text(&key).job(job).int(status_code(state));
    }
    Statement::EndKeys.rows(rows)
}

/// For jobs that are about to replace archived ones with the same id: nothing else tells of the keys of these.
pub(crate) async fn keep_replaced(
    tx: &mut Transaction,
    ends: &[(JobId, State)],
) -> Result<Request, SqlFailure> {
    let ids: Vec<JobId> = ends.iter().map(|(id, _)| *id).collect();
    let mut replaced = lock_archived(tx, &ids).await?;
    let key = |(id, state): &(JobId, State)| Some((replaced.remove(id)?.1?, *id, *state));
    Ok(keep_ends(ends.iter().filter_map(key).collect()))
}

/// Archived at or before this moment, a job has been kept for `keep`; none when no moment is that long ago.
fn cutoff(keep: Duration, now: Timestamp) -> Option<Timestamp> {
    (keep <= now.since(Timestamp::MIN)).then(|| now.before(keep))
}

/// Removes up to `limit` archived jobs that ran and have been kept long enough.
pub(crate) async fn prune(
    tx: &mut Transaction,
    term: &Term,
    keep: Duration,
    limit: usize,
) -> Result<usize, SqlFailure> {
    let now = lead_on(tx, term, Duty::Prune).await?;
    let Some(cutoff) = cutoff(keep, now).filter(|_| limit > 0) else { return Ok(0) };
    loop {
        let page = vec![Value::at(cutoff), Value::count(limit)];
        let (mut outworn, mut never_ran) = (Vec::new(), Vec::new());
        for mut row in tx.ask(Statement::Outworn.with(page)).await? {
            let (archived_at, id, state) = (row.moment()?, row.job()?, state_of(row.int()?)?);
            if row.bool()? {
                let keys = key_in(&mut row)?.into_iter().collect();
                outworn.push((archived_at, Gone { id, state, keys }));
            } else {
                never_ran.push(id);
            }
        }
        if never_ran.is_empty() {
            outworn.sort_by_key(|(archived_at, gone)| (*archived_at, gone.id));
            outworn.truncate(limit);
            let outworn: Vec<Gone> = outworn.into_iter().map(|(_, gone)| gone).collect();
            tx.commit(forget(&outworn)).await?;
            return Ok(outworn.len());
        }
        // Written by the first version, which did not say so; from now on the search passes them by.
        tx.ask(Statement::MarkNeverRan.each_job(&never_ran)).await?;
    }
}

/// How many archived jobs [`prune`] would remove, counted up to `most`.
pub(crate) async fn prunable(tx: &mut Transaction, keep: Duration, most: usize) -> Result<usize, SqlFailure> {
    let now = tx.now().await?;
    let Some(cutoff) = cutoff(keep, now) else { return Ok(0) };
    let mut count: usize = 0;
    let page = vec![Value::at(cutoff), Value::count(most)];
    for mut row in tx.ask(Statement::CountOutworn.with(page)).await? {
        count = count.saturating_add(row.number()?);
    }
    Ok(count.min(most))
}
