//! Documents of the engine's own.

/// $3 is how keys begin, $5 is above all of those, $4 the key they follow. The moment is in every row, and there is at
/// least one.
pub(crate) const PAGE: &str = concat!(
    "SELECT m.now, d.key, d.revision, d.body FROM (SELECT ",
    clock!("$1"),
    " AS now) m LEFT JOIN LATERAL (SELECT key, revision, body FROM backstop.document \
     WHERE drawer = $2 AND key >= $3 AND ($5::text IS NULL OR key < $5::text) AND starts_with(key, $3) \
     AND ($4::text IS NULL OR key > $4::text) ORDER BY key LIMIT $6) d ON TRUE"
);
pub(crate) const LAST: &str = concat!(
    "SELECT m.now, d.key, d.revision, d.body FROM (SELECT ",
    clock!("$1"),
    " AS now) m LEFT JOIN LATERAL (SELECT key, revision, body FROM backstop.document \
     WHERE drawer = $2 AND key >= $3 AND ($5::text IS NULL OR key < $5::text) AND starts_with(key, $3) \
     AND ($4::text IS NULL OR key < $4::text) ORDER BY key DESC LIMIT $6) d ON TRUE"
);
/// Keys alone: they say how much each document holds.
pub(crate) const OUTBOX_BACKLOG: &str = concat!(
    "SELECT ",
    clock!("$1"),
    ", count(*), coalesce(sum(substr(key, $5::bigint::int, $6::bigint::int)::bigint), 0)::bigint, \
     coalesce(sum(substr(key, $7::bigint::int, $8::bigint::int)::bigint), 0)::bigint, min(key) \
     FROM backstop.document WHERE drawer = $2 AND key >= $3 AND ($4::text IS NULL OR key < $4::text)"
);
pub(crate) const LOCK: &str = "SELECT d.drawer, d.key, d.revision FROM backstop.document d \
     JOIN unnest($1::text[], $2::text[]) k(drawer, key) ON d.drawer = k.drawer AND d.key = k.key \
     ORDER BY d.drawer, d.key FOR UPDATE OF d";
pub(crate) const LOCK_BODIES: &str = "SELECT d.key, d.revision, d.body FROM backstop.document d \
     JOIN unnest($1::text[], $2::text[]) k(drawer, key) ON d.drawer = k.drawer AND d.key = k.key \
     ORDER BY d.drawer, d.key FOR UPDATE OF d";
pub(crate) const READ: &str = "SELECT d.drawer, d.key, d.revision, d.body FROM backstop.document d \
     JOIN unnest($1::text[], $2::text[]) k(drawer, key) ON d.drawer = k.drawer AND d.key = k.key";
pub(crate) const BODIES: &str = "SELECT d.key, d.body FROM backstop.document d \
     JOIN unnest($1::text[], $2::text[]) k(drawer, key) ON d.drawer = k.drawer AND d.key = k.key";
/// Waits for whoever is about to write the same one, and meets it then.
pub(crate) const INSERT: &str = "INSERT INTO backstop.document (drawer, key, revision, body) \
     SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[])";
pub(crate) const SAVE: &str = "INSERT INTO backstop.document (drawer, key, revision, body) \
     SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) \
     ON CONFLICT (drawer, key) DO UPDATE SET revision = excluded.revision, body = excluded.body";
pub(crate) const DELETE: &str = "DELETE FROM backstop.document d USING unnest($1::text[], $2::text[]) k(drawer, key) \
     WHERE d.drawer = k.drawer AND d.key = k.key";
