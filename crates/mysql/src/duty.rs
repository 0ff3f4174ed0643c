//! Leadership of maintenance duties (L17), and the duties that a store can do by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use backstop_core::job::NewJob;
use backstop_core::{JobId, Timestamp, WorkerId};
use backstop_store::{Duty, Error, LaneMark, Overdue, Term, Terms, retire};

use crate::error::Failure;
use crate::load;
use crate::session::{Query, Session};
use crate::sql;
use crate::unit::Unit;
use crate::values::{Row, Value};

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
    let names: BTreeSet<&str> = duties.iter().map(|duty| duty.as_str()).collect();
    let mut batch = vec![unit.clock()];
    let first = |name: &&str| vec![Value::text(name), Value::worker(node), Value::at(Timestamp::MIN)];
    sql::duty::TERMS_MAKE.add(&mut batch, names.iter().map(first).collect());
    batch.push(Query::listed(sql::duty::TERMS_LOCK, vec![Value::texts(&names)]));
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
    let granted = current.iter().filter_map(|(name, number)| Some((name, (*number)?)));
    let save = granted.map(|(name, number)| {
        let term = vec![Value::int(number), Value::worker(node), Value::at(expires_at), Value::text(name)];
        Query::new(sql::duty::TERM_SAVE, term)
    });
    unit.commit(save.collect()).await?;
    let term = |duty: &Duty| {
        let number = current.iter().find(|(name, _)| name == duty.as_str())?.1?;
        Some(Term { duty: *duty, number, node, expires_at })
    };
    Ok(duties.iter().map(term).collect())
}

/// Renews the leadership of duties without a transaction; none unless this node leads them all.
async fn renew(
    unit: &mut Unit,
    node: WorkerId,
    duties: &[Duty],
    ttl: Duration,
) -> Result<Option<Vec<Option<Term>>>, Failure> {
    let names = || Value::texts(duties.iter().map(|duty| duty.as_str()));
    let moment = unit.shared.moment();
    let one = |value: &Value| vec![value.clone()];
    let (node_id, last) = (Value::worker(node), Value::at(Timestamp::MAX));
    let prolong =
        vec![one(&moment), vec![Value::span(ttl)], one(&last), names(), one(&node_id), one(&moment)];
    let batch = vec![
        Query::listed(sql::duty::TERMS_PROLONG, prolong),
        Query::listed(sql::duty::TERMS_RUNNING, vec![names(), one(&node_id), one(&moment)]),
    ];
    let mut running = Vec::with_capacity(duties.len());
    for mut row in unit.alone(batch).await?.pop().unwrap_or_default() {
        running.push((row.text()?, row.int()?, row.moment()?));
    }
    let term = |duty: &Duty| {
        let (_, number, expires_at) = running.iter().find(|(name, ..)| name == duty.as_str())?;
        Some(Term { duty: *duty, number: *number, node, expires_at: *expires_at })
    };
    let terms: Vec<Option<Term>> = duties.iter().map(term).collect();
    Ok(terms.iter().all(Option::is_some).then_some(terms))
}

/// The latest term of every duty that was ever led.
pub(crate) async fn terms(unit: &mut Unit) -> Result<Terms, Failure> {
    let (mut now, mut terms) = (Timestamp::MIN, Vec::new());
    let look = vec![Query::new(sql::duty::TERMS, vec![unit.shared.moment()])];
    for mut row in unit.alone(look).await?.pop().unwrap_or_default() {
        now = row.moment()?;
        // A store that nobody ever led answers the moment alone; a duty of a newer version is led by newer nodes.
        let Some(duty) = row.maybe_text()?.as_deref().and_then(Duty::named) else { continue };
        terms.push(Term { duty, number: row.int()?, node: row.worker()?, expires_at: row.moment()? });
    }
    terms.sort_unstable_by_key(|term| term.duty);
    Ok(Terms { now, terms })
}

/// Adds what commits have left in `tally` to the lanes.
pub(crate) async fn fold(unit: &mut Unit, limit: usize) -> Result<usize, Failure> {
    // Nearly always an idle store has nothing to add, and one statement sees that.
    let look = unit.alone(vec![Query::new(sql::TALLY_LOOK, Vec::new())]).await?.into_iter().flatten().next();
    if !look.map(|mut row| row.bool()).transpose()?.unwrap_or_default() {
        return Ok(0);
    }
    let mut gone = Vec::new();
    let mut sums: BTreeMap<i64, [i64; 7]> = BTreeMap::new();
    for mut row in unit.one(Query::new(sql::TALLY_LOCK, vec![Value::count(limit)])).await? {
        gone.push(vec![Value::int(row.int()?)]);
        for sum in sums.entry(row.int()?).or_default() {
            *sum += row.int()?;
        }
    }
    let folded = gone.len();
    let counts = |(lane, sums): (i64, [i64; 7])| {
        Query::new(sql::LANE_COUNT, Value::ints(sums.into_iter().chain([lane])))
    };
    let mut last: Vec<Query> = sums.into_iter().map(counts).collect();
    sql::TALLY_DELETE.add(&mut last, gone);
    unit.commit(last).await?;
    Ok(folded)
}

/// The statement that reads the current term of a duty, and keeps it from passing on until the commit.
pub(crate) fn ask(term: &Term) -> Query {
    Query::new(sql::duty::TERM_SHARE, vec![Value::text(term.duty.as_str())])
}

/// True when `term` is for `duty` and as it is stored: number, node and end.
fn is_current(term: &Term, duty: Duty, stored: (i64, WorkerId, Timestamp), now: Timestamp) -> bool {
    let (number, node, expires_at) = stored;
    term.duty == duty && number == term.number && node == term.node && expires_at > now
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
    let now = crate::shared::moment_of(answers.swap_remove(0))?;
    expect_term(term, duty, current, now)?;
    Ok(now)
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
        let (lane, jobs): (i64, u64) = (row.int()?, row.number()?);
        let mark = LaneMark { empty_since: row.maybe_moment()?, retired: row.bool()? }.seen(jobs, idle, now);
        let (since, is_retired) = (Value::maybe_at(mark.empty_since), Value::int(i64::from(mark.retired)));
        let jobs = Value::int(i64::try_from(jobs).unwrap_or(i64::MAX));
        marks.push(Query::new(sql::LANE_MARK, vec![since, is_retired, Value::int(lane), jobs]));
    }
    let marked = marks.len();
    unit.commit(marks).await?;
    Ok(marked)
}

/// The unclaimed jobs whose time to start has passed (L19), behind one of them.
pub(crate) async fn overdue(
    unit: &mut Unit,
    after: Option<Overdue>,
    limit: usize,
) -> Result<Vec<Overdue>, Failure> {
    let after = after.unwrap_or(Overdue { expires_at: Timestamp::MIN, job: JobId::from_u128(0) });
    let (at, job) = (Value::at(after.expires_at), Value::job(after.job));
    let params = vec![unit.shared.moment(), at.clone(), at, job, Value::count(limit)];
    let found = unit.alone(vec![Query::new(sql::duty::OVERDUE, params)]).await?;
    let found = found.into_iter().flatten();
    found.map(|mut row| Ok(Overdue { expires_at: row.moment()?, job: row.job()? })).collect()
}

/// Fails those of these jobs that are still unclaimed and overdue (L19).
pub(crate) async fn expire(unit: &mut Unit, term: &Term, jobs: &[Overdue]) -> Result<usize, Failure> {
    let now = lead_on(unit, term, Duty::Expire).await?;
    let (Some(first), Some(last)) = (jobs.iter().min(), jobs.iter().max()) else { return Ok(0) };
    let moments = [now, first.expires_at, last.expires_at].map(|moment| vec![Value::at(moment)]);
    let wanted = jobs.iter().map(|overdue| Value::job(overdue.job)).collect();
    let lock = Query::listed(sql::duty::OVERDUE_LOCK, moments.into_iter().chain([wanted]).collect());
    let mut ids = Vec::with_capacity(jobs.len());
    for mut row in unit.one(lock).await? {
        let (expires_at, job) = (row.moment()?, row.job()?);
        if jobs.contains(&Overdue { expires_at, job }) {
            ids.push(job);
        }
    }
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
