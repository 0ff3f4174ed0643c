//! Leadership of maintenance duties (L17), and the duties that a store can do by itself.

use std::collections::BTreeSet;
use std::time::Duration;

use backstop_core::job::NewJob;
use backstop_core::{JobId, Timestamp, WorkerId};
use backstop_store::{Duty, LaneMark, Overdue, Term, Terms, retire};

use crate::columns::Columns;
use crate::failure::SqlFailure;
use crate::load;
use crate::row::moment_of;
use crate::session::Session as _;
use crate::statement::{Request, Statement};
use crate::term::lead_on;
use crate::transaction::Transaction;
use crate::value::Value;

/// Grants or renews the leadership of duties, where nobody else leads. `also` is asked when all of them are renewed.
pub(crate) async fn lead(
    tx: &mut Transaction,
    node: WorkerId,
    duties: &[Duty],
    ttl: Duration,
    also: impl FnOnce() -> Option<Request>,
) -> Result<Vec<Option<Term>>, SqlFailure> {
    if let Some(terms) = renew(tx, node, duties, ttl).await? {
        if let Some(also) = also() {
            tx.one_alone(also).await?;
        }
        return Ok(terms);
    }
    if others_lead(tx, node, duties).await? {
        return Ok(vec![None; duties.len()]);
    }
    let names: BTreeSet<&str> = duties.iter().map(|duty| duty.as_str()).collect();
    let mut first = Columns::default();
    for name in &names {
        first.row().text(name).id(Some(node.as_uuid())).at(Timestamp::MIN);
    }
    let lock = Statement::LockTerms.each(Value::texts(names));
    let requests = vec![tx.clock(), Statement::MakeTerms.rows(first), lock];
    let mut answers = tx.ask_all(requests).await?;
    let rows = answers.pop().unwrap_or_default();
    let now = moment_of(answers.swap_remove(0))?;
    let (mut current, mut granted, expires_at) = (Vec::new(), Columns::default(), now.after(ttl));
    for mut row in rows {
        let (name, number, leader, ends) = (row.text()?, row.int()?, row.worker()?, row.moment()?);
        let runs = ends > now;
        let number = if runs && leader == node { Some(number) } else { (!runs).then_some(number + 1) };
        if let Some(number) = number {
            granted.row().text(&name).int(number).id(Some(node.as_uuid())).at(expires_at);
        }
        current.push((name, number));
    }
    tx.commit(vec![Statement::SaveTerms.rows(granted)]).await?;
    let term = |duty: &Duty| {
        let number = current.iter().find(|(name, _)| name == duty.as_str())?.1?;
        Some(Term { duty: *duty, number, node, expires_at })
    };
    Ok(duties.iter().map(term).collect())
}

/// Renews the leadership of duties without a transaction; none unless this node leads them all.
async fn renew(
    tx: &mut Transaction,
    node: WorkerId,
    duties: &[Duty],
    ttl: Duration,
) -> Result<Option<Vec<Option<Term>>>, SqlFailure> {
    let renew = Statement::RenewTerms.with(vec![
        Value::texts(duties.iter().map(|duty| duty.as_str())),
        Value::worker(node),
        tx.shared.moment(),
        Value::span(ttl),
        Value::at(Timestamp::MAX),
    ]);
    let mut renewed = Vec::with_capacity(duties.len());
    for mut row in tx.one_alone(renew).await? {
        renewed.push((row.text()?, row.int()?, row.moment()?));
    }
    let term = |duty: &Duty| {
        let (_, number, expires_at) = renewed.iter().find(|(name, ..)| name == duty.as_str())?;
        Some(Term { duty: *duty, number: *number, node, expires_at: *expires_at })
    };
    let terms: Vec<Option<Term>> = duties.iter().map(term).collect();
    Ok(terms.iter().all(Option::is_some).then_some(terms))
}

/// True when other nodes lead all of these duties: a node that may not lead locks and writes nothing.
async fn others_lead(tx: &mut Transaction, node: WorkerId, duties: &[Duty]) -> Result<bool, SqlFailure> {
    let Terms { now, terms } = terms(tx).await?;
    let led = |duty: &Duty| {
        terms.iter().any(|term| term.duty == *duty && term.node != node && term.expires_at > now)
    };
    Ok(duties.iter().all(led))
}

/// The latest term of every duty that was ever led.
pub(crate) async fn terms(tx: &mut Transaction) -> Result<Terms, SqlFailure> {
    let (mut now, mut terms) = (Timestamp::MIN, Vec::new());
    let look = Statement::Terms.with(vec![tx.shared.moment()]);
    for mut row in tx.one_alone(look).await? {
        now = row.moment()?;
        // A store that nobody ever led answers the moment alone; a duty of a newer version is led by newer nodes.
        let Some(duty) = row.maybe_text()?.as_deref().and_then(Duty::named) else { continue };
        terms.push(Term { duty, number: row.int()?, node: row.worker()?, expires_at: row.moment()? });
    }
    terms.sort_unstable_by_key(|term| term.duty);
    Ok(Terms { now, terms })
}

/// The unclaimed jobs whose time to start has passed (L19), after the given one.
pub(crate) async fn overdue(
    tx: &mut Transaction,
    after: Option<Overdue>,
    limit: usize,
) -> Result<Vec<Overdue>, SqlFailure> {
    let after = after.unwrap_or(Overdue { expires_at: Timestamp::MIN, job: JobId::from_u128(0) });
    let params =
        vec![tx.shared.moment(), Value::at(after.expires_at), Value::job(after.job), Value::count(limit)];
    let found = tx.one_alone(Statement::Overdue.with(params)).await?;
    found.into_iter().map(|mut row| Ok(Overdue { expires_at: row.moment()?, job: row.job()? })).collect()
}

/// Fails those of these jobs that are still unclaimed and overdue (L19).
pub(crate) async fn expire(tx: &mut Transaction, term: &Term, jobs: &[Overdue]) -> Result<usize, SqlFailure> {
    let now = lead_on(tx, term, Duty::Expire).await?;
    let overdue: BTreeSet<&Overdue> = jobs.iter().filter(|overdue| overdue.expires_at < now).collect();
    let mut wanted = Columns::default();
    for Overdue { expires_at, job } in overdue {
        wanted.row().at(*expires_at).job(*job);
    }
    let mut ids = Vec::with_capacity(jobs.len());
    for mut row in tx.ask(Statement::LockOverdue.rows(wanted)).await? {
        row.skip(1);
        ids.push(row.job()?);
    }
    let shared = tx.shared.clone();
    let mut set = tx.working_set(now);
    // Their rows in `ready` are locked, so nothing else about them can change.
    for stored in load::stored(tx, &shared.lanes, &ids).await?.into_values() {
        set.put(stored.into_loaded());
    }
    let callbacks: Vec<NewJob> = ids.iter().filter_map(|id| set.expire(*id)).collect();
    load::insert_callbacks(tx, &shared.lanes, &mut set, &callbacks).await?;
    tx.save(set).await?;
    Ok(ids.len())
}

/// Marks lanes that are empty, and retires those that have been for long.
pub(crate) async fn retire_lanes(
    tx: &mut Transaction,
    term: &Term,
    idle: Duration,
    limit: usize,
) -> Result<usize, SqlFailure> {
    let now = lead_on(tx, term, Duty::Prune).await?;
    let cutoff = retire::cutoff(idle, now).unwrap_or(Timestamp::MIN);
    let found = tx.ask(Statement::LanesToMark.with(vec![Value::at(cutoff), Value::count(limit)])).await?;
    let mut marks = Columns::default();
    for mut row in found {
        let (lane, count) = (row.int()?, row.int()?);
        let jobs = u64::try_from(count).unwrap_or_default();
        let mark = LaneMark { empty_since: row.maybe_moment()?, retired: row.bool()? }.seen(jobs, idle, now);
        marks.row().int(lane).maybe_at(mark.empty_since).bool(mark.retired).int(count);
    }
    let marked = marks.rows();
    tx.commit(vec![Statement::MarkLanes.rows(marks)]).await?;
    Ok(marked)
}
