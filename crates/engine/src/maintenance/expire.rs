//! Fails what could not start in time, also on queues that nobody serves (L19).

use backstop_store::{Error as StoreError, Term};

use super::BATCH;
use crate::engine::Backstop;

pub(super) async fn expire(engine: &Backstop, term: Term) -> Result<(), StoreError> {
    loop {
        let expired = engine.inner.store.expire(term, BATCH).await?;
        if expired > 0 {
            tracing::error!(expired, "jobs could not start in time and became dead letters");
        }
        if expired < BATCH {
            return Ok(());
        }
    }
}
