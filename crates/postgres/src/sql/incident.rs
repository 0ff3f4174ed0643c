//! Incidents: counted with every failure, spoken of by people.

/// The columns of `incident`, in the order that `rows` reads them.
macro_rules! incident_columns {
    () => {
        "fingerprint, kind, error_type, message, failures, dead, open, first_seen, last_seen, first_version, \
         last_version, sample_job, standing"
    };
}

/// Answers by what the sums are judged once they are written.
pub(crate) const COUNT: &str = "INSERT INTO backstop.incident AS i (fingerprint, kind, error_type, message, \
     failures, dead, open, first_seen, last_seen, first_version, last_version, sample_job) \
     SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], \
     $8::bigint[], $9::bigint[], $10::text[], $11::text[], $12::uuid[]) ON CONFLICT (fingerprint) DO UPDATE SET \
     failures = i.failures + excluded.failures, dead = i.dead + excluded.dead, open = i.open + excluded.open, \
     last_version = coalesce(excluded.last_version, i.last_version), last_seen = excluded.last_seen, \
     sample_job = excluded.sample_job RETURNING fingerprint, failures, standing";
/// Dead letters that came or went where no failure is counted.
pub(crate) const OPEN: &str = "UPDATE backstop.incident i SET open = greatest(i.open + n.change, 0) \
     FROM unnest($1::text[], $2::bigint[]) n(fingerprint, change) WHERE i.fingerprint = n.fingerprint";
pub(crate) const STANDINGS_SAVE: &str = "UPDATE backstop.incident i SET standing = n.standing \
     FROM unnest($1::text[], $2::text[]) n(fingerprint, standing) WHERE i.fingerprint = n.fingerprint";
/// What people have said of incidents.
pub(crate) const STANDINGS: &str =
    "SELECT standing FROM backstop.incident WHERE fingerprint = ANY($1::text[]) AND standing IS NOT NULL";
pub(crate) const LATEST: &str = concat!(
    "SELECT ",
    incident_columns!(),
    " FROM backstop.incident \
     WHERE ($2::text IS NULL OR coalesce(standing, '{\"state\":\"new\"') LIKE $2::text) \
     AND ($3::bigint = 0 OR open > 0) AND ($7::bigint = 0 OR open <= 0) \
     AND ($4::text IS NULL OR starts_with(kind, $4::text)) \
     AND ($5::bigint IS NULL OR last_seen < $5::bigint OR (last_seen = $5::bigint AND fingerprint > $6::text)) \
     ORDER BY last_seen DESC, fingerprint LIMIT $1"
);
pub(crate) const BY_FINGERPRINT: &str =
    concat!("SELECT ", incident_columns!(), " FROM backstop.incident WHERE fingerprint = ANY($1::text[])");
pub(crate) const LOCK: &str = concat!(
    "SELECT ",
    incident_columns!(),
    " FROM backstop.incident WHERE fingerprint = ANY($1::text[]) ORDER BY fingerprint FOR UPDATE"
);
pub(crate) const DELETE: &str = "DELETE FROM backstop.incident WHERE fingerprint = ANY($1::text[])";
pub(crate) const OF_TENANT: &str = "SELECT count(*) FROM (SELECT 1 FROM backstop.incident \
     WHERE kind COLLATE \"C\" >= $1 AND kind COLLATE \"C\" < $2 LIMIT $3) i";
