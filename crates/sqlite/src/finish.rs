//! Ending runs, by those who hold them and by those who take them back, and what handlers say meanwhile.

use std::collections::HashMap;

use backstop_core::job::{Ending, Spec, Stale, State};
use backstop_core::tenant;
use backstop_core::{WorkerId, event};
use backstop_store::{Duty, Finish, Note, Term};

use rusqlite::params;

use crate::duty::expect_term;
use crate::error::Failure;
use crate::rows::{self, Stored};
use crate::sql;
use crate::unit::{Unit, stale};

type Answers = Vec<Result<State, Stale>>;

/// Ends runs that live workers hold.
pub(crate) fn finish(unit: &mut Unit<'_>, endings: &[Finish]) -> Result<Answers, Failure> {
    all(unit, endings, true)
}

/// Ends runs whose workers are not live any more (L15).
pub(crate) fn rescue(unit: &mut Unit<'_>, term: &Term, endings: &[Finish]) -> Result<Answers, Failure> {
    expect_term(unit, term, Duty::Rescue)?;
    all(unit, endings, false)
}

fn all(unit: &mut Unit<'_>, endings: &[Finish], by_live_worker: bool) -> Result<Answers, Failure> {
    let mut crew = Crew::default();
    let mut answers = Vec::with_capacity(endings.len());
    for finish in endings {
        let may_write = crew.is_live(unit, finish.lease.worker)? == by_live_worker;
        let answer = if may_write { one(unit, finish)? } else { Err(stale(&finish.lease)) };
        answers.push(match answer {
            Err(_) if by_live_worker => again(unit, finish)?,
            answer => answer,
        });
    }
    let told = unit.incidents.settle(unit.conn, unit.now)?;
    if unit.news.wanted {
        unit.news.events.extend(told);
    }
    Ok(answers)
}

fn one(unit: &mut Unit<'_>, finish: &Finish) -> Result<Result<State, Stale>, Failure> {
    let Finish { lease, ending } = finish;
    let Some(mut stored) = unit.find(lease.job)? else { return Ok(Err(stale(lease))) };
    if let Err(stale) = stored.record.held_by(lease) {
        return Ok(Err(stale));
    }
    let spec = start_terms(unit, &stored, ending)?;
    let before = stored.record.clone();
    let run = match stored.record.finish(&spec, lease, ending, unit.now) {
        Ok(run) => run,
        Err(stale) => return Ok(Err(stale)),
    };
    unit.save(&stored, &before)?;
    if unit.news.wanted {
        unit.news.events.extend(event::ended(ending, &stored.record, run.is_some(), unit.now));
    }
    if let Some(run) = &run {
        unit.record_run(&stored, run)?;
        if ending.incident().is_some() {
            let lane = unit.lanes.get(unit.conn, stored.lane)?;
            let kind = tenant::incident_kind(&lane.queue, &lane.kind);
            unit.incidents.count(stored.id, &kind, ending);
        }
        unit.raise_alert(&stored, ending)?;
    }
    for job in ending.follow_up.as_deref().into_iter().chain(&ending.children) {
        // An id that is stored already is the same callback, told of twice.
        unit.insert(job)?;
    }
    unit.news.work_arrived |= stored.record.state == State::Pending;
    Ok(Ok(stored.record.state))
}

/// What was answered when this run ended, if it ended like this (L5).
fn again(unit: &mut Unit<'_>, Finish { lease, ending }: &Finish) -> Result<Result<State, Stale>, Failure> {
    let Some(stored) = unit.find(lease.job)? else { return Ok(Err(stale(lease))) };
    let mut select = unit.conn.prepare_cached(sql::RUN_OF)?;
    let run = rows::first(&mut select, params![stored.seq, lease.fence.0], rows::attempt)?;
    Ok(run.ok_or_else(|| stale(lease)).and_then(|run| run.answer_again(lease, ending)))
}

/// The part of the spec that ending a run needs: `Record::finish` asks it when the job goes back, and only then,
/// until when it may start. A job that goes for good saves the look into `job`.
fn start_terms(unit: &mut Unit<'_>, stored: &Stored, ending: &Ending) -> Result<Spec, Failure> {
    let mut spec = Spec::new(stored.id, ending.job.kind.clone(), ending.job.kind.clone());
    if !ending.decision.verdict.is_final() {
        let mut select = unit.conn.prepare_cached(sql::START_TERMS)?;
        let terms = rows::first(&mut select, [stored.seq], |row| {
            // One that cannot be read has been noted where the job was.
            let policy = rows::text_of(row, 0)?.and_then(|text| serde_json::from_str(text).ok());
            Ok((policy, rows::maybe_moment(row, 1)?))
        })?;
        let (policy, expires_at) = terms.unwrap_or_default();
        spec.policy = policy.unwrap_or_default();
        spec.expires_at = expires_at;
    }
    Ok(spec)
}

/// Keeps what handlers say of their progress.
pub(crate) fn annotate(unit: &mut Unit<'_>, notes: &[Note]) -> Result<Vec<Result<(), Stale>>, Failure> {
    let mut crew = Crew::default();
    notes.iter().map(|note| annotate_one(unit, &mut crew, note)).collect()
}

fn annotate_one(unit: &mut Unit<'_>, crew: &mut Crew, note: &Note) -> Result<Result<(), Stale>, Failure> {
    let refused = Ok(Err(stale(&note.lease)));
    if !crew.is_live(unit, note.lease.worker)? {
        return refused;
    }
    let Some(mut stored) = unit.find(note.lease.job)? else { return refused };
    let before = stored.record.clone();
    if stored.record.note(&note.lease, &note.remark).is_err() {
        return refused;
    }
    unit.save(&stored, &before)?;
    Ok(Ok(()))
}

/// Which workers of a batch are live, each looked up once.
#[derive(Default)]
pub(crate) struct Crew(HashMap<WorkerId, bool>);

impl Crew {
    pub(crate) fn is_live(&mut self, unit: &Unit<'_>, worker: WorkerId) -> Result<bool, Failure> {
        if let Some(live) = self.0.get(&worker) {
            return Ok(*live);
        }
        let live = unit.is_live(worker)?;
        self.0.insert(worker, live);
        Ok(live)
    }
}
