//! Statements about workers.

pub(crate) const WORKER_SAVE: &str = "INSERT INTO backstop_worker (id, name, code_version, queues, kinds, started_at, \
     expires_at) VALUES (?, ?, ?, ?, ?, ?, ?) ON DUPLICATE KEY UPDATE name = VALUES(name), \
     code_version = VALUES(code_version), queues = VALUES(queues), kinds = VALUES(kinds), \
     started_at = VALUES(started_at), expires_at = VALUES(expires_at)";
pub(crate) const WORKER_LOCK: &str = "SELECT expires_at FROM backstop_worker WHERE id = ? FOR UPDATE";
pub(crate) const WORKER_RENEW: &str = "UPDATE backstop_worker SET expires_at = ? WHERE id = ?";
/// A renewal by whoever holds nothing, as two statements that need no transaction: the second answers only if the first
/// had its way.
pub(crate) const WORKER_PROLONG: &str = concat!(
    "UPDATE backstop_worker SET expires_at = LEAST(",
    clock!(),
    " + ?, ?) WHERE id = ? AND expires_at > ",
    clock!()
);
pub(crate) const WORKER_LIVES: &str =
    concat!("SELECT expires_at FROM backstop_worker WHERE id = ? AND expires_at > ", clock!());
/// 1 when a claim has no live worker.
pub(crate) const ORPHANED: &str = concat!(
    "SELECT EXISTS (SELECT 1 FROM backstop_claim c WHERE NOT EXISTS (SELECT 1 FROM backstop_worker w \
     WHERE w.id = c.worker AND w.expires_at > ",
    clock!(),
    "))"
);
pub(crate) const WORKER_DELETE: &str = "DELETE FROM backstop_worker WHERE id = ?";
pub(crate) const WORKERS: &str = "SELECT id, name, code_version, queues, kinds, started_at, expires_at FROM \
     backstop_worker";
