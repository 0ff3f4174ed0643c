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

/// Refuses a leader whose term has passed on, has run out, or was for another duty.
pub(crate) fn expect_term(term: &Term, duty: Duty, rows: Vec<Row>, now: Timestamp) -> Result<(), Failure> {
    let mut leads = false;
    for mut row in rows {
        let (number, node, expires_at) = (row.int()?, row.worker()?, row.moment()?);
        leads = term.duty == duty && number == term.number && node == term.node && expires_at > now;
    }
    if leads { Ok(()) } else { Err(Error::Deposed { duty: term.duty }.into()) }
}

/// Fails up to `limit` unclaimed jobs whose time to start has passed (L19).
pub(crate) async fn expire(unit: &mut Unit, term: &Term, limit: usize) -> Result<usize, Failure> {
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
