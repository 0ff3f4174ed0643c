//! Tells of jobs that wait because no live worker of their queue knows their kind (H10).

use backstop_core::event::{Event, EventKind};
use backstop_store::{Error as StoreError, Store};

use crate::events::EventChannel;

pub(super) async fn watch(store: &dyn Store, events: &EventChannel) -> Result<(), StoreError> {
    let held = store.held_lanes().await?;
    if held.is_empty() {
        return Ok(());
    }
    let at = store.now().await?;
    for lane in held {
        tracing::warn!(kind = %lane.kind, version = lane.version, queue = %lane.queue, jobs = lane.jobs,
            "jobs wait for code: no live worker of the queue knows their kind");
        let what = EventKind::WaitingForCode { kind: lane.kind, queue: lane.queue, jobs: lane.jobs };
        events.publish(Event { at, node: None, job: None, what });
    }
    Ok(())
}
