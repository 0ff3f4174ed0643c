//! The SQL function that ends runs which leave nothing behind but that they ended well, and the note of that where they
//! are parts of a workflow: see `backstop_sql::plain_ends`.

/// Answers whether it has written anything. It has not when the claims are not as the caller remembers them, when
/// somebody has one of them locked, and when a worker does not live any more: then the caller looks for itself.
///
/// A claim without slots is over. The arrays of runs that are empty stand for nothing in any of them. `gone` are the
/// jobs that leave `record`. A note is a document with the moment in its key, as `EndDocument::key` has it.
pub(crate) const END_RUNS: &str = concat!(
    "CREATE OR REPLACE FUNCTION backstop.end_runs(
    moment bigint,
    fences bigint[],
    workers uuid[],
    known_edits bigint[],
    new_slots bytea[],
    version text,
    of_claims bigint[],
    ids uuid[],
    lanes bigint[],
    run_ats bigint[],
    expiries bigint[],
    started_ats bigint[],
    results text[],
    warnings text[],
    outputs text[],
    gone uuid[],
    note_drawer text,
    before_moments text[],
    behind_moments text[],
    bodies text[])
RETURNS boolean VOLATILE ",
    settings!(),
    "AS $end$
DECLARE
    now bigint;
BEGIN
    IF (SELECT count(*) FROM (SELECT c.fence FROM unnest(fences, workers, known_edits) n(fence, worker, edits)
        JOIN backstop.claim c ON c.fence = n.fence WHERE c.worker = n.worker AND c.edits = n.edits
        ORDER BY c.fence FOR UPDATE OF c SKIP LOCKED) h) < cardinality(fences) THEN
        RETURN FALSE;
    END IF;
    now := coalesce(moment, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
    IF EXISTS (SELECT 1 FROM unnest(workers) n(id) WHERE NOT EXISTS (SELECT 1 FROM backstop.worker w
        WHERE w.id = n.id AND w.expires_at > now)) THEN
        RETURN FALSE;
    END IF;
    DELETE FROM backstop.claim c USING unnest(fences, new_slots) n(fence, slots)
        WHERE c.fence = n.fence AND n.slots = '';
    UPDATE backstop.claim c SET slots = n.slots, edits = c.edits + 1 FROM unnest(fences, new_slots) n(fence, slots)
        WHERE c.fence = n.fence AND n.slots <> '';
    INSERT INTO backstop.done (id, lane, run_at, expires_at, runs, fence, finished_at, worker, code_version, started_at,
        result, warning, output)
        SELECT r.id, r.lane, r.run_at, r.expires_at, 1, fences[r.of_claim::integer], now, workers[r.of_claim::integer],
            version, r.started_at, r.result, r.warning, r.output
        FROM unnest(of_claims, ids, lanes, run_ats, expiries, started_ats, results, warnings, outputs)
            r(of_claim, id, lane, run_at, expires_at, started_at, result, warning, output);
    INSERT INTO backstop.tally (lane, pending, running, succeeded, failed, paused, canceled, waiting)
        SELECT l.lane, 0, -count(*), count(*), 0, 0, 0, 0 FROM unnest(lanes) l(lane) GROUP BY l.lane;
    IF cardinality(gone) > 0 THEN
        DELETE FROM backstop.record r WHERE r.id = ANY (gone);
    END IF;
    IF cardinality(bodies) > 0 THEN
        INSERT INTO backstop.document (drawer, key, revision, body)
            SELECT note_drawer, n.head || lpad(greatest(now, 0)::text, 19, '0') || n.tail, 1, n.body
            FROM unnest(before_moments, behind_moments, bodies) n(head, tail, body)
            ON CONFLICT (drawer, key) DO UPDATE SET revision = excluded.revision, body = excluded.body;
    END IF;
    RETURN TRUE;
END $end$"
);

/// The same for programs that know nothing of notes, under the names that they know.
pub(crate) const END_RUNS_UNNOTED: &str = "CREATE OR REPLACE FUNCTION backstop.end_runs(
    moment bigint,
    fences bigint[],
    workers uuid[],
    known_edits bigint[],
    new_slots bytea[],
    version text,
    of_claims bigint[],
    ids uuid[],
    lanes bigint[],
    run_ats bigint[],
    expiries bigint[],
    started_ats bigint[],
    results text[],
    warnings text[],
    outputs text[])
RETURNS boolean VOLATILE LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $end$
BEGIN
    RETURN backstop.end_runs(moment, fences, workers, known_edits, new_slots, version, of_claims, ids, lanes, run_ats,
        expiries, started_ats, results, warnings, outputs, '{}'::uuid[], '', '{}'::text[], '{}'::text[], '{}'::text[]);
END $end$";
