//! Fails what could not start in time, also on queues that nobody serves (L19).

use backstop_store::{Error as StoreError, Term};

use super::BATCH;
use crate::engine::Backstop;
use crate::loops::Pulse;

pub(super) async fn expire(engine: &Backstop, term: Term, pulse: &Pulse) -> Result<(), StoreError> {
    loop {
        pulse.beat();
        let expired = engine.inner.store.expire(term, BATCH).await?;
        if expired > 0 {
            // Each of them has its own line (F12).
            tracing::info!(expired, "jobs could not start in time");
        }
        if expired < BATCH {
            return Ok(());
        }
    }
}
