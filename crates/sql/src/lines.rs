//! Whose turn it is among the jobs of one ordering key (L21).
//!
//! `line` has the head of each line: its key is the key of the table, so no two jobs can have their turn at once,
//! whatever the code does. `place` has those that wait, with a number that grows. Whoever stores a job, ends one or
//! takes one out writes there what follows for that job alone, and a note into `line_change`, in its own transaction:
//! that may be a caller's, which stays open for long, so it must not hold what others wait for.
//!
//! Then a second transaction gives the turn on. It sees whatever was committed with the notes that it has locked, and
//! what is committed later brings notes of its own, so no change is missed. A process that dies between the two leaves
//! its notes to maintenance.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use backstop_core::JobId;
use backstop_core::job::{JobView, LinePlace};
use backstop_store::line::MOST_COUNTED;
use backstop_store::show::{self, Roster};
use backstop_store::{Error, LineRange, LineView, NameRange, Page};

use crate::columns::Columns;
use crate::failure::SqlFailure;
use crate::load;
use crate::query;
use crate::session::Session as _;
use crate::shared::Shared;
use crate::statement::Statement;
use crate::transaction::{Call, Transaction};
use crate::value::Value;
use crate::worker;

/// Notes that are looked at in one transaction.
const BATCH: usize = 1_000;

/// Into how many parts a batch is divided that could not be moved on as a whole. Each try may wait for a lock.
const PARTS: usize = 32;

/// Notes that are put behind all others in one go: those that follow may be the same ones again.
const MOST_POSTPONED: usize = 3;

/// Moves lines on after a commit that has changed some. When that fails, the notes are still there: the next commit
/// that changes a line, or maintenance, finds them.
pub(crate) async fn advance_now(shared: &Arc<Shared>) {
    while let Ok(BATCH) = advance_apart(shared, Call::write().for_group(), BATCH).await {}
}

/// Moves lines on, by up to `limit` notes, and answers how many it has looked at. One that the database refuses to
/// move, or whose next job a stranger's transaction has locked, keeps no other from its turn (C7): the batch is tried
/// in parts until that one is alone, and then its note goes behind all others, where it is found the next time.
pub(crate) async fn advance_apart(shared: &Arc<Shared>, call: Call, limit: usize) -> Result<usize, Error> {
    let (mut all, mut size, mut postponed) = (0, limit.max(1), 0);
    loop {
        match shared.transact(call, move |tx| Box::pin(advance(tx, size))).await {
            Ok(looked_at) => {
                all += looked_at;
                if looked_at < size || all >= limit {
                    return Ok(all);
                }
                size = (size * 2).min(limit - all);
            }
            Err(error) if !is_of_one(&error) => return Err(error),
            Err(_) if size > 1 => size = (size / PARTS).max(1),
            Err(_) => {
                shared.transact(call, |tx| Box::pin(postpone(tx))).await?;
                postponed += 1;
                if postponed == MOST_POSTPONED {
                    return Ok(all);
                }
                size = limit - all;
            }
        }
    }
}

/// True when the fault may be that of one line.
const fn is_of_one(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. } | Error::Backend { .. } | Error::Busy { .. })
}

/// Puts the first note behind all others.
async fn postpone(tx: &mut Transaction) -> Result<(), SqlFailure> {
    let (mut gone, mut again) = (Columns::default(), Columns::default());
    for mut row in tx.ask(Statement::LockLineChanges.with(vec![Value::count(1)])).await? {
        gone.row().int(row.int()?);
        // A key that is no text is that of no line.
        if let Some(key) = row.text_if_any()? {
            again.row().text(&key);
        }
    }
    let requests = vec![Statement::DeleteLineChanges.rows(gone), Statement::InsertLineChanges.rows(again)];
    tx.commit(requests).await.map(drop)
}

/// Gives the turn on in lines that have changed; answers how many notes it has looked at.
async fn advance(tx: &mut Transaction, limit: usize) -> Result<usize, SqlFailure> {
    let mut notes: Vec<(i64, String)> = Vec::new();
    for mut row in tx.ask(Statement::LockLineChanges.with(vec![Value::count(limit)])).await? {
        notes.push((row.int()?, row.text()?));
    }
    if notes.is_empty() {
        return tx.commit(Vec::new()).await.map(|_| 0);
    }
    let now = tx.now().await?;
    let keys: BTreeSet<&String> = notes.iter().map(|(_, key)| key).collect();
    let mut firsts: BTreeMap<String, JobId> = BTreeMap::new();
    for mut row in tx.ask(Statement::FirstPlaces.each(Value::texts(keys))).await? {
        firsts.insert(row.text()?, row.job()?);
    }
    let shared = tx.shared.clone();
    let mut set = tx.working_set(now);
    let ids: Vec<JobId> = firsts.values().copied().collect();
    load::lock(tx, &shared.lanes, &ids).await?.put_into(&mut set);
    let (mut heads, mut places, mut done) = (Columns::default(), Columns::default(), Columns::default());
    let mut missed: BTreeSet<&str> = BTreeSet::new();
    for (key, id) in &firsts {
        // One that is not in a line any more has left it, or got its turn, since we looked: under its lock its place is
        // known to be empty, and who comes next is looked for the next time.
        places.row().job(*id);
        match set.take_turn(*id) {
            Some(blocked) => drop(heads.row().text(key).job(*id).bool(blocked)),
            None => drop(missed.insert(key)),
        }
    }
    for (number, key) in &notes {
        if !missed.contains(&**key) {
            done.row().int(*number);
        }
    }
    let requests = vec![
        Statement::InsertHeads.rows(heads),
        Statement::DeletePlaces.rows(places),
        Statement::DeleteLineChanges.rows(done),
    ];
    tx.write_after(requests, set.into_writes(), now).await?;
    Ok(notes.len())
}

/// Lines that have a head, by key.
pub(crate) async fn lines(
    tx: &mut Transaction,
    range: &LineRange,
) -> Result<Page<LineView, String>, SqlFailure> {
    show::page_limit(range.limit)?;
    let now = tx.now().await?;
    let statement = if range.blocked { Statement::BlockedHeads } else { Statement::Heads };
    let NameRange { from, end } = range.span();
    let page = vec![Value::text(from), Value::text(end), Value::count(range.limit.saturating_add(1))];
    let mut heads: Vec<(String, JobId)> = Vec::new();
    for mut row in tx.ask(statement.with(page)).await? {
        heads.push((row.text()?, row.job()?));
    }
    let keys = Value::texts(heads.iter().map(|(key, _)| key));
    let mut lengths: HashMap<String, u64> = HashMap::new();
    for mut row in tx.ask(Statement::LineLengths.each(keys)).await? {
        lengths.insert(row.text()?, row.number()?);
    }
    let roster = worker::roster(tx, now).await?;
    let ids: Vec<JobId> = heads.iter().map(|(_, id)| *id).collect();
    let jobs = query::views(tx, &ids, &roster).await?;
    let view = |((key, head), job): ((String, JobId), Option<JobView>)| {
        let JobView { job, record, .. } = job?;
        let (waiting, state) = (lengths.get(&key).copied().unwrap_or_default(), record.state);
        Some(LineView { key: key.into(), head, state, queue: job.spec.queue, kind: job.spec.kind, waiting })
    };
    let views: Vec<LineView> = heads.into_iter().zip(jobs).filter_map(view).collect();
    Ok(show::cut(views, range.limit, |view| view.key.to_string()))
}

/// Where a job stands while it waits for its turn.
pub(crate) async fn place(
    tx: &mut Transaction,
    view: &JobView,
    roster: &Roster,
) -> Result<Option<LinePlace>, SqlFailure> {
    let spec = &view.job.spec;
    let Some(key) = spec.ordering_key.as_deref().filter(|_| view.record.waits_for_turn(spec)) else {
        return Ok(None);
    };
    let question = Statement::LinePlace.with(vec![Value::text(key), Value::text(key), Value::job(spec.id)]);
    let Some(mut row) = tx.ask(question).await?.pop() else { return Ok(None) };
    let (head, waiting) = (row.maybe_job()?, row.number::<u64>()?);
    let head = match head {
        Some(id) => {
            query::views(tx, &[id], roster).await?.pop().flatten().map(|head| (id, head.record.state))
        }
        None => None,
    };
    let before = (waiting + u64::from(head.is_some())).min(MOST_COUNTED);
    Ok(Some(LinePlace { head, before }))
}
