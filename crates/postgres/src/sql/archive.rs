//! Jobs that leave the hot tables (L16), and those that leave altogether (D5).

/// Whether a run of an archived job was ever started. A program of the first version did not write it; then the
/// document does: its last words are those of an empty ledger when there was none.
macro_rules! ran {
    () => {
        "coalesce(ran, right(document, 14) <> '\"attempts\":[]}')"
    };
}

pub(crate) const ENDED_WELL: &str = "SELECT id FROM backstop.done WHERE finished_at <= $1 \
     ORDER BY finished_at, id LIMIT $2 FOR UPDATE SKIP LOCKED";
pub(crate) const ENDED: &str = "SELECT id FROM backstop.record WHERE status = $1 AND status >= 5 \
     AND finished_at <= $2 ORDER BY finished_at, id LIMIT $3 FOR UPDATE SKIP LOCKED";
/// An id that came again replaces what its earlier job left.
pub(crate) const SAVE: &str = "INSERT INTO backstop.archive (id, status, finished_at, archived_at, ran, document) \
     SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::boolean[], $6::text[]) \
     ON CONFLICT (id) DO UPDATE SET status = excluded.status, finished_at = excluded.finished_at, \
     ran = excluded.ran, archived_at = excluded.archived_at, document = excluded.document";
pub(crate) const BY_ID: &str = concat!(
    "SELECT id, status, archived_at, ",
    ran!(),
    ", document FROM backstop.archive WHERE id = ANY($1::uuid[])"
);
pub(crate) const STATUS: &str = "SELECT id, status FROM backstop.archive WHERE id = ANY($1::uuid[])";
pub(crate) const PAGE: &str = concat!(
    "SELECT id, status, archived_at, ",
    ran!(),
    ", document FROM backstop.archive WHERE ($1::uuid IS NULL OR id < $1) ORDER BY id DESC LIMIT $2"
);

pub(crate) const DONE_DELETE: &str = "DELETE FROM backstop.done WHERE id = ANY($1::uuid[])";
pub(crate) const JOBS_DELETE: &str = "DELETE FROM backstop.job WHERE id = ANY($1::uuid[])";
pub(crate) const ATTEMPTS_DELETE: &str = "DELETE FROM backstop.attempt WHERE job = ANY($1::uuid[])";
pub(crate) const TAGS_DELETE: &str = "DELETE FROM backstop.tag t USING unnest($1::text[], $2::uuid[]) k(tag, id) \
     WHERE t.tag = k.tag AND t.id = k.id";

/// Jobs that succeeded and are still there, kept from being archived or purged by anybody else.
pub(crate) const DONE_LOCK: &str =
    "SELECT id FROM backstop.done WHERE id = ANY($1::uuid[]) ORDER BY id FOR UPDATE";
pub(crate) const LOCK: &str = "SELECT id, status, document FROM backstop.archive WHERE id = ANY($1::uuid[]) \
     ORDER BY id FOR UPDATE";
/// The earliest archived jobs. Whether those of the first version ever ran is seen here, and written down.
pub(crate) const OUTWORN: &str = concat!(
    "SELECT archived_at, id, status, ",
    ran!(),
    ", document FROM backstop.archive WHERE ran IS NOT FALSE AND archived_at <= $1 \
     ORDER BY archived_at, id LIMIT $2 FOR UPDATE SKIP LOCKED"
);
pub(crate) const NEVER_RAN: &str = "UPDATE backstop.archive SET ran = FALSE WHERE id = ANY($1::uuid[])";
pub(crate) const OUTWORN_COUNT: &str = concat!(
    "SELECT count(*) FROM (SELECT 1 FROM backstop.archive WHERE ran IS NOT FALSE AND archived_at <= $1 AND ",
    ran!(),
    " LIMIT $2) a"
);
pub(crate) const DELETE: &str = "DELETE FROM backstop.archive WHERE id = ANY($1::uuid[])";
/// What an idempotency key answers once nothing else is left of its job.
pub(crate) const KEYS_END: &str = "UPDATE backstop.idempotency i SET ended = k.status \
     FROM unnest($1::text[], $2::uuid[], $3::bigint[]) k(key, job, status) WHERE i.key = k.key AND i.job = k.job";
