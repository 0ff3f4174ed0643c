//! Events to subscribers in this process: after the commit, in order, never holding up a job (V1, V2).
//!
//! Streams are told what every process does, from a log in the store: see [`kept`], [`relay`] and [`log`].

pub(crate) mod kept;
pub(crate) mod log;
pub(crate) mod relay;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use backstop_core::event::{Event, EventKind};
use backstop_core::failure::TerminalReason;
use backstop_core::outbox::{Sink, Sinks};
use backstop_store::{Observer, Store};
use tokio::sync::{broadcast, watch};

use crate::sinks::gathered::PendingEvents;

/// Events that a slow subscriber may lag behind before it loses the oldest.
const BACKLOG: usize = 16_384;

/// Passes on what stores commit, and the hint that work has arrived.
pub(crate) struct EventChannel {
    events: broadcast::Sender<Arc<Event>>,
    arrivals: watch::Sender<u64>,
    count: AtomicU64,
    /// True when a channel of this process wants to be told of dead letters (D3).
    alerts: bool,
    /// The node that every event names (V1).
    node: Arc<str>,
    /// Who takes messages, as this process last read it (B2).
    sinks: RwLock<Sinks>,
    /// What sinks are told that no commit writes.
    gathered: Arc<PendingEvents>,
}

impl EventChannel {
    pub(crate) fn new(node: Arc<str>, alerts: bool) -> Arc<Self> {
        Arc::new(Self {
            events: broadcast::Sender::new(BACKLOG),
            arrivals: watch::Sender::new(0),
            count: AtomicU64::new(0),
            alerts,
            sinks: RwLock::new(Sinks::default().at_node(node.clone())),
            node,
            gathered: Arc::default(),
        })
    }

    /// Where events that no commit makes are written for sinks.
    pub(crate) fn keep_in(&self, store: &Arc<dyn Store>) {
        self.gathered.keep_in(store);
    }

    pub(crate) const fn gathered(&self) -> &Arc<PendingEvents> {
        &self.gathered
    }

    /// True when somebody here or a sink wants events of this name.
    pub(crate) fn is_wanted(&self, name: &str) -> bool {
        self.events.receiver_count() > 0 || self.sinks().take_events_named(name)
    }

    pub(crate) fn subscribe(&self) -> Events {
        Events { receiver: self.events.subscribe(), missed: 0 }
    }

    /// Messages are left for these from the next transaction on.
    pub(crate) fn set_sinks(&self, all: Vec<Sink>) {
        // The lock guards two pointers, which no panic can leave half written.
        let mut sinks = self.sinks.write().unwrap_or_else(PoisonError::into_inner);
        *sinks = sinks.with(all);
    }

    /// Changes whenever work may have become claimable.
    pub(crate) fn arrivals(&self) -> watch::Receiver<u64> {
        self.arrivals.subscribe()
    }

    /// Tells everybody of something that no commit has written: those here, and sinks.
    pub(crate) fn publish(&self, event: Event) {
        let sinks = self.sinks();
        if sinks.take_event(&event) {
            self.gathered.add(event.clone(), sinks);
        }
        self.tell_here(event);
    }

    /// Tells those here. Sinks have it from its commit.
    pub(crate) fn tell_here(&self, mut event: Event) {
        if self.events.receiver_count() == 0 {
            return;
        }
        event.node = Some(self.node.clone());
        // Nobody listening is fine.
        let _ = self.events.send(Arc::new(event));
    }
}

/// The critical line of a job that expired (F12). The ends of runs have theirs where they are reported.
fn note_expired(event: &Event) {
    if let (EventKind::Dead { reason: reason @ TerminalReason::Expired, .. }, Some(job)) =
        (&event.what, &event.job)
    {
        tracing::error!(job = %job.id, kind = %job.kind, queue = %job.queue, %reason,
            error = "it could not start in time", "a job became a dead letter");
    }
}

impl Observer for EventChannel {
    fn wants_events(&self) -> bool {
        if self.events.receiver_count() > 0 {
            return true;
        }
        // What of a commit is about no job, sinks are told from here.
        let sinks = self.sinks();
        ["incident_opened", "incident_regressed"].iter().any(|name| sinks.take_events_named(name))
    }

    fn wants_alerts(&self) -> bool {
        self.alerts
    }

    fn sinks(&self) -> Sinks {
        self.sinks.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn committed(&self, events: Vec<Event>) {
        events.iter().for_each(note_expired);
        for event in events {
            // The commit has written those of jobs for the sinks.
            if event.job.is_some() { self.tell_here(event) } else { self.publish(event) }
        }
    }

    fn work_arrived(&self) {
        self.arrivals.send_replace(self.count.fetch_add(1, Ordering::Relaxed) + 1);
    }
}

/// A subscription to what happens in this process.
///
/// It never holds up a job: a subscriber that falls too far behind loses the oldest events and can see how many.
///
/// ```
/// # use backstop::prelude::*;
/// use backstop::EventKind;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> JobResult {
/// let engine = Backstop::open("memory:").await?;
/// let mut events = engine.events();
/// engine.enqueue_raw("report", "{}").submit().await?;
/// let event = events.next().await.ok_or("the engine is there")?;
/// assert!(matches!(event.what, EventKind::Enqueued { .. }));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Events {
    receiver: broadcast::Receiver<Arc<Event>>,
    missed: u64,
}

impl Events {
    /// The next event; none when the engine is gone.
    pub async fn next(&mut self) -> Option<Arc<Event>> {
        loop {
            match self.receiver.recv().await {
                Ok(event) => return Some(event),
                Err(broadcast::error::RecvError::Lagged(count)) => self.missed += count,
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }

    /// The next event if one is there already.
    pub fn try_next(&mut self) -> Option<Arc<Event>> {
        loop {
            match self.receiver.try_recv() {
                Ok(event) => return Some(event),
                Err(broadcast::error::TryRecvError::Lagged(count)) => self.missed += count,
                Err(_) => return None,
            }
        }
    }

    /// Events lost because this subscriber was too slow.
    #[must_use]
    pub const fn missed(&self) -> u64 {
        self.missed
    }
}
