-- One claim of 500 jobs and their endings, in two transactions: between them a handler would run.
BEGIN;
WITH picked AS MATERIALIZED (SELECT ctid AS place FROM ready WHERE lane = 1 AND run_at <= now() ORDER BY lane, run_at, id
    LIMIT 500 FOR UPDATE SKIP LOCKED),
gone AS MATERIALIZED (DELETE FROM ready r USING picked p WHERE r.ctid = p.place RETURNING r.id),
taken AS (INSERT INTO claim (worker, claimed_at, ids)
    SELECT '00000000-0000-0000-0000-000000000001'::uuid, now(), array_agg(id) FROM gone HAVING count(*) > 0 RETURNING fence)
SELECT coalesce((SELECT fence FROM taken), 0) AS fence, sum(length(j.payload)) AS size FROM gone g JOIN job j USING (id) \gset
COMMIT;
BEGIN;
WITH gone AS (DELETE FROM claim WHERE fence = :fence RETURNING *)
INSERT INTO done SELECT u.id, 1, 1, fence, worker, claimed_at, now(), 'null' FROM gone, unnest(ids) AS u(id);
COMMIT;
