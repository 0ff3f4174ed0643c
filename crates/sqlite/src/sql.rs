//! Every statement of this store, by name. Nothing else in the crate contains SQL, except the schema and pragmas.
//!
//! Status codes are written as numbers (see `rows::status_code`), because a partial index is used only when its
//! condition appears literally in the query: 1 pending, 2 running, 3 waiting, 4 paused, 5 failed, 6 canceled,
//! 7 succeeded. `INDEXED BY` stands where a wrong guess of the planner would make a claim scan.

/// The columns of `state` in the order that `rows` reads them.
macro_rules! state_columns {
    () => {
        "s.seq, s.id, s.lane, s.status, s.run_at, s.expires_at, s.attempt, s.crashes, s.deferrals, s.runs, \
         s.redrives, s.fence, s.worker, s.claimed_at, s.started_at, s.last_failed_run, s.progress, \
         s.paused_from, s.finished_at, s.reason, s.cancel_reason, s.superseded_by, s.marks, s.ordering_key"
    };
}

/// The columns of `job` in the order that `rows` reads them; they follow those of `state`.
macro_rules! job_columns {
    () => {
        "j.created_at, j.payload, j.policy, j.expires_at, j.idempotency_key, j.business_key, \
         j.correlation_id, j.tags, j.params, j.on_success, j.on_failure, j.callback_of, \
         j.papers"
    };
}

/// The columns of `archive` in the order that `rows` reads them. `ran` is unknown where a program of version 1 wrote
/// the row after the migration; such a row is not in the index of what may be pruned.
macro_rules! archive_columns {
    () => {
        "id, status, archived_at, coalesce(ran, 0), document"
    };
}

/// The columns of `incident` in the order that `rows` reads them.
macro_rules! incident_columns {
    () => {
        "fingerprint, kind, error_type, message, failures, dead, open, first_seen, last_seen, first_version, \
         last_version, sample_job, standing"
    };
}

// Transactions and the schema's version.

pub(crate) const META_TABLES: &str = "SELECT count(*) FROM sqlite_schema WHERE name = 'backstop_meta'";
pub(crate) const SCHEMA_VERSION: &str = "SELECT value FROM backstop_meta WHERE key = 'schema'";
pub(crate) const SCHEMA_VERSION_SAVE: &str =
    "INSERT OR REPLACE INTO backstop_meta (key, value) VALUES ('schema', ?1)";
pub(crate) const BEGIN_WRITE: &str = "BEGIN IMMEDIATE";
pub(crate) const BEGIN_READ: &str = "BEGIN";

// Lanes and their kept counts.

pub(crate) const LANE_FIND: &str =
    "SELECT id FROM backstop_lane WHERE queue = ?1 AND kind = ?2 AND version = ?3 AND priority = ?4";
pub(crate) const LANE_INSERT: &str =
    "INSERT INTO backstop_lane (queue, kind, version, priority) VALUES (?1, ?2, ?3, ?4)";
pub(crate) const LANE_BY_ID: &str =
    "SELECT id, queue, kind, version, priority FROM backstop_lane WHERE id = ?1";
pub(crate) const LANE_COUNT: &str = "UPDATE backstop_lane SET pending = pending + ?2, running = running + ?3, \
     succeeded = succeeded + ?4, failed = failed + ?5, paused = paused + ?6, canceled = canceled + ?7, \
     waiting = waiting + ?8, empty_since = NULL, retired = 0 WHERE id = ?1";
/// Lanes with pending jobs of queues that are not paused, by the place of their queue in a list. One statement for all
/// queues, so that those without work cost a claim no statement of their own.
pub(crate) const LANES_WITH_WORK: &str = "SELECT w.key, l.id FROM json_each(?1) w CROSS JOIN backstop_lane l \
     ON l.queue = w.value WHERE l.pending > 0 AND NOT EXISTS \
     (SELECT 1 FROM backstop_queue q WHERE q.name = w.value AND q.paused <> 0)";
/// The lanes of the queues from one name on and below another.
pub(crate) const LANES: &str = "SELECT id, queue, kind, version, priority, pending, running, succeeded, \
     failed, paused, canceled, waiting, retired FROM backstop_lane WHERE queue >= ?1 AND queue < ?2 \
     ORDER BY queue, kind, version, priority";
pub(crate) const TOTALS: &str = "SELECT coalesce(sum(pending), 0), coalesce(sum(running), 0), \
     coalesce(sum(succeeded), 0), coalesce(sum(failed), 0), coalesce(sum(paused), 0), coalesce(sum(canceled), 0), \
     coalesce(sum(waiting), 0) FROM backstop_lane";

/// How many hot jobs a lane has.
macro_rules! jobs {
    () => {
        "(pending + running + succeeded + failed + paused + canceled + waiting)"
    };
}

pub(crate) const LANE_QUEUES: &str = concat!(
    "SELECT DISTINCT queue FROM backstop_lane WHERE queue >= ?1 AND queue < ?2 AND (retired = 0 OR ",
    jobs!(),
    " > 0) ORDER BY queue LIMIT ?3"
);
pub(crate) const LANE_KINDS: &str = concat!(
    "SELECT DISTINCT kind FROM backstop_lane WHERE queue >= ?1 AND queue < ?2 AND (retired = 0 OR ",
    jobs!(),
    " > 0) ORDER BY kind LIMIT ?3"
);
/// Lanes whose marks may have to change.
pub(crate) const LANES_TO_MARK: &str = concat!(
    "SELECT id, ",
    jobs!(),
    ", empty_since, retired FROM backstop_lane WHERE (",
    jobs!(),
    " = 0 AND (empty_since IS NULL OR (retired = 0 AND empty_since <= ?1))) OR (",
    jobs!(),
    " > 0 AND (empty_since IS NOT NULL OR retired <> 0)) LIMIT ?2"
);
pub(crate) const LANE_MARK: &str = "UPDATE backstop_lane SET empty_since = ?2, retired = ?3 WHERE id = ?1";

// Submit.

pub(crate) const STATE_IS_THERE: &str = "SELECT 1 FROM backstop_state WHERE id = ?1";
pub(crate) const STATE_INSERT: &str = "INSERT INTO backstop_state (id, lane, status, run_at, expires_at, \
     attempt, crashes, \
     deferrals, runs, redrives, fence, business_key, ordering_key, marks) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) \
     ON CONFLICT (id) DO NOTHING";
pub(crate) const JOB_INSERT: &str = "INSERT INTO backstop_job (seq, created_at, payload, policy, expires_at, \
     idempotency_key, business_key, correlation_id, tags, params, on_success, on_failure, callback_of, papers) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
pub(crate) const TAG_INSERT: &str =
    "INSERT INTO backstop_tag (tag, id) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
pub(crate) const IDEMPOTENCY_INSERT: &str = "INSERT INTO backstop_idempotency (key, job) VALUES (?1, ?2)";
pub(crate) const IDEMPOTENCY_FIND: &str = "SELECT job, ended FROM backstop_idempotency WHERE key = ?1";
pub(crate) const KEY_HOLDER: &str = "SELECT id, status FROM backstop_state INDEXED BY backstop_state_live_key \
     WHERE business_key = ?1 AND business_key IS NOT NULL AND status < 5";

// Records.

pub(crate) const STATE_BY_ID: &str =
    concat!("SELECT ", state_columns!(), " FROM backstop_state s WHERE s.id = ?1");
pub(crate) const STATE_AND_JOB_BY_SEQ: &str = concat!(
    "SELECT ",
    state_columns!(),
    ", ",
    job_columns!(),
    " FROM backstop_state s CROSS JOIN backstop_job j ON j.seq = s.seq WHERE s.seq = ?1"
);
pub(crate) const START_TERMS: &str = "SELECT policy, expires_at FROM backstop_job WHERE seq = ?1";
pub(crate) const STATE_UPDATE: &str = "UPDATE backstop_state SET status = ?2, run_at = ?3, expires_at = ?4, \
     attempt = ?5, \
     crashes = ?6, deferrals = ?7, runs = ?8, redrives = ?9, fence = ?10, worker = ?11, claimed_at = ?12, \
     started_at = ?13, last_failed_run = ?14, progress = ?15, paused_from = ?16, finished_at = ?17, \
     reason = ?18, cancel_reason = ?19, superseded_by = ?20, marks = ?21 WHERE seq = ?1";
/// What changes when a job is claimed or started, and when it ends well. `OR FAIL`, because a failure undoes the whole
/// transaction anyhow: the other way keeps a copy of every page that a statement of many rows touches.
macro_rules! update_held {
    () => {
        "UPDATE OR FAIL backstop_state SET status = ?3, runs = ?4, fence = ?5, worker = ?6, claimed_at = ?7, \
         started_at = ?8 "
    };
}
macro_rules! update_done {
    () => {
        "UPDATE OR FAIL backstop_state SET status = ?3, last_failed_run = ?4, finished_at = ?5, worker = NULL, \
         claimed_at = NULL, started_at = NULL "
    };
}
pub(crate) const STATE_UPDATE_HELD: &str = concat!(update_held!(), "WHERE seq BETWEEN ?1 AND ?2");
pub(crate) const STATE_UPDATE_DONE: &str = concat!(update_done!(), "WHERE seq BETWEEN ?1 AND ?2");
/// The same for rows that do not lie side by side: their numbers as JSON, and how many they are. SQLite looks for all
/// of them before it changes the first, so rows of a long range are better off with the statements above.
pub(crate) const STATE_UPDATE_HELD_LISTED: &str =
    concat!(update_held!(), "WHERE ?2 > 0 AND seq IN (SELECT value FROM json_each(?1))");
pub(crate) const STATE_UPDATE_DONE_LISTED: &str =
    concat!(update_done!(), "WHERE ?2 > 0 AND seq IN (SELECT value FROM json_each(?1))");

// How many jobs wait (H12).

/// Claimed and pending jobs of a queue and a kind, each of which may be NULL for all.
pub(crate) const RUN_COUNTS: &str = "SELECT coalesce(sum(running), 0), coalesce(sum(pending), 0) FROM backstop_lane \
     WHERE (?1 IS NULL OR queue = ?1) AND (?2 IS NULL OR kind = ?2)";
pub(crate) const DEPTH: &str =
    "SELECT coalesce(sum(pending + waiting), 0) FROM backstop_lane WHERE queue >= ?1 AND queue < ?2";

// Jobs that share something (H5, H6).

pub(crate) const TURN_INSERT: &str =
    "INSERT OR REPLACE INTO backstop_turn (lane, key, run_at, id, seq) VALUES (?1, ?2, ?3, ?4, ?5)";
pub(crate) const TURN_DELETE: &str =
    "DELETE FROM backstop_turn WHERE lane = ?1 AND key = ?2 AND run_at = ?3 AND id = ?4";
pub(crate) const TURN_NEXT_KEY: &str =
    "SELECT key FROM backstop_turn WHERE lane = ?1 AND key > ?2 AND key <= ?3 ORDER BY key LIMIT 1";
/// What a program of an earlier version has taken away is passed by.
pub(crate) const TURN_HEADS: &str = "SELECT t.run_at, t.id FROM backstop_turn t CROSS JOIN backstop_state s \
     ON s.seq = t.seq WHERE t.lane = ?1 AND t.key = ?2 AND t.run_at <= ?3 AND s.status = 1 AND s.run_at = t.run_at \
     AND (s.expires_at IS NULL OR s.expires_at >= ?3) ORDER BY t.run_at, t.id LIMIT ?4";
pub(crate) const JOB_EXTRAS: &str = "SELECT papers FROM backstop_job WHERE seq = ?1";
pub(crate) const EXTRAS_BY_ID: &str = "SELECT j.papers FROM backstop_state s JOIN backstop_job j ON j.seq = s.seq \
     WHERE s.id = ?1";
pub(crate) const PERMIT_INSERT: &str =
    "INSERT OR REPLACE INTO backstop_permit (shared, id, lane, amount) VALUES (?1, ?2, ?3, ?4)";
pub(crate) const PERMIT_DELETE: &str = "DELETE FROM backstop_permit WHERE shared = ?1 AND id = ?2";
pub(crate) const POOL_HELD: &str = "SELECT coalesce(sum(amount), 0) FROM backstop_permit WHERE shared = ?1";
pub(crate) const KEYED_RUNS: &str = "SELECT count(*) FROM backstop_permit p JOIN backstop_lane l ON l.id = p.lane \
     WHERE p.shared >= 'key ' AND p.shared < 'key!' AND (?1 IS NULL OR l.queue = ?1) AND (?2 IS NULL OR l.kind = ?2)";
pub(crate) const PERMITS_HELD: &str =
    "SELECT lane, sum(amount), min(id) FROM backstop_permit WHERE shared = ?1 GROUP BY lane";

// Lines (L21). A line of more jobs than 10,000 is not counted to its end.

pub(crate) const PLACE_INSERT: &str = "INSERT INTO backstop_place (key, number, id) VALUES (?1, \
     (SELECT coalesce(max(number), 0) + 1 FROM backstop_place WHERE key = ?1), ?2)";
pub(crate) const PLACE_DELETE: &str = "DELETE FROM backstop_place WHERE id = ?1";
pub(crate) const PLACE_FIRST: &str = "SELECT id FROM backstop_place WHERE key = ?1 AND NOT EXISTS \
     (SELECT 1 FROM backstop_line l WHERE l.key = ?1) ORDER BY key, number LIMIT 1";
pub(crate) const HEAD_INSERT: &str = "INSERT INTO backstop_line (key, head, blocked) VALUES (?1, ?2, ?3)";
pub(crate) const HEAD_DELETE: &str = "DELETE FROM backstop_line WHERE key = ?1 AND head = ?2";
pub(crate) const HEAD_MARK: &str = "UPDATE backstop_line SET blocked = ?3 WHERE key = ?1 AND head = ?2";
macro_rules! heads {
    ($blocked:literal) => {
        concat!(
            "SELECT l.key, l.head, s.status, (SELECT count(*) FROM (SELECT 1 FROM backstop_place p \
             WHERE p.key = l.key LIMIT 10000)), n.queue, n.kind FROM backstop_line l \
             CROSS JOIN backstop_state s ON s.id = l.head CROSS JOIN backstop_lane n ON n.id = s.lane WHERE ",
            $blocked,
            "l.key >= ?1 AND l.key < ?2 ORDER BY l.key LIMIT ?3"
        )
    };
}
pub(crate) const HEADS: &str = heads!("");
pub(crate) const HEADS_BLOCKED: &str = heads!("l.blocked <> 0 AND ");
pub(crate) const LINE_PLACE: &str = "SELECT l.head, s.status, (SELECT count(*) FROM (SELECT 1 FROM backstop_place p \
     WHERE p.key = ?1 AND p.number < (SELECT q.number FROM backstop_place q WHERE q.id = ?2) LIMIT 10000)) \
     FROM (SELECT 1) LEFT JOIN backstop_line l ON l.key = ?1 LEFT JOIN backstop_state s ON s.id = l.head";

// Claim. The index is (lane, run_at, id) over pending jobs: a lane's future and foreign jobs are never read.

pub(crate) const FENCE_NEXT: &str =
    "UPDATE backstop_meta SET value = value + 1 WHERE key = 'fence' RETURNING value";
pub(crate) const FENCE_RAISE: &str = "UPDATE backstop_meta SET value = max(value, \
     coalesce((SELECT max(fence) FROM backstop_state), 0), coalesce((SELECT max(fence) FROM backstop_attempt), 0)) \
     WHERE key = 'fence'";
pub(crate) const FENCE_BEHIND: &str = "SELECT (SELECT value FROM backstop_meta WHERE key = 'fence') < max(\
     coalesce((SELECT max(fence) FROM backstop_state WHERE status BETWEEN 2 AND 6 AND status = 2), 0), \
     coalesce((SELECT max(fence) FROM (SELECT fence FROM backstop_state WHERE status >= 5 AND status = 5 \
     ORDER BY finished_at DESC LIMIT 100)), 0), \
     coalesce((SELECT max(fence) FROM (SELECT fence FROM backstop_state WHERE status >= 5 AND status = 7 \
     ORDER BY finished_at DESC LIMIT 100)), 0))";
pub(crate) const LANE_DUE: &str = concat!(
    "SELECT ",
    state_columns!(),
    ", ",
    job_columns!(),
    " FROM backstop_state s INDEXED BY backstop_state_pending CROSS JOIN backstop_job j ON j.seq = s.seq \
     WHERE s.status = 1 AND s.lane = ?1 AND s.run_at <= ?2 AND (s.expires_at IS NULL OR s.expires_at >= ?2) \
     ORDER BY s.run_at, s.id LIMIT ?3"
);
pub(crate) const LANE_DUE_AFTER: &str = concat!(
    "SELECT ",
    state_columns!(),
    ", ",
    job_columns!(),
    " FROM backstop_state s INDEXED BY backstop_state_pending CROSS JOIN backstop_job j ON j.seq = s.seq \
     WHERE s.status = 1 AND s.lane = ?1 AND s.run_at <= ?2 AND (s.run_at, s.id) > (?4, ?5) \
     AND (s.expires_at IS NULL OR s.expires_at >= ?2) \
     ORDER BY s.run_at, s.id LIMIT ?3"
);
pub(crate) const LANE_NEXT_START: &str = "SELECT run_at FROM backstop_state INDEXED BY backstop_state_pending \
     WHERE status = 1 AND lane = ?1 AND (expires_at IS NULL OR expires_at >= ?2) ORDER BY run_at, id LIMIT 1";
pub(crate) const LANE_NEXT_DUE: &str = "SELECT run_at FROM backstop_state INDEXED BY backstop_state_pending \
     WHERE status = 1 AND lane = ?1 ORDER BY run_at, id LIMIT 1";

// Finish.

pub(crate) const ATTEMPT_INSERT: &str = "INSERT INTO backstop_attempt (job, number, fence, worker, \
     code_version, cause, \
     due_at, started_at, finished_at, error_type, message, fingerprint, decision, result, warning, output, id) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";

// Incidents. An unknown version leaves the one that was known.

pub(crate) const INCIDENT_COUNT: &str = "INSERT INTO backstop_incident (fingerprint, kind, error_type, message, \
     failures, dead, open, first_seen, last_seen, first_version, last_version, sample_job) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9, ?10, ?11) \
     ON CONFLICT (fingerprint) DO UPDATE SET failures = failures + excluded.failures, \
     dead = dead + excluded.dead, open = open + excluded.open, last_seen = excluded.last_seen, \
     last_version = coalesce(excluded.last_version, last_version), sample_job = excluded.sample_job \
     RETURNING failures, standing";
pub(crate) const INCIDENT_OPEN: &str = "UPDATE backstop_incident SET open = open + ?2 WHERE fingerprint = ?1";
pub(crate) const INCIDENT_STAND: &str = "UPDATE backstop_incident SET standing = ?2 WHERE fingerprint = ?1";
pub(crate) const INCIDENT: &str =
    concat!("SELECT ", incident_columns!(), " FROM backstop_incident WHERE fingerprint = ?1");
pub(crate) const INCIDENTS: &str = concat!(
    "SELECT ",
    incident_columns!(),
    " FROM backstop_incident INDEXED BY backstop_incident_latest \
     WHERE (?2 IS NULL OR coalesce(standing, '{\"state\":\"new\"') LIKE ?2) AND (?3 = 0 OR open > 0) \
     AND (?7 = 0 OR open <= 0) AND (?4 IS NULL OR substr(kind, 1, length(?4)) = ?4) \
     AND (?5 IS NULL OR last_seen < ?5 OR (last_seen = ?5 AND fingerprint > ?6)) \
     ORDER BY last_seen DESC, fingerprint LIMIT ?1"
);

pub(crate) const INCIDENT_DELETE: &str = "DELETE FROM backstop_incident WHERE fingerprint = ?1";
pub(crate) const INCIDENTS_OF_TENANT: &str = "SELECT count(*) FROM (SELECT 1 FROM backstop_incident \
     INDEXED BY backstop_incident_kind WHERE kind >= ?1 AND kind < ?2 LIMIT ?3)";

// Documents.

pub(crate) const DOCUMENT_REVISION: &str =
    "SELECT revision FROM backstop_document WHERE drawer = ?1 AND key = ?2";
pub(crate) const DOCUMENT_SAVE: &str = "INSERT INTO backstop_document (drawer, key, revision, body) \
     VALUES (?1, ?2, 1, ?3) ON CONFLICT (drawer, key) DO UPDATE SET revision = revision + 1, body = excluded.body";
pub(crate) const DOCUMENT_PUT: &str =
    "INSERT OR REPLACE INTO backstop_document (drawer, key, revision, body) VALUES (?1, ?2, 1, ?3)";
pub(crate) const DOCUMENT: &str =
    "SELECT revision, body FROM backstop_document WHERE drawer = ?1 AND key = ?2";
pub(crate) const DOCUMENT_BODY: &str = "SELECT body FROM backstop_document WHERE drawer = ?1 AND key = ?2";
pub(crate) const DOCUMENT_DELETE: &str = "DELETE FROM backstop_document WHERE drawer = ?1 AND key = ?2";
pub(crate) const DOCUMENTS_FROM: &str = "SELECT key, revision, body FROM backstop_document \
     WHERE drawer = ?1 AND key >= ?2 ORDER BY key LIMIT ?3";
pub(crate) const DOCUMENTS_AFTER: &str = "SELECT key, revision, body FROM backstop_document \
     WHERE drawer = ?1 AND key > ?2 ORDER BY key LIMIT ?3";
pub(crate) const DOCUMENTS_BEFORE: &str = "SELECT key, revision, body FROM backstop_document \
     WHERE drawer = ?1 AND (?2 IS NULL OR key < ?2) ORDER BY key DESC LIMIT ?3";
/// Keys alone: they say how much each document holds.
pub(crate) const OUTBOX_BACKLOG: &str = "SELECT count(*), coalesce(sum(CAST(substr(key, ?4, ?5) AS INTEGER)), 0), \
     coalesce(sum(CAST(substr(key, ?6, ?7) AS INTEGER)), 0), min(key) FROM backstop_document \
     WHERE drawer = ?1 AND key >= ?2 AND key < ?3";

// Workers.

pub(crate) const WORKER_SAVE: &str = "INSERT OR REPLACE INTO backstop_worker \
     (id, name, code_version, queues, kinds, started_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
pub(crate) const WORKER_EXPIRY: &str = "SELECT expires_at FROM backstop_worker WHERE id = ?1";
pub(crate) const WORKER_RENEW: &str = "UPDATE backstop_worker SET expires_at = ?2 WHERE id = ?1";
pub(crate) const WORKER_DELETE: &str = "DELETE FROM backstop_worker WHERE id = ?1";
pub(crate) const WORKERS: &str = "SELECT id, name, code_version, queues, kinds, started_at, expires_at FROM \
     backstop_worker ORDER BY name, id";
pub(crate) const HELD: &str = "SELECT worker, claimed_at, id, seq, fence, started_at FROM backstop_state \
     INDEXED BY backstop_state_shelf WHERE status = 2 AND status BETWEEN 2 AND 6 ORDER BY id";

// Duties.

pub(crate) const TERM: &str = "SELECT number, node, expires_at FROM backstop_duty WHERE name = ?1";
pub(crate) const TERM_SAVE: &str =
    "INSERT OR REPLACE INTO backstop_duty (name, number, node, expires_at) VALUES (?1, ?2, ?3, ?4)";
pub(crate) const OVERDUE: &str = "SELECT expires_at, id FROM backstop_state INDEXED BY backstop_state_expiring \
     WHERE status = 1 AND expires_at IS NOT NULL AND expires_at < ?1 AND (expires_at, id) > (?2, ?3) \
     ORDER BY expires_at, id LIMIT ?4";

// Archival. An id that came again replaces what its earlier job left.

pub(crate) const ENDED: &str = "SELECT seq FROM backstop_state INDEXED BY backstop_state_ended \
     WHERE status = ?1 AND status >= 5 AND finished_at <= ?2 ORDER BY finished_at, id LIMIT ?3";
pub(crate) const ARCHIVE_SAVE: &str = "INSERT OR REPLACE INTO backstop_archive (id, status, finished_at, archived_at, \
     ran, document) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
pub(crate) const ARCHIVED: &str =
    concat!("SELECT ", archive_columns!(), " FROM backstop_archive WHERE id = ?1");
pub(crate) const ARCHIVE_PAGE: &str =
    concat!("SELECT ", archive_columns!(), " FROM backstop_archive WHERE id < ?1 ORDER BY id DESC LIMIT ?2");
pub(crate) const ARCHIVED_STATUS: &str = "SELECT status FROM backstop_archive WHERE id = ?1";
pub(crate) const STATE_DELETE: &str = "DELETE FROM backstop_state WHERE seq = ?1";
pub(crate) const JOB_DELETE: &str = "DELETE FROM backstop_job WHERE seq = ?1";
pub(crate) const ATTEMPTS_DELETE: &str = "DELETE FROM backstop_attempt WHERE job = ?1";
pub(crate) const TAG_DELETE: &str = "DELETE FROM backstop_tag WHERE tag = ?1 AND id = ?2";

// Purging: what is left of a job is how it ended, for whoever comes with its key (L10).

pub(crate) const OUTWORN: &str = "SELECT id, status FROM backstop_archive \
     INDEXED BY backstop_archive_outworn WHERE ran = 1 AND archived_at <= ?1 ORDER BY archived_at, id LIMIT ?2";
pub(crate) const OUTWORN_COUNT: &str = "SELECT count(*) FROM (SELECT 1 FROM backstop_archive \
     INDEXED BY backstop_archive_outworn WHERE ran = 1 AND archived_at <= ?1 LIMIT ?2)";
pub(crate) const ARCHIVED_DOCUMENT: &str = "SELECT document FROM backstop_archive WHERE id = ?1";
pub(crate) const ARCHIVE_DELETE: &str = "DELETE FROM backstop_archive WHERE id = ?1";
pub(crate) const IDEMPOTENCY_END: &str = "UPDATE backstop_idempotency SET ended = ?2 WHERE key = ?1";
pub(crate) const IDEMPOTENCY_END_AGAIN: &str = "UPDATE backstop_idempotency \
     INDEXED BY backstop_idempotency_ended SET ended = ?2 WHERE job = ?1 AND ended IS NOT NULL";

// Queues.

pub(crate) const QUEUE_PAUSED: &str = "SELECT paused, note FROM backstop_queue WHERE name = ?1";
pub(crate) const QUEUE_PAUSE: &str = "INSERT INTO backstop_queue (name, paused, note) VALUES (?1, ?2, ?3) \
     ON CONFLICT (name) DO UPDATE SET paused = excluded.paused, note = excluded.note";
pub(crate) const QUEUES: &str = "SELECT name, paused, note FROM backstop_queue WHERE name >= ?1 AND name < ?2 \
     ORDER BY name";
pub(crate) const QUEUE_NAMES: &str =
    "SELECT name FROM backstop_queue WHERE name >= ?1 AND name < ?2 ORDER BY name LIMIT ?3";

// What is shown. `last` is the run that failed last, `latest` the run that ended last.

pub(crate) const VIEW_BY_SEQ: &str = concat!(
    "SELECT ",
    state_columns!(),
    ", ",
    job_columns!(),
    ", last.error_type, last.message, last.fingerprint, latest.result, latest.warning, latest.started_at \
     FROM backstop_state s CROSS JOIN backstop_job j ON j.seq = s.seq \
     LEFT JOIN backstop_attempt last ON last.job = s.seq AND last.number = s.last_failed_run \
     LEFT JOIN backstop_attempt latest ON latest.job = s.seq AND latest.number = s.runs WHERE s.seq = ?1"
);
/// What became of a job.
pub(crate) const SUMMARY: &str = "SELECT s.status, s.paused_from, s.redrives, s.marks, s.reason, s.finished_at, \
     (SELECT fingerprint FROM backstop_attempt WHERE job = s.seq AND number = s.last_failed_run) \
     FROM backstop_state s WHERE s.id = ?1";
pub(crate) const CAUSES: &str = "SELECT cause, count(*) FROM backstop_attempt WHERE job = ?1 GROUP BY cause";
pub(crate) const SEQ_BY_ID: &str = "SELECT seq FROM backstop_state WHERE id = ?1";
pub(crate) const LAST_DECISION: &str =
    "SELECT decision FROM backstop_attempt WHERE job = ?1 ORDER BY number DESC LIMIT 1";
pub(crate) const ATTEMPTS: &str = "SELECT number, fence, worker, code_version, cause, due_at, started_at, \
     finished_at, error_type, message, fingerprint, decision, result, warning, output FROM backstop_attempt \
     WHERE job = ?1 AND number < ?2 ORDER BY number DESC LIMIT ?3";
pub(crate) const RUN_OF: &str = "SELECT number, fence, worker, code_version, cause, due_at, started_at, \
     finished_at, error_type, message, fingerprint, decision, result, warning, output FROM backstop_attempt \
     WHERE job = ?1 AND fence = ?2";

// Listing: what is read of each job, one source, chosen by what is asked for, and one condition for each part of the
// filter.

pub(crate) const LIST: &str = "SELECT s.id, s.seq";
pub(crate) const SURVEY: &str = "SELECT s.id, s.lane, s.reason, (SELECT fingerprint FROM backstop_attempt \
     WHERE job = s.seq AND number = s.last_failed_run)";

pub(crate) const LIST_BY_ID: &str = "FROM backstop_state s";
pub(crate) const LIST_BY_TAG: &str = "FROM backstop_tag t CROSS JOIN backstop_state s ON s.id = t.id";
pub(crate) const LIST_BY_KEY: &str = "FROM backstop_job k INDEXED BY backstop_job_business_key \
     CROSS JOIN backstop_state s ON s.seq = k.seq";
pub(crate) const LIST_BY_FINGERPRINT: &str = "FROM backstop_attempt f INDEXED BY \
     backstop_attempt_fingerprint \
     CROSS JOIN backstop_state s ON s.seq = f.job AND s.last_failed_run = f.number";
/// Says whether a program of an earlier version has written failures of this fingerprint without their job's id.
pub(crate) const UNSTAMPED: &str = "SELECT 1 FROM backstop_attempt INDEXED BY backstop_attempt_unstamped \
     WHERE fingerprint = ?1 AND fingerprint IS NOT NULL AND id IS NULL LIMIT 1";
pub(crate) const STAMP: &str = "UPDATE backstop_attempt INDEXED BY backstop_attempt_unstamped \
     SET id = (SELECT id FROM backstop_state WHERE seq = job) WHERE fingerprint IS NOT NULL AND id IS NULL";
pub(crate) const LIST_STATES: &str = "FROM backstop_state s INDEXED BY backstop_state_shelf";
pub(crate) const LIST_PENDING: &str = "FROM backstop_state s INDEXED BY backstop_state_pending";
pub(crate) const LIST_ENDED: &str = "FROM backstop_state s INDEXED BY backstop_state_ended";
pub(crate) const LIST_LANE: &str = "FROM backstop_state s INDEXED BY backstop_state_lane";
pub(crate) const LIST_LANE_STATES: &str = "FROM backstop_state s INDEXED BY backstop_state_lane_shelf";

pub(crate) const WHERE_AFTER: &str = "s.id < :after";
/// The same for what is read by its fingerprint: the index is walked from there, in its order.
pub(crate) const WHERE_FAILED_AFTER: &str = "f.id < :after";
pub(crate) const WHERE_FROM: &str = "s.id >= :from";
pub(crate) const WHERE_FAILED_FROM: &str = "f.id >= :from";
pub(crate) const WHERE_TAG: &str = "t.tag = :tag";
pub(crate) const WHERE_TAGGED: &str = "EXISTS (SELECT 1 FROM backstop_tag WHERE tag = :tag AND id = s.id)";
pub(crate) const WHERE_KEY: &str = "k.business_key = :key AND k.business_key IS NOT NULL";
pub(crate) const WHERE_KEYED: &str =
    "EXISTS (SELECT 1 FROM backstop_job WHERE seq = s.seq AND business_key = :key)";
pub(crate) const WHERE_FINGERPRINT: &str = "f.fingerprint = :fingerprint AND f.fingerprint IS NOT NULL";
pub(crate) const WHERE_FAILED_BY: &str = "EXISTS (SELECT 1 FROM backstop_attempt WHERE job = s.seq \
     AND number = s.last_failed_run AND fingerprint = :fingerprint)";
pub(crate) const WHERE_LANES: &str = "s.lane IN (SELECT value FROM json_each(:lanes))";
pub(crate) const WHERE_STATUS: &str = "s.status = :status";
pub(crate) const WHERE_STATE_INDEXED: &str = "s.status BETWEEN 2 AND 6";
pub(crate) const WHERE_LANE_STATE_INDEXED: &str = "s.status BETWEEN 3 AND 6";
pub(crate) const WHERE_ENDED: &str = "s.status >= 5";
/// What differs between the parts that a list is put together from.
pub(crate) const WHERE_LANE: &str = "s.lane = :lane";
pub(crate) const WHERE_NEWER: &str = "s.id > :floor";
pub(crate) const WHERE_PENDING: &str = "s.status = 1";
pub(crate) const WHERE_WAITING_OR_HELD: &str =
    "(s.status = 3 OR (s.status = 1 AND s.lane IN (SELECT value FROM json_each(:held))))";
pub(crate) const WHERE_REASON: &str = "s.reason = :reason";
pub(crate) const WHERE_CREATED_AFTER: &str =
    "(SELECT created_at FROM backstop_job WHERE seq = s.seq) >= :created_after";
pub(crate) const WHERE_CREATED_BEFORE: &str =
    "(SELECT created_at FROM backstop_job WHERE seq = s.seq) < :created_before";
pub(crate) const WHERE_FINISHED_AFTER: &str = "s.finished_at >= :finished_after";
pub(crate) const WHERE_FINISHED_BEFORE: &str = "s.finished_at < :finished_before";
pub(crate) const LIST_END: &str = "ORDER BY s.id DESC LIMIT :limit";
pub(crate) const LIST_END_FAILED: &str = "ORDER BY f.id DESC LIMIT :limit";
