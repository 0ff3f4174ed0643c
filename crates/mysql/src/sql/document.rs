//! Documents of the engine's own.

use super::UNION;
use crate::shape::Bulk;

/// The moment beside each document, and alone when there is none. ?3 is how keys begin, ?5 is above all of those, ?4
/// the key they follow.
pub(crate) const PAGE: &str = concat!(
    "SELECT m.now, d.name, d.revision, d.body FROM (SELECT ",
    clock!("?1"),
    " AS now) m LEFT JOIN (SELECT name, revision, body FROM backstop_document FORCE INDEX (PRIMARY) \
     WHERE drawer = ?2 AND name >= ?3 AND (?5 IS NULL OR name < ?5) AND (?4 IS NULL OR name > ?4) \
     ORDER BY name LIMIT ?6) d ON TRUE"
);
pub(crate) const LAST: &str = concat!(
    "SELECT m.now, d.name, d.revision, d.body FROM (SELECT ",
    clock!("?1"),
    " AS now) m LEFT JOIN (SELECT name, revision, body FROM backstop_document FORCE INDEX (PRIMARY) \
     WHERE drawer = ?2 AND name >= ?3 AND (?5 IS NULL OR name < ?5) AND (?4 IS NULL OR name < ?4) \
     ORDER BY name DESC LIMIT ?6) d ON TRUE"
);
/// Names alone: they say how much each document holds.
pub(crate) const OUTBOX_BACKLOG: &str = concat!(
    "SELECT ",
    clock!("?1"),
    ", count(*), CAST(coalesce(sum(CAST(substr(name, ?5, ?6) AS SIGNED)), 0) AS SIGNED), \
     CAST(coalesce(sum(CAST(substr(name, ?7, ?8) AS SIGNED)), 0) AS SIGNED), min(name) \
     FROM backstop_document FORCE INDEX (PRIMARY) \
     WHERE drawer = ?2 AND name >= ?3 AND (?4 IS NULL OR name < ?4)"
);
pub(crate) const LOCK: Bulk = Bulk {
    head: "SELECT d.drawer, d.name, d.revision FROM (SELECT NULL AS k0, NULL AS k1 UNION ALL ",
    row: "SELECT ?,?",
    between: UNION,
    tail: ") k STRAIGHT_JOIN backstop_document d FORCE INDEX (PRIMARY) \
           ON d.drawer = k.k0 AND d.name = k.k1 FOR UPDATE",
};
pub(crate) const LOCK_BODIES: Bulk = Bulk {
    head: "SELECT d.name, d.revision, d.body FROM (SELECT NULL AS k0, NULL AS k1 UNION ALL ",
    row: LOCK.row,
    between: UNION,
    tail: LOCK.tail,
};
pub(crate) const READ: Bulk = Bulk {
    head: "SELECT d.drawer, d.name, d.revision, d.body FROM (SELECT NULL AS k0, NULL AS k1 UNION ALL ",
    row: LOCK.row,
    between: UNION,
    tail: BODIES.tail,
};
pub(crate) const BODIES: Bulk = Bulk {
    head: "SELECT d.name, d.body FROM (SELECT NULL AS k0, NULL AS k1 UNION ALL ",
    row: LOCK.row,
    between: UNION,
    tail: ") k STRAIGHT_JOIN backstop_document d FORCE INDEX (PRIMARY) ON d.drawer = k.k0 AND d.name = k.k1",
};
/// Meets a duplicate when somebody else has written the same one since it was looked for.
pub(crate) const INSERT: Bulk = Bulk {
    head: "INSERT INTO backstop_document (drawer, name, revision, body) VALUES ",
    row: "(?,?,?,?)",
    between: ",",
    tail: "",
};
/// For those that are there, and locked. A moment and a job name one death: whoever wrote it before wrote the same.
pub(crate) const SAVE: Bulk = Bulk {
    head: "INSERT INTO backstop_document (drawer, name, revision, body) VALUES ",
    row: "(?,?,?,?)",
    between: ",",
    tail: " ON DUPLICATE KEY UPDATE revision = VALUES(revision), body = VALUES(body)",
};
pub(crate) const DELETE: Bulk = Bulk {
    head: "DELETE d FROM (SELECT NULL AS k0, NULL AS k1 UNION ALL ",
    row: "SELECT ?,?",
    between: UNION,
    tail: ") k STRAIGHT_JOIN backstop_document d FORCE INDEX (PRIMARY) ON d.drawer = k.k0 AND d.name = k.k1",
};
