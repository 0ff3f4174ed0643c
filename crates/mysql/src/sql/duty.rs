//! Statements about duties: their terms, and what they look for.

use super::UNION;
use crate::shape::Bulk;

/// Takes the lock on a row that is there already for writing: two who both hold one for reading would never get it.
pub(crate) const TERMS_MAKE: Bulk = Bulk {
    head: "INSERT INTO backstop_duty (name, number, node, expires_at) VALUES ",
    row: "(?,0,?,?)",
    between: ",",
    tail: " ON DUPLICATE KEY UPDATE number = number",
};
pub(crate) const TERMS_LOCK: &str = "SELECT name, number, node, expires_at FROM backstop_duty FORCE INDEX (PRIMARY) \
     WHERE name IN (?) ORDER BY name FOR UPDATE";
/// A renewal of terms that still run, as two statements that need no transaction. The second tells what runs now.
pub(crate) const TERMS_RENEW: [&str; 2] = [
    concat!(
        "UPDATE backstop_duty SET expires_at = LEAST(",
        clock!("?3"),
        " + ?4, ?5) WHERE name IN (?1) AND node = ?2 AND expires_at > ",
        clock!("?3")
    ),
    concat!(
        "SELECT name, number, expires_at FROM backstop_duty WHERE name IN (?1) AND node = ?2 AND expires_at > ",
        clock!("?3")
    ),
];
/// Every term, with the moment they are read at.
pub(crate) const TERMS: &str = concat!(
    "SELECT m.now, d.name, d.number, d.node, d.expires_at FROM (SELECT ",
    clock!("?"),
    " AS now) m LEFT JOIN backstop_duty d ON d.number > 0"
);
pub(crate) const TERM_SHARE: &str =
    "SELECT number, node, expires_at FROM backstop_duty WHERE name = ? LOCK IN SHARE MODE";
pub(crate) const TERM_SAVE: &str =
    "UPDATE backstop_duty SET number = ?2, node = ?3, expires_at = ?4 WHERE name = ?1";
pub(crate) const OVERDUE: &str = concat!(
    "SELECT r.expires_at, r.id FROM backstop_ready r FORCE INDEX (ready_expiring) WHERE r.expires_at < ",
    clock!("?1"),
    " AND r.expires_at >= ?2 AND (r.expires_at > ?2 OR r.id > ?3) ORDER BY r.expires_at, r.id LIMIT ?4"
);
pub(crate) const OVERDUE_LOCK: Bulk = Bulk {
    head: "SELECT r.expires_at, r.id FROM (SELECT NULL AS k0, NULL AS k1 UNION ALL ",
    row: "SELECT ?,?",
    between: UNION,
    tail: ") k STRAIGHT_JOIN backstop_ready r FORCE INDEX (ready_expiring) ON r.expires_at = k.k0 AND r.id = k.k1 \
           FOR UPDATE SKIP LOCKED",
};
