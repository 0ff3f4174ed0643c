//! Listing: one source, chosen by what is asked for, and one condition for each part of the filter.
//!
//! Every listing has the same parameters, in the order of their numbers. The source is called `j` and has an id and a
//! lane; what else a condition needs of a job it looks up by its id.

/// The lowest id there can be.
macro_rules! nil {
    () => {
        "'00000000-0000-0000-0000-000000000000'::uuid"
    };
}

/// How a listing begins.
pub(crate) const IDS: &str = "SELECT j.id ";

pub(crate) const LIST_ALL: &str = "FROM backstop.job j";
pub(crate) const LIST_BY_TAG: &str = "FROM backstop.tag t JOIN backstop.job j ON j.id = t.id";
pub(crate) const LIST_BY_FINGERPRINT: &str = "FROM backstop.attempt f JOIN backstop.record j \
     ON j.id = f.job AND j.last_failed_run = f.number";
/// Walks an index backwards and stops when the page is full. Left alone, the planner sorts all jobs of an incident
/// first when it has no statistics, as right after many have died.
pub(crate) const WALK: &str = quietly!(
    "set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), \
     set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), \
     set_config('enable_sort', 'off', true)"
);
pub(crate) const WALK_END: &str = quietly!(
    "set_config('enable_seqscan', 'on', true), set_config('enable_bitmapscan', 'on', true), \
     set_config('enable_hashjoin', 'on', true), set_config('enable_mergejoin', 'on', true), \
     set_config('enable_sort', 'on', true)"
);
pub(crate) const LIST_RECORDS: &str = "FROM backstop.record j";
pub(crate) const LIST_DONE: &str = "FROM backstop.done j";
pub(crate) const LIST_READY: &str = "FROM backstop.ready j";

// Several walks side by side. Each is bounded by a comparison of rows and ordered by all columns of its index: with an
// equality instead, the planner could take any index that has the ids in order, and walk through every other lane.

/// The walks stand behind the first, what each of them reads behind the second.
pub(crate) const EACH: [&str; 3] =
    ["SELECT w.id FROM ", " CROSS JOIN LATERAL (", ") w ORDER BY w.id DESC LIMIT $12"];
pub(crate) const LANES: &str = "unnest($4::bigint[]) l(lane)";
pub(crate) const STATES: &str = "unnest($15::bigint[]) t(status)";
pub(crate) const LANES_AND_STATES: &str =
    "unnest($4::bigint[]) l(lane) CROSS JOIN unnest($15::bigint[]) t(status)";
/// With many lanes only those are walked that have the newest jobs: no more of them than the page has rows. What each
/// reads stands between the two.
pub(crate) const NEWEST_LANES: [&str; 2] = [
    "(SELECT h.lane FROM unnest($4::bigint[]) l(lane) CROSS JOIN LATERAL (SELECT l.lane, j.id FROM backstop.job j ",
    " ORDER BY j.lane DESC, j.id DESC LIMIT 1) h ORDER BY h.id DESC LIMIT $12) l",
];
/// The bounds of a walk: for the first page, and for one that follows. `$16` is the lowest id that is wanted.
pub(crate) const IN_LANE: [&str; 2] = [
    concat!("(j.lane, j.id) >= (l.lane, $16) AND (j.lane, j.id) < (l.lane + 1, ", nil!(), ")"),
    "(j.lane, j.id) >= (l.lane, $16) AND (j.lane, j.id) < (l.lane, $9)",
];
pub(crate) const IN_STATE: [&str; 2] = [
    concat!(
        "j.status >= 3 AND (j.status, j.id) >= (t.status, $16) AND (j.status, j.id) < (t.status + 1, ",
        nil!(),
        ")"
    ),
    "j.status >= 3 AND (j.status, j.id) >= (t.status, $16) AND (j.status, j.id) < (t.status, $9)",
];
pub(crate) const IN_LANE_AND_STATE: [&str; 2] = [
    concat!(
        "j.status >= 3 AND (j.lane, j.status, j.id) >= (l.lane, t.status, $16) \
         AND (j.lane, j.status, j.id) < (l.lane, t.status + 1, ",
        nil!(),
        ")"
    ),
    "j.status >= 3 AND (j.lane, j.status, j.id) >= (l.lane, t.status, $16) \
     AND (j.lane, j.status, j.id) < (l.lane, t.status, $9)",
];
pub(crate) const LANE_END: &str = " ORDER BY j.lane DESC, j.id DESC LIMIT $12";
pub(crate) const STATE_END: &str = " ORDER BY j.status DESC, j.id DESC LIMIT $12";
pub(crate) const LANE_AND_STATE_END: &str = " ORDER BY j.lane DESC, j.status DESC, j.id DESC LIMIT $12";

pub(crate) const WHERE: &str = " WHERE ";
pub(crate) const AND: &str = " AND ";
pub(crate) const ALWAYS: &str = "TRUE";
pub(crate) const WHERE_TAG: &str = "t.tag = $1";
pub(crate) const WHERE_TAGGED: &str = "EXISTS (SELECT 1 FROM backstop.tag WHERE tag = $1 AND id = j.id)";
pub(crate) const WHERE_KEY: &str = "j.business_key = $2 AND j.business_key IS NOT NULL";
pub(crate) const WHERE_FINGERPRINT: &str = "f.fingerprint = $3 AND f.fingerprint IS NOT NULL";
pub(crate) const WHERE_FAILED_BY: &str = "EXISTS (SELECT 1 FROM backstop.record x JOIN backstop.attempt a \
     ON a.job = x.id AND a.number = x.last_failed_run WHERE x.id = j.id AND a.fingerprint = $3)";
pub(crate) const WHERE_LANES: &str = "j.lane = ANY($4::bigint[])";
pub(crate) const WHERE_STATUS: &str = "j.status = $5";
pub(crate) const WHERE_RECORD_STATUS: &str =
    "EXISTS (SELECT 1 FROM backstop.record x WHERE x.id = j.id AND x.status = $5)";
pub(crate) const WHERE_DONE: &str = "EXISTS (SELECT 1 FROM backstop.done x WHERE x.id = j.id)";
pub(crate) const WHERE_READY: &str = "EXISTS (SELECT 1 FROM backstop.ready x WHERE x.lane = j.lane AND x.id = j.id \
     AND x.run_at = coalesce((SELECT run_at FROM backstop.record WHERE id = j.id), j.run_at))";
pub(crate) const WHERE_WAITING_OR_HELD: &str = "(EXISTS (SELECT 1 FROM backstop.record x WHERE x.id = j.id \
     AND x.status = 3) OR (j.lane = ANY($6::bigint[]) AND EXISTS (SELECT 1 FROM backstop.ready x WHERE x.lane = j.lane \
     AND x.id = j.id AND x.run_at = coalesce((SELECT run_at FROM backstop.record WHERE id = j.id), j.run_at))))";
pub(crate) const WHERE_RUNNING: &str = "j.id = ANY($7::uuid[])";
pub(crate) const WHERE_REASON: &str =
    "EXISTS (SELECT 1 FROM backstop.record x WHERE x.id = j.id AND x.reason = $8)";
pub(crate) const WHERE_AFTER: &str = "j.id < $9";
pub(crate) const WHERE_FROM: &str = "j.id >= $16";
pub(crate) const WHERE_CREATED_AFTER: &str = "j.created_at >= $10";
pub(crate) const WHERE_CREATED_BEFORE: &str = "j.created_at < $11";
pub(crate) const WHERE_FINISHED_AFTER: &str = "(EXISTS (SELECT 1 FROM backstop.record x WHERE x.id = j.id \
     AND x.finished_at >= $13) OR EXISTS (SELECT 1 FROM backstop.done x WHERE x.id = j.id AND x.finished_at >= $13))";
pub(crate) const WHERE_FINISHED_BEFORE: &str = "(EXISTS (SELECT 1 FROM backstop.record x WHERE x.id = j.id \
     AND x.finished_at < $14) OR EXISTS (SELECT 1 FROM backstop.done x WHERE x.id = j.id AND x.finished_at < $14))";
// The same where the source itself knows it, or does not.
pub(crate) const WHERE_REASON_HERE: &str = "j.reason = $8";
pub(crate) const WHERE_ENDED_AFTER: &str = "j.finished_at >= $13";
pub(crate) const WHERE_ENDED_BEFORE: &str = "j.finished_at < $14";
pub(crate) const WHERE_STORED_AFTER: &str = "(SELECT created_at FROM backstop.job WHERE id = j.id) >= $10";
pub(crate) const WHERE_STORED_BEFORE: &str = "(SELECT created_at FROM backstop.job WHERE id = j.id) < $11";
pub(crate) const LIST_END: &str = " ORDER BY j.id DESC LIMIT $12";

/// Counts what a listing finds, by what the jobs have in common: the listing stands between the two. The last column is
/// the lowest id of a group, found as text because not every server can compare ids in an aggregate.
pub(crate) const SURVEY: [&str; 2] = [
    "SELECT j.lane, r.reason, a.fingerprint, count(*), min(s.id::text)::uuid FROM (",
    ") s JOIN backstop.job j ON j.id = s.id LEFT JOIN backstop.record r ON r.id = s.id \
     LEFT JOIN backstop.attempt a ON a.job = s.id AND a.number = r.last_failed_run GROUP BY 1, 2, 3",
];
