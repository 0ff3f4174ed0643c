BEGIN;
WITH picked AS MATERIALIZED (SELECT ctid t FROM ready WHERE lane = 1 AND run_at <= now() ORDER BY lane, run_at, id LIMIT 500
    FOR UPDATE SKIP LOCKED),
gone AS MATERIALIZED (DELETE FROM ready r USING picked p WHERE r.ctid = p.t RETURNING r.*),
taken AS (INSERT INTO held SELECT id, lane, run_at, coalesce(runs, 0) + 1, (SELECT nextval('fence')), '00000000-0000-0000-0000-000000000001'::uuid, now() FROM gone)
SELECT quote_literal(array_agg(g.id)::text) AS ids, sum(length(j.payload)) FROM gone g JOIN job j USING (id) \gset
INSERT INTO tally VALUES (1, -500, 500, 0);
COMMIT;
BEGIN;
WITH gone AS (DELETE FROM held WHERE id = ANY(:ids::uuid[]) RETURNING *)
, kept AS (INSERT INTO done SELECT id, lane, run_at, runs, fence, NULL, NULL, now(), NULL FROM gone)
INSERT INTO attempt SELECT id, runs, fence, worker, 'succeeded', run_at, started_at, now(), 'null' FROM gone;
INSERT INTO tally VALUES (1, 0, -500, 500);
COMMIT;
