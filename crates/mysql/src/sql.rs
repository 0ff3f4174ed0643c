//! Every statement of this store, by name. Nothing else in the crate contains SQL, except the schema.
//!
//! Written so that MariaDB and MySQL read the same in them. Status codes are those of `backstop_sql::encode`: 1
//! pending, 2 running, 3 waiting, 4 paused, 5 failed, 6 canceled, 7 succeeded. `IN (?)` takes a list, and `?2` the
//! second value, see `packet`; a statement about any number of rows is a [`Bulk`].
//!
//! Rows are locked and deleted by their whole key, each with a lookup of its own: the keys are joined in as a list.
//! With the keys in an `IN`, MariaDB was seen to lock the row behind the last of them too: claims then waited for each
//! other, and passed over jobs that nobody had taken.
//!
//! # Layout
//! - Here: what the verbs about jobs have in common. [`archive`]: jobs that leave. [`document`], [`incident`] and
//!   [`list`]: what their names say.

/// The moment of the statement by the server's clock, unless the caller brings one. No time zone has a say in it.
macro_rules! clock {
    ($parameter:literal) => {
        concat!(
            "COALESCE(",
            $parameter,
            ", TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)))"
        )
    };
}

pub(crate) mod archive;
pub(crate) mod depth;
pub(crate) mod document;
pub(crate) mod duty;
pub(crate) mod incident;
pub(crate) mod line;
pub(crate) mod list;
pub(crate) mod turn;
pub(crate) mod worker;

use std::time::Duration;

use backstop_sql::connection::Mode;

use crate::shape::Bulk;

/// Between the keys of a list that is joined in.
const UNION: &str = " UNION ALL ";

/// The columns of `job`, in the order that `rows` reads them.
macro_rules! job_columns {
    () => {
        "j.id, j.lane, j.created_at, j.run_at, j.payload, j.policy, j.expires_at, j.idempotency_key, \
         j.business_key, j.correlation_id, j.tags, j.params, j.on_success, j.on_failure, j.callback_of, \
         j.papers"
    };
}

/// The columns of `record`, all NULL for a job that has no past.
macro_rules! record_columns {
    () => {
        "r.status, r.run_at, r.expires_at, r.attempt, r.crashes, r.deferrals, r.runs, r.redrives, r.fence, \
         r.last_failed_run, r.progress, r.paused_from, r.finished_at, r.reason, r.cancel_reason, r.superseded_by, \
         r.marks"
    };
}

/// The columns of `done` that make a record, all NULL for a job that has not succeeded.
macro_rules! done_columns {
    () => {
        "d.run_at, d.expires_at, d.attempt, d.crashes, d.deferrals, d.runs, d.redrives, d.fence, d.progress, \
         d.finished_at, d.marks"
    };
}

// Sessions and transactions.

/// What every connection of ours begins with. Without gap locks transactions meet only over the rows they are about.
pub(crate) const SETUP: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; \
     SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', SESSION time_zone = '+00:00', \
     SESSION autocommit = 1, SESSION innodb_lock_wait_timeout = 5";
const BEGIN_WRITE: &[&str] = &["START TRANSACTION"];
const BEGIN_READ: &[&str] = &[
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
];
/// The statements that begin a transaction. From here on no lock is waited for longer than this, on the connection that
/// runs them.
pub(crate) fn begin(mode: Mode, lock_wait: Duration) -> Vec<String> {
    let seconds = lock_wait.as_secs_f64().ceil().clamp(1.0, 1_000_000.0);
    let wait =
        format!("SET SESSION innodb_lock_wait_timeout = {seconds}, SESSION lock_wait_timeout = {seconds}");
    let begin = if mode == Mode::Read { BEGIN_READ } else { BEGIN_WRITE };
    [wait].into_iter().chain(begin.iter().map(ToString::to_string)).collect()
}
/// How new rows of a table begin.
pub(crate) const INSERT_INTO: &str = "INSERT INTO backstop_";
pub(crate) const COMMIT: &str = "COMMIT";
pub(crate) const ROLLBACK: &str = "ROLLBACK";
pub(crate) const KILL: &str = "KILL ";
/// Outside of a transaction it is gone at once, so giving it back tells whether we are in one.
pub(crate) const SAVEPOINT: &str = "SAVEPOINT backstop";
pub(crate) const RELEASE: &str = "RELEASE SAVEPOINT backstop";
pub(crate) const ROLLBACK_TO: &str = "ROLLBACK TO SAVEPOINT backstop";
/// Makes a plain read see what is committed by now, whatever the isolation of the transaction it is in.
pub(crate) const NEWEST: &str = " LOCK IN SHARE MODE";
/// How reads of tables begin and how those that lock end.
pub(crate) const READS: &str = "SELECT ";
pub(crate) const OF_TABLE: &str = " FROM ";
pub(crate) const LOCKS: &str = " FOR UPDATE";
pub(crate) const CLOCK: &str = concat!("SELECT ", clock!("?"));

// Lanes.

pub(crate) const LANES_MAKE: Bulk = Bulk {
    head: "INSERT INTO backstop_lane (queue, kind, version, priority) VALUES ",
    row: "(?,?,?,?)",
    between: ",",
    tail: " ON DUPLICATE KEY UPDATE version = VALUES(version)",
};
pub(crate) const LANES_OF: &str = "SELECT l.id, l.queue, l.kind, l.version, l.priority FROM backstop_lane l \
     FORCE INDEX (lane_names) WHERE l.queue IN (?)";
pub(crate) const LANES_BY_ID: &str =
    "SELECT l.id, l.queue, l.kind, l.version, l.priority FROM backstop_lane l WHERE l.id IN (?)";
pub(crate) const LANES: &str = "SELECT l.id, l.queue, l.kind, l.version, l.priority, \
     CAST(l.pending + COALESCE(t.pending, 0) AS SIGNED), CAST(l.running + COALESCE(t.running, 0) AS SIGNED), \
     CAST(l.succeeded + COALESCE(t.succeeded, 0) AS SIGNED), CAST(l.failed + COALESCE(t.failed, 0) AS SIGNED), \
     CAST(l.paused + COALESCE(t.paused, 0) AS SIGNED), CAST(l.canceled + COALESCE(t.canceled, 0) AS SIGNED), \
     CAST(l.waiting + COALESCE(t.waiting, 0) AS SIGNED), l.retired \
     FROM backstop_lane l LEFT JOIN (SELECT lane, SUM(pending) AS pending, SUM(running) AS running, \
     SUM(succeeded) AS succeeded, SUM(failed) AS failed, SUM(paused) AS paused, SUM(canceled) AS canceled, \
     SUM(waiting) AS waiting FROM backstop_tally GROUP BY lane) t ON t.lane = l.id \
     WHERE l.queue >= ? AND l.queue < ? ORDER BY l.queue, l.kind, l.version, l.priority";
/// The sums of all lanes, without what is to be folded: they need not be exact.
pub(crate) const TOTALS: &str = "SELECT CAST(COALESCE(SUM(pending), 0) AS SIGNED), \
     CAST(COALESCE(SUM(running), 0) AS SIGNED), CAST(COALESCE(SUM(succeeded), 0) AS SIGNED), \
     CAST(COALESCE(SUM(failed), 0) AS SIGNED), CAST(COALESCE(SUM(paused), 0) AS SIGNED), \
     CAST(COALESCE(SUM(canceled), 0) AS SIGNED), CAST(COALESCE(SUM(waiting), 0) AS SIGNED) FROM backstop_lane";

/// How many hot jobs a lane has, without what is in `tally`.
macro_rules! folded {
    () => {
        "(l.pending + l.running + l.succeeded + l.failed + l.paused + l.canceled + l.waiting)"
    };
}
/// A lane of which something is to be folded is in use.
macro_rules! in_use {
    () => {
        concat!("(l.retired = 0 OR ", folded!(), " > 0 OR l.id IN (SELECT t.lane FROM backstop_tally t))")
    };
}

pub(crate) const LANE_QUEUES: &str = concat!(
    "SELECT DISTINCT l.queue FROM backstop_lane l WHERE l.queue >= ? AND l.queue < ? AND ",
    in_use!(),
    " ORDER BY l.queue LIMIT ?"
);
pub(crate) const LANE_KINDS: &str = concat!(
    "SELECT DISTINCT l.kind FROM backstop_lane l WHERE l.queue >= ? AND l.queue < ? AND ",
    in_use!(),
    " ORDER BY l.kind LIMIT ?"
);
/// Lanes whose marks may have to change.
pub(crate) const LANES_TO_MARK: &str = concat!(
    "SELECT l.id, ",
    folded!(),
    ", l.empty_since, l.retired FROM backstop_lane l WHERE (",
    folded!(),
    " = 0 AND (l.empty_since IS NULL OR (l.retired = 0 AND l.empty_since <= ?)) \
     AND l.id NOT IN (SELECT t.lane FROM backstop_tally t)) OR (",
    folded!(),
    " > 0 AND (l.empty_since IS NOT NULL OR l.retired <> 0)) ORDER BY l.id LIMIT ?"
);
/// Nothing is said of a lane that has got jobs since it was looked at.
pub(crate) const LANE_MARK: &str = concat!(
    "UPDATE backstop_lane l SET l.empty_since = ?2, l.retired = ?3 WHERE l.id = ?1 AND ",
    folded!(),
    " = ?4"
);
/// What has piled up, for the lanes. A transaction that writes at the same time is simply counted the next time.
pub(crate) const TALLY_LOCK: &str = "SELECT id, lane, pending, running, succeeded, failed, paused, canceled, waiting \
     FROM backstop_tally ORDER BY id LIMIT ? FOR UPDATE SKIP LOCKED";
pub(crate) const TALLY_LOOK: &str = "SELECT EXISTS (SELECT 1 FROM backstop_tally)";
pub(crate) const TALLY_DELETE: Bulk = Bulk {
    head: "DELETE t FROM (SELECT NULL AS k0 UNION ALL ",
    row: "SELECT ?",
    between: UNION,
    tail: ") k STRAIGHT_JOIN backstop_tally t FORCE INDEX (PRIMARY) ON t.id = k.k0",
};
pub(crate) const LANE_COUNT: &str = "UPDATE backstop_lane SET pending = pending + ?, running = running + ?, \
     succeeded = succeeded + ?, failed = failed + ?, paused = paused + ?, canceled = canceled + ?, \
     waiting = waiting + ?, empty_since = NULL, retired = 0 WHERE id = ?";

// Loading.

pub(crate) const LOAD: Bulk = Bulk {
    head: concat!(
        "SELECT ",
        job_columns!(),
        ", ",
        record_columns!(),
        ", ",
        done_columns!(),
        " FROM backstop_job j FORCE INDEX (PRIMARY) LEFT JOIN backstop_record r ON r.id = j.id \
         LEFT JOIN backstop_done d ON d.id = j.id WHERE j.id IN ("
    ),
    row: "?",
    between: ",",
    tail: ")",
};
pub(crate) const RECORDS_LOCK: Bulk = Bulk {
    head: concat!("SELECT r.id, ", record_columns!(), " FROM (SELECT NULL AS k0 UNION ALL "),
    row: "SELECT ?",
    between: UNION,
    tail: ") k STRAIGHT_JOIN backstop_record r FORCE INDEX (PRIMARY) ON r.id = k.k0 FOR UPDATE",
};
pub(crate) const READY_FIND: Bulk = Bulk {
    head: "SELECT r.id FROM backstop_ready r FORCE INDEX (PRIMARY) WHERE (r.lane, r.run_at, r.id) IN (",
    row: "(?,?,?)",
    between: ",",
    tail: ")",
};
pub(crate) const READY_LOCK: Bulk = Bulk {
    head: "SELECT r.id FROM (SELECT NULL AS k0, NULL AS k1, NULL AS k2 UNION ALL ",
    row: "SELECT ?,?,?",
    between: UNION,
    tail: ") k STRAIGHT_JOIN backstop_ready r FORCE INDEX (PRIMARY) \
           ON r.lane = k.k0 AND r.run_at = k.k1 AND r.id = k.k2 FOR UPDATE",
};
/// Claims that may hold a job, by one condition for each job.
pub(crate) const CLAIMS_WITH: Bulk = Bulk {
    head: "SELECT c.fence, c.worker, c.claimed_at, c.slots, c.edits, c.jobs FROM backstop_claim c WHERE ",
    row: "LOCATE(?, c.jobs) > 0",
    between: " OR ",
    tail: "",
};
/// Without the ids, which the process that claimed remembers.
pub(crate) const CLAIMS_LOCK: Bulk = Bulk {
    head: "SELECT c.fence, c.worker, c.claimed_at, c.slots, c.edits FROM (SELECT NULL AS k0 UNION ALL ",
    row: "SELECT ?",
    between: UNION,
    tail: ") k STRAIGHT_JOIN backstop_claim c FORCE INDEX (PRIMARY) ON c.fence = k.k0 FOR UPDATE",
};
pub(crate) const CLAIMS_LOCK_WHOLE: Bulk = Bulk {
    head: "SELECT c.fence, c.worker, c.claimed_at, c.slots, c.edits, c.jobs FROM (SELECT NULL AS k0 UNION ALL ",
    row: "SELECT ?",
    between: UNION,
    tail: ") k STRAIGHT_JOIN backstop_claim c FORCE INDEX (PRIMARY) ON c.fence = k.k0 FOR UPDATE",
};
pub(crate) const CLAIMS_BY_FENCE: &str = "SELECT c.fence, c.worker, c.claimed_at, c.slots, c.edits, c.jobs \
     FROM backstop_claim c WHERE c.fence IN (?) ORDER BY c.fence";
pub(crate) const CLAIMS: &str =
    "SELECT c.fence, c.worker, c.claimed_at, c.slots, c.edits, c.jobs FROM backstop_claim c ORDER BY c.fence";
pub(crate) const IDEMPOTENCY_FIND: Bulk = Bulk {
    head: "SELECT name, job FROM backstop_idempotency FORCE INDEX (PRIMARY) WHERE name IN (",
    row: "?",
    between: ",",
    tail: ")",
};
pub(crate) const KEYS_FIND: Bulk = Bulk {
    head: "SELECT name, job FROM backstop_business FORCE INDEX (PRIMARY) WHERE name IN (",
    row: "?",
    between: ",",
    tail: ")",
};
/// The moment in the first row, and until when workers live in the others.
pub(crate) const MOMENT: &str = concat!("SELECT ", clock!("?1"), ", NULL, NULL");
pub(crate) const WORKERS_EXPIRY: &str =
    "SELECT NULL, id, expires_at FROM backstop_worker FORCE INDEX (PRIMARY) WHERE id IN (?2)";

// Writing.

pub(crate) const READY_DELETE: Bulk = Bulk {
    head: "DELETE r FROM (SELECT NULL AS k0, NULL AS k1, NULL AS k2 UNION ALL ",
    row: "SELECT ?,?,?",
    between: UNION,
    tail: ") k STRAIGHT_JOIN backstop_ready r FORCE INDEX (PRIMARY) \
           ON r.lane = k.k0 AND r.run_at = k.k1 AND r.id = k.k2",
};
/// A record that is there is replaced. A column that is not mentioned is NULL in `VALUES`, as it should be in the row.
pub(crate) const RECORDS_SAVE: &str = " ON DUPLICATE KEY UPDATE status = VALUES(status), run_at = VALUES(run_at), \
     expires_at = VALUES(expires_at), attempt = VALUES(attempt), crashes = VALUES(crashes), \
     deferrals = VALUES(deferrals), runs = VALUES(runs), redrives = VALUES(redrives), fence = VALUES(fence), \
     last_failed_run = VALUES(last_failed_run), progress = VALUES(progress), paused_from = VALUES(paused_from), \
     finished_at = VALUES(finished_at), reason = VALUES(reason), cancel_reason = VALUES(cancel_reason), \
     superseded_by = VALUES(superseded_by), marks = VALUES(marks)";
pub(crate) const RECORDS_DELETE: Bulk = Bulk {
    head: "DELETE r FROM (SELECT NULL AS k0 UNION ALL ",
    row: "SELECT ?",
    between: UNION,
    tail: ") k STRAIGHT_JOIN backstop_record r FORCE INDEX (PRIMARY) ON r.id = k.k0",
};
pub(crate) const TAGS_INSERT: Bulk = Bulk {
    head: "INSERT INTO backstop_tag (tag, id) VALUES ",
    row: "(?,?)",
    between: ",",
    tail: " ON DUPLICATE KEY UPDATE id = VALUES(id)",
};
pub(crate) const IDEMPOTENCY_INSERT: Bulk = Bulk {
    head: "INSERT INTO backstop_idempotency (name, job) VALUES ",
    row: "(?,?)",
    between: ",",
    tail: "",
};
pub(crate) const KEYS_INSERT: Bulk =
    Bulk { head: "INSERT INTO backstop_business (name, job) VALUES ", row: "(?,?)", between: ",", tail: "" };
/// Only the holder gives a key back, and only one of them can hold it: the job need not be compared by the index.
pub(crate) const KEY_DELETE: &str = "DELETE FROM backstop_business WHERE name = ? AND job = ?";
pub(crate) const CLAIM_INSERT: &str =
    "INSERT INTO backstop_claim (worker, claimed_at, jobs, slots) VALUES (?, ?, ?, ?)";
pub(crate) const FENCE: &str = "SELECT CAST(LAST_INSERT_ID() AS SIGNED)";
macro_rules! highest_fence {
    ($done:literal, $record:literal, $attempt:literal) => {
        concat!(
            "GREATEST(COALESCE((SELECT MAX(fence) FROM backstop_claim), 0), COALESCE((SELECT MAX(fence) FROM ",
            $done,
            "), 0), COALESCE((SELECT MAX(fence) FROM ",
            $record,
            "), 0), COALESCE((SELECT MAX(fence) FROM ",
            $attempt,
            "), 0))"
        )
    };
}
pub(crate) const FENCE_BEHIND: &str = concat!(
    "SELECT COALESCE((SELECT auto_increment FROM information_schema.tables WHERE table_schema = DATABASE() \
     AND table_name = 'backstop_claim'), 1) <= ",
    highest_fence!(
        "(SELECT fence FROM backstop_done ORDER BY finished_at DESC LIMIT 100) d",
        "(SELECT fence FROM backstop_record WHERE status = 5 ORDER BY finished_at DESC LIMIT 100) r",
        "(SELECT 0 AS fence) a"
    )
);
/// A row that is written with its number moves the counter behind it, for good, also when the row goes again. Nobody
/// else draws that number.
pub(crate) const FENCE_RAISE: [&str; 3] = [
    concat!(
        "SET @backstop_fence = (SELECT 1 + ",
        highest_fence!("backstop_done", "backstop_record", "backstop_attempt"),
        ")"
    ),
    "INSERT INTO backstop_claim (fence, worker, claimed_at, slots, jobs) \
     VALUES (@backstop_fence, REPEAT(X'00', 16), 0, '', '')",
    "DELETE FROM backstop_claim WHERE fence = @backstop_fence",
];
/// Gives a claim the number that the counter was raised by, in the same transaction.
pub(crate) const CLAIM_RENUMBER: [&str; 2] = [
    "UPDATE backstop_claim SET fence = @backstop_fence, edits = edits + 1 WHERE fence = ?1 AND worker = ?2",
    "SELECT fence FROM backstop_claim WHERE fence = @backstop_fence AND worker = ?2",
];
pub(crate) const CLAIM_UPDATE: &str =
    "UPDATE backstop_claim SET slots = ?2, edits = edits + 1 WHERE fence = ?1";
pub(crate) const CLAIMS_DELETE: Bulk = Bulk {
    head: "DELETE c FROM (SELECT NULL AS k0 UNION ALL ",
    row: "SELECT ?",
    between: UNION,
    tail: ") k STRAIGHT_JOIN backstop_claim c FORCE INDEX (PRIMARY) ON c.fence = k.k0",
};
// Claim. How many to take from each lane is decided by looking at the heads of all of them without a lock; then each
// lane gives that many which nobody else has locked. A lane's future and foreign jobs are never read.

/// First the moment, until when a worker lives and the revision of the document of limits, then the lanes of queues
/// that are not paused: each with the due time of its first job, as the given expression tells it. The first row is
/// there also when no lane is.
macro_rules! lanes {
    ($($due:tt)*) => {
        concat!(
            "SELECT ",
            clock!("?1"),
            " AS now, (SELECT w.expires_at FROM backstop_worker w WHERE w.id IN (?2)) AS live_until, \
             (SELECT d.revision FROM backstop_document d WHERE d.drawer = 'run_limit' AND d.name = 'all') AS id, \
             NULL AS queue, NULL AS kind, NULL AS version, NULL AS priority, NULL AS due UNION ALL \
             SELECT NULL, NULL, l.id, l.queue, l.kind, l.version, l.priority, ",
            $($due)*,
            " FROM backstop_lane l FORCE INDEX (lane_names) WHERE l.queue IN (?3) \
             AND NOT EXISTS (SELECT 1 FROM backstop_queue q WHERE q.name = l.queue AND q.paused <> 0)"
        )
    };
}

/// When the first job of a lane that may still start is due.
macro_rules! first_due {
    () => {
        concat!(
            "(SELECT r.run_at FROM backstop_ready r FORCE INDEX (PRIMARY) WHERE r.lane = l.id \
             AND (r.expires_at IS NULL OR r.expires_at >= ",
            clock!("?1"),
            ") ORDER BY r.run_at, r.id LIMIT 1)"
        )
    };
}

/// With the first job of each lane that may still start, and NULL for a lane that has none: one statement for any
/// number of lanes.
pub(crate) const LANES_DUE: &str = lanes!(first_due!());
/// Without a look: as if each lane had a job that has been due for ever; but not those whose jobs take turns (H5).
pub(crate) const LANES_OPEN: &str =
    lanes!(concat!("CASE WHEN l.version < 2147483648 THEN 0 ELSE ", first_due!(), " END"));
pub(crate) const HEADS: &str = "SELECT r.run_at, r.id FROM backstop_ready r FORCE INDEX (PRIMARY) \
     WHERE r.lane = ?1 AND r.run_at <= ?2 AND (r.expires_at IS NULL OR r.expires_at >= ?2) \
     ORDER BY r.run_at, r.id LIMIT ?3";
pub(crate) const PICK: &str = "SELECT r.lane, r.run_at, r.id FROM backstop_ready r FORCE INDEX (PRIMARY) \
     WHERE r.lane = ?1 AND r.run_at <= ?2 AND (r.expires_at IS NULL OR r.expires_at >= ?2) \
     ORDER BY r.run_at, r.id LIMIT ?3 FOR UPDATE SKIP LOCKED";
pub(crate) const NEXT_DUE: &str = "SELECT r.lane, r.run_at FROM backstop_ready r FORCE INDEX (PRIMARY) \
     WHERE r.lane = ? ORDER BY r.run_at, r.id LIMIT 1";

// Queues.

/// A row when that changes anything; and then the change. Resuming a queue does not make it known.
pub(crate) const QUEUE_PAUSE: [&str; 2] = [
    "SELECT 1 FROM (SELECT 1) one LEFT JOIN backstop_queue q ON q.name = ?1 WHERE COALESCE(q.paused, 0) = 0 \
     FOR UPDATE",
    "INSERT INTO backstop_queue (name, paused, note) VALUES (?1, 1, ?2) \
     ON DUPLICATE KEY UPDATE note = IF(paused = 0, VALUES(note), note), paused = 1",
];
pub(crate) const QUEUE_RESUME: [&str; 2] = [
    "SELECT 1 FROM backstop_queue WHERE name = ?1 AND paused <> 0 FOR UPDATE",
    "UPDATE backstop_queue SET paused = 0, note = NULL WHERE name = ?1 AND paused <> 0",
];
pub(crate) const QUEUES: &str =
    "SELECT name, paused, note FROM backstop_queue WHERE name >= ? AND name < ? ORDER BY name";
pub(crate) const QUEUE_NAMES: &str =
    "SELECT name FROM backstop_queue WHERE name >= ? AND name < ? ORDER BY name LIMIT ?";
pub(crate) const QUEUE_PAUSED: &str = "SELECT paused, note FROM backstop_queue WHERE name = ?";

// What is shown. `f` is the run that failed last, `e` the run that ended last.

pub(crate) const VIEWS: Bulk = Bulk {
    head: concat!(
        "SELECT ",
        job_columns!(),
        ", ",
        record_columns!(),
        ", ",
        done_columns!(),
        ", f.error_type, f.message, f.fingerprint, COALESCE(d.result, e.result), COALESCE(d.warning, e.warning), \
         COALESCE(d.started_at, e.started_at) \
         FROM backstop_job j LEFT JOIN backstop_record r ON r.id = j.id LEFT JOIN backstop_done d ON d.id = j.id \
         LEFT JOIN backstop_attempt f ON f.job = j.id AND f.number = r.last_failed_run \
         LEFT JOIN backstop_attempt e ON e.job = j.id AND e.number = COALESCE(r.runs, d.runs) \
         WHERE j.id IN ("
    ),
    row: "?",
    between: ",",
    tail: ")",
};
/// What became of jobs. The row of `job` is looked for only when there is no other: a job without a past is pending or
/// runs for the first time.
pub(crate) const SUMMARIES: Bulk = Bulk {
    head: "SELECT k.k0, CASE WHEN d.id IS NULL THEN COALESCE(r.status, 1) ELSE 7 END, r.paused_from, \
         COALESCE(d.redrives, r.redrives, 0), COALESCE(d.marks, r.marks), r.reason, \
         COALESCE(d.finished_at, r.finished_at), f.fingerprint FROM (SELECT NULL AS k0 UNION ALL ",
    row: "SELECT ?",
    between: UNION,
    tail: ") k LEFT JOIN backstop_record r FORCE INDEX (PRIMARY) ON r.id = k.k0 \
         LEFT JOIN backstop_done d FORCE INDEX (PRIMARY) ON d.id = k.k0 \
         LEFT JOIN backstop_attempt f FORCE INDEX (PRIMARY) ON f.job = r.id AND f.number = r.last_failed_run \
         WHERE COALESCE(r.id, d.id, (SELECT j.id FROM backstop_job j WHERE j.id = k.k0)) IS NOT NULL",
};
pub(crate) const CAUSES: &str = "SELECT job, cause, COUNT(*) FROM (SELECT job, cause FROM backstop_attempt \
     WHERE job IN (?1) UNION ALL SELECT id, _binary'succeeded' FROM backstop_done WHERE id IN (?1) \
     AND worker IS NOT NULL) a GROUP BY job, cause";
pub(crate) const LAST_DECISION: &str = "SELECT decision FROM (SELECT number, decision FROM backstop_attempt \
     WHERE job = ?1 UNION ALL SELECT runs, NULL FROM backstop_done WHERE id = ?1 AND worker IS NOT NULL) a \
     ORDER BY number DESC LIMIT 1";
pub(crate) const ATTEMPTS: &str = "SELECT number, fence, worker, code_version, cause, due_at, started_at, \
     finished_at, error_type, message, fingerprint, decision, result, warning, output FROM (\
     SELECT number, fence, worker, code_version, cause, due_at, started_at, finished_at, error_type, message, \
     fingerprint, decision, result, warning, output FROM backstop_attempt WHERE job = ?1 AND number < ?2 \
     UNION ALL SELECT runs, fence, worker, code_version, _binary'succeeded', run_at, started_at, finished_at, NULL, \
     NULL, NULL, NULL, result, warning, output FROM backstop_done \
     WHERE id = ?1 AND worker IS NOT NULL AND runs < ?2) a ORDER BY number DESC LIMIT ?3";
pub(crate) const RUNS_UNDER: &str = "SELECT job, number, fence, worker, code_version, cause, due_at, started_at, \
     finished_at, error_type, message, fingerprint, decision, result, warning, output FROM backstop_attempt \
     WHERE job IN (?1) AND fence IN (?2) \
     UNION ALL SELECT id, runs, fence, worker, code_version, _binary'succeeded', run_at, started_at, finished_at, \
     NULL, NULL, NULL, NULL, result, warning, output FROM backstop_done WHERE id IN (?1) AND fence IN (?2) \
     AND worker IS NOT NULL";

// What `doctor` asks.

pub(crate) const SETTINGS: &str = "SHOW VARIABLES WHERE Variable_name IN ('innodb_flush_log_at_trx_commit', 'log_bin', \
     'sync_binlog', 'binlog_format', 'innodb_doublewrite', 'sql_mode', 'transaction_isolation', 'tx_isolation', \
     'max_allowed_packet', 'read_only', 'version', 'version_comment')";
/// Empty where the server sees this session in the clear.
pub(crate) const CIPHER: &str = "SHOW SESSION STATUS LIKE 'Ssl_cipher'";
/// The moments in this table are in the time zone of the machine, whatever that of the session.
pub(crate) const OLD_TRANSACTIONS: &str = "SELECT CAST(trx_mysql_thread_id AS SIGNED), \
     TIMESTAMPDIFF(SECOND, trx_started, CONVERT_TZ(NOW(), @@session.time_zone, 'SYSTEM')) AS age \
     FROM information_schema.innodb_trx WHERE trx_mysql_thread_id <> CONNECTION_ID() HAVING age >= ? \
     ORDER BY age DESC LIMIT 5";
pub(crate) const TABLES: &str = "SELECT CAST(table_name AS CHAR), CAST(COALESCE(engine, '') AS CHAR) \
     FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name LIKE CAST(? AS CHAR)";
pub(crate) const INDEXES: &str = "SELECT DISTINCT CAST(table_name AS CHAR), CAST(index_name AS CHAR) \
     FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name LIKE CAST(? AS CHAR)";
