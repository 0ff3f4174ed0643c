//! Every statement of this store, by name. Nothing else in the crate contains SQL, except the schema.
//!
//! Status codes are written as numbers (see `backstop_sql::encode::status_code`), because a partial index is used only
//! when its condition appears literally in the query: 1 pending, 2 running, 3 waiting, 4 paused, 5 failed, 6 canceled,
//! 7 succeeded. Several rows are bound as one array per column, so that a batch is one statement whatever its size.
//!
//! # Layout
//! - Here: what the verbs about jobs have in common. [`insert`]: new rows. [`archive`]: jobs that leave. [`counts`]:
//!   how many jobs wait and run. [`document`], [`incident`], [`list`].

/// The columns of `job` that most jobs leave empty.
macro_rules! job_extras {
    () => {
        "j.policy, j.expires_at, j.idempotency_key, j.business_key, j.correlation_id, j.tags, j.params, \
         j.on_success, j.on_failure, j.callback_of, j.papers"
    };
}

/// The columns of `job`, in the order that `rows` reads them.
macro_rules! job_columns {
    () => {
        concat!("j.id, j.lane, j.created_at, j.run_at, j.payload, ", job_extras!())
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

/// The moment of the statement by the server's clock, unless the caller brings one.
macro_rules! clock {
    ($parameter:literal) => {
        concat!(
            "coalesce(",
            $parameter,
            "::bigint, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)"
        )
    };
}

/// Leaves no plan but the way over indexes.
macro_rules! by_key {
    () => {
        "set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), \
         set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), \
         set_config('jit', 'off', true)"
    };
}

/// A statement that makes settings and answers no row.
macro_rules! quietly {
    ($settings:expr) => {
        concat!("SELECT WHERE concat(", $settings, ") IS NULL")
    };
}

use std::time::Duration;

use backstop_sql::connection::Mode;

use crate::schema::this_server;

pub(crate) mod archive;
pub(crate) mod counts;
pub(crate) mod document;
pub(crate) mod incident;
pub(crate) mod insert;
pub(crate) mod list;
pub(crate) mod turn;

// Transactions.

/// Plans must not depend on statistics: right after a bulk load they are wrong.
const BEGIN_WRITE: &str = concat!("BEGIN; SELECT ", by_key!());
/// The same for the rest of a transaction that looks for jobs first and then reads them by their ids.
pub(crate) const BY_KEY: &str = quietly!(by_key!());
/// For statements that have one plan only, or bring their settings along.
const BEGIN_PLAIN: &str = "BEGIN";
/// It is idle while an index is made online, and must not be what that waits for: see [`LET_GO`].
pub(crate) const BEGIN_MIGRATION: &str =
    "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = 0";
/// An unnamed statement keeps its snapshot until the next one comes; this one, sent as plain text, keeps none.
pub(crate) const LET_GO: &str = "SELECT";
const BEGIN_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL jit = off";
/// The text that begins a transaction, in which no lock is waited for longer than this.
pub(crate) fn begin(mode: Mode, lock_wait: Duration) -> String {
    let begin = match mode {
        Mode::Read => BEGIN_READ,
        Mode::Write => BEGIN_WRITE,
        Mode::WriteByKey => BEGIN_PLAIN,
    };
    format!("{begin}; SET LOCAL lock_timeout = {}", lock_wait.as_millis().clamp(1, 2_000_000_000))
}
pub(crate) const COMMIT: &str = "COMMIT";
pub(crate) const ROLLBACK: &str = "ROLLBACK";
pub(crate) const SAVEPOINT: &str = "SAVEPOINT backstop";
pub(crate) const RELEASE: &str = "RELEASE SAVEPOINT backstop";
pub(crate) const ROLLBACK_TO: &str = "ROLLBACK TO SAVEPOINT backstop";
/// The port of the server, and its address; none where it is reached by a socket of the file system.
pub(crate) const WHERE_IT_LISTENS: &str = "SELECT current_setting('port')::integer, host(inet_server_addr())";
pub(crate) const CLOCK: &str = concat!("SELECT ", clock!("$1"));

/// One notice for each payload.
pub(crate) const NOTIFY: &str = "SELECT count(pg_notify($1, n)) FROM unnest($2::text[]) n";

// Lanes.

pub(crate) const LANES_MAKE: &str = "INSERT INTO backstop.lane (queue, kind, version, priority) \
     SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) n(queue, kind, version, priority) \
     ORDER BY 1, 2, 3, 4 ON CONFLICT DO NOTHING";
pub(crate) const LANES_FIND: &str = "SELECT l.id, l.queue, l.kind, l.version, l.priority FROM backstop.lane l \
     JOIN unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) n(queue, kind, version, priority) \
     USING (queue, kind, version, priority)";
pub(crate) const LANES_BY_ID: &str =
    "SELECT l.id, l.queue, l.kind, l.version, l.priority FROM backstop.lane l WHERE l.id = ANY($1::bigint[])";
pub(crate) const LANES: &str = "SELECT l.id, l.queue, l.kind, l.version, l.priority, \
     (l.pending + coalesce(t.pending, 0))::bigint, (l.running + coalesce(t.running, 0))::bigint, \
     (l.succeeded + coalesce(t.succeeded, 0))::bigint, (l.failed + coalesce(t.failed, 0))::bigint, \
     (l.paused + coalesce(t.paused, 0))::bigint, (l.canceled + coalesce(t.canceled, 0))::bigint, \
     (l.waiting + coalesce(t.waiting, 0))::bigint, l.retired \
     FROM backstop.lane l LEFT JOIN (SELECT lane, sum(pending) AS pending, sum(running) AS running, \
     sum(succeeded) AS succeeded, sum(failed) AS failed, sum(paused) AS paused, sum(canceled) AS canceled, \
     sum(waiting) AS waiting FROM backstop.tally GROUP BY lane) t ON t.lane = l.id \
     WHERE l.queue >= $1 AND l.queue < $2 ORDER BY l.queue, l.kind, l.version, l.priority";
/// The sums of all lanes, without what is to be folded: they need not be exact.
pub(crate) const TOTALS: &str = "SELECT coalesce(sum(pending), 0)::bigint, coalesce(sum(running), 0)::bigint, \
     coalesce(sum(succeeded), 0)::bigint, coalesce(sum(failed), 0)::bigint, coalesce(sum(paused), 0)::bigint, \
     coalesce(sum(canceled), 0)::bigint, coalesce(sum(waiting), 0)::bigint FROM backstop.lane";

/// How many hot jobs a lane has, without what is in `tally`.
macro_rules! folded {
    () => {
        "(l.pending + l.running + l.succeeded + l.failed + l.paused + l.canceled + l.waiting)"
    };
}
/// A lane of which something is to be folded is in use.
macro_rules! in_use {
    () => {
        concat!("(NOT l.retired OR ", folded!(), " > 0 OR l.id IN (SELECT t.lane FROM backstop.tally t))")
    };
}

pub(crate) const LANE_QUEUES: &str = concat!(
    "SELECT DISTINCT l.queue FROM backstop.lane l WHERE l.queue >= $1 AND l.queue < $2 AND ",
    in_use!(),
    " ORDER BY l.queue LIMIT $3"
);
pub(crate) const LANE_KINDS: &str = concat!(
    "SELECT DISTINCT l.kind FROM backstop.lane l WHERE l.queue >= $1 AND l.queue < $2 AND ",
    in_use!(),
    " ORDER BY l.kind LIMIT $3"
);
/// Lanes whose marks may have to change; those that others change at this moment are left for the next time.
pub(crate) const LANES_TO_MARK: &str = concat!(
    "SELECT l.id, ",
    folded!(),
    ", l.empty_since, l.retired FROM backstop.lane l WHERE (",
    folded!(),
    " = 0 AND (l.empty_since IS NULL OR (NOT l.retired AND l.empty_since <= $1)) \
     AND l.id NOT IN (SELECT t.lane FROM backstop.tally t)) OR (",
    folded!(),
    " > 0 AND (l.empty_since IS NOT NULL OR l.retired)) ORDER BY l.id LIMIT $2 FOR UPDATE OF l SKIP LOCKED"
);
/// Nothing is said of a lane that has got jobs since it was looked at.
pub(crate) const LANES_MARK: &str = concat!(
    "UPDATE backstop.lane l SET empty_since = n.since, retired = n.retired \
     FROM unnest($1::bigint[], $2::bigint[], $3::boolean[], $4::bigint[]) n(id, since, retired, jobs) \
     WHERE l.id = n.id AND ",
    folded!(),
    " = n.jobs"
);
/// Adds what has piled up to the lanes. A transaction that writes at the same time is simply counted the next time.
pub(crate) const TALLY_FOLD: &str = "WITH gone AS (DELETE FROM backstop.tally WHERE ctid = ANY(ARRAY(SELECT ctid FROM \
     backstop.tally LIMIT $1 FOR UPDATE SKIP LOCKED)) RETURNING *), summed AS (SELECT lane, \
     sum(pending) AS pending, sum(running) AS running, sum(succeeded) AS succeeded, sum(failed) AS failed, \
     sum(paused) AS paused, sum(canceled) AS canceled, sum(waiting) AS waiting FROM gone GROUP BY lane ORDER BY lane), \
     added AS (UPDATE backstop.lane l SET pending = l.pending + s.pending, running = l.running + s.running, \
     succeeded = l.succeeded + s.succeeded, failed = l.failed + s.failed, paused = l.paused + s.paused, \
     canceled = l.canceled + s.canceled, waiting = l.waiting + s.waiting, empty_since = NULL, retired = FALSE \
     FROM summed s WHERE s.lane = l.id) \
     SELECT count(*) FROM gone";

/// See `cursors`. Whoever keeps them last knows best.
pub(crate) const CURSORS_SAVE: &str = "INSERT INTO backstop.cursor (lane, run_at, id, server, seen) \
     SELECT n.lane, n.run_at, n.id, $4, $5 FROM unnest($1::bigint[], $2::bigint[], $3::uuid[]) n(lane, run_at, id) \
     ORDER BY n.lane ON CONFLICT (lane) DO UPDATE SET run_at = excluded.run_at, id = excluded.id, \
     server = excluded.server, seen = excluded.seen";
/// Those that are about this run of the server, and of which no arrival can be gone.
pub(crate) const CURSORS: &str = concat!(
    "SELECT c.server, c.lane, l.queue, c.run_at, c.id, c.seen FROM backstop.cursor c \
     JOIN backstop.lane l ON l.id = c.lane WHERE c.server = ",
    this_server!(),
    " AND pg_snapshot_xmin(c.seen::pg_snapshot)::text::bigint >= (SELECT f.floor FROM backstop.arrival_floor f)"
);
/// Moves the floor to where it was noted the last time, and notes the next one.
pub(crate) const FLOOR_RAISE: &str = "UPDATE backstop.arrival_floor SET floor = greatest(floor, next), \
     next = pg_snapshot_xmin(pg_current_snapshot())::text::bigint";
/// Removes arrivals below the floor, so many at most, and counts them.
pub(crate) const ARRIVALS_DELETE: &str = "WITH gone AS (DELETE FROM backstop.arrival WHERE ctid = ANY(ARRAY(\
     SELECT a.ctid FROM backstop.arrival a WHERE a.xid < (SELECT f.floor FROM backstop.arrival_floor f) \
     LIMIT 20000)) RETURNING 1) SELECT count(*) FROM gone";

// Loading.

pub(crate) const LOAD: &str = concat!(
    "SELECT ",
    job_columns!(),
    ", ",
    record_columns!(),
    ", ",
    done_columns!(),
    " FROM backstop.job j LEFT JOIN backstop.record r ON r.id = j.id LEFT JOIN backstop.done d ON d.id = j.id \
     WHERE j.id = ANY($1::uuid[]) ORDER BY j.id"
);
pub(crate) const RECORDS_LOCK: &str = concat!(
    "SELECT r.id, ",
    record_columns!(),
    " FROM backstop.record r WHERE r.id = ANY($1::uuid[]) ORDER BY r.id FOR UPDATE"
);
pub(crate) const READY_FIND: &str = "SELECT r.id FROM backstop.ready r \
     JOIN unnest($1::bigint[], $2::bigint[], $3::uuid[]) k(lane, run_at, id) \
     ON r.lane = k.lane AND r.run_at = k.run_at AND r.id = k.id";
pub(crate) const READY_LOCK: &str = "SELECT r.id FROM backstop.ready r \
     JOIN unnest($1::bigint[], $2::bigint[], $3::uuid[]) k(lane, run_at, id) \
     ON r.lane = k.lane AND r.run_at = k.run_at AND r.id = k.id ORDER BY r.id FOR UPDATE OF r";
pub(crate) const CLAIMS_WITH: &str = "SELECT c.fence, c.worker, c.claimed_at, c.slots, c.edits, c.jobs \
     FROM backstop.claim c WHERE EXISTS (SELECT 1 FROM unnest($1::uuid[]) i(id) \
     WHERE position(uuid_send(i.id) IN c.jobs) > 0) ORDER BY c.fence";
/// Without the ids, which the process that claimed remembers.
pub(crate) const CLAIMS_LOCK: &str = "SELECT c.fence, c.worker, c.claimed_at, c.slots, c.edits FROM backstop.claim c \
     WHERE c.fence = ANY($1::bigint[]) ORDER BY c.fence FOR UPDATE";
pub(crate) const CLAIMS_LOCK_WHOLE: &str = "SELECT c.fence, c.worker, c.claimed_at, c.slots, c.edits, c.jobs \
     FROM backstop.claim c WHERE c.fence = ANY($1::bigint[]) ORDER BY c.fence FOR UPDATE";
pub(crate) const CLAIMS_BY_FENCE: &str = "SELECT c.fence, c.worker, c.claimed_at, c.slots, c.edits, c.jobs \
     FROM backstop.claim c WHERE c.fence = ANY($1::bigint[]) ORDER BY c.fence";
pub(crate) const CLAIMS: &str =
    "SELECT c.fence, c.worker, c.claimed_at, c.slots, c.edits, c.jobs FROM backstop.claim c ORDER BY c.fence";
pub(crate) const IDEMPOTENCY_FIND: &str =
    "SELECT key, job FROM backstop.idempotency WHERE key = ANY($1::text[])";
/// How jobs ended of which nothing but a key is left.
pub(crate) const IDEMPOTENCY_ENDED: &str = "SELECT job, ended FROM backstop.idempotency \
     WHERE key = ANY($1::text[]) AND job = ANY($2::uuid[]) AND ended IS NOT NULL";
pub(crate) const KEYS_FIND: &str = "SELECT key, job FROM backstop.business WHERE key = ANY($1::text[])";
/// The moment in every row, and at least one row.
pub(crate) const MOMENT_AND_WORKERS: &str = concat!(
    "SELECT m.now, w.id, w.expires_at FROM (SELECT ",
    clock!("$1"),
    " AS now) m LEFT JOIN backstop.worker w ON w.id = ANY($2::uuid[])"
);

// Writing.

pub(crate) const READY_DELETE: &str = "DELETE FROM backstop.ready r \
     USING unnest($1::bigint[], $2::bigint[], $3::uuid[]) k(lane, run_at, id) \
     WHERE r.lane = k.lane AND r.run_at = k.run_at AND r.id = k.id";
pub(crate) const RECORDS_DELETE: &str = "DELETE FROM backstop.record WHERE id = ANY($1::uuid[])";
pub(crate) const TAGS_INSERT: &str = "INSERT INTO backstop.tag (tag, id) SELECT * FROM unnest($1::text[], $2::uuid[]) \
     ON CONFLICT DO NOTHING";
pub(crate) const IDEMPOTENCY_INSERT: &str =
    "INSERT INTO backstop.idempotency (key, job) SELECT * FROM unnest($1::text[], $2::uuid[])";
pub(crate) const KEYS_INSERT: &str =
    "INSERT INTO backstop.business (key, job) SELECT * FROM unnest($1::text[], $2::uuid[])";
pub(crate) const KEYS_DELETE: &str = "DELETE FROM backstop.business b USING unnest($1::text[], $2::uuid[]) k(key, job) \
     WHERE b.key = k.key AND b.job = k.job";
/// The key of `claim`, as errors name it.
pub(crate) const CLAIM_KEY: &str = "claim_pkey";
pub(crate) const CLAIM_INSERT: &str =
    "INSERT INTO backstop.claim (worker, claimed_at, jobs, slots) VALUES ($1, $2, $3, $4) RETURNING fence";
pub(crate) const CLAIMS_UPDATE: &str = "UPDATE backstop.claim c SET slots = n.slots, edits = c.edits + 1 \
     FROM unnest($1::bigint[], $2::bytea[]) n(fence, slots) WHERE c.fence = n.fence";
pub(crate) const FENCE_LOCK: &str =
    "SELECT pg_advisory_xact_lock('backstop.fence'::regclass::oid::bigint)::text";
pub(crate) const FENCE_RAISE: &str = "SELECT setval('backstop.fence', high.fence) FROM (SELECT greatest(\
     (SELECT max(fence) FROM backstop.claim), (SELECT max(fence) FROM backstop.record), \
     (SELECT max(fence) FROM backstop.done), (SELECT max(fence) FROM backstop.attempt)) AS fence) high \
     WHERE high.fence > coalesce(pg_sequence_last_value('backstop.fence'::regclass), 0)";
pub(crate) const FENCE_BEHIND: &str = "SELECT coalesce(pg_sequence_last_value('backstop.fence'::regclass), 0) < \
     coalesce(greatest((SELECT max(fence) FROM backstop.claim), \
     (SELECT max(fence) FROM (SELECT fence FROM backstop.done ORDER BY finished_at DESC LIMIT 100) d), \
     (SELECT max(fence) FROM (SELECT fence FROM backstop.record WHERE status = 5 AND status >= 5 \
     ORDER BY finished_at DESC LIMIT 100) r)), 0)";
pub(crate) const CLAIM_RENUMBER: &str = "UPDATE backstop.claim SET fence = nextval('backstop.fence'), \
     edits = edits + 1 WHERE fence = $1 AND worker = $2 RETURNING fence";
pub(crate) const CLAIMS_DELETE: &str = "DELETE FROM backstop.claim WHERE fence = ANY($1::bigint[])";

// Lines (L21). A line of more jobs than 10,000 is not counted to its end.

/// The numbers of places grow in the order of the rows.
pub(crate) const PLACES_INSERT: &str = "INSERT INTO backstop.place (key, id) SELECT n.key, n.id \
     FROM unnest($1::text[], $2::uuid[]) WITH ORDINALITY n(key, id, number) ORDER BY n.number";
pub(crate) const PLACES_DELETE: &str = "DELETE FROM backstop.place WHERE id = ANY($1::uuid[])";
pub(crate) const HEADS_INSERT: &str = "INSERT INTO backstop.line (key, head, blocked) \
     SELECT * FROM unnest($1::text[], $2::uuid[], $3::boolean[]) n(key, head, blocked) ORDER BY n.key";
pub(crate) const HEADS_DELETE: &str = "DELETE FROM backstop.line l USING unnest($1::text[], $2::uuid[]) n(key, head) \
     WHERE l.key = n.key AND l.head = n.head";
pub(crate) const HEADS_MARK: &str = "UPDATE backstop.line l SET blocked = n.blocked \
     FROM unnest($1::text[], $2::uuid[], $3::boolean[]) n(key, head, blocked) WHERE l.key = n.key AND l.head = n.head";
pub(crate) const LINE_CHANGES_INSERT: &str =
    "INSERT INTO backstop.line_change (key) SELECT n.key FROM unnest($1::text[]) n(key)";
pub(crate) const LINE_CHANGES_LOCK: &str =
    "SELECT c.number, c.key FROM backstop.line_change c ORDER BY c.number LIMIT $1 FOR UPDATE SKIP LOCKED";
pub(crate) const LINE_CHANGES_DELETE: &str =
    "DELETE FROM backstop.line_change WHERE number = ANY($1::bigint[])";
pub(crate) const PLACES_FIRST: &str = "SELECT n.key, p.id FROM unnest($1::text[]) n(key) CROSS JOIN LATERAL \
     (SELECT p.id FROM backstop.place p WHERE p.key = n.key ORDER BY p.key, p.number LIMIT 1) p \
     WHERE NOT EXISTS (SELECT 1 FROM backstop.line l WHERE l.key = n.key)";
pub(crate) const HEADS: &str =
    "SELECT l.key, l.head FROM backstop.line l WHERE l.key >= $1 AND l.key < $2 ORDER BY l.key LIMIT $3";
pub(crate) const HEADS_BLOCKED: &str = "SELECT l.key, l.head FROM backstop.line l \
     WHERE l.blocked AND l.key >= $1 AND l.key < $2 ORDER BY l.key LIMIT $3";
pub(crate) const LINE_LENGTHS: &str = "SELECT n.key, c.jobs FROM unnest($1::text[]) n(key) CROSS JOIN LATERAL \
     (SELECT count(*) AS jobs FROM (SELECT 1 FROM backstop.place p WHERE p.key = n.key LIMIT 10000) w) c";
pub(crate) const LINE_PLACE: &str = "SELECT (SELECT l.head FROM backstop.line l WHERE l.key = $1), \
     (SELECT count(*) FROM (SELECT 1 FROM backstop.place p WHERE p.key = $2 AND p.number < \
     (SELECT q.number FROM backstop.place q WHERE q.id = $3) LIMIT 10000) w)";

// Claim. See `schema::cursor`.

/// Programs of earlier versions start all that they take, and do not say that they hold suspects.
pub(crate) const TAKE: &str = "SELECT * FROM backstop.take($1, $2, $3, $4, $5, $6, $7, $8, \
     coalesce($9::text::jsonb, '{}') || '{\"holds_suspects\": true, \"asks_for_turns\": true}'::jsonb, $10) \
     p(now bigint, id uuid, lane integer, created_at bigint, run_at bigint, payload text, extras record, past record)";
/// For who knows of the jobs that take turns.
pub(crate) const TAKE_PLAIN: &str = "SELECT * FROM backstop.take($1, $2, $3, $4, $5, $6, $7, $8, \
     coalesce($9::text::jsonb, '{}') || '{\"holds_suspects\": true}'::jsonb, $10) \
     p(now bigint, id uuid, lane integer, created_at bigint, run_at bigint, payload text, extras record, past record)";
pub(crate) const PEEK: &str = "SELECT p.now, p.next_due, p.news, coalesce((SELECT d.revision FROM backstop.document d \
     WHERE d.drawer = 'run_limit' AND d.key = 'all'), 0) FROM backstop.peek($1, $2, $3, $4, $5, $6::text::jsonb) p";

// Ends. See `schema::end`.

/// Whether they were written, and about when.
pub(crate) const END: &str = "SELECT backstop.end_runs($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, \
     $15, $16, $17, $18, $19, $20), coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)";

// Workers.

pub(crate) const WORKER_SAVE: &str = "INSERT INTO backstop.worker (id, name, code_version, queues, kinds, started_at, \
     expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO UPDATE SET name = excluded.name, \
     code_version = excluded.code_version, queues = excluded.queues, kinds = excluded.kinds, \
     started_at = excluded.started_at, expires_at = excluded.expires_at";
pub(crate) const WORKER_RENEW: &str = concat!(
    "UPDATE backstop.worker SET expires_at = least(",
    clock!("$2"),
    " + $3, $4) WHERE id = $1 AND expires_at > ",
    clock!("$2"),
    " RETURNING expires_at"
);
/// True when a claim has no live worker.
pub(crate) const ORPHANED: &str = concat!(
    "SELECT EXISTS (SELECT 1 FROM backstop.claim c WHERE NOT EXISTS (SELECT 1 FROM backstop.worker w \
     WHERE w.id = c.worker AND w.expires_at > ",
    clock!("$1"),
    "))"
);
pub(crate) const WORKER_DELETE: &str = "DELETE FROM backstop.worker WHERE id = $1";
pub(crate) const WORKERS: &str = "SELECT id, name, code_version, queues, kinds, started_at, expires_at FROM \
     backstop.worker ORDER BY name, id";

// Duties.

pub(crate) const TERMS_MAKE: &str = "INSERT INTO backstop.duty (name, number, node, expires_at) \
     SELECT n.name, 0, n.node, n.expires_at \
     FROM unnest($1::text[], $2::uuid[], $3::bigint[]) n(name, node, expires_at) \
     ORDER BY n.name ON CONFLICT DO NOTHING";
pub(crate) const TERMS_LOCK: &str = "SELECT name, number, node, expires_at FROM backstop.duty \
     WHERE name = ANY($1::text[]) ORDER BY name FOR UPDATE";
/// Renews what a node leads; answers only that.
pub(crate) const TERMS_RENEW: &str = concat!(
    "UPDATE backstop.duty SET expires_at = least(",
    clock!("$3"),
    " + $4, $5) WHERE name = ANY($1::text[]) AND node = $2 AND expires_at > ",
    clock!("$3"),
    " RETURNING name, number, expires_at"
);
/// Every term, with the moment they are read at.
pub(crate) const TERMS: &str = concat!(
    "SELECT m.now, d.name, d.number, d.node, d.expires_at FROM (SELECT ",
    clock!("$1"),
    " AS now) m LEFT JOIN backstop.duty d ON d.number > 0"
);
pub(crate) const TERM_SHARE: &str =
    "SELECT number, node, expires_at FROM backstop.duty WHERE name = $1 FOR SHARE";
pub(crate) const TERMS_SAVE: &str = "UPDATE backstop.duty d SET number = n.number, node = n.node, \
     expires_at = n.expires_at FROM unnest($1::text[], $2::bigint[], $3::uuid[], $4::bigint[]) \
     n(name, number, node, expires_at) WHERE d.name = n.name";
pub(crate) const OVERDUE: &str = concat!(
    "SELECT r.expires_at, r.id FROM backstop.ready r WHERE r.expires_at IS NOT NULL AND r.expires_at < ",
    clock!("$1"),
    " AND (r.expires_at, r.id) > ($2, $3) ORDER BY r.expires_at, r.id LIMIT $4"
);
/// One look by the index for each, whatever the statistics say.
pub(crate) const OVERDUE_LOCK: &str = "SELECT r.expires_at, r.id \
     FROM unnest($1::bigint[], $2::uuid[]) o(expires_at, id) CROSS JOIN LATERAL \
     (SELECT r.expires_at, r.id FROM backstop.ready r WHERE r.expires_at IS NOT NULL \
     AND r.expires_at = o.expires_at AND r.id = o.id FOR UPDATE SKIP LOCKED) r";

// Queues.

pub(crate) const QUEUE_PAUSE: &str = "INSERT INTO backstop.queue AS q (name, paused, note) VALUES ($1, TRUE, $2) \
     ON CONFLICT (name) DO UPDATE SET paused = TRUE, note = excluded.note WHERE NOT q.paused RETURNING name";
pub(crate) const QUEUE_RESUME: &str =
    "UPDATE backstop.queue SET paused = FALSE, note = NULL WHERE name = $1 AND paused RETURNING name";
pub(crate) const QUEUES: &str =
    "SELECT name, paused, note FROM backstop.queue WHERE name >= $1 AND name < $2 ORDER BY name";
pub(crate) const QUEUE_NAMES: &str =
    "SELECT name FROM backstop.queue WHERE name >= $1 AND name < $2 ORDER BY name LIMIT $3";
pub(crate) const QUEUE_PAUSED: &str = "SELECT paused, note FROM backstop.queue WHERE name = $1";
pub(crate) const NEXT_DUE: &str = "SELECT l.lane, r.run_at FROM unnest($1::bigint[]) l(lane) CROSS JOIN LATERAL \
     (SELECT r.run_at FROM backstop.ready r WHERE r.lane = l.lane ORDER BY r.lane, r.run_at, r.id LIMIT 1) r";

// What is shown. `last` is the run that failed last, `latest` the run that ended last.

pub(crate) const VIEWS: &str = concat!(
    "SELECT ",
    job_columns!(),
    ", ",
    record_columns!(),
    ", ",
    done_columns!(),
    ", last.error_type, last.message, last.fingerprint, coalesce(d.result, latest.result), \
     coalesce(d.warning, latest.warning), coalesce(d.started_at, latest.started_at) \
     FROM backstop.job j LEFT JOIN backstop.record r ON r.id = j.id LEFT JOIN backstop.done d ON d.id = j.id \
     LEFT JOIN backstop.attempt last ON last.job = j.id AND last.number = r.last_failed_run \
     LEFT JOIN backstop.attempt latest ON latest.job = j.id AND latest.number = coalesce(r.runs, d.runs) \
     WHERE j.id = ANY($1::uuid[])"
);
/// What became of jobs. The row of `job` is looked for only when there is no other: a job without a past is pending or
/// runs for the first time. As a subquery that answers one row it cannot become a walk over all jobs.
pub(crate) const SUMMARIES: &str = "SELECT i.id, CASE WHEN d.id IS NULL THEN coalesce(r.status, 1) ELSE 7 END::bigint, \
     r.paused_from, coalesce(d.redrives, r.redrives, 0), coalesce(d.marks, r.marks), r.reason, \
     coalesce(d.finished_at, r.finished_at), f.fingerprint \
     FROM unnest($1::uuid[]) i(id) LEFT JOIN backstop.record r ON r.id = i.id \
     LEFT JOIN backstop.done d ON d.id = i.id \
     LEFT JOIN backstop.attempt f ON f.job = r.id AND f.number = r.last_failed_run \
     WHERE coalesce(r.id, d.id, (SELECT j.id FROM backstop.job j WHERE j.id = i.id)) IS NOT NULL";
pub(crate) const CAUSES: &str = "SELECT job, cause, count(*) FROM (SELECT job, cause FROM backstop.attempt \
     WHERE job = ANY($1::uuid[]) UNION ALL SELECT id, 'succeeded' FROM backstop.done WHERE id = ANY($1::uuid[]) \
     AND worker IS NOT NULL) a GROUP BY job, cause";
pub(crate) const LAST_DECISION: &str = "SELECT decision FROM (SELECT number, decision FROM backstop.attempt \
     WHERE job = $1 UNION ALL SELECT runs, NULL FROM backstop.done WHERE id = $1 AND worker IS NOT NULL) a \
     ORDER BY number DESC LIMIT 1";
pub(crate) const ATTEMPTS: &str = "SELECT number, fence, worker, code_version, cause, due_at, started_at, \
     finished_at, error_type, message, fingerprint, decision, result, warning, output FROM (\
     SELECT number, fence, worker, code_version, cause, due_at, started_at, finished_at, error_type, message, \
     fingerprint, decision, result, warning, output FROM backstop.attempt WHERE job = $1 AND number < $2 \
     UNION ALL SELECT runs, fence, worker, code_version, 'succeeded', run_at, started_at, finished_at, NULL, NULL, \
     NULL, NULL, result, warning, output FROM backstop.done WHERE id = $1 AND worker IS NOT NULL AND runs < $2) a \
     ORDER BY number DESC LIMIT $3";
pub(crate) const RUNS_UNDER: &str = "SELECT job, number, fence, worker, code_version, cause, due_at, started_at, \
     finished_at, error_type, message, fingerprint, decision, result, warning, output FROM backstop.attempt \
     WHERE job = ANY($1::uuid[]) AND fence = ANY($2::bigint[]) \
     UNION ALL SELECT id, runs, fence, worker, code_version, 'succeeded', run_at, started_at, finished_at, NULL, NULL, \
     NULL, NULL, result, warning, output FROM backstop.done WHERE id = ANY($1::uuid[]) AND fence = ANY($2::bigint[]) \
     AND worker IS NOT NULL";

// What `doctor` asks.

pub(crate) const SETTINGS: &str = "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', \
     'synchronous_commit', 'full_page_writes', 'default_transaction_isolation', 'autovacuum', 'server_version_num', \
     'default_transaction_read_only', 'in_hot_standby') ORDER BY name";
/// Whether the server sees this connection encrypted.
pub(crate) const IS_ENCRYPTED: &str = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
pub(crate) const OLD_TRANSACTIONS: &str = "SELECT pid, extract(epoch FROM clock_timestamp() - xact_start)::bigint, \
     coalesce(usename, 'background')::text, coalesce(state, 'running')::text FROM pg_stat_activity \
     WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND pid <> pg_backend_pid() \
     AND xact_start < clock_timestamp() - make_interval(secs => $1) ORDER BY xact_start LIMIT 5";
/// Who holds locks that others wait for, and how many wait.
pub(crate) const BLOCKERS: &str = "SELECT a.pid, coalesce(extract(epoch FROM clock_timestamp() - a.xact_start), \
     0)::bigint, coalesce(a.usename, 'background')::text, coalesce(a.state, 'running')::text, \
     count(DISTINCT w.pid)::bigint FROM pg_stat_activity w CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) b(pid) \
     JOIN pg_stat_activity a ON a.pid = b.pid WHERE w.wait_event_type = 'Lock' AND w.datname = current_database() \
     GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC, 1 LIMIT 5";
pub(crate) const RELATIONS: &str = "SELECT c.relname::text, coalesce(i.indisvalid, TRUE) FROM pg_class c \
     JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_index i ON i.indexrelid = c.oid \
     WHERE n.nspname = $1 AND c.relkind IN ('r', 'i', 'S', 'p')";
