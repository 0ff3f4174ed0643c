//! Statements about workers.

pub(crate) const WORKER_SAVE: &str = "INSERT INTO backstop_worker (id, name, code_version, queues, kinds, started_at, \
     expires_at) VALUES (?, ?, ?, ?, ?, ?, ?) ON DUPLICATE KEY UPDATE name = VALUES(name), \
     code_version = VALUES(code_version), queues = VALUES(queues), kinds = VALUES(kinds), \
     started_at = VALUES(started_at), expires_at = VALUES(expires_at)";
/// A renewal, as two statements that need no transaction: the second answers only if the first had its way.
pub(crate) const WORKER_RENEW: [&str; 2] = [
    concat!(
        "UPDATE backstop_worker SET expires_at = LEAST(",
        clock!("?2"),
        " + ?3, ?4) WHERE id = ?1 AND expires_at > ",
        clock!("?2")
    ),
    concat!("SELECT expires_at FROM backstop_worker WHERE id = ?1 AND expires_at > ", clock!("?2")),
];
/// 1 when a claim has no live worker.
pub(crate) const ORPHANED: &str = concat!(
    "SELECT EXISTS (SELECT 1 FROM backstop_claim c WHERE NOT EXISTS (SELECT 1 FROM backstop_worker w \
     WHERE w.id = c.worker AND w.expires_at > ",
    clock!("?"),
    "))"
);
pub(crate) const WORKER_DELETE: &str = "DELETE FROM backstop_worker WHERE id = ?";
pub(crate) const WORKERS: &str = "SELECT id, name, code_version, queues, kinds, started_at, expires_at FROM \
     backstop_worker";
