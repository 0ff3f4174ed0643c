//! Ending runs, by their workers and by the rescue, and the progress that handlers report.

use backstop_core::job::{Ending, NoteError, Remark, Spec, Stale, State};
use backstop_core::outbox::OutboxMessage;
use backstop_core::{event, tenant};
use backstop_store::{Duty, Finish, Note, Term};
use rusqlite::params;

use crate::duty::expect_term;
use crate::error::SqliteFailure;
use crate::rows::{self, StateRow};
use crate::sql;
use crate::transaction::{WriteTransaction, stale};
use crate::worker::LiveWorkers;

type Answers = Vec<Result<State, Stale>>;

/// Ends runs that live workers hold.
pub(crate) fn finish(tx: &mut WriteTransaction<'_>, endings: &[Finish]) -> Result<Answers, SqliteFailure> {
    all(tx, endings, true)
}

/// Ends runs whose workers are not live any more (L15).
pub(crate) fn rescue(
    tx: &mut WriteTransaction<'_>,
    term: &Term,
    endings: &[Finish],
) -> Result<Answers, SqliteFailure> {
    expect_term(tx, term, Duty::Rescue)?;
    all(tx, endings, false)
}

fn all(
    tx: &mut WriteTransaction<'_>,
    endings: &[Finish],
    by_live_worker: bool,
) -> Result<Answers, SqliteFailure> {
    let mut live = LiveWorkers::default();
    let mut answers = Vec::with_capacity(endings.len());
    for finish in endings {
        let may_write = live.is_live(tx, finish.lease.worker)? == by_live_worker;
        let answer = if may_write { one(tx, finish)? } else { Err(stale(&finish.lease)) };
        answers.push(match answer {
            Err(_) if by_live_worker => again(tx, finish)?,
            answer => answer,
        });
    }
    let told = tx.incidents.settle(tx.conn, tx.now)?;
    if tx.news.wanted {
        tx.news.events.extend(told);
    }
    Ok(answers)
}

fn one(tx: &mut WriteTransaction<'_>, finish: &Finish) -> Result<Result<State, Stale>, SqliteFailure> {
    let Finish { lease, ending } = finish;
    let Some(mut stored) = tx.find(lease.job)? else { return Ok(Err(stale(lease))) };
    if let Err(stale) = stored.record.held_by(lease) {
        return Ok(Err(stale));
    }
    let spec = start_terms(tx, &stored, ending)?;
    let before = stored.record.clone();
    let run = match stored.record.finish(&spec, lease, ending, tx.now) {
        Ok(run) => run,
        Err(stale) => return Ok(Err(stale)),
    };
    tx.save(&stored, &before)?;
    if tx.news.wanted {
        tx.news.events.extend(event::ended(ending, &stored.record, run.is_some(), tx.now));
    }
    if let Some(run) = &run {
        tx.record_run(&stored, run)?;
        if ending.incident().is_some() {
            let lane = tx.lanes.get(tx.conn, stored.lane)?;
            let kind = tenant::incident_kind(&lane.queue, &lane.kind);
            tx.incidents.count(stored.id, &kind, ending);
        }
        tx.raise_alert(&stored, ending)?;
        tx.send_end(&stored, ending)?;
    }
    for job in ending.follow_up.as_deref().into_iter().chain(&ending.children) {
        // An id that is stored already is the same callback, reported twice.
        tx.insert(job)?;
    }
    tx.news.work_arrived |= stored.record.state == State::Pending;
    Ok(Ok(stored.record.state))
}

/// The answer that was given when this run ended, if it ended in the same way (L5).
fn again(
    tx: &mut WriteTransaction<'_>,
    Finish { lease, ending }: &Finish,
) -> Result<Result<State, Stale>, SqliteFailure> {
    let Some(stored) = tx.find(lease.job)? else { return Ok(Err(stale(lease))) };
    let mut select = tx.conn.prepare_cached(sql::RUN_OF)?;
    let run = rows::first(&mut select, params![stored.seq, lease.fence.0], rows::attempt)?;
    Ok(run.ok_or_else(|| stale(lease)).and_then(|run| run.answer_again(lease, ending)))
}

/// The part of the spec that ending a run needs: `Record::finish` asks it when the job goes back, and only then,
/// until when it may start. For a job that has ended for good, `job` is not read.
fn start_terms(
    tx: &mut WriteTransaction<'_>,
    stored: &StateRow,
    ending: &Ending,
) -> Result<Spec, SqliteFailure> {
    let mut spec = Spec::new(stored.id, ending.job.kind.clone(), ending.job.kind.clone());
    if !ending.decision.verdict.is_final() {
        let mut select = tx.conn.prepare_cached(sql::START_TERMS)?;
        let terms = rows::first(&mut select, [stored.seq], |row| {
            // A policy that cannot be read was noted when the job was loaded.
            let policy = rows::text_of(row, 0)?.and_then(|text| serde_json::from_str(text).ok());
            Ok((policy, rows::maybe_moment(row, 1)?))
        })?;
        let (policy, expires_at) = terms.unwrap_or_default();
        spec.policy = policy.unwrap_or_default();
        spec.expires_at = expires_at;
    }
    Ok(spec)
}

/// Stores the progress that handlers report.
pub(crate) fn annotate(
    tx: &mut WriteTransaction<'_>,
    notes: &[Note],
) -> Result<Vec<Result<(), NoteError>>, SqliteFailure> {
    let mut live = LiveWorkers::default();
    notes.iter().map(|note| annotate_one(tx, &mut live, note)).collect()
}

fn annotate_one(
    tx: &mut WriteTransaction<'_>,
    live: &mut LiveWorkers,
    note: &Note,
) -> Result<Result<(), NoteError>, SqliteFailure> {
    let refused = Ok(Err(stale(&note.lease).into()));
    if !live.is_live(tx, note.lease.worker)? {
        return refused;
    }
    let Some(mut stored) = tx.find(note.lease.job)? else { return refused };
    let before = stored.record.clone();
    let kept = match stored.record.note(&note.lease, &note.remark) {
        Ok(kept) => kept,
        Err(refused) => return Ok(Err(refused)),
    };
    tx.save(&stored, &before)?;
    if let (Some(_), Remark::Rejects(batch)) = (kept, &note.remark) {
        let rejects: Vec<_> = OutboxMessage::rejects(&tx.sinks, batch).collect();
        tx.send(rejects);
    }
    for (drawer, key, body) in kept.into_iter().flat_map(|position| note.documents(position)) {
        let values = params![drawer.as_str(), key, &*body];
        tx.conn.prepare_cached(sql::DOCUMENT_PUT)?.execute(values)?;
    }
    Ok(Ok(()))
}
