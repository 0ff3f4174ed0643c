//! Removes documents of the audit log whose time is over, a few batches a round. Nothing else ever removes from it.

use std::time::Duration;

use backstop_core::Timestamp;
use backstop_store::{Amend, DocumentRange, Drawer, Edit, Error as StoreError, Expect, Term, WorkStore};

use crate::loops::LoopHeartbeat;

/// Documents that are read and removed together. Each may hold a thousand lines, and is read with all of them.
const BATCH: usize = 20;

/// Batches a round at most: more than is written between two rounds, and few enough not to keep the other duties
/// waiting.
const BATCHES: usize = 20;

pub(super) async fn prune(
    store: &dyn WorkStore,
    keep: Option<Duration>,
    term: Term,
    heartbeat: &LoopHeartbeat,
) -> Result<(), StoreError> {
    let Some(keep) = keep else { return Ok(()) };
    let range = DocumentRange::first(Drawer::Audit, BATCH).after(limit(store.now().await?, keep));
    for _ in 0..BATCHES {
        heartbeat.record();
        let found = store.documents(range.clone()).await?;
        if found.items.is_empty() {
            return Ok(());
        }
        let removed = found.items.len();
        let gone = |key| Edit { drawer: Drawer::Audit, key, expect: Expect::Any, body: None };
        let edits = found.items.into_iter().map(|document| gone(document.key)).collect();
        store.amend(Amend { term: Some(term), edits, ..Amend::default() }).await?;
        tracing::debug!(removed, "removed documents of the audit log past their retention");
        if !found.more {
            return Ok(());
        }
    }
    Ok(())
}

/// The key that all documents are behind whose newest line is older than `keep`.
///
/// Keys begin with how far the newest line is from the end of time, so that newer ones come first; a line of exactly
/// that age has a key that goes on with a `-`, which comes before `~`.
fn limit(now: Timestamp, keep: Duration) -> String {
    format!("{}~", Drawer::audit_moment(now.before(keep)))
}
