BEGIN;
WITH picked AS MATERIALIZED (SELECT ctid t FROM ready WHERE lane = 1 AND run_at <= now() ORDER BY lane, run_at, id LIMIT 500
    FOR UPDATE SKIP LOCKED),
gone AS MATERIALIZED (DELETE FROM ready r USING picked p WHERE r.ctid = p.t RETURNING r.*),
taken AS (INSERT INTO claim (worker, claimed_at, ids) SELECT '00000000-0000-0000-0000-000000000001'::uuid, now(), array_agg(id) FROM gone HAVING count(*) > 0 RETURNING fence)
SELECT (SELECT fence FROM taken) AS fence, sum(length(j.payload)) FROM gone g JOIN job j USING (id) \gset
INSERT INTO tally VALUES (1, -500, 500, 0);
COMMIT;
BEGIN;
WITH gone AS (DELETE FROM claim WHERE fence = :fence RETURNING *)
INSERT INTO done SELECT u.id, 1, claimed_at, 1, fence, worker, claimed_at, now(), 'null' FROM gone, unnest(ids) u(id);
INSERT INTO tally VALUES (1, 0, -500, 500);
COMMIT;
