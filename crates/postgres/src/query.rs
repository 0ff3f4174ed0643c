//! Jobs, ledgers, queues and incidents as they are shown. Reads one snapshot; never writes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use backstop_core::explain::{Holder, Surroundings};
use backstop_core::failure::Cause;
use backstop_core::job::{Attempt, FailureRecord, JobDetail, JobView, State};
use backstop_core::{JobId, Limits, Timestamp};
use backstop_store::desk::LaneKey;
use backstop_store::{Error, HeldLane, Incident, Page, PageRequest, QueueView};

use crate::error::Failure;
use crate::lanes;
use crate::load::{self, Sketch};
use crate::rows;
use crate::session::{Query, Session};
use crate::sql;
use crate::unit::Unit;
use crate::values::Value;
use crate::worker::Roster;

/// A lane with its kept counts.
pub(crate) struct LaneCounts {
    pub(crate) id: i64,
    pub(crate) lane: LaneKey,
    pub(crate) pending: u64,
    running: u64,
    succeeded: u64,
    failed: u64,
    paused: u64,
    canceled: u64,
    waiting: u64,
}

/// Refuses a page that is too large.
pub(crate) fn check_page(limit: usize) -> Result<(), Failure> {
    let most = Limits::default().page;
    if limit > most {
        return Err(Error::TooMany { what: "the page", actual: limit, limit: most }.into());
    }
    Ok(())
}

/// Cuts the one row too many that was read to see whether more follow.
pub(crate) fn cut<T, K>(mut items: Vec<T>, limit: usize, key: impl Fn(&T) -> K) -> Page<T, K> {
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().map(key).filter(|_| more);
    Page { items, next }
}

pub(crate) async fn lane_counts(session: &mut impl Session) -> Result<Vec<LaneCounts>, Failure> {
    let rows = session.one(Query::new(sql::LANES, Vec::new())).await?;
    let read = |mut row| {
        let (id, lane) = lanes::read_from(&mut row)?;
        Ok(LaneCounts {
            id,
            lane,
            pending: row.number()?,
            running: row.number()?,
            succeeded: row.number()?,
            failed: row.number()?,
            paused: row.number()?,
            canceled: row.number()?,
            waiting: row.number()?,
        })
    };
    rows.into_iter().map(read).collect()
}

/// What a row of `sql::VIEWS` tells beside the job and its record.
struct Extras {
    last_failure: Option<FailureRecord>,
    result: Option<Arc<str>>,
    warning: Option<String>,
    started_at: Option<Timestamp>,
}

/// Jobs as they are shown, in the order of `ids`; none for an unknown one.
pub(crate) async fn views(
    unit: &mut Unit,
    ids: &[JobId],
    roster: &Roster,
) -> Result<Vec<Option<JobView>>, Failure> {
    let shared = unit.shared.clone();
    let rows = unit.one(Query::new(sql::VIEWS, vec![Value::jobs(ids)])).await?;
    load::meet_lanes(unit, &shared.lanes, &rows, 0).await?;
    let mut found: HashMap<JobId, (Sketch, Extras)> = HashMap::with_capacity(rows.len());
    for mut row in rows {
        let sketch = load::sketch(&mut row, &shared.lanes, true)?;
        let extras = Extras {
            last_failure: rows::failure(&mut row)?,
            result: row.maybe_text()?.map(Arc::from),
            warning: row.maybe_text()?,
            started_at: row.maybe_moment()?,
        };
        found.insert(sketch.job.spec.id, (sketch, extras));
    }
    let open: Vec<Sketch> =
        found.values().map(|(sketch, _)| sketch).filter(|sketch| sketch.is_open()).cloned().collect();
    let waiting = load::ready_rows(unit, sql::READY_FIND, &open).await?;
    let held: Vec<Sketch> =
        open.into_iter().filter(|sketch| !waiting.contains(&sketch.job.spec.id)).collect();
    let grips = load::grips_with(unit, sql::GRIPS_WITH, &held).await?;
    let mut view = |id: &JobId| {
        let (mut sketch, extras) = found.remove(id)?;
        if let Some(record) =
            load::held(&sketch, &grips).filter(|_| sketch.is_open() && !waiting.contains(id))
        {
            sketch.record = record;
        }
        Some(show(sketch, extras, roster))
    };
    Ok(ids.iter().map(&mut view).collect())
}

fn show(sketch: Sketch, extras: Extras, roster: &Roster) -> JobView {
    let record = sketch.record;
    let ended = record.state.is_terminal();
    let started = record.hold.and_then(|hold| hold.started_at);
    let lane = backstop_store::desk::lane_of(&sketch.job.spec);
    JobView {
        waits_for_code: record.state == State::Pending && roster.holds(&lane),
        last_failure: extras.last_failure,
        result: extras.result.filter(|_| ended),
        warning: extras.warning.filter(|_| ended),
        started_at: started.or(extras.started_at),
        job: Arc::unwrap_or_clone(sketch.job),
        record,
    }
}

/// Jobs with the counts of their runs, in order.
pub(crate) async fn details(
    unit: &mut Unit,
    ids: &[JobId],
    now: Timestamp,
) -> Result<Vec<Option<JobDetail>>, Failure> {
    let roster = Roster::read(unit, now).await?;
    // An id may be asked for twice.
    let mut distinct = ids.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let views = views(unit, &distinct, &roster).await?;
    let mut counters: HashMap<JobId, BTreeMap<Cause, u64>> = HashMap::new();
    for mut row in unit.one(Query::new(sql::CAUSES, vec![Value::jobs(&distinct)])).await? {
        let (id, cause, count) = (row.job()?, row.word()?, row.number()?);
        counters.entry(id).or_default().insert(cause, count);
    }
    let detail = |view: JobView| {
        let id = view.job.spec.id;
        (id, JobDetail { counters: counters.remove(&id).unwrap_or_default(), view })
    };
    let found: HashMap<JobId, JobDetail> = views.into_iter().flatten().map(detail).collect();
    Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
}

/// Jobs by id, in order.
pub(crate) async fn jobs(unit: &mut Unit, ids: &[JobId]) -> Result<Vec<Option<JobDetail>>, Failure> {
    let now = unit.now().await?;
    details(unit, ids, now).await
}

/// Every run of one job, latest first.
pub(crate) async fn ledger(session: &mut impl Session, job: JobId) -> Result<Vec<Attempt>, Failure> {
    runs(session, job, i64::MAX, usize::MAX).await
}

async fn runs(
    session: &mut impl Session,
    job: JobId,
    below: i64,
    limit: usize,
) -> Result<Vec<Attempt>, Failure> {
    let params = vec![Value::job(job), Value::Int(Some(below)), Value::count(limit)];
    let rows = session.one(Query::new(sql::ATTEMPTS, params)).await?;
    rows.into_iter().map(rows::attempt).collect()
}

/// The ledger of a job, latest run first.
pub(crate) async fn attempts(
    unit: &mut Unit,
    job: JobId,
    page: PageRequest<u32>,
) -> Result<Page<Attempt, u32>, Failure> {
    check_page(page.limit)?;
    let below = page.after.map_or(i64::MAX, i64::from);
    let runs = runs(unit, job, below, page.limit + 1).await?;
    Ok(cut(runs, page.limit, |run| run.number))
}

/// A job with what surrounds it.
pub(crate) async fn surroundings(
    unit: &mut Unit,
    id: JobId,
) -> Result<Option<(JobView, Surroundings)>, Failure> {
    let now = unit.now().await?;
    let roster = Roster::read(unit, now).await?;
    let Some(view) = views(unit, &[id], &roster).await?.pop().flatten() else { return Ok(None) };
    let spec = &view.job.spec;
    let (workers_on_queue, workers_for_kind) = roster.crew(&spec.queue, &spec.kind, spec.version);
    let holder = view.record.hold.map(|hold| match roster.get(hold.worker) {
        Some(row) => Holder { worker: hold.worker, name: row.name.clone(), until: row.expires_at },
        None => Holder { worker: hold.worker, name: "unknown".to_owned(), until: Timestamp::MIN },
    });
    let decision = unit.one(Query::new(sql::LAST_DECISION, vec![Value::job(id)])).await?;
    let last_decision = match decision.into_iter().next() {
        Some(mut row) => row.maybe_json()?,
        None => None,
    };
    let paused = unit.one(Query::new(sql::QUEUE_PAUSED, vec![Value::text(&spec.queue)])).await?;
    let queue_paused = match paused.into_iter().next() {
        Some(mut row) => row.bool()?,
        None => false,
    };
    let around =
        Surroundings { now, queue_paused, workers_on_queue, workers_for_kind, holder, last_decision };
    Ok(Some((view, around)))
}

/// Every queue that has a lane, was ever paused, or is served by a live worker.
pub(crate) async fn queues(unit: &mut Unit) -> Result<Vec<QueueView>, Failure> {
    let now = unit.now().await?;
    let roster = Roster::read(unit, now).await?;
    let mut queues: BTreeMap<String, QueueView> = BTreeMap::new();
    for name in roster.live().flat_map(|row| row.queues.iter()) {
        let (on_queue, _) = roster.crew(name, "", 0);
        queue(&mut queues, name).workers = u64::try_from(on_queue).unwrap_or(u64::MAX);
    }
    for mut row in unit.one(Query::new(sql::QUEUES, Vec::new())).await? {
        let name = row.text()?;
        queue(&mut queues, &name).paused = row.bool()?;
    }
    let lanes = lane_counts(unit).await?;
    let open: Vec<&LaneCounts> =
        lanes.iter().filter(|counts| counts.pending > 0 && !roster.holds(&counts.lane)).collect();
    let ids = Value::Ints(open.iter().map(|counts| Some(counts.id)).collect());
    let mut due: HashMap<i64, Timestamp> = HashMap::new();
    for mut row in unit.one(Query::new(sql::LANES_DUE, vec![ids])).await? {
        due.insert(row.int()?, row.moment()?);
    }
    for counts in &lanes {
        let view = queue(&mut queues, &counts.lane.queue);
        count_lane(view, counts, roster.holds(&counts.lane));
        let oldest = due.get(&counts.id).copied().filter(|due| *due <= now);
        view.oldest_due = [view.oldest_due, oldest].into_iter().flatten().min();
    }
    Ok(queues.into_values().collect())
}

/// Lanes with pending jobs on a served queue that no live worker knows the kind of (H10).
pub(crate) async fn held_lanes(unit: &mut Unit) -> Result<Vec<HeldLane>, Failure> {
    let now = unit.now().await?;
    let roster = Roster::read(unit, now).await?;
    let mut held: BTreeMap<(String, String, u32), u64> = BTreeMap::new();
    for LaneCounts { lane, pending, .. } in lane_counts(unit).await? {
        if pending > 0 && roster.holds(&lane) {
            let key = (lane.queue.to_string(), lane.kind.to_string(), lane.version);
            *held.entry(key).or_default() += pending;
        }
    }
    let lane = |((queue, kind, version), jobs)| HeldLane { queue, kind, version, jobs };
    Ok(held.into_iter().map(lane).collect())
}

/// Incidents, latest seen first.
pub(crate) async fn incidents(unit: &mut Unit, limit: usize) -> Result<Vec<Incident>, Failure> {
    check_page(limit)?;
    let rows = unit.one(Query::new(sql::INCIDENTS, vec![Value::count(limit)])).await?;
    rows.into_iter().map(rows::incident).collect()
}

fn queue<'q>(queues: &'q mut BTreeMap<String, QueueView>, name: &str) -> &'q mut QueueView {
    queues.entry(name.to_owned()).or_insert_with(|| QueueView {
        name: name.to_owned(),
        paused: false,
        pending: 0,
        waiting: 0,
        running: 0,
        paused_jobs: 0,
        succeeded: 0,
        failed: 0,
        canceled: 0,
        oldest_due: None,
        workers: 0,
    })
}

/// Adds a lane's counts to its queue; the pending jobs of a held lane are shown as waiting (H10).
fn count_lane(view: &mut QueueView, counts: &LaneCounts, held: bool) {
    let pending = if held { &mut view.waiting } else { &mut view.pending };
    *pending += counts.pending;
    view.waiting += counts.waiting;
    view.running += counts.running;
    view.paused_jobs += counts.paused;
    view.succeeded += counts.succeeded;
    view.failed += counts.failed;
    view.canceled += counts.canceled;
}
