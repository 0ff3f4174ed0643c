//! Jobs, ledgers, queues and incidents as they are shown. Reads one snapshot; never writes.

use std::collections::BTreeMap;

use backstop_core::explain::{Holder, Surroundings};
use backstop_core::job::{Attempt, JobDetail, JobView, State};
use backstop_core::{JobId, Limits, Timestamp};
use backstop_store::{Error, HeldLane, Incident, Page, PageRequest, QueueView};
use rusqlite::{Connection, params};

use crate::claim::{is_paused, lane_next_due};
use crate::error::Failure;
use crate::lanes::{Lane, Lanes};
use crate::rows::{self, VIEW_EXTRAS};
use crate::sql;
use crate::worker::Roster;

/// A read transaction and what is needed to read in it.
pub(crate) struct Snapshot<'c> {
    pub(crate) conn: &'c Connection,
    pub(crate) lanes: &'c mut Lanes,
    pub(crate) now: Timestamp,
}

/// A lane with its kept counts.
pub(crate) struct LaneCounts {
    pub(crate) lane: Lane,
    pub(crate) pending: u64,
    pub(crate) running: u64,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) paused: u64,
    pub(crate) canceled: u64,
    pub(crate) waiting: u64,
}

/// Refuses a page that is too large.
pub(crate) fn check_page(limit: usize) -> Result<i64, Failure> {
    let most = Limits::default().page;
    if limit > most {
        return Err(Failure::Refused(Error::TooMany { what: "the page", actual: limit, limit: most }));
    }
    Ok(i64::try_from(limit).unwrap_or(i64::MAX))
}

/// Cuts the one row too many that was read to see whether more follow.
pub(crate) fn cut<T, K>(mut items: Vec<T>, limit: usize, key: impl Fn(&T) -> K) -> Page<T, K> {
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().map(key).filter(|_| more);
    Page { items, next }
}

impl Snapshot<'_> {
    fn seq(&self, id: JobId) -> Result<Option<i64>, Failure> {
        rows::value(&mut *self.conn.prepare_cached(sql::SEQ_BY_ID)?, [id.as_bytes()])
    }

    pub(crate) fn lane_counts(&self) -> Result<Vec<LaneCounts>, Failure> {
        rows::collect(&mut *self.conn.prepare_cached(sql::LANES)?, [], |row| {
            Ok(LaneCounts {
                lane: Lane::from_row(row)?,
                pending: rows::count(row, 5)?,
                running: rows::count(row, 6)?,
                succeeded: rows::count(row, 7)?,
                failed: rows::count(row, 8)?,
                paused: rows::count(row, 9)?,
                canceled: rows::count(row, 10)?,
                waiting: rows::count(row, 11)?,
            })
        })
    }

    /// A job as it is shown.
    pub(crate) fn view(&mut self, roster: &Roster, seq: i64) -> Result<JobView, Failure> {
        const AT: usize = VIEW_EXTRAS;
        let (conn, lanes) = (self.conn, &mut *self.lanes);
        let view = rows::first(&mut *conn.prepare_cached(sql::VIEW_BY_SEQ)?, [seq], |row| {
            let stored = rows::stored(row)?;
            let lane = lanes.get(conn, stored.lane)?;
            let record = stored.record;
            let ended = record.state.is_terminal();
            let started = record.hold.and_then(|hold| hold.started_at);
            Ok(JobView {
                job: rows::job(row, stored.id, &lane)?,
                waits_for_code: record.state == State::Pending && roster.holds(&lane),
                last_failure: rows::failure(row, AT)?,
                result: if ended { row.get(AT + 3)? } else { None },
                warning: if ended { row.get(AT + 4)? } else { None },
                started_at: started.or(rows::maybe_moment(row, AT + 5)?),
                record,
            })
        })?;
        view.ok_or_else(|| Failure::Unreadable(format!("row {seq} of `state` has no row in `job`")))
    }

    /// Jobs by id, in order.
    pub(crate) fn jobs(&mut self, ids: &[JobId]) -> Result<Vec<Option<JobDetail>>, Failure> {
        let roster = Roster::read(self.conn, self.now)?;
        let mut details = Vec::with_capacity(ids.len());
        for id in ids {
            details.push(match self.seq(*id)? {
                Some(seq) => Some(self.detail(&roster, seq)?),
                None => None,
            });
        }
        Ok(details)
    }

    /// One job with the counts of its runs.
    pub(crate) fn detail(&mut self, roster: &Roster, seq: i64) -> Result<JobDetail, Failure> {
        Ok(JobDetail { view: self.view(roster, seq)?, counters: self.counters(seq)? })
    }

    /// Every run of one job, first to last.
    pub(crate) fn ledger(&self, seq: i64) -> Result<Vec<Attempt>, Failure> {
        let mut select = self.conn.prepare_cached(sql::ATTEMPTS)?;
        let mut runs = rows::collect(&mut select, params![seq, i64::MAX, i64::MAX], rows::attempt)?;
        runs.reverse();
        Ok(runs)
    }

    fn counters(&self, seq: i64) -> Result<BTreeMap<backstop_core::failure::Cause, u64>, Failure> {
        let causes = rows::collect(&mut *self.conn.prepare_cached(sql::CAUSES)?, [seq], |row| {
            Ok((rows::cause(row, 0)?, rows::count(row, 1)?))
        })?;
        Ok(causes.into_iter().collect())
    }

    /// The ledger of a job, latest run first.
    pub(crate) fn attempts(&self, job: JobId, page: PageRequest<u32>) -> Result<Page<Attempt, u32>, Failure> {
        let limit = check_page(page.limit)?;
        let Some(seq) = self.seq(job)? else { return Ok(Page { items: Vec::new(), next: None }) };
        let below = page.after.map_or(i64::MAX, i64::from);
        let mut select = self.conn.prepare_cached(sql::ATTEMPTS)?;
        let runs = rows::collect(&mut select, params![seq, below, limit + 1], rows::attempt)?;
        Ok(cut(runs, page.limit, |run| run.number))
    }

    /// A job with what surrounds it.
    pub(crate) fn surroundings(&mut self, id: JobId) -> Result<Option<(JobView, Surroundings)>, Failure> {
        let Some(seq) = self.seq(id)? else { return Ok(None) };
        let roster = Roster::read(self.conn, self.now)?;
        let view = self.view(&roster, seq)?;
        let spec = &view.job.spec;
        let (workers_on_queue, workers_for_kind) = roster.crew(&spec.queue, &spec.kind, spec.version);
        let holder = view.record.hold.map(|hold| match roster.get(hold.worker) {
            Some(row) => Holder { worker: hold.worker, name: row.name.clone(), until: row.expires_at },
            None => Holder { worker: hold.worker, name: "unknown".to_owned(), until: Timestamp::MIN },
        });
        let decision = rows::first(&mut *self.conn.prepare_cached(sql::LAST_DECISION)?, [seq], |row| {
            rows::maybe_json(row, 0)
        })?;
        let around = Surroundings {
            now: self.now,
            queue_paused: is_paused(self.conn, &spec.queue)?,
            workers_on_queue,
            workers_for_kind,
            holder,
            last_decision: decision.flatten(),
        };
        Ok(Some((view, around)))
    }

    /// Every queue that has a lane, was ever paused, or is served by a live worker.
    pub(crate) fn queues(&self) -> Result<Vec<QueueView>, Failure> {
        let roster = Roster::read(self.conn, self.now)?;
        let mut queues: BTreeMap<String, QueueView> = BTreeMap::new();
        let served = roster.live().flat_map(|row| row.queues.iter().cloned());
        for name in served {
            let (on_queue, _) = roster.crew(&name, "", 0);
            queue(&mut queues, &name).workers = u64::try_from(on_queue).unwrap_or(u64::MAX);
        }
        let paused = rows::collect(&mut *self.conn.prepare_cached(sql::QUEUES)?, [], |row| {
            Ok((row.get::<_, String>(0)?, row.get(1)?))
        })?;
        for (name, paused) in paused {
            queue(&mut queues, &name).paused = paused;
        }
        for counts in self.lane_counts()? {
            let view = queue(&mut queues, &counts.lane.queue);
            let held = roster.holds(&counts.lane);
            count_lane(view, &counts, held);
            if !held && counts.pending > 0 {
                let due = lane_next_due(self.conn, counts.lane.id)?.filter(|due| *due <= self.now);
                view.oldest_due = [view.oldest_due, due].into_iter().flatten().min();
            }
        }
        Ok(queues.into_values().collect())
    }

    /// Lanes with pending jobs on a served queue that no live worker knows the kind of (H10).
    pub(crate) fn held_lanes(&self) -> Result<Vec<HeldLane>, Failure> {
        let roster = Roster::read(self.conn, self.now)?;
        let mut held: BTreeMap<(String, String, u32), u64> = BTreeMap::new();
        for LaneCounts { lane, pending, .. } in self.lane_counts()? {
            if pending > 0 && roster.holds(&lane) {
                *held.entry((lane.queue.to_string(), lane.kind.to_string(), lane.version)).or_default() +=
                    pending;
            }
        }
        let lane = |((queue, kind, version), jobs)| HeldLane { queue, kind, version, jobs };
        Ok(held.into_iter().map(lane).collect())
    }

    /// Incidents, latest seen first.
    pub(crate) fn incidents(&self, limit: usize) -> Result<Vec<Incident>, Failure> {
        let limit = check_page(limit)?;
        rows::collect(&mut *self.conn.prepare_cached(sql::INCIDENTS)?, [limit], rows::incident)
    }
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
