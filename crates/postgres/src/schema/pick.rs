//! The SQL functions of claims: two take due jobs out of `ready`, the third says when there will be some.
//!
//! Functions, because each connection plans them once: as statements of their own they were parsed and planned for
//! every claim, which took a fifth of the server's time, and a prepared statement would not live behind a pooler. Their
//! own settings keep the plans from depending on statistics, which are wrong right after a bulk load.

/// How many to take from which lane, and from where on: CTEs that read nothing but heads of lanes.
macro_rules! quotas {
    () => {
        "lanes AS MATERIALIZED (
        SELECT w.place, w.room, l.id AS lane, l.priority, count(*) OVER (PARTITION BY w.place) AS n,
            coalesce(c.run_at, -9223372036854775808) AS cursor_at,
            coalesce(c.id, '00000000-0000-0000-0000-000000000000') AS cursor_id
        FROM unnest(queues, rooms, any_kinds) WITH ORDINALITY w(queue, room, any_kind, place)
        JOIN backstop.lane l ON l.queue = w.queue
        LEFT JOIN unnest(cursor_lanes, cursor_moments, cursor_ids) c(lane, run_at, id) ON c.lane = l.id
        WHERE (w.any_kind OR EXISTS (SELECT 1 FROM unnest(kinds, versions) k(kind, version)
            WHERE k.kind = l.kind AND l.version <= k.version))
        AND NOT EXISTS (SELECT 1 FROM backstop.queue q WHERE q.name = w.queue AND q.paused)),
    heads AS MATERIALIZED (
        SELECT l.room, l.lane, l.cursor_at, l.cursor_id, row_number() OVER (PARTITION BY l.place ORDER BY
            CASE WHEN aging = 0 THEN 4 - l.priority ELSE 0 END, r.run_at - aging * l.priority, r.id) AS rank
        FROM lanes l CROSS JOIN LATERAL (SELECT r.run_at, r.id FROM backstop.ready r WHERE r.lane = l.lane
            AND (r.run_at, r.id) >= (l.cursor_at, l.cursor_id) AND r.run_at <= due
            ORDER BY r.lane, r.run_at, r.id LIMIT l.room) r
        WHERE l.n > 1),
    quotas AS MATERIALIZED (
        SELECT h.lane, count(*) AS quota, h.cursor_at, h.cursor_id FROM heads h WHERE h.rank <= h.room
        GROUP BY h.lane, h.cursor_at, h.cursor_id
        UNION ALL SELECT l.lane, l.room, l.cursor_at, l.cursor_id FROM lanes l WHERE l.n = 1),"
    };
}

/// The last columns of a job: what most jobs leave empty, and the past of those that have one.
macro_rules! rest_of_job {
    () => {
        "CASE WHEN num_nonnulls(j.policy, j.expires_at, j.idempotency_key, j.business_key, j.correlation_id, j.tags,
            j.params, j.on_success, j.on_failure, j.callback_of, j.papers) > 0 THEN
            ROW(j.policy, j.expires_at, j.idempotency_key, j.business_key, j.correlation_id, j.tags, j.params,
                j.on_success, j.on_failure, j.callback_of, j.papers) END,
        CASE WHEN g.rowed THEN (SELECT ROW(r.status, r.run_at, r.expires_at, r.attempt, r.crashes, r.deferrals,
            r.runs, r.redrives, r.fence, r.last_failed_run, r.progress, r.paused_from, r.finished_at, r.reason,
            r.cancel_reason, r.superseded_by, r.marks) FROM backstop.record r WHERE r.id = g.id) END"
    };
}
pub(crate) use rest_of_job;

/// The first row is about the caller: the moment, and until when its worker lives. One that does not gets nothing else.
///
/// How many to take from each lane is decided by looking at the heads of all of them without a lock; then each lane
/// gives that many which nobody else has locked. A lane's future and foreign jobs are never read, nor what lies before
/// its cursor. The last columns hold what most jobs leave empty, and the past of those that have one; `rows::job` and
/// `rows::folded_record` read them.
pub(crate) const PICK: &str = concat!(
    "CREATE OR REPLACE FUNCTION backstop.pick(
    moment bigint,
    worker uuid,
    queues text[],
    rooms bigint[],
    any_kinds boolean[],
    kinds text[],
    versions bigint[],
    aging bigint,
    cursor_lanes bigint[],
    cursor_moments bigint[],
    cursor_ids uuid[])
RETURNS SETOF record VOLATILE ",
    settings!(),
    "AS $pick$
DECLARE
    due CONSTANT bigint := coalesce(moment, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint);
    live_until CONSTANT bigint := (SELECT w.expires_at FROM backstop.worker w WHERE w.id = worker);
BEGIN
    RETURN QUERY SELECT due, NULL::uuid, NULL::integer, live_until, NULL::bigint, NULL::text,
        CASE WHEN false THEN ROW(0) END, CASE WHEN false THEN ROW(0) END;
    IF live_until IS NULL OR live_until <= due THEN
        RETURN;
    END IF;
    RETURN QUERY WITH
    ",
    quotas!(),
    "
    picked AS MATERIALIZED (
        SELECT r.place FROM quotas q CROSS JOIN LATERAL (SELECT r.ctid AS place FROM backstop.ready r
            WHERE r.lane = q.lane AND (r.run_at, r.id) >= (q.cursor_at, q.cursor_id) AND r.run_at <= due
            ORDER BY r.lane, r.run_at, r.id LIMIT q.quota FOR UPDATE SKIP LOCKED) r),
    gone AS (
        DELETE FROM backstop.ready r WHERE r.ctid = ANY (ARRAY(SELECT p.place FROM picked p))
        RETURNING r.id, r.rowed)
    SELECT due, j.id, j.lane, j.created_at, j.run_at, j.payload,
        ",
    rest_of_job!(),
    "
    FROM gone g JOIN backstop.job j ON j.id = g.id;
END $pick$"
);

/// A whole claim, for jobs that are started as they are claimed: takes them out of `ready` and writes the claim and the
/// counts, so that it needs one round trip and no transaction around it.
///
/// The first row is about the caller: the moment, until when its worker lives, and the fence if anything was taken. The
/// claim has its jobs in the order of their ids, and never more than `ClaimRow::MOST`. While anything in `ready` has
/// expired it takes nothing and says so: such jobs have to be failed, which is decided elsewhere.
pub(crate) const TAKE: &str = concat!(
    "CREATE OR REPLACE FUNCTION backstop.take(
    moment bigint,
    worker uuid,
    queues text[],
    rooms bigint[],
    any_kinds boolean[],
    kinds text[],
    versions bigint[],
    aging bigint,
    cursor_lanes bigint[],
    cursor_moments bigint[],
    cursor_ids uuid[])
RETURNS SETOF record VOLATILE ",
    settings!(),
    "AS $take$
DECLARE
    due CONSTANT bigint := coalesce(moment, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint);
    live_until CONSTANT bigint := (SELECT w.expires_at FROM backstop.worker w WHERE w.id = worker);
    is_overdue CONSTANT boolean := EXISTS (SELECT 1 FROM backstop.ready r
        WHERE r.expires_at IS NOT NULL AND r.expires_at < due);
    ids uuid[];
    with_past boolean[];
    of_lanes integer[];
    all_ids bytea;
    new_fence bigint;
BEGIN
    IF live_until > due AND NOT is_overdue THEN
        WITH ",
    quotas!(),
    "
    picked AS MATERIALIZED (
        SELECT r.place FROM quotas q CROSS JOIN LATERAL (SELECT r.ctid AS place FROM backstop.ready r
            WHERE r.lane = q.lane AND (r.run_at, r.id) >= (q.cursor_at, q.cursor_id) AND r.run_at <= due
            AND (r.expires_at IS NULL OR r.expires_at >= due)
            ORDER BY r.lane, r.run_at, r.id LIMIT q.quota FOR UPDATE SKIP LOCKED) r LIMIT 10000),
    gone AS (
        DELETE FROM backstop.ready r WHERE r.ctid = ANY (ARRAY(SELECT p.place FROM picked p))
        RETURNING r.id, r.lane, r.rowed)
        SELECT array_agg(g.id), array_agg(g.rowed), array_agg(g.lane), string_agg(uuid_send(g.id), '')
        INTO ids, with_past, of_lanes, all_ids
        FROM (SELECT * FROM gone ORDER BY gone.id) g;
    END IF;
    IF ids IS NOT NULL THEN
        INSERT INTO backstop.claim (worker, claimed_at, jobs, slots)
        VALUES (worker, due, all_ids, decode(repeat('0002', cardinality(ids)), 'hex')) RETURNING fence INTO new_fence;
        INSERT INTO backstop.tally (lane, pending, running, succeeded, failed, paused, canceled, waiting)
        SELECT l.lane, -count(*), count(*), 0, 0, 0, 0, 0 FROM unnest(of_lanes) l(lane) GROUP BY l.lane;
    END IF;
    RETURN QUERY SELECT due, NULL::uuid, NULL::integer, live_until, new_fence, CASE WHEN is_overdue THEN 'overdue' END,
        CASE WHEN false THEN ROW(0) END, CASE WHEN false THEN ROW(0) END;
    IF ids IS NOT NULL THEN
        RETURN QUERY SELECT due, j.id, j.lane, j.created_at, j.run_at, j.payload,
        ",
    rest_of_job!(),
    "
        FROM unnest(ids, with_past) g(id, rowed) JOIN backstop.job j ON j.id = g.id;
    END IF;
END $take$"
);

/// The moment, and when the next job of the lanes that a claim would serve becomes due.
pub(crate) const PEEK: &str = concat!(
    "CREATE OR REPLACE FUNCTION backstop.peek(
    moment bigint,
    queues text[],
    any_kinds boolean[],
    kinds text[],
    versions bigint[],
    cursor_lanes bigint[],
    cursor_moments bigint[],
    cursor_ids uuid[],
    OUT now bigint,
    OUT next_due bigint)
STABLE ",
    settings!(),
    "AS $peek$
BEGIN
    now := coalesce(moment, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint);
    next_due := (SELECT min(r.run_at)
        FROM unnest(queues, any_kinds) w(queue, any_kind)
        JOIN backstop.lane l ON l.queue = w.queue
        LEFT JOIN unnest(cursor_lanes, cursor_moments, cursor_ids) c(lane, run_at, id) ON c.lane = l.id
        CROSS JOIN LATERAL (SELECT r.run_at FROM backstop.ready r WHERE r.lane = l.id
            AND (r.run_at, r.id) >= (coalesce(c.run_at, -9223372036854775808),
                coalesce(c.id, '00000000-0000-0000-0000-000000000000'))
            ORDER BY r.lane, r.run_at, r.id LIMIT 1) r
        WHERE (w.any_kind OR EXISTS (SELECT 1 FROM unnest(kinds, versions) k(kind, version)
            WHERE k.kind = l.kind AND l.version <= k.version))
        AND NOT EXISTS (SELECT 1 FROM backstop.queue q WHERE q.name = w.queue AND q.paused));
END $peek$"
);

#[cfg(test)]
mod tests {
    use backstop_store::working_set::ClaimRow;

    #[test]
    fn one_statement_takes_no_more_than_a_claim_can_hold() {
        assert!(super::TAKE.contains(&format!("LIMIT {})", ClaimRow::MOST)));
    }
}
