//! Lines (L21). A line of more jobs than 10,000 is not counted to its end.

use super::UNION;
use crate::shape::Bulk;

/// The numbers of places grow in the order of the rows.
pub(crate) const PLACES_INSERT: Bulk =
    Bulk { head: "INSERT INTO backstop_place (name, id) VALUES ", row: "(?,?)", between: ",", tail: "" };
pub(crate) const PLACES_DELETE: Bulk = Bulk {
    head: "DELETE p FROM (SELECT NULL AS k0 UNION ALL ",
    row: "SELECT ?",
    between: UNION,
    tail: ") k STRAIGHT_JOIN backstop_place p FORCE INDEX (place_job) ON p.id = k.k0",
};
pub(crate) const HEADS_INSERT: Bulk = Bulk {
    head: "INSERT INTO backstop_line (name, head, blocked) VALUES ",
    row: "(?,?,?)",
    between: ",",
    tail: "",
};
pub(crate) const HEAD_DELETE: &str = "DELETE FROM backstop_line WHERE name = ? AND head = ?";
pub(crate) const HEAD_MARK: Bulk = Bulk {
    head: "UPDATE (SELECT NULL AS k0, NULL AS k1, NULL AS k2 UNION ALL ",
    row: "SELECT ?,?,?",
    between: UNION,
    tail: ") k STRAIGHT_JOIN backstop_line l FORCE INDEX (PRIMARY) ON l.name = k.k0 AND l.head = k.k1 \
           SET l.blocked = k.k2",
};
pub(crate) const LINE_CHANGES_INSERT: Bulk =
    Bulk { head: "INSERT INTO backstop_line_change (name) VALUES ", row: "(?)", between: ",", tail: "" };
pub(crate) const LINE_CHANGES_LOCK: &str =
    "SELECT c.number, c.name FROM backstop_line_change c ORDER BY c.number LIMIT ? FOR UPDATE SKIP LOCKED";
pub(crate) const LINE_CHANGES_DELETE: Bulk =
    Bulk { head: "DELETE FROM backstop_line_change WHERE number IN (", row: "?", between: ",", tail: ")" };
pub(crate) const PLACE_FIRST: &str = "SELECT p.name, p.id FROM backstop_place p FORCE INDEX (PRIMARY) WHERE p.name = ? \
     AND NOT EXISTS (SELECT 1 FROM backstop_line l WHERE l.name = p.name) ORDER BY p.number LIMIT 1";
pub(crate) const HEADS: &str =
    "SELECT l.name, l.head FROM backstop_line l WHERE l.name >= ? AND l.name < ? ORDER BY l.name LIMIT ?";
pub(crate) const HEADS_BLOCKED: &str = "SELECT l.name, l.head FROM backstop_line l FORCE INDEX (line_blocked) \
     WHERE l.blocked = 1 AND l.name >= ? AND l.name < ? ORDER BY l.name LIMIT ?";
pub(crate) const LINE_LENGTH: &str = "SELECT w.name, COUNT(*) FROM (SELECT p.name FROM backstop_place p \
     FORCE INDEX (PRIMARY) WHERE p.name = ? LIMIT 10000) w GROUP BY w.name";
pub(crate) const LINE_PLACE: &str = "SELECT (SELECT l.head FROM backstop_line l WHERE l.name = ?), \
     (SELECT COUNT(*) FROM (SELECT 1 FROM backstop_place p FORCE INDEX (PRIMARY) WHERE p.name = ? AND p.number < \
     (SELECT q.number FROM backstop_place q WHERE q.id = ?) LIMIT 10000) w)";
