//! Listing: one source, chosen by what is asked for, and one condition for each part of the filter.
//!
//! Every listing has the same parameters, in the order of their numbers.

pub(crate) const LIST_ALL: &str = "SELECT j.id FROM backstop.job j";
pub(crate) const LIST_BY_TAG: &str = "SELECT j.id FROM backstop.tag t JOIN backstop.job j ON j.id = t.id";
pub(crate) const LIST_BY_FINGERPRINT: &str = "SELECT j.id FROM backstop.attempt f JOIN backstop.record s \
     ON s.id = f.job AND s.last_failed_run = f.number JOIN backstop.job j ON j.id = f.job";
/// Walks the index of fingerprints backwards and stops when the page is full. Left alone, the planner sorts all jobs
/// of an incident first when it has no statistics, as right after many have died.
pub(crate) const WALK: &str = "SELECT set_config('enable_seqscan', 'off', true), \
     set_config('enable_bitmapscan', 'off', true), set_config('enable_hashjoin', 'off', true), \
     set_config('enable_mergejoin', 'off', true), set_config('enable_sort', 'off', true)";
pub(crate) const WALK_END: &str = "SELECT set_config('enable_seqscan', 'on', true), \
     set_config('enable_bitmapscan', 'on', true), set_config('enable_hashjoin', 'on', true), \
     set_config('enable_mergejoin', 'on', true), set_config('enable_sort', 'on', true)";
pub(crate) const LIST_SHELF: &str = "SELECT j.id FROM backstop.record s JOIN backstop.job j ON j.id = s.id";
pub(crate) const LIST_DONE: &str = "SELECT j.id FROM backstop.done s JOIN backstop.job j ON j.id = s.id";
pub(crate) const LIST_READY: &str = "SELECT j.id FROM backstop.ready s JOIN backstop.job j ON j.id = s.id";

pub(crate) const WHERE_TAG: &str = "t.tag = $1";
pub(crate) const WHERE_TAGGED: &str = "EXISTS (SELECT 1 FROM backstop.tag WHERE tag = $1 AND id = j.id)";
pub(crate) const WHERE_KEY: &str = "j.business_key = $2 AND j.business_key IS NOT NULL";
pub(crate) const WHERE_FINGERPRINT: &str = "f.fingerprint = $3 AND f.fingerprint IS NOT NULL";
pub(crate) const WHERE_FAILED_BY: &str = "EXISTS (SELECT 1 FROM backstop.record x JOIN backstop.attempt a \
     ON a.job = x.id AND a.number = x.last_failed_run WHERE x.id = j.id AND a.fingerprint = $3)";
pub(crate) const WHERE_LANES: &str = "j.lane = ANY($4::bigint[])";
pub(crate) const WHERE_SHELF: &str = "s.status = $5 AND s.status >= 3";
pub(crate) const WHERE_SHELVED: &str =
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
pub(crate) const WHERE_CREATED_AFTER: &str = "j.created_at >= $10";
pub(crate) const WHERE_CREATED_BEFORE: &str = "j.created_at < $11";
pub(crate) const WHERE_FINISHED_AFTER: &str = "(EXISTS (SELECT 1 FROM backstop.record x WHERE x.id = j.id \
     AND x.finished_at >= $13) OR EXISTS (SELECT 1 FROM backstop.done x WHERE x.id = j.id AND x.finished_at >= $13))";
pub(crate) const WHERE_FINISHED_BEFORE: &str = "(EXISTS (SELECT 1 FROM backstop.record x WHERE x.id = j.id \
     AND x.finished_at < $14) OR EXISTS (SELECT 1 FROM backstop.done x WHERE x.id = j.id AND x.finished_at < $14))";
/// The same where the source itself knows when a job ended.
pub(crate) const WHERE_ENDED_AFTER: &str = "s.finished_at >= $13";
pub(crate) const WHERE_ENDED_BEFORE: &str = "s.finished_at < $14";
pub(crate) const LIST_END: &str = "ORDER BY j.id DESC LIMIT $12";

/// Counts what a listing finds, by what the jobs have in common: the listing stands between the two. It is one row
/// longer than what is to be counted; the last column says whether that row is there.
pub(crate) const SURVEY_BEGIN: &str = "SELECT j.lane, r.reason, a.fingerprint, \
     count(*) FILTER (WHERE s.place < $12), count(*) FILTER (WHERE s.place >= $12) \
     FROM (SELECT id, row_number() OVER (ORDER BY id DESC) AS place FROM (";
pub(crate) const SURVEY_END: &str = ") found) s JOIN backstop.job j ON j.id = s.id \
     LEFT JOIN backstop.record r ON r.id = s.id \
     LEFT JOIN backstop.attempt a ON a.job = s.id AND a.number = r.last_failed_run GROUP BY 1, 2, 3";
