//! Jobs, ledgers and queues as they are shown. Reads one snapshot; never writes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use backstop_core::explain::{ExplainContext, KeyHolder};
use backstop_core::failure::Cause;
use backstop_core::job::{Attempt, FailureRecord, JobDetail, JobSummary, JobView, State};
use backstop_core::{Fence, JobId, Timestamp, tenant};
use backstop_store::show::{self, LaneCounts, PauseNote, Roster, SearchSpace, StateCounts};
use backstop_store::{HeldLane, Holdings, JobFilter, NameRange, Page, PageRequest, QueueRange, QueueView};

use crate::error::Failure;
use crate::lanes;
use crate::load::{self, Sketch};
use crate::rows;
use crate::session::{self, Query, Session};
use crate::sql;
use crate::submit;
use crate::unit::Unit;
use crate::values::{Row, Value};
use crate::worker;

/// The lanes of these queues with their kept counts.
pub(crate) async fn lane_counts(
    session: &mut impl Session,
    queues: &NameRange,
) -> Result<Vec<LaneCounts>, Failure> {
    let rows = session.one(Query::new(sql::LANES, bounds(queues))).await?;
    let read = |mut row| {
        let (id, lane) = lanes::read_from(&mut row)?;
        Ok(LaneCounts { id, lane, jobs: state_counts(&mut row)?, retired: row.bool()? })
    };
    rows.into_iter().map(read).collect()
}

fn state_counts(row: &mut Row) -> Result<StateCounts, Failure> {
    Ok(StateCounts {
        pending: row.number()?,
        running: row.number()?,
        succeeded: row.number()?,
        failed: row.number()?,
        paused: row.number()?,
        canceled: row.number()?,
        waiting: row.number()?,
    })
}

fn bounds(names: &NameRange) -> Vec<Value> {
    vec![Value::text(&names.from), Value::text(&names.end)]
}

/// What a filter means, and the lanes of the queues that it names: no others are read.
pub(crate) async fn scope(
    unit: &mut Unit,
    filter: &JobFilter,
    roster: &Roster,
) -> Result<(SearchSpace, Vec<LaneCounts>), Failure> {
    let queues = filter.queue_names();
    let lanes = lane_counts(unit, &queues).await?;
    if queues.is_all() {
        return Ok((SearchSpace::of(filter, &lanes, roster), lanes));
    }
    let totals = match unit.shared.totals.known() {
        Some(totals) => totals,
        None => {
            let totals = totals(unit).await?;
            unit.shared.totals.keep(totals);
            totals
        }
    };
    Ok((SearchSpace::within(filter, &lanes, &totals, roster), lanes))
}

async fn totals(session: &mut impl Session) -> Result<StateCounts, Failure> {
    let rows = session.one(Query::new(sql::TOTALS, Vec::new())).await?;
    rows.into_iter().next().map_or_else(|| Ok(StateCounts::default()), |mut row| state_counts(&mut row))
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
    let rows = load::by_ids(unit, &sql::VIEWS, ids).await?;
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
    let waiting = load::ready_rows(unit, &sql::READY_FIND, &open).await?;
    let held: Vec<Sketch> =
        open.into_iter().filter(|sketch| !waiting.contains(&sketch.job.spec.id)).collect();
    let grips = load::grips_with(unit, &held).await?;
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
    let spec = &sketch.job.spec;
    JobView {
        waits_for_code: record.state == State::Pending && roster.holds(&spec.queue, &spec.kind, spec.version),
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
    let roster = worker::roster(unit, now).await?;
    // An id may be asked for twice.
    let mut distinct = ids.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let views = views(unit, &distinct, &roster).await?;
    let mut counters: HashMap<JobId, BTreeMap<Cause, u64>> = HashMap::new();
    let asked = || Value::jobs(&distinct);
    for mut row in unit.one(Query::listed(sql::CAUSES, vec![asked(), asked()])).await? {
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

/// Jobs at a glance, in order.
pub(crate) async fn glance(unit: &mut Unit, ids: &[JobId]) -> Result<Vec<Option<JobSummary>>, Failure> {
    let rows = load::by_ids(unit, &sql::GLANCES, ids).await?;
    let mut found: HashMap<JobId, JobSummary> = HashMap::with_capacity(rows.len());
    for mut row in rows {
        found.insert(row.job()?, rows::glance(&mut row)?);
    }
    // An id may be asked for twice.
    Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
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
    let (id, below) = (|| Value::job(job), || Value::int(below));
    let params = vec![id(), below(), id(), below(), Value::count(limit)];
    let rows = session.one(Query::new(sql::ATTEMPTS, params)).await?;
    rows.into_iter().map(rows::attempt).collect()
}

/// The runs of jobs that ran under these fences.
pub(crate) async fn runs_of(
    session: &mut impl Session,
    jobs: &BTreeSet<JobId>,
    fences: &BTreeSet<Fence>,
) -> Result<Vec<(JobId, Attempt)>, Failure> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let asked = || [Value::jobs(jobs), Value::ints(fences.iter().map(|fence| fence.0))];
    let lists = asked().into_iter().chain(asked()).collect();
    let rows = session.one(Query::listed(sql::RUNS_OF, lists)).await?;
    rows.into_iter().map(|mut row| Ok((row.job()?, rows::attempt(row)?))).collect()
}

/// The ledger of a job, latest run first.
pub(crate) async fn attempts(
    unit: &mut Unit,
    job: JobId,
    page: PageRequest<u32>,
) -> Result<Page<Attempt, u32>, Failure> {
    show::page_limit(page.limit)?;
    let below = page.after.map_or(i64::MAX, i64::from);
    let runs = runs(unit, job, below, page.limit + 1).await?;
    Ok(show::cut(runs, page.limit, |run| run.number))
}

/// A job with what surrounds it.
pub(crate) async fn surroundings(
    unit: &mut Unit,
    id: JobId,
) -> Result<Option<(JobView, ExplainContext)>, Failure> {
    let now = unit.now().await?;
    let roster = worker::roster(unit, now).await?;
    let Some(view) = views(unit, &[id], &roster).await?.pop().flatten() else { return Ok(None) };
    let spec = &view.job.spec;
    let decision = unit.one(Query::new(sql::LAST_DECISION, vec![Value::job(id), Value::job(id)])).await?;
    let last_decision = match decision.into_iter().next() {
        Some(mut row) => row.maybe_json()?,
        None => None,
    };
    let paused = unit.one(Query::new(sql::QUEUE_PAUSED, vec![Value::text(&spec.queue)])).await?;
    let pause = match paused.into_iter().next() {
        Some(mut row) => pause(&mut row)?,
        None => None,
    };
    let holder = match spec.business_key.as_deref() {
        Some(key) => key_holder(unit, key, &roster).await?,
        None => None,
    };
    let around = roster.around(&view, pause, holder, last_decision);
    Ok(Some((view, around)))
}

/// The live job that holds a business key, with its stored state.
async fn key_holder(unit: &mut Unit, key: &str, roster: &Roster) -> Result<Option<KeyHolder>, Failure> {
    let Some(mut row) = submit::by_names(unit, &sql::KEYS_FIND, [key]).await?.pop() else { return Ok(None) };
    let (_, job) = (row.text()?, row.job()?);
    let view = views(unit, &[job], roster).await?.pop().flatten();
    Ok(view.map(|view| KeyHolder { job, state: view.record.state }))
}

/// Reads whether a queue is paused, and the note of that.
fn pause(row: &mut Row) -> Result<Option<PauseNote>, Failure> {
    let (paused, note) = (row.bool()?, row.maybe_text()?);
    Ok(paused.then_some(PauseNote(note)))
}

/// Every queue of these names that has a lane, was ever paused, or is served by a live worker.
pub(crate) async fn queues(unit: &mut Unit, names: &NameRange) -> Result<Vec<QueueView>, Failure> {
    let now = unit.now().await?;
    let roster = worker::roster(unit, now).await?;
    let mut paused = Vec::new();
    for mut row in unit.one(Query::new(sql::QUEUES, bounds(names))).await? {
        paused.push((row.text()?, pause(&mut row)?));
    }
    let lanes = lane_counts(unit, names).await?;
    let open: Vec<&LaneCounts> = lanes.iter().filter(|counts| counts.is_open(&roster)).collect();
    let heads = open.iter().map(|counts| Query::new(sql::NEXT_DUE, vec![Value::int(counts.id)])).collect();
    let mut due: HashMap<i64, Timestamp> = HashMap::new();
    for mut row in session::all(unit, heads).await? {
        due.insert(row.int()?, row.moment()?);
    }
    Ok(show::queues(&roster, paused, &lanes, &due, now))
}

/// A page of queues. No lane of a queue that is not on it is read with its counts.
pub(crate) async fn queue_page(
    unit: &mut Unit,
    range: &QueueRange,
) -> Result<Page<QueueView, String>, Failure> {
    let mut names = Vec::new();
    if let Some(limit) = range.limit {
        let now = unit.now().await?;
        let roster = worker::roster(unit, now).await?;
        names.extend(roster.live().flat_map(|row| row.queues.iter().cloned()));
        for text in [sql::LANE_QUEUES, sql::QUEUE_NAMES] {
            names.extend(names_in(unit, text, &range.span(), limit.saturating_add(1)).await?);
        }
    }
    Ok(show::queue_page(queues(unit, &show::page_span(range, names)).await?, range))
}

async fn names_in(
    session: &mut impl Session,
    text: &'static str,
    span: &NameRange,
    most: usize,
) -> Result<Vec<String>, Failure> {
    let mut params = bounds(span);
    params.push(Value::count(most));
    session.one(Query::new(text, params)).await?.into_iter().map(|mut row| row.text()).collect()
}

/// What a tenant has, as far as its limits count it.
pub(crate) async fn holdings(unit: &mut Unit, tenant: &str, most: usize) -> Result<Holdings, Failure> {
    let span = QueueRange::of_tenant(tenant).span();
    let mut params = bounds(&NameRange::under(&tenant::incident_prefix(tenant)));
    params.push(Value::count(most));
    let count = unit.one(Query::new(sql::incident::OF_TENANT, params)).await?;
    let paused = names_in(unit, sql::QUEUE_NAMES, &span, most).await?;
    Ok(Holdings {
        queues: names_in(unit, sql::LANE_QUEUES, &span, most).await?.into_iter().chain(paused).collect(),
        kinds: names_in(unit, sql::LANE_KINDS, &span, most).await?.into_iter().collect(),
        incidents: count.into_iter().next().map_or(Ok(0), |mut row| row.number())?,
    })
}

/// Lanes with pending jobs on a served queue that no live worker knows the kind of (H10).
pub(crate) async fn held_lanes(unit: &mut Unit) -> Result<Vec<HeldLane>, Failure> {
    let now = unit.now().await?;
    let roster = worker::roster(unit, now).await?;
    Ok(show::held_lanes(&roster, &lane_counts(unit, &NameRange::default()).await?))
}
