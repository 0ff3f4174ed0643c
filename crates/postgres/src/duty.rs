//! Leadership of maintenance duties (L17), and the duties that a store can do by itself.

use std::time::{Duration, Instant};

use backstop_core::job::NewJob;
use backstop_core::{JobId, Timestamp, WorkerId};
use backstop_store::{Duty, Error, LaneMark, Overdue, Term, Terms, retire};

use crate::claim;
use crate::error::Failure;
use crate::flush::add;
use crate::load;
use crate::session::{Query, Session};
use crate::sql;
use crate::unit::Unit;
use crate::values::{Row, Value};

/// Batches of arrivals that are removed in one go at most.
const MOST_CLEARED: usize = 50;

/// Grants or renews the leadership of duties, where nobody else leads.
pub(crate) async fn lead(
    unit: &mut Unit,
    node: WorkerId,
    duties: &[Duty],
    ttl: Duration,
) -> Result<Vec<Option<Term>>, Failure> {
    if let Some(terms) = renew(unit, node, duties, ttl).await? {
        return Ok(terms);
    }
    let names = || Value::texts(duties.iter().map(|duty| duty.as_str()));
    let make = vec![names(), Value::worker(node), Value::at(Timestamp::MIN)];
    let batch =
        vec![unit.clock(), Query::new(sql::TERMS_MAKE, make), Query::new(sql::TERMS_LOCK, vec![names()])];
    let mut answers = unit.run(batch).await?;
    let rows = answers.pop().unwrap_or_default();
    let now = crate::shared::moment_of(answers.swap_remove(0))?;
    let mut current = Vec::new();
    for mut row in rows {
        let (name, number, leader, expires_at) = (row.text()?, row.int()?, row.worker()?, row.moment()?);
        let runs = expires_at > now;
        let granted = if runs && leader == node { Some(number) } else { (!runs).then_some(number + 1) };
        current.push((name, granted));
    }
    let expires_at = now.after(ttl);
    let granted: Vec<_> = current.iter().filter_map(|(name, number)| Some((name, (*number)?))).collect();
    let save = vec![
        Value::texts(granted.iter().map(|(name, _)| name)),
        Value::Ints(granted.iter().map(|(_, number)| Some(*number)).collect()),
        Value::worker(node),
        Value::at(expires_at),
    ];
    unit.commit(vec![Query::new(sql::TERMS_SAVE, save)]).await?;
    let term = |duty: &Duty| {
        let number = current.iter().find(|(name, _)| name == duty.as_str())?.1?;
        Some(Term { duty: *duty, number, node, expires_at })
    };
    Ok(duties.iter().map(term).collect())
}

/// Renews the leadership of duties in one statement; none unless this node leads them all.
async fn renew(
    unit: &mut Unit,
    node: WorkerId,
    duties: &[Duty],
    ttl: Duration,
) -> Result<Option<Vec<Option<Term>>>, Failure> {
    let span = i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX).min(Timestamp::MAX.as_micros());
    let params = vec![
        Value::texts(duties.iter().map(|duty| duty.as_str())),
        Value::worker(node),
        unit.shared.moment(),
        Value::Int(Some(span)),
        Value::at(Timestamp::MAX),
    ];
    let mut renewed = Vec::with_capacity(duties.len());
    for mut row in unit.alone(Query::new(sql::TERMS_RENEW, params)).await? {
        renewed.push((row.text()?, row.int()?, row.moment()?));
    }
    let term = |duty: &Duty| {
        let (_, number, expires_at) = renewed.iter().find(|(name, ..)| name == duty.as_str())?;
        Some(Term { duty: *duty, number: *number, node, expires_at: *expires_at })
    };
    let terms: Vec<Option<Term>> = duties.iter().map(term).collect();
    if terms.iter().any(Option::is_none) {
        return Ok(None);
    }
    if let Some(keep) = claim::keep_cursors(&unit.shared) {
        unit.alone(keep).await?;
    }
    Ok(Some(terms))
}

/// Removes arrivals that every cursor has seen, unless that was done not long ago.
async fn clear_arrivals(unit: &mut Unit) -> Result<(), Failure> {
    if !unit.shared.may_clear_arrivals(Instant::now()) {
        return Ok(());
    }
    unit.alone(Query::new(sql::FLOOR_RAISE, Vec::new())).await?;
    for _ in 0..MOST_CLEARED {
        let gone = unit.alone(Query::new(sql::ARRIVALS_DELETE, Vec::new())).await?.into_iter().next();
        if gone.map(|mut row| row.int()).transpose()?.unwrap_or_default() == 0 {
            break;
        }
    }
    Ok(())
}

/// The latest term of every duty that was ever led.
pub(crate) async fn terms(unit: &mut Unit) -> Result<Terms, Failure> {
    let (mut now, mut terms) = (Timestamp::MIN, Vec::new());
    for mut row in unit.alone(Query::new(sql::TERMS, vec![unit.shared.moment()])).await? {
        now = row.moment()?;
        // A store that nobody ever led answers the moment alone; a duty of a newer version is led by newer nodes.
        let Some(duty) = row.maybe_text()?.as_deref().and_then(Duty::named) else { continue };
        terms.push(Term { duty, number: row.int()?, node: row.worker()?, expires_at: row.moment()? });
    }
    terms.sort_unstable_by_key(|term| term.duty);
    Ok(Terms { now, terms })
}

/// Adds what commits have left in `tally` to the lanes, and removes arrivals that nobody needs.
pub(crate) async fn fold(unit: &mut Unit, limit: usize) -> Result<usize, Failure> {
    clear_arrivals(unit).await?;
    let folded = unit.alone(Query::new(sql::TALLY_FOLD, vec![Value::count(limit)])).await?;
    let folded = folded.into_iter().next().map(|mut row| row.int()).transpose()?.unwrap_or_default();
    Ok(usize::try_from(folded).unwrap_or(usize::MAX))
}

/// True when `term` is for `duty` and as it is stored: number, node and end.
fn is_current(term: &Term, duty: Duty, stored: (i64, WorkerId, Timestamp), now: Timestamp) -> bool {
    let (number, node, expires_at) = stored;
    term.duty == duty && number == term.number && node == term.node && expires_at > now
}

/// The statement that reads the current term of a duty, and keeps it from passing on until the commit.
pub(crate) fn ask(term: &Term) -> Query {
    Query::new(sql::TERM_SHARE, vec![Value::text(term.duty.as_str())])
}

/// Refuses a leader whose term has passed on, has run out, or was for another duty.
pub(crate) fn expect_term(term: &Term, duty: Duty, rows: Vec<Row>, now: Timestamp) -> Result<(), Failure> {
    let mut leads = false;
    for mut row in rows {
        leads = is_current(term, duty, (row.int()?, row.worker()?, row.moment()?), now);
    }
    if leads { Ok(()) } else { Err(Error::Deposed { duty: term.duty }.into()) }
}

/// Makes sure that `term` is the current one of `duty` and stays so until the commit; answers the moment.
pub(crate) async fn lead_on(unit: &mut Unit, term: &Term, duty: Duty) -> Result<Timestamp, Failure> {
    let batch = vec![unit.clock(), ask(term)];
    let mut answers = unit.run(batch).await?;
    let current = answers.pop().unwrap_or_default();
    let now = crate::shared::moment_of(answers.pop().unwrap_or_default())?;
    expect_term(term, duty, current, now)?;
    Ok(now)
}

/// The unclaimed jobs whose time to start has passed (L19), behind one of them.
pub(crate) async fn overdue(
    unit: &mut Unit,
    after: Option<Overdue>,
    limit: usize,
) -> Result<Vec<Overdue>, Failure> {
    let after = after.unwrap_or(Overdue { expires_at: Timestamp::MIN, job: JobId::from_u128(0) });
    let params =
        vec![unit.shared.moment(), Value::at(after.expires_at), Value::job(after.job), Value::count(limit)];
    let found = unit.alone(Query::new(sql::OVERDUE, params)).await?;
    found.into_iter().map(|mut row| Ok(Overdue { expires_at: row.moment()?, job: row.job()? })).collect()
}

/// Fails those of these jobs that are still unclaimed and overdue (L19).
pub(crate) async fn expire(unit: &mut Unit, term: &Term, jobs: &[Overdue]) -> Result<usize, Failure> {
    let now = lead_on(unit, term, Duty::Expire).await?;
    let moments = Value::ints(jobs.iter().map(|job| job.expires_at.as_micros()));
    let ids = Value::Ids(jobs.iter().map(|job| Some(job.job.as_uuid())).collect());
    let locked = unit.one(Query::new(sql::OVERDUE_LOCK, vec![Value::at(now), moments, ids])).await?;
    let mut ids = locked.into_iter().map(|mut row| row.job()).collect::<Result<Vec<JobId>, _>>()?;
    ids.sort_unstable();
    ids.dedup();
    let shared = unit.shared.clone();
    let mut desk = unit.desk(now);
    // Their rows in `ready` are locked, so nothing else about them can change.
    for sketch in load::sketches(unit, &shared.lanes, &ids).await?.into_values() {
        desk.lay(sketch.into_file());
    }
    let callbacks: Vec<NewJob> = ids.iter().filter_map(|id| desk.expire(*id)).collect();
    load::insert_callbacks(unit, &shared.lanes, &mut desk, &callbacks).await?;
    unit.save(desk).await?;
    Ok(ids.len())
}

/// Marks lanes that are empty, and retires those that have been for long.
pub(crate) async fn retire_lanes(
    unit: &mut Unit,
    term: &Term,
    idle: Duration,
    limit: usize,
) -> Result<usize, Failure> {
    let now = lead_on(unit, term, Duty::Prune).await?;
    let cutoff = retire::cutoff(idle, now).unwrap_or(Timestamp::MIN);
    let found =
        unit.one(Query::new(sql::LANES_TO_MARK, vec![Value::at(cutoff), Value::count(limit)])).await?;
    let mut marks = Vec::with_capacity(found.len());
    for mut row in found {
        let (lane, jobs) = (row.int()?, row.number()?);
        let mark = LaneMark { empty_since: row.maybe_moment()?, retired: row.bool()? }.seen(jobs, idle, now);
        let since = Value::Int(mark.empty_since.map(Timestamp::as_micros));
        marks.push(vec![Value::Int(Some(lane)), since, Value::Int(Some(mark.retired.into()))]);
    }
    let (marked, mut queries) = (marks.len(), Vec::new());
    add(&mut queries, sql::LANES_MARK, marks);
    unit.commit(queries).await?;
    Ok(marked)
}
