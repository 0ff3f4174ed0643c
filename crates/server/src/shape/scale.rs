//! What waits and runs, as a scaler reads it (H9).

use backstop::Timestamp;
use backstop::queue::QueueRoom;
use backstop_core::scale::{QueueLoad, ScaleSettings};
use backstop_store::QueueView;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::body::PageLimit;

/// Which queues a scaler asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ScaleQuery {
    /// This queue alone.
    #[param(max_length = 300)]
    pub queue: Option<String>,
    /// Rows of the page at most.
    #[param(inline)]
    pub limit: Option<PageLimit>,
    /// Go on after this row: `next_cursor` of the page before.
    #[param(max_length = 300)]
    #[serde(deserialize_with = "super::cursor")]
    pub cursor: Option<String>,
}

/// A page of queues by name, and all that were asked for together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScaleView {
    /// The queues.
    pub items: Vec<QueueScale>,
    /// Pass it as `cursor` to read on; none on the last page.
    pub next_cursor: Option<String>,
    /// All queues that were asked for, also those of other pages.
    pub total: ScaleTotal,
}

/// What waits and runs on one queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueueScale {
    /// The queue.
    pub queue: String,
    /// Jobs that may be claimed; 0 while none is due or the queue is paused. Once one is due, pending jobs that are not
    /// due yet are counted too. Those for which limits have no room are not, nor are jobs of kinds
    /// whose circuit lets nothing through.
    pub depth: u64,
    /// How long the oldest due job waits, in milliseconds.
    pub oldest_wait_ms: u64,
    /// Jobs that workers hold.
    pub running: u64,
    /// Processes that have slots for what runs, and for what waits once the oldest job has waited for
    /// `workers.scale_up_after`, never more than limits leave work for. No minimum and no maximum is
    /// applied.
    pub wanted: u64,
    /// Runs that limits allow at once on the queue, those that run among them; left out where none says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_running: Option<u64>,
}

/// What waits and runs on several queues.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScaleTotal {
    /// Jobs that may be claimed.
    pub depth: u64,
    /// How long the oldest due job of any queue waits, in milliseconds.
    pub oldest_wait_ms: u64,
    /// Jobs that workers hold.
    pub running: u64,
    /// Processes that are wanted when each serves all of these queues: as many as for the queue that wants most.
    pub wanted: u64,
}

impl QueueScale {
    /// A queue by its kept counts, under the name that the caller knows, with what is held back of it.
    #[must_use]
    pub fn of(
        view: &QueueView,
        held_back: QueueRoom,
        shown: &str,
        settings: &ScaleSettings,
        now: Timestamp,
    ) -> Self {
        // Nothing of a paused queue can be claimed, and nothing of what limits and circuits hold back, however many
        // processes there are.
        let pending = view.pending.saturating_sub(held_back.jobs);
        let oldest = view.oldest_due.filter(|_| !view.paused && pending > 0);
        let load = QueueLoad {
            depth: oldest.map_or(0, |_| pending),
            oldest_wait: oldest.map(|due| now.since(due)).unwrap_or_default(),
            running: view.running,
            slots: settings.slots.of(&view.name),
            most_running: held_back.room.map(|room| room.saturating_add(view.running)),
        };
        Self {
            queue: shown.to_owned(),
            depth: load.depth,
            oldest_wait_ms: u64::try_from(load.oldest_wait.as_millis()).unwrap_or(u64::MAX),
            running: load.running,
            wanted: load.wanted(settings.up_after),
            most_running: load.most_running,
        }
    }
}

impl ScaleTotal {
    /// Adds a queue.
    pub fn add(&mut self, queue: &QueueScale) {
        self.depth = self.depth.saturating_add(queue.depth);
        self.oldest_wait_ms = self.oldest_wait_ms.max(queue.oldest_wait_ms);
        self.running = self.running.saturating_add(queue.running);
        self.wanted = self.wanted.max(queue.wanted);
    }
}
