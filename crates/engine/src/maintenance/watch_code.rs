//! Tells of jobs that wait because no live worker of their queue knows their kind (H10).

use backstop_core::event::{Event, EventKind};
use backstop_store::Error as StoreError;

use crate::engine::Backstop;

pub(super) async fn watch(engine: &Backstop) -> Result<(), StoreError> {
    let store = &engine.inner.store;
    let held = store.held_lanes().await?;
    if held.is_empty() {
        return Ok(());
    }
    let at = store.now().await?;
    for lane in held {
        tracing::warn!(kind = %lane.kind, version = lane.version, queue = %lane.queue, jobs = lane.jobs,
            "jobs wait for code: no live worker of the queue knows their kind");
        let what = EventKind::WaitingForCode { kind: lane.kind, queue: lane.queue, jobs: lane.jobs };
        engine.inner.bus.tell(Event { at, node: None, job: None, what });
    }
    Ok(())
}
