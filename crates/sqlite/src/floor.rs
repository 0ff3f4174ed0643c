//! Hand-written SQL on the same tables: what the store is measured against.
//!
//! Plain rusqlite with the settings of the store, and nothing between the caller and the statements: no engine, no
//! checks of keys, one lane, statements that bind only what differs. It writes the same rows as the store does.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use backstop_store::{Clock, Error, SystemClock};
use rusqlite::{CachedStatement, Connection, params};
use tokio::sync::oneshot;

use crate::error::meaning;
use crate::open;
use crate::options::Options;

const INSERT_STATE: &str = "INSERT INTO backstop_state (id, lane, status, run_at, attempt, crashes, deferrals, runs, \
     redrives, fence) VALUES (?1, 1, 1, ?2, 0, 0, 0, 0, 0, 0)";
const INSERT_JOB: &str = "INSERT INTO backstop_job (seq, created_at, payload) VALUES (?1, ?2, ?3)";
const COUNT_NEW: &str = "UPDATE backstop_lane SET pending = pending + ?1 WHERE id = 1";
const DUE: &str = "SELECT s.seq, s.id, s.run_at, s.runs, j.payload FROM backstop_state s \
     INDEXED BY backstop_state_pending CROSS JOIN backstop_job j ON j.seq = s.seq \
     WHERE s.status = 1 AND s.lane = 1 AND s.run_at <= ?1 ORDER BY s.run_at, s.id LIMIT ?2";
const TAKE: &str = "UPDATE backstop_state SET status = 2, fence = ?3, worker = ?4, claimed_at = ?1, \
     started_at = ?1, runs = runs + 1 WHERE seq IN (SELECT seq FROM backstop_state \
     INDEXED BY backstop_state_pending WHERE status = 1 AND lane = 1 AND run_at <= ?1 \
     ORDER BY run_at, id LIMIT ?2)";
const COUNT_TAKEN: &str =
    "UPDATE backstop_lane SET pending = pending - ?1, running = running + ?1 WHERE id = 1";
const NEXT_FENCE: &str = "UPDATE backstop_meta SET value = value + 1 WHERE key = 'fence' RETURNING value";
const INSERT_RUNS: &str = "INSERT INTO backstop_attempt (job, number, fence, worker, cause, due_at, started_at, \
     finished_at) SELECT seq, runs, fence, worker, 'succeeded', run_at, started_at, ?2 FROM backstop_state \
     INDEXED BY backstop_state_shelf WHERE status = 2 AND status BETWEEN 2 AND 6 AND fence = ?1";
const COMPLETE: &str = "UPDATE backstop_state SET status = 7, worker = NULL, claimed_at = NULL, started_at = NULL, \
     finished_at = ?2 WHERE seq IN (SELECT seq FROM backstop_state INDEXED BY backstop_state_shelf \
     WHERE status = 2 AND status BETWEEN 2 AND 6 AND fence = ?1)";
const COUNT_DONE: &str =
    "UPDATE backstop_lane SET running = running - ?1, succeeded = succeeded + ?1 WHERE id = 1";

/// The payload of every job: JSON of about 200 bytes.
#[must_use]
pub fn payload() -> String {
    format!("{{\"to\":\"{}\"}}", "x".repeat(190))
}

static IDS: AtomicU64 = AtomicU64::new(1);

/// Ids that sort by the time they were made, as version 7 does.
fn next_id(now: i64) -> [u8; 16] {
    let number = IDS.fetch_add(1, Ordering::Relaxed);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&(now / 1_000).to_be_bytes());
    bytes.rotate_left(2);
    bytes[6..8].copy_from_slice(&[0x70, 0]);
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn open(path: &Path) -> Result<Connection, Error> {
    let conn = open::writer(path, &Options::default())?;
    let lane = "INSERT OR IGNORE INTO backstop_lane (id, queue, kind, version, priority) VALUES (1, 'default', \
         'work', 1, 2)";
    conn.execute_batch(lane).map_err(|error| meaning(&error, &path.display().to_string()))?;
    Ok(conn)
}

fn told<T>(path: &Path, outcome: rusqlite::Result<T>) -> Result<T, Error> {
    outcome.map_err(|error| meaning(&error, &path.display().to_string()))
}

fn rows(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Stores `jobs` jobs in transactions of `batch` and says how long that took.
///
/// # Errors
/// Those of the store.
pub fn bulk_enqueue(path: &Path, jobs: usize, batch: usize) -> Result<Duration, Error> {
    let conn = open(path)?;
    let payload = payload();
    let start = Instant::now();
    let mut left = jobs;
    while left > 0 {
        let count = left.min(batch);
        told(path, enqueue_batch(&conn, count, &payload))?;
        left -= count;
    }
    Ok(start.elapsed())
}

fn enqueue_batch(conn: &Connection, count: usize, payload: &str) -> rusqlite::Result<()> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let now = SystemClock::default().now().as_micros();
    let mut insert = Inserts::new(conn)?;
    for _ in 0..count {
        insert.one(conn, now, payload)?;
    }
    conn.prepare_cached(COUNT_NEW)?.execute([rows(count)])?;
    drop(insert);
    conn.execute_batch("COMMIT")
}

struct Inserts<'c> {
    state: CachedStatement<'c>,
    job: CachedStatement<'c>,
}

impl<'c> Inserts<'c> {
    fn new(conn: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Self { state: conn.prepare_cached(INSERT_STATE)?, job: conn.prepare_cached(INSERT_JOB)? })
    }

    fn one(&mut self, conn: &Connection, now: i64, payload: &str) -> rusqlite::Result<()> {
        self.state.execute(params![next_id(now), now])?;
        self.job.execute(params![conn.last_insert_rowid(), now, payload])?;
        Ok(())
    }
}

/// What a worker gets of a job.
struct Taken {
    id: [u8; 16],
    payload: String,
}

/// Claims and completes all due jobs, `batch` at a time, with a row in the ledger for each. Says how many there
/// were, and how long that took. A batch is taken, recorded and completed by one statement each.
///
/// # Errors
/// Those of the store.
pub fn claim_and_complete(path: &Path, batch: usize) -> Result<(usize, Duration), Error> {
    let conn = open(path)?;
    let start = Instant::now();
    let mut done = 0;
    loop {
        let (fence, taken) = told(path, claim_batch(&conn, batch))?;
        if taken.is_empty() {
            return Ok((done, start.elapsed()));
        }
        // A worker would look at what it got.
        debug_assert!(taken.iter().all(|job| job.id != [0; 16] && !job.payload.is_empty()));
        done += taken.len();
        told(path, complete_batch(&conn, fence, taken.len()))?;
    }
}

fn claim_batch(conn: &Connection, batch: usize) -> rusqlite::Result<(i64, Vec<Taken>)> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let now = SystemClock::default().now().as_micros();
    let fence = conn.prepare_cached(NEXT_FENCE)?.query_row([], |row| row.get(0))?;
    let mut due = conn.prepare_cached(DUE)?;
    let taken: Vec<Taken> = due
        .query_map(params![now, rows(batch)], |row| Ok(Taken { id: row.get(1)?, payload: row.get(4)? }))?
        .collect::<Result<_, _>>()?;
    conn.prepare_cached(TAKE)?.execute(params![now, rows(batch), fence, [7_u8; 16]])?;
    conn.prepare_cached(COUNT_TAKEN)?.execute([rows(taken.len())])?;
    conn.execute_batch("COMMIT")?;
    Ok((fence, taken))
}

fn complete_batch(conn: &Connection, fence: i64, taken: usize) -> rusqlite::Result<()> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let now = SystemClock::default().now().as_micros();
    conn.prepare_cached(INSERT_RUNS)?.execute([fence, now])?;
    let done = conn.prepare_cached(COMPLETE)?.execute([fence, now])?;
    debug_assert_eq!(done, taken);
    conn.prepare_cached(COUNT_DONE)?.execute([rows(done)])?;
    conn.execute_batch("COMMIT")
}

type Ack = oneshot::Sender<()>;

/// Stores `total` jobs one by one from `tasks` tasks, each of which waits for its commit before the next. A writer
/// thread commits whatever waits in one transaction.
///
/// # Errors
/// Those of the store.
pub fn group_commit_submits(path: &Path, tasks: usize, total: usize) -> Result<Duration, Error> {
    let conn = open(path)?;
    let (sender, waiting) = crossbeam_channel::unbounded::<(String, Ack)>();
    let (outcome, spent) = std::thread::scope(|scope| {
        let writer = scope.spawn(move || write_groups(&conn, &waiting));
        let submitters = scope.spawn(move || submit_from_tasks(sender, tasks, total));
        let spent = submitters.join().unwrap_or_default();
        (writer.join().unwrap_or(Ok(())), spent)
    });
    told(path, outcome)?;
    Ok(spent)
}

fn submit_from_tasks(
    sender: crossbeam_channel::Sender<(String, Ack)>,
    tasks: usize,
    total: usize,
) -> Duration {
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build() else {
        return Duration::ZERO;
    };
    let start = Instant::now();
    runtime.block_on(async {
        let each = total / tasks.max(1);
        let submit_all = |sender: crossbeam_channel::Sender<(String, Ack)>| async move {
            for _ in 0..each {
                let (ack, committed) = oneshot::channel();
                if sender.send((payload(), ack)).is_err() || committed.await.is_err() {
                    return;
                }
            }
        };
        let running: Vec<_> = (0..tasks).map(|_| tokio::spawn(submit_all(sender.clone()))).collect();
        drop(sender);
        for task in running {
            let _ = task.await;
        }
    });
    start.elapsed()
}

fn write_groups(
    conn: &Connection,
    waiting: &crossbeam_channel::Receiver<(String, Ack)>,
) -> rusqlite::Result<()> {
    while let Ok(first) = waiting.recv() {
        let group: Vec<_> = std::iter::once(first).chain(waiting.try_iter().take(255)).collect();
        conn.execute_batch("BEGIN IMMEDIATE")?;
        let now = SystemClock::default().now().as_micros();
        let mut insert = Inserts::new(conn)?;
        for (payload, _) in &group {
            insert.one(conn, now, payload)?;
        }
        conn.prepare_cached(COUNT_NEW)?.execute([rows(group.len())])?;
        drop(insert);
        conn.execute_batch("COMMIT")?;
        for (_, ack) in group {
            let _ = ack.send(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use backstop_store::conformance::block_on;
    use backstop_store::{InspectStore, JobFilter, PageRequest};

    use super::*;
    use crate::SqliteStore;
    use crate::scratch::Scratch;

    #[test]
    fn the_floor_writes_what_the_store_reads() {
        let dir = Scratch::new();
        let path = dir.path("jobs.db");
        bulk_enqueue(&path, 25, 10).expect("stored");
        group_commit_submits(&path, 3, 9).expect("stored");
        assert_eq!(claim_and_complete(&path, 10).expect("worked").0, 34);
        let store = SqliteStore::open(&path, Options::default()).expect("opened");
        let listed =
            block_on(store.list(JobFilter::default(), PageRequest::first(100))).expect("listed").items;
        assert_eq!(listed.len(), 34);
        for view in &listed {
            let attempts =
                block_on(store.attempts(view.job.spec.id, PageRequest::first(9))).expect("read").items;
            assert_eq!((view.state(), attempts.len()), (backstop_core::job::State::Succeeded, 1));
        }
        let queue = &block_on(store.queues()).expect("read")[0];
        assert_eq!((queue.pending, queue.running, queue.succeeded), (0, 0, 34));
    }
}
