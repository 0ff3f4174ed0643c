//! Documents of the engine's own.

/// $2 is how keys begin, $6 is above all of those, $3 the key they follow. The moment is in every row, and there is at
/// least one.
pub(crate) const PAGE: &str = concat!(
    "SELECT m.now, d.key, d.revision, d.body FROM (SELECT ",
    clock!("$5"),
    " AS now) m LEFT JOIN LATERAL (SELECT key, revision, body FROM backstop.document \
     WHERE drawer = $1 AND key >= $2 AND ($6::text IS NULL OR key < $6::text) AND starts_with(key, $2) \
     AND ($3::text IS NULL OR key > $3::text) ORDER BY key LIMIT $4) d \
     ON TRUE ORDER BY d.key"
);
pub(crate) const LOCK: &str = "SELECT d.drawer, d.key, d.revision FROM backstop.document d \
     JOIN unnest($1::text[], $2::text[]) k(drawer, key) ON d.drawer = k.drawer AND d.key = k.key \
     ORDER BY d.drawer, d.key FOR UPDATE OF d";
/// Waits for whoever is about to write the same one, and then leaves it out.
pub(crate) const INSERT: &str = "INSERT INTO backstop.document (drawer, key, revision, body) \
     SELECT d, k, 1, b FROM unnest($1::text[], $2::text[], $3::text[]) x(d, k, b) ON CONFLICT DO NOTHING \
     RETURNING drawer, key";
pub(crate) const SAVE: &str = "INSERT INTO backstop.document AS o (drawer, key, revision, body) \
     SELECT d, k, 1, b FROM unnest($1::text[], $2::text[], $3::text[]) x(d, k, b) \
     ON CONFLICT (drawer, key) DO UPDATE SET revision = o.revision + 1, body = excluded.body";
pub(crate) const DELETE: &str = "DELETE FROM backstop.document d USING unnest($1::text[], $2::text[]) k(drawer, key) \
     WHERE d.drawer = k.drawer AND d.key = k.key";
/// A moment and a job name one death: whoever wrote it before wrote the same.
pub(crate) const ALERTS: &str = "INSERT INTO backstop.document (drawer, key, revision, body) \
     SELECT d, k, 1, b FROM unnest($1::text[], $2::text[], $3::text[]) x(d, k, b) \
     ON CONFLICT (drawer, key) DO UPDATE SET revision = 1, body = excluded.body";
