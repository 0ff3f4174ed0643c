//! Listing: one source, chosen by what is asked for, and one condition for each part of the filter.

/// When a job ended, wherever that stands.
macro_rules! finished_at {
    () => {
        "COALESCE((SELECT x.finished_at FROM backstop_record x WHERE x.id = j.id), \
         (SELECT x.finished_at FROM backstop_done x WHERE x.id = j.id))"
    };
}

/// What a listing tells of a job.
pub(crate) const IDS: &str = "SELECT j.id";

// The source is called `j` and has an id and a lane. Which index it reads is said: by its guess the server sorts a lane
// of a million jobs for a page of them, or walks all jobs for a lane of few.

pub(crate) const LIST_ALL: &str = " FROM backstop_job j FORCE INDEX (PRIMARY)";
pub(crate) const LIST_BY_KEY: &str = " FROM backstop_job j FORCE INDEX (job_business_key)";
pub(crate) const LIST_BY_TAG: &str = " FROM backstop_tag t JOIN backstop_job j ON j.id = t.id";
pub(crate) const LIST_BY_FINGERPRINT: &str = " FROM backstop_attempt f JOIN backstop_record j \
     ON j.id = f.job AND j.last_failed_run = f.number";
pub(crate) const LIST_RUNNING: &str = " FROM backstop_job j";
pub(crate) const LIST_LANE: &str = " FROM backstop_job j FORCE INDEX (job_lane)";
pub(crate) const LIST_RECORDS: &str = " FROM backstop_record j FORCE INDEX (record_shelf)";
pub(crate) const LIST_LANE_RECORDS: &str = " FROM backstop_record j FORCE INDEX (record_lane)";
pub(crate) const LIST_DONE: &str = " FROM backstop_done j FORCE INDEX (PRIMARY)";
pub(crate) const LIST_READY: &str = " FROM backstop_ready j";

/// Several walks side by side: each between the first and the last, with the second between any two.
pub(crate) const EACH: [&str; 3] = ["(", ") UNION ALL (", ") ORDER BY id DESC LIMIT ?"];
pub(crate) const WHERE: &str = " WHERE ";
pub(crate) const AND: &str = " AND ";
pub(crate) const ALWAYS: &str = "TRUE";
pub(crate) const WHERE_TAG: &str = "t.tag = ?";
pub(crate) const WHERE_TAGGED: &str = "EXISTS (SELECT 1 FROM backstop_tag x WHERE x.tag = ? AND x.id = j.id)";
pub(crate) const WHERE_KEY: &str = "j.business_key = ?";
pub(crate) const WHERE_FINGERPRINT: &str = "f.fingerprint = ?";
pub(crate) const WHERE_FAILED_BY: &str = "EXISTS (SELECT 1 FROM backstop_record x JOIN backstop_attempt a \
     ON a.job = x.id AND a.number = x.last_failed_run WHERE x.id = j.id AND a.fingerprint = ?)";
pub(crate) const WHERE_LANES: &str = "j.lane IN (?)";
pub(crate) const WHERE_STATES: &str = "j.status IN (?)";
pub(crate) const WHERE_RECORD_STATUS: &str =
    "EXISTS (SELECT 1 FROM backstop_record x WHERE x.id = j.id AND x.status = ?)";
pub(crate) const WHERE_DONE: &str = "EXISTS (SELECT 1 FROM backstop_done x WHERE x.id = j.id)";
pub(crate) const WHERE_READY: &str = "EXISTS (SELECT 1 FROM backstop_ready x WHERE x.lane = j.lane AND x.id = j.id \
     AND x.run_at = COALESCE((SELECT y.run_at FROM backstop_record y WHERE y.id = j.id), j.run_at))";
pub(crate) const WHERE_WAITING_OR_HELD: &str = "(EXISTS (SELECT 1 FROM backstop_record x WHERE x.id = j.id \
     AND x.status = 3) OR (j.lane IN (?) AND EXISTS (SELECT 1 FROM backstop_ready x WHERE x.lane = j.lane \
     AND x.id = j.id \
     AND x.run_at = COALESCE((SELECT y.run_at FROM backstop_record y WHERE y.id = j.id), j.run_at))))";
pub(crate) const WHERE_RUNNING: &str = "j.id IN (?)";
pub(crate) const WHERE_REASON: &str =
    "EXISTS (SELECT 1 FROM backstop_record x WHERE x.id = j.id AND x.reason = ?)";
/// The same where the source itself is `record`.
pub(crate) const WHERE_REASON_HERE: &str = "j.reason = ?";
pub(crate) const WHERE_AFTER: &str = "j.id < ?";
pub(crate) const WHERE_FROM: &str = "j.id >= ?";
pub(crate) const WHERE_CREATED_AFTER: &str = "j.created_at >= ?";
pub(crate) const WHERE_CREATED_BEFORE: &str = "j.created_at < ?";
/// The same where the source does not know it.
pub(crate) const WHERE_STORED_AFTER: &str =
    "(SELECT x.created_at FROM backstop_job x WHERE x.id = j.id) >= ?";
pub(crate) const WHERE_STORED_BEFORE: &str =
    "(SELECT x.created_at FROM backstop_job x WHERE x.id = j.id) < ?";
pub(crate) const WHERE_FINISHED_AFTER: &str = concat!(finished_at!(), " >= ?");
pub(crate) const WHERE_FINISHED_BEFORE: &str = concat!(finished_at!(), " < ?");
/// The same where the source itself knows when a job ended.
pub(crate) const WHERE_ENDED_AFTER: &str = "j.finished_at >= ?";
pub(crate) const WHERE_ENDED_BEFORE: &str = "j.finished_at < ?";
pub(crate) const LIST_END: &str = " ORDER BY j.id DESC LIMIT ?";

/// What a listing tells of a job to be counted: where the source is `record`, and elsewhere.
pub(crate) const FACTS_HERE: &str = "SELECT j.id, j.lane, j.reason, j.last_failed_run";
pub(crate) const FACTS: &str = "SELECT j.id, j.lane";
/// Counts what a listing finds, by what the jobs have in common: the listing stands between the two. The last column is
/// the lowest id of a group.
pub(crate) const SURVEY: [&str; 2] = [
    "SELECT s.lane, r.reason, a.fingerprint, COUNT(*), MIN(s.id) FROM (",
    ") s LEFT JOIN backstop_record r ON r.id = s.id \
     LEFT JOIN backstop_attempt a ON a.job = s.id AND a.number = r.last_failed_run \
     GROUP BY s.lane, r.reason, a.fingerprint",
];
/// The same where the source itself is `record`.
pub(crate) const SURVEY_HERE: [&str; 2] = [
    "SELECT s.lane, s.reason, a.fingerprint, COUNT(*), MIN(s.id) FROM (",
    ") s LEFT JOIN backstop_attempt a ON a.job = s.id AND a.number = s.last_failed_run \
     GROUP BY s.lane, s.reason, a.fingerprint",
];
