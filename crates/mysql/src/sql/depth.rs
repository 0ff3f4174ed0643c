//! How many jobs wait (H12), and how many run (H5).

use super::UNION;
use crate::shape::Bulk;

/// A row that is there is locked like one that is new, and stays as it is.
pub(crate) const LOCK: Bulk = Bulk {
    head: "INSERT INTO backstop_depth (name) VALUES ",
    row: "(?)",
    between: ",",
    tail: " ON DUPLICATE KEY UPDATE name = VALUES(name)",
};
/// Digits stand for columns here, so nothing is not written as a number.
pub(crate) const DEPTHS: Bulk = Bulk {
    head: "",
    row: "SELECT ?2, CAST((SELECT COALESCE(SUM(l.pending + l.waiting), FALSE) FROM backstop_lane l \
          WHERE l.queue >= ?1 AND l.queue < ?2) + (SELECT COALESCE(SUM(t.pending + t.waiting), FALSE) \
          FROM backstop_tally t JOIN backstop_lane l ON l.id = t.lane WHERE l.queue >= ?1 AND l.queue < ?2) AS SIGNED)",
    between: UNION,
    tail: "",
};

/// The counts that are kept, and what is still to be added to them.
macro_rules! run_count {
    ($state:literal) => {
        concat!(
            "CAST((SELECT COALESCE(SUM(l.",
            $state,
            "), FALSE) FROM backstop_lane l WHERE (?1 = '' OR l.queue = ?1) AND (?2 = '' OR l.kind = ?2)) + \
             (SELECT COALESCE(SUM(t.",
            $state,
            "), FALSE) FROM backstop_tally t JOIN backstop_lane l ON l.id = t.lane \
             WHERE (?1 = '' OR l.queue = ?1) AND (?2 = '' OR l.kind = ?2)) AS SIGNED)"
        )
    };
}
pub(crate) const RUN_COUNTS: Bulk = Bulk {
    head: "",
    row: concat!("SELECT ?1, ?2, ", run_count!("running"), ", ", run_count!("pending")),
    between: UNION,
    tail: "",
};
