//! Statements about duties: their terms, and what they look for.

use crate::session::Bulk;

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
pub(crate) const TERMS_PROLONG: &str = concat!(
    "UPDATE backstop_duty SET expires_at = LEAST(",
    clock!(),
    " + ?, ?) WHERE name IN (?) AND node = ? AND expires_at > ",
    clock!()
);
pub(crate) const TERMS_RUNNING: &str = concat!(
    "SELECT name, number, expires_at FROM backstop_duty WHERE name IN (?) AND node = ? AND expires_at > ",
    clock!()
);
/// Every term, with the moment they are read at.
pub(crate) const TERMS: &str = concat!(
    "SELECT m.now, d.name, d.number, d.node, d.expires_at FROM (SELECT ",
    clock!(),
    " AS now) m LEFT JOIN backstop_duty d ON d.number > 0"
);
pub(crate) const TERM_SHARE: &str =
    "SELECT number, node, expires_at FROM backstop_duty WHERE name = ? LOCK IN SHARE MODE";
pub(crate) const TERM_SAVE: &str =
    "UPDATE backstop_duty SET number = ?, node = ?, expires_at = ? WHERE name = ?";
pub(crate) const OVERDUE: &str = concat!(
    "SELECT r.expires_at, r.id FROM backstop_ready r FORCE INDEX (ready_expiring) WHERE r.expires_at < ",
    clock!(),
    " AND r.expires_at >= ? AND (r.expires_at > ? OR r.id > ?) ORDER BY r.expires_at, r.id LIMIT ?"
);
/// Between the first and the last of them by the index, which are hardly more than they.
pub(crate) const OVERDUE_LOCK: &str = "SELECT r.expires_at, r.id FROM backstop_ready r FORCE INDEX (ready_expiring) \
     WHERE r.expires_at < ? AND r.expires_at BETWEEN ? AND ? AND r.id IN (?) ORDER BY r.expires_at, r.id \
     FOR UPDATE SKIP LOCKED";
