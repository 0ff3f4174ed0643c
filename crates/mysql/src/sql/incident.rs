//! Incidents: counted with every failure, spoken of by people.

use crate::shape::Bulk;

/// The columns of `incident`, in the order that `rows` reads them.
macro_rules! incident_columns {
    () => {
        "fingerprint, kind, error_type, message, failures, dead, open, first_seen, last_seen, first_version, \
         last_version, sample_job, standing"
    };
}

pub(crate) const COUNT: Bulk = Bulk {
    head: "INSERT INTO backstop_incident (fingerprint, kind, error_type, message, failures, dead, open, first_seen, \
           last_seen, first_version, last_version, sample_job) VALUES ",
    row: "(?,?,?,?,?,?,?,?,?,?,?,?)",
    between: ",",
    tail: " ON DUPLICATE KEY UPDATE failures = failures + VALUES(failures), dead = dead + VALUES(dead), \
           open = GREATEST(open + VALUES(open), 0), last_seen = VALUES(last_seen), \
           last_version = COALESCE(VALUES(last_version), last_version), sample_job = VALUES(sample_job)",
};
/// By what the sums are judged once they are written.
pub(crate) const SEEN: Bulk = Bulk {
    head: "SELECT fingerprint, failures, standing FROM backstop_incident FORCE INDEX (PRIMARY) WHERE fingerprint IN (",
    row: "?",
    between: ",",
    tail: ")",
};
/// What people have said of incidents.
pub(crate) const STANDINGS: &str = "SELECT standing FROM backstop_incident FORCE INDEX (PRIMARY) \
     WHERE fingerprint IN (?) AND standing IS NOT NULL";
/// Dead letters that came or went where no failure is counted.
pub(crate) const OPEN: &str =
    "UPDATE backstop_incident SET open = GREATEST(open + ?2, 0) WHERE fingerprint = ?1";
pub(crate) const STANDING: &str = "UPDATE backstop_incident SET standing = ?2 WHERE fingerprint = ?1";
pub(crate) const LATEST: &str = concat!(
    "SELECT ",
    incident_columns!(),
    " FROM backstop_incident \
     WHERE (?2 IS NULL OR COALESCE(standing, '{\"state\":\"new\"') LIKE ?2) \
     AND (?3 = 0 OR open > 0) AND (?7 = 0 OR open <= 0) AND (?4 IS NULL OR LEFT(kind, LENGTH(?4)) = ?4) \
     AND (?5 IS NULL OR last_seen < ?5 OR (last_seen = ?5 AND fingerprint > ?6)) \
     ORDER BY last_seen DESC, fingerprint LIMIT ?1"
);
pub(crate) const BY_FINGERPRINT: &str =
    concat!("SELECT ", incident_columns!(), " FROM backstop_incident WHERE fingerprint IN (?)");
pub(crate) const LOCK: &str = concat!(
    "SELECT ",
    incident_columns!(),
    " FROM backstop_incident FORCE INDEX (PRIMARY) WHERE fingerprint IN (?) ORDER BY fingerprint FOR UPDATE"
);
pub(crate) const DELETE: &str = "DELETE FROM backstop_incident WHERE fingerprint IN (?)";
pub(crate) const OF_TENANT: &str =
    "SELECT COUNT(*) FROM (SELECT 1 FROM backstop_incident WHERE kind >= ? AND kind < ? LIMIT ?) i";
