//! What claims need to begin where the last one stopped without passing a job by: see `crate::cursors`.
//!
//! `arrival` has a row for each transaction and lane that put something into `ready`, written by a trigger, so that no
//! way into `ready` can forget it: neither the function `enqueue` nor a program of an earlier version.

/// The earliest job that a transaction put into a lane, whenever that transaction is committed.
pub(crate) const ARRIVALS: &str = "CREATE TABLE IF NOT EXISTS backstop.arrival (
    xid bigint NOT NULL,
    lane integer NOT NULL,
    run_at bigint NOT NULL) WITH (autovacuum_vacuum_scale_factor = 0.05)";

pub(crate) const ARRIVALS_BY_XID: &str = "CREATE INDEX IF NOT EXISTS arrival_xid ON backstop.arrival (xid)";

/// With the rights of the tables' owner: whoever may submit need not know of it.
pub(crate) const NOTE_ARRIVALS: &str =
    "CREATE OR REPLACE FUNCTION backstop.note_arrivals() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $note$
BEGIN
    INSERT INTO backstop.arrival (xid, lane, run_at)
    SELECT pg_current_xact_id()::text::bigint, n.lane, min(n.run_at) FROM new_rows n GROUP BY n.lane;
    RETURN NULL;
END $note$";

pub(crate) const NO_TRIGGER: &str = "DROP TRIGGER IF EXISTS note_arrivals ON backstop.ready";

pub(crate) const ON_ARRIVAL: &str = "CREATE TRIGGER note_arrivals AFTER INSERT ON backstop.ready
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION backstop.note_arrivals()";

/// Arrivals of transactions below `floor` may be gone. `next` is the floor to come: no transaction below it was open
/// when it was noted.
pub(crate) const FLOOR: &str = "CREATE TABLE IF NOT EXISTS backstop.arrival_floor (
    floor bigint NOT NULL,
    next bigint NOT NULL) WITH (fillfactor = 50)";

pub(crate) const FIRST_FLOOR: &str = "INSERT INTO backstop.arrival_floor (floor, next)
    SELECT x, x FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS x) s
    WHERE NOT EXISTS (SELECT 1 FROM backstop.arrival_floor)";

/// Cursors that a process has kept for those that begin later.
pub(crate) const CURSORS: &str = "CREATE TABLE IF NOT EXISTS backstop.cursor (
    lane integer PRIMARY KEY,
    run_at bigint NOT NULL,
    id uuid NOT NULL,
    server bigint NOT NULL,
    seen text NOT NULL) WITH (fillfactor = 50)";

/// When this server was started: cursors are about one run of one server, because the numbers of transactions are.
macro_rules! this_server {
    () => {
        "(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint"
    };
}
pub(crate) use this_server;

/// The first part of both functions. What they can see is noted before anything is read. Then, when the caller's
/// cursors are of use: the earliest arrival in each lane, of transactions that could not be seen when the cursors were
/// set, and not later than the farthest cursor.
macro_rules! look_behind {
    () => {
        concat!(
            "
    server CONSTANT bigint := ",
            this_server!(),
            ";
    seen CONSTANT pg_snapshot := pg_current_snapshot();
    before pg_snapshot;
    known jsonb;
    behind jsonb;
BEGIN
    IF (cursors ->> 'server')::bigint = server THEN
        before := (cursors ->> 'seen')::pg_snapshot;
        -- One transaction that is not seen and whose arrivals may be gone, and the cursors are worth nothing.
        IF pg_snapshot_xmin(before)::text::bigint >= (SELECT f.floor FROM backstop.arrival_floor f) THEN
            known := cursors -> 'lanes';
            SELECT jsonb_object_agg(a.lane, a.run_at) INTO behind FROM (
                SELECT a.lane, min(a.run_at) AS run_at FROM (
                    SELECT a.lane, a.run_at FROM pg_snapshot_xip(before) x
                    JOIN backstop.arrival a ON a.xid = x::text::bigint
                    UNION ALL SELECT a.lane, a.run_at FROM backstop.arrival a
                    WHERE a.xid >= pg_snapshot_xmax(before)::text::bigint) a
                WHERE a.run_at <= (cursors ->> 'last')::bigint GROUP BY a.lane) a;
        END IF;
    END IF;"
        )
    };
}

/// The lanes that a claim may take from, each with where to begin.
macro_rules! open_lanes {
    ($columns:literal, $rooms:literal, $lanes:literal, $version:literal) => {
        concat!(
            "SELECT ",
            $columns,
            ", l.id AS lane,
            coalesce(least(k.run_at, CASE WHEN k.run_at IS NOT NULL THEN b.run_at END), -9223372036854775808)
                AS cursor_at,
            CASE WHEN k.run_at IS NULL OR b.run_at <= k.run_at THEN '00000000-0000-0000-0000-000000000000'
                ELSE k.id END AS cursor_id
        FROM unnest(queues, ",
            $rooms,
            "any_kinds) WITH ORDINALITY w(queue, ",
            $rooms,
            "any_kind, place)
        JOIN backstop.lane l ON l.queue = w.queue
        CROSS JOIN LATERAL (SELECT (known -> l.id::text ->> 0)::bigint AS run_at,
            (known -> l.id::text ->> 1)::uuid AS id) k
        CROSS JOIN LATERAL (SELECT (behind ->> l.id::text)::bigint AS run_at) b
        WHERE (w.any_kind OR EXISTS (SELECT 1 FROM unnest(kinds, versions) k(kind, version)
            WHERE k.kind = l.kind AND ",
            $version,
            " <= k.version))
        AND NOT EXISTS (SELECT 1 FROM backstop.queue q WHERE q.name = w.queue AND q.paused)",
            $lanes
        )
    };
}

/// Takes due jobs out of `ready`. `whole`: writes the claim and the counts too, so that a claim needs one round trip
/// and no transaction around it.
///
/// The first row is about the caller: the moment, until when its worker lives, the fence if a claim was written, and
/// news for its cursors. A worker that does not live gets nothing else. A whole claim has its jobs in the order of
/// their ids, and never more than `ClaimRow::MOST`; for a caller that says so, suspects are held and not started, as
/// `Record::starts_when_claimed` has it. What has expired is passed by, also by the cursors: nobody takes it
/// any more, and the duty that fails it finds it by another way.
///
/// Jobs that take turns (H5) have lanes of their own, by a mark in their version, and are taken otherwise. A caller
/// that asks for them gets the lanes where some are due, and nothing else: it decides in a transaction.
///
/// How many to take from each lane is decided by looking at the heads of all of them without a lock; then each lane
/// gives that many which nobody else has locked. A lane's future and foreign jobs are never read, nor what lies before
/// its cursor. Afterwards the first job that can be seen in a lane is its cursor, whoever has it locked: if they let it
/// go, it is found. That is done for the lanes that gave something, and for a few of those whose cursors are old. The
/// last columns hold what most jobs leave empty, and the past of those that have one; `rows::job` and
/// `rows::folded_record` read them.
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
    cursors jsonb,
    whole boolean)
RETURNS SETOF record VOLATILE ",
    settings!(),
    "AS $take$
DECLARE
    due bigint := coalesce(moment, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint);
    live_until CONSTANT bigint := (SELECT w.expires_at FROM backstop.worker w WHERE w.id = worker);
    places bigint[];
    place_rooms bigint[];
    priorities bigint[];
    lanes integer[];
    cursor_moments bigint[];
    cursor_ids uuid[];
    ids uuid[];
    with_past boolean[];
    of_lanes integer[];
    all_ids bytea;
    all_slots bytea;
    new_fence bigint;
    reached jsonb;
    turns jsonb;",
    look_behind!(),
    "
    IF (cursors ->> 'asks_for_turns')::boolean THEN
        SELECT jsonb_agg(l.id) INTO turns
        FROM unnest(queues, rooms, any_kinds) w(queue, room, any_kind) JOIN backstop.lane l ON l.queue = w.queue
        WHERE l.version >= 2147483648 AND w.room > 0
        AND (w.any_kind OR EXISTS (SELECT 1 FROM unnest(kinds, versions) k(kind, version)
            WHERE k.kind = l.kind AND (l.version & 2147483647) <= k.version))
        AND NOT EXISTS (SELECT 1 FROM backstop.queue q WHERE q.name = w.queue AND q.paused)
        AND EXISTS (SELECT 1 FROM backstop.ready r WHERE r.lane = l.id AND r.run_at <= due);
    END IF;
    IF live_until > due AND turns IS NULL THEN
        SELECT array_agg(l.place), array_agg(l.room), array_agg(l.priority), array_agg(l.lane),
            array_agg(l.cursor_at), array_agg(l.cursor_id)
        INTO places, place_rooms, priorities, lanes, cursor_moments, cursor_ids FROM (",
    open_lanes!(
        "w.place, w.rooms AS room, l.priority",
        "rooms, ",
        " AND l.version < 2147483648",
        "l.version"
    ),
    ") l;
        WITH lanes AS MATERIALIZED (
        SELECT l.*, count(*) OVER (PARTITION BY l.place) AS n
        FROM unnest(places, place_rooms, priorities, lanes, cursor_moments, cursor_ids)
            l(place, room, priority, lane, cursor_at, cursor_id)),
    heads AS MATERIALIZED (
        SELECT l.room, l.lane, l.cursor_at, l.cursor_id, row_number() OVER (PARTITION BY l.place ORDER BY
            CASE WHEN aging = 0 THEN 4 - l.priority ELSE 0 END, r.run_at - aging * l.priority, r.id) AS rank
        FROM lanes l CROSS JOIN LATERAL (SELECT r.run_at, r.id FROM backstop.ready r WHERE r.lane = l.lane
            AND (r.run_at, r.id) >= (l.cursor_at, l.cursor_id) AND r.run_at <= due
            AND (r.expires_at IS NULL OR r.expires_at >= due)
            ORDER BY r.lane, r.run_at, r.id LIMIT l.room) r
        WHERE l.n > 1),
    quotas AS MATERIALIZED (
        SELECT h.lane, count(*) AS quota, h.cursor_at, h.cursor_id FROM heads h WHERE h.rank <= h.room
        GROUP BY h.lane, h.cursor_at, h.cursor_id
        UNION ALL SELECT l.lane, l.room, l.cursor_at, l.cursor_id FROM lanes l WHERE l.n = 1),
    picked AS MATERIALIZED (
        SELECT r.place FROM quotas q CROSS JOIN LATERAL (SELECT r.ctid AS place FROM backstop.ready r
            WHERE r.lane = q.lane AND (r.run_at, r.id) >= (q.cursor_at, q.cursor_id) AND r.run_at <= due
            AND (r.expires_at IS NULL OR r.expires_at >= due)
            ORDER BY r.lane, r.run_at, r.id LIMIT q.quota FOR UPDATE SKIP LOCKED) r LIMIT 10000),
    gone AS (
        DELETE FROM backstop.ready r WHERE r.ctid = ANY (ARRAY(SELECT p.place FROM picked p))
        RETURNING r.id, r.lane, r.rowed)
        SELECT array_agg(g.id), array_agg(g.rowed), array_agg(g.lane), string_agg(uuid_send(g.id), ''),
            string_agg(CASE WHEN g.rowed AND (cursors ->> 'holds_suspects')::boolean
                AND EXISTS (SELECT 1 FROM backstop.record r WHERE r.id = g.id AND r.crashes > 0)
                THEN decode('0001', 'hex') ELSE decode('0002', 'hex') END, '')
        INTO ids, with_past, of_lanes, all_ids, all_slots
        FROM (SELECT * FROM gone ORDER BY gone.id) g;
        -- Runs that ended since the statement began may have made room for these: they must not seem to meet.
        due := coalesce(moment, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
        SELECT jsonb_agg(jsonb_build_array(l.lane, coalesce(r.run_at, due),
            coalesce(r.id, '00000000-0000-0000-0000-000000000000'))) INTO reached
        FROM (SELECT l.* FROM (SELECT l.*, l.lane = ANY (ARRAY(SELECT DISTINCT t FROM unnest(of_lanes) t)) AS gave
                FROM unnest(lanes, cursor_moments, cursor_ids) l(lane, cursor_at, cursor_id)) l
            WHERE l.gave OR l.cursor_at < due - 1000000 ORDER BY l.gave DESC, l.cursor_at
            LIMIT 20 + coalesce(cardinality(of_lanes), 0)) l
        LEFT JOIN LATERAL (SELECT r.run_at, r.id FROM backstop.ready r WHERE r.lane = l.lane
            AND (r.run_at, r.id) >= (l.cursor_at, l.cursor_id) AND r.run_at <= due
            AND (r.expires_at IS NULL OR r.expires_at >= due)
            ORDER BY r.lane, r.run_at, r.id LIMIT 1) r ON true;
    END IF;
    IF whole AND ids IS NOT NULL THEN
        INSERT INTO backstop.claim (worker, claimed_at, jobs, slots)
        VALUES (worker, due, all_ids, all_slots) RETURNING fence INTO new_fence;
        INSERT INTO backstop.tally (lane, pending, running, succeeded, failed, paused, canceled, waiting)
        SELECT l.lane, -count(*), count(*), 0, 0, 0, 0, 0 FROM unnest(of_lanes) l(lane) GROUP BY l.lane;
    END IF;
    RETURN QUERY SELECT due, NULL::uuid, NULL::integer, live_until, new_fence,
        jsonb_build_object('server', server, 'seen', seen, 'known', known IS NOT NULL,
            'own', pg_current_xact_id_if_assigned()::text::bigint, 'behind', behind, 'reached', reached,
            'turns', turns)::text,
        CASE WHEN false THEN ROW(0) END, CASE WHEN false THEN ROW(0) END;
    IF ids IS NOT NULL THEN
        RETURN QUERY SELECT due, j.id, j.lane, j.created_at, j.run_at, j.payload,
        CASE WHEN num_nonnulls(j.policy, j.expires_at, j.idempotency_key, j.business_key, j.correlation_id, j.tags,
            j.params, j.on_success, j.on_failure, j.callback_of, j.papers) > 0 THEN
            ROW(j.policy, j.expires_at, j.idempotency_key, j.business_key, j.correlation_id, j.tags, j.params,
                j.on_success, j.on_failure, j.callback_of, j.papers) END,
        CASE WHEN g.rowed THEN (SELECT ROW(r.status, r.run_at, r.expires_at, r.attempt, r.crashes, r.deferrals,
            r.runs, r.redrives, r.fence, r.last_failed_run, r.progress, r.paused_from, r.finished_at, r.reason,
            r.cancel_reason, r.superseded_by, r.marks) FROM backstop.record r WHERE r.id = g.id) END
        FROM unnest(ids, with_past) g(id, rowed) JOIN backstop.job j ON j.id = g.id;
    END IF;
END $take$"
);

/// The moment, when the next job of the lanes that a claim would serve becomes due, and news for its cursors: of a few
/// of the lanes whose cursors are old.
pub(crate) const PEEK: &str = concat!(
    "CREATE OR REPLACE FUNCTION backstop.peek(
    moment bigint,
    queues text[],
    any_kinds boolean[],
    kinds text[],
    versions bigint[],
    cursors jsonb,
    OUT now bigint,
    OUT next_due bigint,
    OUT news text)
STABLE ",
    settings!(),
    "AS $peek$
DECLARE
    reached jsonb;",
    look_behind!(),
    "
    now := coalesce(moment, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint);
    WITH heads AS MATERIALIZED (
        SELECT l.lane, l.cursor_at, r.run_at, r.id FROM (",
    open_lanes!("w.place", "", "", "(l.version & 2147483647)"),
    ") l
        LEFT JOIN LATERAL (SELECT r.run_at, r.id FROM backstop.ready r WHERE r.lane = l.lane
            AND (r.run_at, r.id) >= (l.cursor_at, l.cursor_id) AND (r.expires_at IS NULL OR r.expires_at >= now)
            ORDER BY r.lane, r.run_at, r.id LIMIT 1) r ON true)
    SELECT (SELECT min(h.run_at) FROM heads h),
        (SELECT jsonb_agg(CASE WHEN h.run_at <= now THEN jsonb_build_array(h.lane, h.run_at, h.id)
            ELSE jsonb_build_array(h.lane, now, '00000000-0000-0000-0000-000000000000') END)
        FROM (SELECT * FROM heads h WHERE h.cursor_at < now - 1000000 ORDER BY h.cursor_at LIMIT 20) h)
    INTO next_due, reached;
    news := jsonb_build_object('server', server, 'seen', seen, 'known', known IS NOT NULL, 'behind', behind,
        'reached', reached)::text;
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
