//! Jobs that are removed for good, with how they ended for whoever comes with their idempotency key (D5, L10).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use backstop_core::job::State;
use backstop_core::{JobId, Refusal, Timestamp};
use backstop_store::desk::{File, Writes, lane_of};
use backstop_store::{Duty, Term};
use serde::Deserialize;

use crate::error::Failure;
use crate::session::{Bulk, Query, Session};
use crate::unit::Unit;
use crate::values::{Row, Value};
use crate::{archive, duty, load, rows, sql};

/// A job of which nothing is left.
struct Gone {
    id: JobId,
    state: State,
    /// True when it, or an archived job with its id, had an idempotency key.
    keyed: bool,
}

/// Removes jobs that have ended, hot or archived.
pub(crate) async fn purge(
    unit: &mut Unit,
    jobs: &[JobId],
    only: Option<State>,
) -> Result<Vec<Result<State, Refusal>>, Failure> {
    let now = unit.now().await?;
    let mut hot = lock_hot(unit, jobs).await?;
    let mut archived = lock_archived(unit, jobs).await?;
    let (mut writes, mut queries, mut gone) = (Writes::default(), Vec::new(), Vec::new());
    let mut files = Vec::new();
    let mut purge_one = |id: &JobId| {
        let found = hot.get(id).map(|file| file.record.state).or(archived.get(id).map(|shelved| shelved.0));
        let state = found.ok_or(Refusal::NoSuchJob { job: *id })?;
        state.may_be_purged(*id, only)?;
        let (file, shelved) = (hot.remove(id), archived.remove(id));
        let has_key = file.as_ref().is_some_and(|file| file.job.spec.idempotency_key.is_some());
        gone.push(Gone { id: *id, state, keyed: has_key || shelved.is_some_and(|(_, keyed)| keyed) });
        files.extend(file);
        Ok(state)
    };
    let answers = jobs.iter().map(&mut purge_one).collect();
    for file in &files {
        writes.count(&lane_of(&file.job.spec), Some(file.record.state), None);
        writes.count_open(file.record.incident(), None);
    }
    let tags = files.iter().flat_map(|file| file.job.spec.tags.iter().map(|tag| (tag, file.job.spec.id)));
    leave(&mut queries, files.iter().map(|file| file.job.spec.id).collect(), tags);
    forget(&mut queries, &gone);
    unit.write_after(queries, writes, now).await?;
    Ok(answers)
}

/// Those of the jobs that are hot, locked wherever they are.
async fn lock_hot(unit: &mut Unit, ids: &[JobId]) -> Result<HashMap<JobId, File>, Failure> {
    let shared = unit.shared.clone();
    let locked = load::lock(unit, &shared.lanes, ids).await?;
    let mut files: HashMap<JobId, File> =
        locked.files.into_iter().map(|file| (file.job.spec.id, file)).collect();
    let ended_well = |file: &&File| file.record.state == State::Succeeded;
    let mut done: Vec<JobId> = files.values().filter(ended_well).map(|file| file.job.spec.id).collect();
    if done.is_empty() {
        return Ok(files);
    }
    done.sort_unstable();
    let mut there: HashSet<JobId> = HashSet::with_capacity(done.len());
    for mut row in load::by_ids(unit, &sql::archive::DONE_LOCK, &done).await? {
        there.insert(row.job()?);
    }
    // The others were archived or purged while we looked.
    done.retain(|id| !there.contains(id));
    done.iter().for_each(|id| drop(files.remove(id)));
    Ok(files)
}

/// How archived jobs had ended, and whether they had an idempotency key; locked.
async fn lock_archived(unit: &mut Unit, ids: &[JobId]) -> Result<HashMap<JobId, (State, bool)>, Failure> {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids.dedup();
    let mut found = HashMap::new();
    for mut row in load::by_ids(unit, &sql::archive::LOCK, &ids).await? {
        found.insert(row.job()?, (rows::state_of(row.int()?)?, has_key(&mut row)?));
    }
    Ok(found)
}

/// Reads whether the archived document in the next column tells of an idempotency key; none of those that are left out
/// does.
fn has_key(row: &mut Row) -> Result<bool, Failure> {
    #[derive(Deserialize)]
    struct Whole {
        job: Named,
    }
    #[derive(Deserialize)]
    struct Named {
        idempotency_key: Option<String>,
    }
    let whole: Option<Whole> = row.maybe_json()?;
    Ok(whole.is_some_and(|whole| whole.job.idempotency_key.is_some()))
}

/// Adds the statements that take jobs out of the hot tables.
pub(crate) fn leave<'t>(
    out: &mut Vec<Query>,
    ids: Vec<JobId>,
    tags: impl Iterator<Item = (&'t String, JobId)>,
) {
    sql::archive::TAGS_DELETE
        .add(out, tags.map(|(tag, id)| vec![Value::text(tag), Value::job(id)]).collect());
    let every: [&Bulk; 4] = [
        &sql::RECORDS_DELETE,
        &sql::archive::DONE_DELETE,
        &sql::archive::ATTEMPTS_DELETE,
        &sql::archive::JOBS_DELETE,
    ];
    for gone in every {
        gone.add(out, ids.iter().map(|id| vec![Value::job(*id)]).collect());
    }
}

/// Adds the statements that remove what the archive has of jobs, and keep how they ended where a key names them.
fn forget(out: &mut Vec<Query>, gone: &[Gone]) {
    sql::archive::DELETE.add(out, gone.iter().map(|gone| vec![Value::job(gone.id)]).collect());
    let (keyed, others): (Vec<&Gone>, Vec<&Gone>) = gone.iter().partition(|gone| gone.keyed);
    keep_ends(out, keyed.iter().map(|gone| (gone.id, gone.state)));
    let mut again: BTreeMap<i64, Vec<Value>> = BTreeMap::new();
    for gone in others {
        again.entry(rows::status_code(gone.state)).or_default().push(Value::job(gone.id));
    }
    out.extend(
        again.into_iter().map(|(status, ids)| {
            Query::listed(sql::archive::PURGED_AGAIN, vec![vec![Value::int(status)], ids])
        }),
    );
}

fn keep_ends(out: &mut Vec<Query>, ends: impl Iterator<Item = (JobId, State)>) {
    let end = |(id, state)| vec![Value::job(id), Value::int(rows::status_code(state))];
    sql::archive::PURGED_SAVE.add(out, ends.map(end).collect());
}

/// Adds the statements for jobs that are about to replace archived ones with the same id: what these told of their
/// keys would be lost.
pub(crate) async fn keep_replaced(
    unit: &mut Unit,
    out: &mut Vec<Query>,
    ends: &[(JobId, State)],
) -> Result<(), Failure> {
    let ids: Vec<JobId> = ends.iter().map(|(id, _)| *id).collect();
    let replaced = lock_archived(unit, &ids).await?;
    let keyed = |id: &JobId| replaced.get(id).is_some_and(|(_, keyed)| *keyed);
    keep_ends(out, ends.iter().copied().filter(|(id, _)| keyed(id)));
    Ok(())
}

/// How jobs had ended that are purged.
pub(crate) async fn states(
    session: &mut impl Session,
    ids: &[JobId],
) -> Result<Vec<(JobId, State)>, Failure> {
    archive::read_states(session, &sql::archive::PURGED_STATUS, ids).await
}

/// Removes up to `limit` archived jobs whose time is over.
pub(crate) async fn prune(
    unit: &mut Unit,
    term: &Term,
    keep: Duration,
    limit: usize,
) -> Result<usize, Failure> {
    let now = duty::lead_on(unit, term, Duty::Prune).await?;
    let Some(cutoff) = cutoff(keep, now).filter(|_| limit > 0) else {
        return unit.commit(Vec::new()).await.map(|_| 0);
    };
    let page = || vec![Value::at(cutoff), Value::count(limit)];
    let batch =
        vec![Query::new(sql::archive::OUTWORN, page()), Query::new(sql::archive::OUTWORN_UNTOLD, page())];
    let (mut outworn, mut never_ran) = (Vec::new(), Vec::new());
    for mut row in unit.run(batch).await?.into_iter().flatten() {
        let (archived_at, id, state) = (row.moment()?, row.job()?, rows::state_of(row.int()?)?);
        if row.bool()? {
            outworn.push((archived_at, Gone { id, state, keyed: has_key(&mut row)? }));
        } else {
            never_ran.push(Value::job(id));
        }
    }
    outworn.sort_by_key(|(archived_at, gone)| (*archived_at, gone.id));
    outworn.truncate(limit);
    let outworn: Vec<Gone> = outworn.into_iter().map(|(_, gone)| gone).collect();
    let mut queries = Vec::new();
    forget(&mut queries, &outworn);
    if !never_ran.is_empty() {
        queries.push(Query::listed(sql::archive::NEVER_RAN, vec![never_ran]));
    }
    unit.commit(queries).await?;
    Ok(outworn.len())
}

/// How many archived jobs would be removed, counted up to `most`.
pub(crate) async fn prunable(unit: &mut Unit, keep: Duration, most: usize) -> Result<usize, Failure> {
    let now = unit.now().await?;
    let Some(cutoff) = cutoff(keep, now) else { return Ok(0) };
    let page = || vec![Value::at(cutoff), Value::count(most)];
    let batch = vec![
        Query::new(sql::archive::OUTWORN_COUNT, page()),
        Query::new(sql::archive::OUTWORN_UNTOLD_COUNT, page()),
    ];
    let mut count: usize = 0;
    for mut row in unit.run(batch).await?.into_iter().flatten() {
        count = count.saturating_add(row.number()?);
    }
    Ok(count.min(most))
}

/// The latest moment of an archival that is `keep` ago; none when that is before all time.
fn cutoff(keep: Duration, now: Timestamp) -> Option<Timestamp> {
    (keep <= now.since(Timestamp::MIN)).then(|| now.before(keep))
}
