//! How many jobs wait (H12), and how many run (H5).

/// In one order, so that two never wait for each other.
pub(crate) const DEPTHS_LOCK: &str = "SELECT pg_advisory_xact_lock(n.lock)::text FROM (SELECT DISTINCT \
     hashtextextended('backstop.depth/' || n.name, 72508239) AS lock FROM unnest($1::text[]) n(name) ORDER BY 1) n";
pub(crate) const DEPTHS: &str = "SELECT n.behind, ((SELECT coalesce(sum(l.pending + l.waiting), 0) \
     FROM backstop.lane l WHERE l.queue >= n.first AND l.queue < n.behind) + \
     (SELECT coalesce(sum(t.pending + t.waiting), 0) FROM backstop.tally t JOIN backstop.lane l ON l.id = t.lane \
     WHERE l.queue >= n.first AND l.queue < n.behind))::bigint FROM unnest($1::text[], $2::text[]) n(first, behind)";

/// The counts that are kept, and what is still to be added to them.
macro_rules! run_count {
    ($state:literal) => {
        concat!(
            "((SELECT coalesce(sum(l.",
            $state,
            "), 0) FROM backstop.lane l \
             WHERE (n.queue = '' OR l.queue = n.queue) AND (n.kind = '' OR l.kind = n.kind)) + \
             (SELECT coalesce(sum(t.",
            $state,
            "), 0) FROM backstop.tally t JOIN backstop.lane l ON l.id = t.lane \
             WHERE (n.queue = '' OR l.queue = n.queue) AND (n.kind = '' OR l.kind = n.kind)))::bigint"
        )
    };
}
pub(crate) const RUN_COUNTS: &str = concat!(
    "SELECT n.queue, n.kind, ",
    run_count!("running"),
    ", ",
    run_count!("pending"),
    " FROM unnest($1::text[], $2::text[]) n(queue, kind)"
);
