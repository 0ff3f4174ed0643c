BEGIN;
WITH picked AS MATERIALIZED (SELECT ctid t FROM state WHERE status = 1 AND lane = 1 AND run_at <= now() ORDER BY lane, run_at, id
    LIMIT 500 FOR UPDATE SKIP LOCKED),
taken AS MATERIALIZED (UPDATE state r SET status = 2, runs = coalesce(runs, 0) + 1, fence = (SELECT nextval('fence')), worker = '00000000-0000-0000-0000-000000000001'::uuid,
    started_at = now() FROM picked p WHERE r.ctid = p.t RETURNING r.*)
SELECT quote_literal(array_agg(t.id)::text) AS ids, sum(length(j.payload)) FROM taken t JOIN job j USING (id) \gset
INSERT INTO tally VALUES (1, -500, 500, 0);
COMMIT;
BEGIN;
WITH gone AS (UPDATE state SET status = 7, worker = NULL, started_at = NULL, finished_at = now() WHERE id = ANY(:ids::uuid[])
    RETURNING *)
INSERT INTO attempt SELECT id, runs, fence, worker, 'succeeded', run_at, now(), now(), 'null' FROM gone;
INSERT INTO tally VALUES (1, 0, -500, 500);
COMMIT;
