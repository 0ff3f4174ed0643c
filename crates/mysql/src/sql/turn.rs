//! Jobs that share something (H5, H6): by their turn keys, and what runs hold.

use super::UNION;
use crate::shape::Bulk;

/// A column of the first due job of a key, or of the second one. What a program of an earlier version has taken away is
/// passed by.
macro_rules! head {
    ($column:literal, $place:literal) => {
        concat!(
            "(SELECT t.",
            $column,
            " FROM backstop_turn t FORCE INDEX (PRIMARY) STRAIGHT_JOIN backstop_ready r FORCE INDEX (PRIMARY) \
             ON r.lane = t.lane AND r.run_at = t.run_at AND r.id = t.id \
             WHERE t.lane = ?1 AND t.name = w.k AND t.run_at <= ?6 AND (r.expires_at IS NULL OR r.expires_at >= ?6) \
             ORDER BY t.run_at, t.id LIMIT ",
            $place,
            ")"
        )
    };
}

/// From key to key, however many jobs each of them has. These servers cannot join with the first rows of each: the
/// first two (`sharing::FIRST_HEADS`, which `?5` says) are named one by one.
pub(crate) const FIRST: &str = concat!(
    "WITH RECURSIVE walk (k, n) AS (SELECT (SELECT t.name FROM backstop_turn t FORCE INDEX (PRIMARY) \
     WHERE t.lane = ?1 AND t.name > ?2 AND t.name <= ?3 ORDER BY t.name LIMIT 1), 1 UNION ALL \
     SELECT (SELECT t.name FROM backstop_turn t FORCE INDEX (PRIMARY) \
     WHERE t.lane = ?1 AND t.name > w.k AND t.name <= ?3 ORDER BY t.name LIMIT 1), w.n + 1 \
     FROM walk w WHERE w.k IS NOT NULL AND w.n < ?4), \
     heads (k, place, run_at, id) AS (SELECT w.k, 1, ",
    head!("run_at", "0, 1"),
    ", ",
    head!("id", "0, 1"),
    " FROM walk w WHERE w.k IS NOT NULL UNION ALL SELECT w.k, 2, ",
    head!("run_at", "1, 1"),
    ", ",
    head!("id", "1, 1"),
    " FROM walk w WHERE w.k IS NOT NULL) \
     SELECT ?1, h.k, h.run_at, h.id, j.papers FROM heads h JOIN backstop_job j ON j.id = h.id WHERE h.place <= ?5"
);
pub(crate) const MORE: &str = "SELECT t.lane, t.name, t.run_at, t.id FROM backstop_turn t FORCE INDEX (PRIMARY) \
     STRAIGHT_JOIN backstop_ready r FORCE INDEX (PRIMARY) \
     ON r.lane = t.lane AND r.run_at = t.run_at AND r.id = t.id \
     WHERE t.lane = ?1 AND t.name = ?2 AND t.run_at <= ?4 AND (r.expires_at IS NULL OR r.expires_at >= ?4) \
     ORDER BY t.run_at, t.id LIMIT ?3";
pub(crate) const READY_TAKE: Bulk = Bulk {
    head: "SELECT r.id FROM (SELECT NULL AS k0, NULL AS k1, NULL AS k2 UNION ALL ",
    row: "SELECT ?,?,?",
    between: UNION,
    tail: ") k STRAIGHT_JOIN backstop_ready r FORCE INDEX (PRIMARY) \
           ON r.lane = k.k0 AND r.run_at = k.k1 AND r.id = k.k2 FOR UPDATE SKIP LOCKED",
};
pub(crate) const INSERT: Bulk = Bulk {
    head: "INSERT IGNORE INTO backstop_turn (lane, name, run_at, id) VALUES ",
    row: "(?,?,?,?)",
    between: ",",
    tail: "",
};
pub(crate) const DELETE: Bulk = Bulk {
    head: "DELETE t FROM (SELECT NULL AS k0, NULL AS k1, NULL AS k2, NULL AS k3 UNION ALL ",
    row: "SELECT ?,?,?,?",
    between: UNION,
    tail: ") k STRAIGHT_JOIN backstop_turn t FORCE INDEX (PRIMARY) \
           ON t.lane = k.k0 AND t.name = k.k1 AND t.run_at = k.k2 AND t.id = k.k3",
};
pub(crate) const PERMITS_HELD: Bulk = Bulk {
    head: "SELECT p.shared, p.lane, CAST(SUM(p.amount) AS SIGNED), MIN(p.id) \
           FROM (SELECT NULL AS k0, NULL AS k1 UNION ALL ",
    row: "SELECT ?,?",
    between: UNION,
    tail: ") k STRAIGHT_JOIN backstop_permit p FORCE INDEX (PRIMARY) ON p.shared >= k.k0 AND p.shared < k.k1 \
           GROUP BY p.shared, p.lane",
};
pub(crate) const PERMITS_INSERT: Bulk = Bulk {
    head: "REPLACE INTO backstop_permit (shared, id, lane, amount) VALUES ",
    row: "(?,?,?,?)",
    between: ",",
    tail: "",
};
pub(crate) const PERMITS_DELETE: Bulk = Bulk {
    head: "DELETE p FROM (SELECT NULL AS k0, NULL AS k1 UNION ALL ",
    row: "SELECT ?,?",
    between: UNION,
    tail: ") k STRAIGHT_JOIN backstop_permit p FORCE INDEX (PRIMARY) ON p.shared = k.k0 AND p.id = k.k1",
};
