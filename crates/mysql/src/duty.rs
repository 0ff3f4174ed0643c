//! Leadership of maintenance duties (L17), and the duties that a store can do by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use backstop_core::job::NewJob;
use backstop_core::{JobId, Timestamp, WorkerId};
use backstop_store::{Duty, Error, Term};

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
    sql::TERMS_MAKE.add(&mut batch, names.iter().map(first).collect());
    batch.push(Query::listed(sql::TERMS_LOCK, vec![Value::texts(&names)]));
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
        Query::new(sql::TERM_SAVE, term)
    });
    let mut last: Vec<Query> = save.collect();
    if !last.is_empty() {
        // Whoever leads keeps the books too.
        fold(unit, &mut last).await?;
    }
    unit.commit(last).await?;
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
        Query::listed(sql::TERMS_PROLONG, prolong),
        Query::listed(sql::TERMS_RUNNING, vec![names(), one(&node_id), one(&moment)]),
    ];
    let (mut running, mut piled_up) = (Vec::with_capacity(duties.len()), false);
    for mut row in unit.alone(batch).await?.pop().unwrap_or_default() {
        running.push((row.text()?, row.int()?, row.moment()?));
        piled_up = row.bool()?;
    }
    let term = |duty: &Duty| {
        let (_, number, expires_at) = running.iter().find(|(name, ..)| name == duty.as_str())?;
        Some(Term { duty: *duty, number: *number, node, expires_at: *expires_at })
    };
    let terms: Vec<Option<Term>> = duties.iter().map(term).collect();
    if terms.iter().any(Option::is_none) {
        return Ok(None);
    }
    if piled_up {
        // Whoever leads keeps the books too.
        match keep_books(unit).await {
            // An application's transaction holds a lane: it is counted the next time.
            Err(Failure::Busy(_)) => {}
            kept => kept?,
        }
    }
    Ok(Some(terms))
}

async fn keep_books(unit: &mut Unit) -> Result<(), Failure> {
    let mut last = Vec::new();
    fold(unit, &mut last).await?;
    unit.commit(last).await.map(drop)
}

/// Adds the statements that move what has piled up in `tally` to the lanes.
async fn fold(unit: &mut Unit, out: &mut Vec<Query>) -> Result<(), Failure> {
    let mut gone = Vec::new();
    let mut sums: BTreeMap<i64, [i64; 7]> = BTreeMap::new();
    for mut row in unit.one(Query::new(sql::TALLY_LOCK, Vec::new())).await? {
        gone.push(vec![Value::int(row.int()?)]);
        for sum in sums.entry(row.int()?).or_default() {
            *sum += row.int()?;
        }
    }
    for (lane, sums) in sums {
        out.push(Query::new(sql::LANE_COUNT, Value::ints(sums.into_iter().chain([lane]))));
    }
    sql::TALLY_DELETE.add(out, gone);
    Ok(())
}

/// The statement that reads the current term of a duty, and keeps it from passing on until the commit.
pub(crate) fn ask(term: &Term) -> Query {
    Query::new(sql::TERM_SHARE, vec![Value::text(term.duty.as_str())])
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

/// Says in one statement whether anything has expired: nearly always nothing has. Refuses whoever does not lead.
async fn any_overdue(unit: &mut Unit, term: &Term) -> Result<bool, Failure> {
    let params = vec![unit.shared.moment(), Value::text(term.duty.as_str())];
    let look = unit.alone(vec![Query::new(sql::EXPIRY_LOOK, params)]).await?.into_iter().flatten().next();
    let (mut leads, mut overdue) = (false, false);
    if let Some(mut row) = look {
        let (now, number, node, expires_at) = (row.moment()?, row.int()?, row.worker()?, row.moment()?);
        leads = is_current(term, Duty::Expire, (number, node, expires_at), now);
        overdue = row.bool()?;
    }
    if leads { Ok(overdue) } else { Err(Error::Deposed { duty: term.duty }.into()) }
}

/// Fails up to `limit` unclaimed jobs whose time to start has passed (L19).
pub(crate) async fn expire(unit: &mut Unit, term: &Term, limit: usize) -> Result<usize, Failure> {
    if !any_overdue(unit, term).await? {
        return Ok(0);
    }
    let batch = vec![unit.clock(), ask(term)];
    let mut answers = unit.run(batch).await?;
    let current = answers.pop().unwrap_or_default();
    let now = crate::shared::moment_of(answers.swap_remove(0))?;
    expect_term(term, Duty::Expire, current, now)?;
    let overdue = unit.one(Query::new(sql::OVERDUE, vec![Value::at(now), Value::count(limit)])).await?;
    let ids = overdue.into_iter().map(|mut row| row.job()).collect::<Result<Vec<JobId>, _>>()?;
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
