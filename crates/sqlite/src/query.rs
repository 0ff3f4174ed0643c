//! Jobs, ledgers and queues as they are shown. Reads one snapshot; never writes.

use std::collections::{BTreeMap, HashMap};

use backstop_core::explain::{ExplainContext, KeyHolder};
use backstop_core::job::{Attempt, JobDetail, JobSummary, JobView, State};
use backstop_core::{JobId, Timestamp, tenant};
use backstop_store::show::{self, LaneCounts, Roster, SearchSpace, StateCounts};
use backstop_store::{HeldLane, Holdings, JobFilter, NameRange, Page, PageRequest, QueueRange, QueueView};
use rusqlite::{Connection, params};

use crate::error::SqliteFailure;
use crate::lanes::{self, LaneCache};
use crate::lines;
use crate::queue::pause;
use crate::rows::{self, LaneRow, VIEW_EXTRAS};
use crate::sql;
use crate::worker::roster;

/// A read transaction and what is needed to read in it.
pub(crate) struct Snapshot<'c> {
    pub(crate) conn: &'c Connection,
    pub(crate) lanes: &'c mut LaneCache,
    pub(crate) now: Timestamp,
}

fn state_counts(row: &rusqlite::Row<'_>, first: usize) -> Result<StateCounts, SqliteFailure> {
    Ok(StateCounts {
        pending: rows::count(row, first)?,
        running: rows::count(row, first + 1)?,
        succeeded: rows::count(row, first + 2)?,
        failed: rows::count(row, first + 3)?,
        paused: rows::count(row, first + 4)?,
        canceled: rows::count(row, first + 5)?,
        waiting: rows::count(row, first + 6)?,
    })
}

impl Snapshot<'_> {
    fn seq(&self, id: JobId) -> Result<Option<i64>, SqliteFailure> {
        rows::value(&mut *self.conn.prepare_cached(sql::SEQ_BY_ID)?, [id.as_bytes()])
    }

    /// The lanes of these queues with their kept counts.
    pub(crate) fn lane_counts(&self, queues: &NameRange) -> Result<Vec<LaneCounts>, SqliteFailure> {
        rows::collect(&mut *self.conn.prepare_cached(sql::LANES)?, [&queues.from, &queues.end], |row| {
            let lane = LaneRow::from_row(row)?;
            Ok(LaneCounts {
                id: lane.id,
                lane: lane.key(),
                jobs: state_counts(row, 5)?,
                retired: row.get(12)?,
            })
        })
    }

    /// A job as it is shown.
    pub(crate) fn view(&mut self, roster: &Roster, seq: i64) -> Result<JobView, SqliteFailure> {
        const AT: usize = VIEW_EXTRAS;
        let (conn, lanes) = (self.conn, &mut *self.lanes);
        let view = rows::first(&mut *conn.prepare_cached(sql::VIEW_BY_SEQ)?, [seq], |row| {
            let stored = rows::state_row(row)?;
            let lane = lanes.get(conn, stored.lane)?;
            let record = stored.record;
            let ended = record.state.is_terminal();
            let started = record.hold.and_then(|hold| hold.started_at);
            Ok(JobView {
                job: rows::job(row, stored.id, &lane)?,
                waits_for_code: record.state == State::Pending
                    && roster.holds(&lane.queue, &lane.kind, lane.version),
                held_by: None,
                last_failure: rows::failure(row, AT)?,
                result: if ended { row.get(AT + 3)? } else { None },
                warning: if ended { row.get(AT + 4)? } else { None },
                started_at: started.or(rows::maybe_moment(row, AT + 5)?),
                record,
            })
        })?;
        view.ok_or_else(|| SqliteFailure::Unreadable(format!("row {seq} of `state` has no row in `job`")))
    }

    /// Jobs by id, in order.
    pub(crate) fn jobs(&mut self, ids: &[JobId]) -> Result<Vec<Option<JobDetail>>, SqliteFailure> {
        let roster = roster(self.conn, self.now)?;
        let mut details = Vec::with_capacity(ids.len());
        for id in ids {
            details.push(match self.seq(*id)? {
                Some(seq) => Some(self.detail(&roster, seq)?),
                None => None,
            });
        }
        Ok(details)
    }

    /// Summaries of jobs, in order.
    pub(crate) fn job_summaries(&self, ids: &[JobId]) -> Result<Vec<Option<JobSummary>>, SqliteFailure> {
        let mut select = self.conn.prepare_cached(sql::SUMMARY)?;
        ids.iter().map(|id| rows::first(&mut select, [id.as_bytes()], rows::summary)).collect()
    }

    /// One job with the counts of its runs.
    pub(crate) fn detail(&mut self, roster: &Roster, seq: i64) -> Result<JobDetail, SqliteFailure> {
        let view = self.view(roster, seq)?;
        let line = lines::place(self.conn, &view.job.spec, &view.record)?;
        Ok(JobDetail { view, counters: self.counters(seq)?, line })
    }

    /// Every run of one job, first to last.
    pub(crate) fn ledger(&self, seq: i64) -> Result<Vec<Attempt>, SqliteFailure> {
        let mut select = self.conn.prepare_cached(sql::ATTEMPTS)?;
        let mut runs = rows::collect(&mut select, params![seq, i64::MAX, i64::MAX], rows::attempt)?;
        runs.reverse();
        Ok(runs)
    }

    fn counters(&self, seq: i64) -> Result<BTreeMap<backstop_core::failure::Cause, u64>, SqliteFailure> {
        let causes = rows::collect(&mut *self.conn.prepare_cached(sql::CAUSES)?, [seq], |row| {
            Ok((rows::cause(row, 0)?, rows::count(row, 1)?))
        })?;
        Ok(causes.into_iter().collect())
    }

    /// The ledger of a job, latest run first.
    pub(crate) fn attempts(
        &self,
        job: JobId,
        page: PageRequest<u32>,
    ) -> Result<Page<Attempt, u32>, SqliteFailure> {
        show::page_limit(page.limit)?;
        let limit = rows::limit(page.limit);
        let Some(seq) = self.seq(job)? else { return Ok(Page { items: Vec::new(), next: None }) };
        let below = page.after.map_or(i64::MAX, i64::from);
        let mut select = self.conn.prepare_cached(sql::ATTEMPTS)?;
        let runs = rows::collect(&mut select, params![seq, below, limit + 1], rows::attempt)?;
        Ok(show::cut(runs, page.limit, |run| run.number))
    }

    /// A job with what surrounds it.
    pub(crate) fn surroundings(
        &mut self,
        id: JobId,
    ) -> Result<Option<(JobView, ExplainContext)>, SqliteFailure> {
        let Some(seq) = self.seq(id)? else { return Ok(None) };
        let roster = roster(self.conn, self.now)?;
        let view = self.view(&roster, seq)?;
        let decision = rows::first(&mut *self.conn.prepare_cached(sql::LAST_DECISION)?, [seq], |row| {
            rows::maybe_json(row, 0)
        })?;
        let paused = pause(self.conn, &view.job.spec.queue)?;
        let key_holder = self.key_holder(view.job.spec.business_key.as_deref())?;
        let line = lines::place(self.conn, &view.job.spec, &view.record)?;
        let around = roster.around(&view, paused, key_holder, line, decision.flatten());
        Ok(Some((view, around)))
    }

    /// The live job that holds a business key (L11).
    fn key_holder(&self, key: Option<&str>) -> Result<Option<KeyHolder>, SqliteFailure> {
        let Some(key) = key else { return Ok(None) };
        rows::first(&mut *self.conn.prepare_cached(sql::KEY_HOLDER)?, [key], |row| {
            Ok(KeyHolder { job: rows::job_id(row, 0)?, state: rows::state_of(row.get(1)?)? })
        })
    }

    /// What a filter means: only the lanes of the queues that it names are read.
    pub(crate) fn scope(&self, filter: &JobFilter, roster: &Roster) -> Result<SearchSpace, SqliteFailure> {
        let queues = filter.queue_names();
        let lanes = self.lane_counts(&queues)?;
        if queues.is_all() {
            return Ok(SearchSpace::of(filter, &lanes, roster));
        }
        let totals = match self.lanes.totals.known() {
            Some(totals) => totals,
            None => {
                let totals = self.totals()?;
                self.lanes.totals.keep(totals);
                totals
            }
        };
        Ok(SearchSpace::within(filter, &lanes, &totals, roster))
    }

    fn totals(&self) -> Result<StateCounts, SqliteFailure> {
        let totals =
            rows::first(&mut *self.conn.prepare_cached(sql::TOTALS)?, [], |row| state_counts(row, 0))?;
        Ok(totals.unwrap_or_default())
    }

    /// Every queue of these names that has a lane, was ever paused, or is served by a live worker.
    pub(crate) fn queues(&self, names: &NameRange) -> Result<Vec<QueueView>, SqliteFailure> {
        let roster = roster(self.conn, self.now)?;
        let bounds = [&names.from, &names.end];
        let paused = rows::collect(&mut *self.conn.prepare_cached(sql::QUEUES)?, bounds, |row| {
            Ok((row.get::<_, String>(0)?, rows::pause(row, 1)?))
        })?;
        let lanes = self.lane_counts(names)?;
        let mut due = HashMap::new();
        for counts in lanes.iter().filter(|counts| counts.is_open(&roster)) {
            due.extend(lanes::next_due(self.conn, counts.id)?.map(|due| (counts.id, due)));
        }
        Ok(show::queues(&roster, paused, &lanes, &due, self.now))
    }

    /// A page of queues. No lane of a queue that is not on it is read with its counts.
    pub(crate) fn queue_page(&self, range: &QueueRange) -> Result<Page<QueueView, String>, SqliteFailure> {
        let mut names = Vec::new();
        if let Some(limit) = range.limit {
            let (span, most) = (range.span(), rows::limit(limit.saturating_add(1)));
            names.extend(roster(self.conn, self.now)?.live().flat_map(|row| row.queues.iter().cloned()));
            for text in [sql::LANE_QUEUES, sql::QUEUE_NAMES] {
                let bounds = params![span.from, span.end, most];
                names.extend(rows::collect(&mut *self.conn.prepare_cached(text)?, bounds, |row| {
                    Ok(row.get::<_, String>(0)?)
                })?);
            }
        }
        Ok(show::queue_page(self.queues(&show::page_span(range, names))?, range))
    }

    /// What a tenant has, as far as its limits count it.
    pub(crate) fn holdings(&self, tenant: &str, most: usize) -> Result<Holdings, SqliteFailure> {
        let (queues, kinds) = (QueueRange::of_tenant(tenant).span(), tenant::incident_prefix(tenant));
        let (kinds, most) = (NameRange::under(&kinds), rows::limit(most));
        let names = |text: &str| {
            let bounds = params![queues.from, queues.end, most];
            rows::collect(&mut *self.conn.prepare_cached(text)?, bounds, |row| Ok(row.get::<_, String>(0)?))
        };
        let bounds = params![kinds.from, kinds.end, most];
        let incidents: Option<i64> =
            rows::value(&mut *self.conn.prepare_cached(sql::INCIDENTS_OF_TENANT)?, bounds)?;
        Ok(Holdings {
            queues: names(sql::LANE_QUEUES)?.into_iter().chain(names(sql::QUEUE_NAMES)?).collect(),
            kinds: names(sql::LANE_KINDS)?.into_iter().collect(),
            incidents: incidents.and_then(|count| usize::try_from(count).ok()).unwrap_or_default(),
        })
    }

    /// Lanes with pending jobs on a served queue that no live worker knows the kind of (H10).
    pub(crate) fn held_lanes(&self) -> Result<Vec<HeldLane>, SqliteFailure> {
        let roster = roster(self.conn, self.now)?;
        Ok(show::held_lanes(&roster, &self.lane_counts(&NameRange::default())?))
    }
}
