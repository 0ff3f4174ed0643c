//! Jobs that leave the hot tables (L16), and those that leave altogether (D5).

use super::UNION;
use crate::shape::Bulk;

/// Whether a run of an archived job was ever started. A program of the first version did not write it; then the
/// document does: its last words are those of an empty ledger when there was none. Looking into it with the server's
/// functions for JSON would fail for payloads that are nested deeper than those go.
macro_rules! ran {
    () => {
        "COALESCE(ran, RIGHT(document, 14) <> _binary'\"attempts\":[]}')"
    };
}

/// The document of an archived job that may have had an idempotency key. The words are there for certain when it had
/// one, so documents without them need not travel.
macro_rules! keyed_document {
    () => {
        "IF(LOCATE(_binary'\"idempotency_key\":\"', document) > 0, document, NULL)"
    };
}

/// The columns of `archive`, in the order that `rows` reads them.
macro_rules! archive_columns {
    () => {
        concat!("id, status, archived_at, ", ran!(), ", document")
    };
}

pub(crate) const ENDED_WELL: &str = "SELECT id FROM backstop_done FORCE INDEX (done_ended) WHERE finished_at <= ? \
     ORDER BY finished_at, id LIMIT ? FOR UPDATE SKIP LOCKED";
pub(crate) const ENDED: &str = "SELECT id FROM backstop_record FORCE INDEX (record_ended) WHERE status = ? \
     AND finished_at <= ? ORDER BY finished_at, id LIMIT ? FOR UPDATE SKIP LOCKED";
/// An id that came again replaces what its earlier job left.
pub(crate) const SAVE: Bulk = Bulk {
    head: "INSERT INTO backstop_archive (id, status, finished_at, archived_at, ran, document) VALUES ",
    row: "(?,?,?,?,?,?)",
    between: ",",
    tail: " ON DUPLICATE KEY UPDATE status = VALUES(status), finished_at = VALUES(finished_at), \
           archived_at = VALUES(archived_at), ran = VALUES(ran), document = VALUES(document)",
};
pub(crate) const BY_ID: &str =
    concat!("SELECT ", archive_columns!(), " FROM backstop_archive WHERE id IN (?)");
pub(crate) const STATUS: Bulk =
    Bulk { head: "SELECT id, status FROM backstop_archive WHERE id IN (", row: "?", between: ",", tail: ")" };
pub(crate) const PAGE: &str = concat!(
    "SELECT ",
    archive_columns!(),
    " FROM backstop_archive WHERE (?1 IS NULL OR id < ?1) ORDER BY id DESC LIMIT ?2"
);

pub(crate) const DONE_DELETE: Bulk = Bulk {
    head: "DELETE d FROM (SELECT NULL AS k0 UNION ALL ",
    row: "SELECT ?",
    between: UNION,
    tail: ") k STRAIGHT_JOIN backstop_done d FORCE INDEX (PRIMARY) ON d.id = k.k0",
};
pub(crate) const JOBS_DELETE: Bulk = Bulk {
    head: "DELETE j FROM (SELECT NULL AS k0 UNION ALL ",
    row: "SELECT ?",
    between: UNION,
    tail: ") k STRAIGHT_JOIN backstop_job j FORCE INDEX (PRIMARY) ON j.id = k.k0",
};
pub(crate) const ATTEMPTS_DELETE: Bulk = Bulk {
    head: "DELETE a FROM (SELECT NULL AS k0 UNION ALL ",
    row: "SELECT ?",
    between: UNION,
    tail: ") k STRAIGHT_JOIN backstop_attempt a FORCE INDEX (PRIMARY) ON a.job = k.k0",
};
pub(crate) const TAGS_DELETE: Bulk = Bulk {
    head: "DELETE t FROM (SELECT NULL AS k0, NULL AS k1 UNION ALL ",
    row: "SELECT ?,?",
    between: UNION,
    tail: ") k STRAIGHT_JOIN backstop_tag t FORCE INDEX (PRIMARY) ON t.tag = k.k0 AND t.id = k.k1",
};

// Purging. What an idempotency key answers once nothing else is left of its job is found by the job, because an id that
// comes again may bring another key.

/// Jobs that succeeded and are still there, kept from being archived or purged by anybody else.
pub(crate) const DONE_LOCK: Bulk = Bulk {
    head: "SELECT d.id FROM (SELECT NULL AS k0 UNION ALL ",
    row: "SELECT ?",
    between: UNION,
    tail: ") k STRAIGHT_JOIN backstop_done d FORCE INDEX (PRIMARY) ON d.id = k.k0 FOR UPDATE",
};
pub(crate) const LOCK: Bulk = Bulk {
    head: concat!("SELECT a.id, status, ", keyed_document!(), " FROM (SELECT NULL AS k0 UNION ALL "),
    row: "SELECT ?",
    between: UNION,
    tail: ") k STRAIGHT_JOIN backstop_archive a FORCE INDEX (PRIMARY) ON a.id = k.k0 FOR UPDATE",
};
/// The earliest archived jobs of which it is known that they ran.
pub(crate) const OUTWORN: &str = concat!(
    "SELECT archived_at, id, status, ",
    ran!(),
    ", ",
    keyed_document!(),
    " FROM backstop_archive FORCE INDEX (archive_outworn) WHERE ran = 1 AND archived_at <= ? \
     ORDER BY archived_at, id LIMIT ? FOR UPDATE SKIP LOCKED"
);
/// The same of those of which only the document says it.
pub(crate) const OUTWORN_UNTOLD: &str = concat!(
    "SELECT archived_at, id, status, ",
    ran!(),
    ", ",
    keyed_document!(),
    " FROM backstop_archive FORCE INDEX (archive_outworn) WHERE ran IS NULL AND archived_at <= ? \
     ORDER BY archived_at, id LIMIT ? FOR UPDATE SKIP LOCKED"
);
pub(crate) const NEVER_RAN: &str = "UPDATE backstop_archive SET ran = 0 WHERE id IN (?)";
/// Answered by the index alone.
pub(crate) const OUTWORN_COUNT: &str = "SELECT COUNT(*) FROM (SELECT id FROM backstop_archive \
     FORCE INDEX (archive_outworn) WHERE ran = 1 AND archived_at <= ? LIMIT ?) a";
pub(crate) const OUTWORN_UNTOLD_COUNT: &str = concat!(
    "SELECT COUNT(*) FROM (SELECT id FROM backstop_archive FORCE INDEX (archive_outworn) \
     WHERE ran IS NULL AND archived_at <= ? AND ",
    ran!(),
    " LIMIT ?) a"
);
pub(crate) const DELETE: Bulk = Bulk {
    head: "DELETE a FROM (SELECT NULL AS k0 UNION ALL ",
    row: "SELECT ?",
    between: UNION,
    tail: ") k STRAIGHT_JOIN backstop_archive a FORCE INDEX (PRIMARY) ON a.id = k.k0",
};
pub(crate) const PURGED_SAVE: Bulk = Bulk {
    head: "INSERT INTO backstop_purged (id, status) VALUES ",
    row: "(?2,?3)",
    between: ",",
    tail: " ON DUPLICATE KEY UPDATE status = VALUES(status)",
};
/// An earlier job with the same id may have left a key of its own.
pub(crate) const PURGED_AGAIN: Bulk = Bulk {
    head: "UPDATE (SELECT NULL AS k0, NULL AS k1 UNION ALL ",
    row: "SELECT ?,?",
    between: UNION,
    tail: ") k STRAIGHT_JOIN backstop_purged p FORCE INDEX (PRIMARY) ON p.id = k.k0 SET p.status = k.k1",
};
pub(crate) const PURGED_STATUS: &str = "SELECT id, status FROM backstop_purged WHERE id IN (?2)";
