//! Jobs that share something (H5, H6): by their turn keys, and what runs hold.

use crate::schema::rest_of_job;

/// The first due jobs of a lane with a key. What a program of an earlier version has taken away is passed by.
macro_rules! heads {
    () => {
        "(SELECT t.run_at, t.id FROM backstop.turn t JOIN backstop.ready r \
         ON r.lane = t.lane AND r.run_at = t.run_at AND r.id = t.id \
         WHERE t.lane = w.lane AND t.key = w.key AND t.run_at <= w.moment \
         AND (r.expires_at IS NULL OR r.expires_at >= w.moment) ORDER BY t.run_at, t.id LIMIT w.heads) h"
    };
    (numbered) => {
        "(SELECT t.run_at, t.id, row_number() OVER (ORDER BY t.run_at, t.id) AS n FROM backstop.turn t \
         JOIN backstop.ready r ON r.lane = t.lane AND r.run_at = t.run_at AND r.id = t.id \
         WHERE t.lane = w.lane AND t.key = w.key AND t.run_at <= w.moment \
         AND (r.expires_at IS NULL OR r.expires_at >= w.moment) ORDER BY t.run_at, t.id LIMIT w.heads) h"
    };
}

/// The first key above another one, up to a bound.
macro_rules! next_key {
    ($after:literal) => {
        concat!(
            "(SELECT t.key FROM backstop.turn t WHERE t.lane = w.lane AND t.key > ",
            $after,
            " AND t.key <= w.upto ORDER BY t.lane, t.key LIMIT 1)"
        )
    };
}

/// From key to key, however many jobs each of them has. What they need is the same for all of a key, and read once.
pub(crate) const FIRST: &str = concat!(
    "WITH RECURSIVE walk AS (SELECT w.lane, w.upto, w.most, w.heads, w.moment, ",
    next_key!("w.since"),
    " AS key, 1::bigint AS n FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], \
     $6::bigint[]) w(lane, since, upto, most, heads, moment) UNION ALL \
     SELECT w.lane, w.upto, w.most, w.heads, w.moment, ",
    next_key!("w.key"),
    ", w.n + 1 FROM walk w WHERE w.key IS NOT NULL AND w.n < w.most) \
     SELECT w.lane, w.key, h.run_at, h.id, \
     CASE WHEN h.n = 1 THEN (SELECT j.papers FROM backstop.job j WHERE j.id = h.id) END \
     FROM walk w CROSS JOIN LATERAL ",
    heads!(numbered),
    " WHERE w.key IS NOT NULL"
);
/// The most of them that a claim begins with: so many of each of hundreds of keys are read in a few milliseconds.
pub(crate) const FIRST_HEADS: usize = 16;
pub(crate) const MORE: &str = concat!(
    "SELECT w.lane, w.key, h.run_at, h.id FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[]) \
     w(lane, key, heads, moment) CROSS JOIN LATERAL ",
    heads!()
);
pub(crate) const READY_TAKE: &str = "SELECT r.id FROM backstop.ready r \
     JOIN unnest($1::bigint[], $2::bigint[], $3::uuid[]) k(lane, run_at, id) \
     ON r.lane = k.lane AND r.run_at = k.run_at AND r.id = k.id ORDER BY r.id FOR UPDATE OF r SKIP LOCKED";
/// Takes them all in one statement, in place of one for each table. What is locked by others is passed by.
pub(crate) const TAKE: &str = concat!(
    "WITH picked AS MATERIALIZED (SELECT c.lane, c.key, c.run_at, c.id, r.ctid AS place \
     FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::uuid[]) c(lane, key, run_at, id) \
     JOIN backstop.ready r ON r.lane = c.lane AND r.run_at = c.run_at AND r.id = c.id \
     FOR UPDATE OF r SKIP LOCKED), \
     gone AS (DELETE FROM backstop.ready r USING picked p WHERE r.ctid = p.place \
     RETURNING p.lane, p.key, p.run_at, p.id, r.rowed), \
     passed AS (DELETE FROM backstop.turn t USING gone g \
     WHERE t.lane = g.lane AND t.key = g.key AND t.run_at = g.run_at AND t.id = g.id) \
     SELECT j.id, j.lane, j.created_at, j.run_at, j.payload, ",
    rest_of_job!(),
    " FROM gone g JOIN backstop.job j ON j.id = g.id"
);
pub(crate) const INSERT: &str = "INSERT INTO backstop.turn (lane, key, run_at, id) \
     SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::uuid[]) ON CONFLICT DO NOTHING";
pub(crate) const DELETE: &str = "DELETE FROM backstop.turn t \
     USING unnest($1::bigint[], $2::text[], $3::bigint[], $4::uuid[]) k(lane, key, run_at, id) \
     WHERE t.lane = k.lane AND t.key = k.key AND t.run_at = k.run_at AND t.id = k.id";
pub(crate) const PERMITS_HELD: &str = "SELECT p.shared, p.lane, sum(p.amount)::bigint, (array_agg(p.id))[1] \
     FROM unnest($1::text[], $2::text[]) n(first, behind) JOIN backstop.permit p \
     ON p.shared >= n.first AND p.shared < n.behind GROUP BY p.shared, p.lane";
pub(crate) const PERMITS_INSERT: &str = "INSERT INTO backstop.permit (shared, id, lane, amount) \
     SELECT * FROM unnest($1::text[], $2::uuid[], $3::bigint[], $4::bigint[]) \
     ON CONFLICT (shared, id) DO UPDATE SET lane = excluded.lane, amount = excluded.amount";
pub(crate) const PERMITS_DELETE: &str = "DELETE FROM backstop.permit p \
     USING unnest($1::text[], $2::uuid[]) k(shared, id) WHERE p.shared = k.shared AND p.id = k.id";
