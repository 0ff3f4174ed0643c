//! Jobs, ledgers and queues as they are shown. Reads one snapshot; never writes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use backstop_core::explain::{ExplainContext, KeyHolder};
use backstop_core::failure::Cause;
use backstop_core::job::{Attempt, FailureRecord, JobDetail, JobSummary, JobView, State};
use backstop_core::{Fence, JobId, Timestamp, tenant};
use backstop_store::show::{self, LaneCounts, PauseNote, Roster, SearchSpace, StateCounts};
use backstop_store::{HeldLane, Holdings, JobFilter, NameRange, Page, PageRequest, QueueRange, QueueView};

use crate::decode;
use crate::failure::SqlFailure;
use crate::lanes;
use crate::lines;
use crate::load::{self, FoundJob};
use crate::row::{self, Row};
use crate::session::Session;
use crate::statement::Statement;
use crate::transaction::Transaction;
use crate::value::Value;
use crate::worker;

/// The lanes of these queues with their kept counts.
pub(crate) async fn lane_counts(
    session: &mut dyn Session,
    queues: &NameRange,
) -> Result<Vec<LaneCounts>, SqlFailure> {
    let rows = session.ask(Statement::Lanes.with(bounds(queues))).await?;
    let read = |mut row| {
        let (id, lane) = lanes::read(&mut row)?;
        Ok(LaneCounts { id, lane, jobs: state_counts(&mut row)?, retired: row.bool()? })
    };
    rows.into_iter().map(read).collect()
}

fn state_counts(row: &mut Row) -> Result<StateCounts, SqlFailure> {
    Ok(StateCounts {
        pending: row.total()?,
        running: row.total()?,
        succeeded: row.total()?,
        failed: row.total()?,
        paused: row.total()?,
        canceled: row.total()?,
        waiting: row.total()?,
    })
}

fn bounds(names: &NameRange) -> Vec<Value> {
    vec![Value::text(&names.from), Value::text(&names.end)]
}

/// What a filter means, and the lanes of the queues that it names: no others are read.
pub(crate) async fn scope(
    tx: &mut Transaction,
    filter: &JobFilter,
    roster: &Roster,
) -> Result<(SearchSpace, Vec<LaneCounts>), SqlFailure> {
    let queues = filter.queue_names();
    let lanes = lane_counts(tx, &queues).await?;
    if queues.is_all() {
        return Ok((SearchSpace::of(filter, &lanes, roster), lanes));
    }
    let totals = match tx.shared.totals.known() {
        Some(totals) => totals,
        None => {
            let totals = totals(tx).await?;
            tx.shared.totals.keep(totals);
            totals
        }
    };
    Ok((SearchSpace::within(filter, &lanes, &totals, roster), lanes))
}

async fn totals(session: &mut dyn Session) -> Result<StateCounts, SqlFailure> {
    let rows = session.ask(Statement::Totals.plain()).await?;
    rows.into_iter().next().map_or_else(|| Ok(StateCounts::default()), |mut row| state_counts(&mut row))
}

/// What a row of [`Statement::Views`] tells beside the job and its record.
struct Extras {
    last_failure: Option<FailureRecord>,
    result: Option<Arc<str>>,
    warning: Option<String>,
    started_at: Option<Timestamp>,
}

/// Jobs as they are shown, in the order of `ids`; none for an unknown one.
pub(crate) async fn views(
    tx: &mut Transaction,
    ids: &[JobId],
    roster: &Roster,
) -> Result<Vec<Option<JobView>>, SqlFailure> {
    let shared = tx.shared.clone();
    let rows = tx.ask(Statement::Views.each_job(ids)).await?;
    load::meet_lanes(tx, &shared.lanes, &rows, 0).await?;
    let mut found: HashMap<JobId, (FoundJob, Extras)> = HashMap::with_capacity(rows.len());
    for mut row in rows {
        let stored = load::read(&mut row, &shared.lanes)?;
        let extras = Extras {
            last_failure: decode::failure(&mut row)?,
            result: row.text_if_any()?.map(Arc::from),
            warning: row.text_if_any()?,
            started_at: row.maybe_moment()?,
        };
        found.insert(stored.job.spec.id, (stored, extras));
    }
    let open: Vec<FoundJob> =
        found.values().map(|(stored, _)| stored).filter(|stored| stored.is_open()).cloned().collect();
    let waiting = load::ready_rows(tx, Statement::FindReady, &open).await?;
    let held: Vec<FoundJob> =
        open.into_iter().filter(|stored| !waiting.contains(&stored.job.spec.id)).collect();
    let claims = load::claims_with(tx, &held).await?;
    let mut view = |id: &JobId| {
        let (mut stored, extras) = found.remove(id)?;
        if let Some(record) =
            load::held(&stored, &claims).filter(|_| stored.is_open() && !waiting.contains(id))
        {
            stored.record = record;
        }
        Some(show(stored, extras, roster))
    };
    Ok(ids.iter().map(&mut view).collect())
}

fn show(stored: FoundJob, extras: Extras, roster: &Roster) -> JobView {
    let record = stored.record;
    let ended = record.state.is_terminal();
    let started = record.hold.and_then(|hold| hold.started_at);
    let spec = &stored.job.spec;
    JobView {
        waits_for_code: record.state == State::Pending && roster.holds(&spec.queue, &spec.kind, spec.version),
        held_by: None,
        last_failure: extras.last_failure,
        result: extras.result.filter(|_| ended),
        warning: extras.warning.filter(|_| ended),
        started_at: started.or(extras.started_at),
        job: Arc::unwrap_or_clone(stored.job),
        record,
    }
}

/// Jobs with the counts of their runs, in order.
pub(crate) async fn details(
    tx: &mut Transaction,
    ids: &[JobId],
    now: Timestamp,
) -> Result<Vec<Option<JobDetail>>, SqlFailure> {
    let roster = worker::roster(tx, now).await?;
    // An id may be asked for twice.
    let mut distinct = ids.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let views = views(tx, &distinct, &roster).await?;
    let mut counters: HashMap<JobId, BTreeMap<Cause, u64>> = HashMap::new();
    for mut row in tx.ask(Statement::Causes.each_job(&distinct)).await? {
        let (id, cause, count) = (row.job()?, row.word()?, row.number()?);
        counters.entry(id).or_default().insert(cause, count);
    }
    let mut found: HashMap<JobId, JobDetail> = HashMap::with_capacity(views.len());
    for view in views.into_iter().flatten() {
        let (id, line) = (view.job.spec.id, lines::place(tx, &view, &roster).await?);
        found.insert(id, JobDetail { counters: counters.remove(&id).unwrap_or_default(), view, line });
    }
    Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
}

/// Jobs by id, in order.
pub(crate) async fn jobs(tx: &mut Transaction, ids: &[JobId]) -> Result<Vec<Option<JobDetail>>, SqlFailure> {
    let now = tx.now().await?;
    details(tx, ids, now).await
}

/// Jobs in short, in order.
pub(crate) async fn job_summaries(
    tx: &mut Transaction,
    ids: &[JobId],
) -> Result<Vec<Option<JobSummary>>, SqlFailure> {
    let rows = tx.ask(Statement::Summaries.each_job(ids)).await?;
    let mut found: HashMap<JobId, JobSummary> = HashMap::with_capacity(rows.len());
    for mut row in rows {
        found.insert(row.job()?, decode::job_summary(&mut row)?);
    }
    // An id may be asked for twice.
    Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
}

/// Every run of one job, latest first.
pub(crate) async fn ledger(session: &mut dyn Session, job: JobId) -> Result<Vec<Attempt>, SqlFailure> {
    runs(session, job, i64::MAX, usize::MAX).await
}

async fn runs(
    session: &mut dyn Session,
    job: JobId,
    below: i64,
    limit: usize,
) -> Result<Vec<Attempt>, SqlFailure> {
    let params = vec![Value::job(job), Value::int(below), Value::count(limit)];
    let rows = session.ask(Statement::Attempts.with(params)).await?;
    rows.into_iter().map(decode::attempt).collect()
}

/// The runs of jobs that ran under these fences.
pub(crate) async fn runs_under(
    session: &mut dyn Session,
    jobs: &BTreeSet<JobId>,
    fences: &BTreeSet<Fence>,
) -> Result<Vec<(JobId, Attempt)>, SqlFailure> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let fences = Value::ints(fences.iter().map(|fence| fence.0));
    let rows = session.ask(Statement::RunsUnder.with(vec![Value::jobs(jobs), fences])).await?;
    rows.into_iter().map(|mut row| Ok((row.job()?, decode::attempt(row)?))).collect()
}

/// The ledger of a job, latest run first.
pub(crate) async fn attempts(
    tx: &mut Transaction,
    job: JobId,
    page: PageRequest<u32>,
) -> Result<Page<Attempt, u32>, SqlFailure> {
    show::page_limit(page.limit)?;
    let below = page.after.map_or(i64::MAX, i64::from);
    let runs = runs(tx, job, below, page.limit + 1).await?;
    Ok(show::cut(runs, page.limit, |run| run.number))
}

/// A job with what surrounds it.
pub(crate) async fn surroundings(
    tx: &mut Transaction,
    id: JobId,
) -> Result<Option<(JobView, ExplainContext)>, SqlFailure> {
    let now = tx.now().await?;
    let roster = worker::roster(tx, now).await?;
    let Some(view) = views(tx, &[id], &roster).await?.pop().flatten() else { return Ok(None) };
    let spec = &view.job.spec;
    let requests = vec![
        Statement::LastDecision.with(vec![Value::job(id)]),
        Statement::QueuePaused.with(vec![Value::text(&*spec.queue)]),
    ];
    let mut answers = tx.ask_all(requests).await?;
    let paused = row::first(answers.pop().unwrap_or_default(), pause)?.flatten();
    let last_decision = row::first(answers.pop().unwrap_or_default(), Row::maybe_json)?.flatten();
    let key_holder = key_holder(tx, spec.business_key.as_deref(), &roster).await?;
    let line = lines::place(tx, &view, &roster).await?;
    let around = roster.around(&view, paused, key_holder, line, last_decision);
    Ok(Some((view, around)))
}

/// The live job that holds a business key.
async fn key_holder(
    tx: &mut Transaction,
    key: Option<&str>,
    roster: &Roster,
) -> Result<Option<KeyHolder>, SqlFailure> {
    let Some(key) = key else { return Ok(None) };
    let rows = tx.ask(Statement::FindBusinessKeys.each(Value::texts([key]))).await?;
    let Some(mut row) = rows.into_iter().next() else { return Ok(None) };
    row.skip(1);
    let job = row.job()?;
    let found = views(tx, &[job], roster).await?.pop().flatten();
    Ok(found.map(|view| KeyHolder { job, state: view.record.state }))
}

/// Reads whether a queue is paused, and who or what asked for it.
fn pause(row: &mut Row) -> Result<Option<PauseNote>, SqlFailure> {
    let (paused, note) = (row.bool()?, row.maybe_text()?);
    Ok(paused.then_some(PauseNote(note)))
}

/// Every queue of these names that has a lane, was ever paused, or is served by a live worker.
pub(crate) async fn queues(tx: &mut Transaction, names: &NameRange) -> Result<Vec<QueueView>, SqlFailure> {
    let now = tx.now().await?;
    let roster = worker::roster(tx, now).await?;
    let mut paused = Vec::new();
    for mut row in tx.ask(Statement::Queues.with(bounds(names))).await? {
        paused.push((row.text()?, pause(&mut row)?));
    }
    let lanes = lane_counts(tx, names).await?;
    let open: Vec<&LaneCounts> = lanes.iter().filter(|counts| counts.is_open(&roster)).collect();
    let ids = Value::ints(open.iter().map(|counts| counts.id));
    let mut due: HashMap<i64, Timestamp> = HashMap::new();
    for mut row in tx.ask(Statement::NextDue.each(ids)).await? {
        due.insert(row.int()?, row.moment()?);
    }
    Ok(show::queues(&roster, paused, &lanes, &due, now))
}

/// A page of queues. No lane of a queue that is not on it is read with its counts.
pub(crate) async fn queue_page(
    tx: &mut Transaction,
    range: &QueueRange,
) -> Result<Page<QueueView, String>, SqlFailure> {
    let mut names = Vec::new();
    if let Some(limit) = range.limit {
        let now = tx.now().await?;
        let roster = worker::roster(tx, now).await?;
        names.extend(roster.live().flat_map(|row| row.queues.iter().cloned()));
        for statement in [Statement::LaneQueues, Statement::QueueNames] {
            names.extend(names_in(tx, statement, &range.span(), limit.saturating_add(1)).await?);
        }
    }
    Ok(show::queue_page(queues(tx, &show::page_span(range, names)).await?, range))
}

async fn names_in(
    session: &mut dyn Session,
    statement: Statement,
    span: &NameRange,
    most: usize,
) -> Result<Vec<String>, SqlFailure> {
    let mut params = bounds(span);
    params.push(Value::count(most));
    session.ask(statement.with(params)).await?.into_iter().map(|mut row| row.text()).collect()
}

/// What a tenant has, as far as its limits count it.
pub(crate) async fn holdings(
    tx: &mut Transaction,
    tenant: &str,
    most: usize,
) -> Result<Holdings, SqlFailure> {
    let span = QueueRange::of_tenant(tenant).span();
    let mut params = bounds(&NameRange::under(&tenant::incident_prefix(tenant)));
    params.push(Value::count(most));
    let count = tx.ask(Statement::CountIncidentsOf.with(params)).await?;
    let paused = names_in(tx, Statement::QueueNames, &span, most).await?;
    Ok(Holdings {
        queues: names_in(tx, Statement::LaneQueues, &span, most).await?.into_iter().chain(paused).collect(),
        kinds: names_in(tx, Statement::LaneKinds, &span, most).await?.into_iter().collect(),
        incidents: row::first(count, Row::number)?.unwrap_or_default(),
    })
}

/// Lanes with pending jobs on a served queue that no live worker knows the kind of (H10).
pub(crate) async fn held_lanes(tx: &mut Transaction) -> Result<Vec<HeldLane>, SqlFailure> {
    let now = tx.now().await?;
    let roster = worker::roster(tx, now).await?;
    Ok(show::held_lanes(&roster, &lane_counts(tx, &NameRange::default()).await?))
}
