//! Events that no commit writes, on their way to sinks (V1, V2): gathered in this process, and written together.
//!
//! Nothing waits for them. The first is written at once; those that come in the next moments go together. A process
//! that dies loses what it has not written yet.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use backstop_core::event::{Event, EventKind};
use backstop_core::outbox::Sinks;
use backstop_store::{Amend, Edit, Error as StoreError, Expect, Store, outbox_document};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

/// Events that wait to be written at most, and bytes of them.
const MOST: usize = 1_000;
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// Events and bytes that are written together: each sink that takes them gets a copy.
const TOGETHER: usize = 200;
const BYTES_TOGETHER: usize = 1024 * 1024;

/// Bytes of an event beside what a handler told.
const USUAL_BYTES: usize = 1_024;

/// The time between two writes, and before a failed one is tried again.
const PAUSE: Duration = Duration::from_millis(200);
const RETRY: Duration = Duration::from_secs(1);

/// How long the last write of a worker that stops may take.
const LAST_WRITE: Duration = Duration::from_secs(2);

/// How often a write is tried.
const TRIES: usize = 30;

/// What this process has to tell sinks and has not written yet.
#[derive(Debug, Default)]
pub(crate) struct PendingEvents {
    /// Where they are written to; the engine owns it.
    store: OnceLock<Weak<dyn Store>>,
    /// Where a task writes them when whoever tells of a commit is a thread of the store.
    runtime: OnceLock<Handle>,
    waiting: Mutex<WaitingEvents>,
    /// Held while some are written: they stay in order.
    writing: tokio::sync::Mutex<()>,
    lost: AtomicU64,
}

#[derive(Debug, Default)]
struct WaitingEvents {
    /// Each with its stamp, from when it was told, and its bytes.
    events: VecDeque<(i64, Event, usize)>,
    bytes: usize,
    /// Who took the last of them.
    sinks: Sinks,
    /// The task that writes them; none when whoever comes next has to start one.
    writer: Option<AbortHandle>,
}

impl WaitingEvents {
    /// True while a task writes them. One that went with its runtime does not.
    fn is_written(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| !writer.is_finished())
    }

    /// True when more waits than is written together.
    fn is_much(&self) -> bool {
        self.events.len() >= TOGETHER || self.bytes >= BYTES_TOGETHER
    }

    /// The first of them, as many as are written together.
    fn take(&mut self) -> (Vec<(i64, Event)>, Sinks) {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some((stamp, event, size)) = self.events.pop_front() {
            if !taken.is_empty() && bytes + size > BYTES_TOGETHER {
                self.events.push_front((stamp, event, size));
                break;
            }
            bytes += size;
            taken.push((stamp, event));
            if taken.len() >= TOGETHER {
                break;
            }
        }
        self.bytes -= bytes;
        (taken, self.sinks.clone())
    }
}

/// About how large an event is as JSON.
fn bytes_of(event: &Event) -> usize {
    match &event.what {
        EventKind::Published { data, .. } => USUAL_BYTES + data.to_string().len(),
        _ => USUAL_BYTES,
    }
}

impl PendingEvents {
    /// Where they are written to.
    pub(crate) fn keep_in(&self, store: &Arc<dyn Store>) {
        // There is one store for as long as there is an engine, and usually one runtime.
        let _ = self.store.set(Arc::downgrade(store));
        if let Ok(runtime) = Handle::try_current() {
            let _ = self.runtime.set(runtime);
        }
    }

    /// Takes an event that one of these sinks wants.
    pub(crate) fn add(self: &Arc<Self>, event: Event, sinks: Sinks) {
        let size = bytes_of(&event);
        let mut waiting = self.lock();
        let is_full = waiting.bytes + size > MOST_BYTES || waiting.events.len() >= MOST;
        if is_full && !waiting.events.is_empty() {
            self.lose(1);
            return;
        }
        // Events are dated by the store's clock.
        let stamp = sinks.stamp(event.at);
        waiting.events.push_back((stamp, event, size));
        waiting.bytes += size;
        waiting.sinks = sinks;
        if waiting.is_written() {
            return;
        }
        // Without a runtime there is nobody to write; whoever comes next, or stops, does it.
        let here = Handle::try_current().ok();
        let Some(runtime) = here.or_else(|| self.runtime.get().cloned()) else { return };
        let all = self.clone();
        // It finds what waits once this is through.
        waiting.writer = Some(runtime.spawn(async move { all.write_all().await }).abort_handle());
    }

    /// Events that were not written, because too many came or the store was away for too long.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Writes what waits now, if that is quickly done: for whoever stops.
    pub(crate) async fn settle(&self) {
        let written = async {
            let _one = self.writing.lock().await;
            loop {
                let (events, sinks) = self.lock().take();
                if events.is_empty() {
                    return;
                }
                if let Err(error) = self.write(Self::edits(&events, &sinks)).await {
                    tracing::debug!(%error, "events that no commit makes could not be written");
                    self.lose(events.len());
                }
            }
        };
        // A store that is away holds up no stop.
        let _ = tokio::time::timeout(LAST_WRITE, written).await;
    }

    async fn write_all(&self) {
        loop {
            let one = self.writing.lock().await;
            let Some((events, sinks)) = self.take_or_rest() else { return };
            if !self.try_write(&events, &sinks).await {
                self.lose(events.len());
            }
            drop(one);
            let is_much = self.lock().is_much();
            if !is_much {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Writes these, under the same keys however often that has to be tried; false when it did not work.
    async fn try_write(&self, events: &[(i64, Event)], sinks: &Sinks) -> bool {
        let edits = Self::edits(events, sinks);
        for _ in 0..TRIES {
            match self.write(edits.clone()).await {
                Ok(()) => return true,
                Err(error) => tracing::debug!(%error, "events that no commit makes wait for the store"),
            }
            tokio::time::sleep(RETRY).await;
        }
        false
    }

    async fn write(&self, edits: Vec<Edit>) -> Result<(), StoreError> {
        let Some(store) = self.store.get().and_then(Weak::upgrade).filter(|_| !edits.is_empty()) else {
            return Ok(());
        };
        store.amend(Amend { edits, ..Amend::default() }).await.map(drop)
    }

    fn edits(events: &[(i64, Event)], sinks: &Sinks) -> Vec<Edit> {
        let edit = |document| {
            let (drawer, key, body) = outbox_document(document);
            Edit { drawer, key, expect: Expect::Any, body: Some(body) }
        };
        sinks.documents_of(events).into_iter().map(edit).collect()
    }

    /// What waits; none when nothing does, and then whoever comes next has it written.
    fn take_or_rest(&self) -> Option<(Vec<(i64, Event)>, Sinks)> {
        let mut waiting = self.lock();
        if waiting.events.is_empty() {
            waiting.writer = None;
            return None;
        }
        Some(waiting.take())
    }

    fn lose(&self, count: usize) {
        self.lost.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, WaitingEvents> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use backstop_core::Timestamp;
    use backstop_core::outbox::{STREAM_SINK, Sink};
    use backstop_store::ModelStore;
    use tokio::runtime::Builder;

    use super::*;

    fn sinks() -> Sinks {
        Sinks::new(vec![Sink::of_streams()], Arc::default())
    }

    fn event(what: EventKind) -> Event {
        Event { at: Timestamp::from_micros(1_800_000_000_000_000), node: None, job: None, what }
    }

    fn published(bytes: usize) -> Event {
        event(EventKind::Published { name: "told".to_owned(), data: "x".repeat(bytes).into() })
    }

    /// How many are written together, until nothing waits.
    fn portions(all: &PendingEvents) -> Vec<usize> {
        let take = || Some(all.lock().take().0.len()).filter(|count| *count > 0);
        std::iter::from_fn(take).collect()
    }

    #[test]
    fn what_waits_is_bounded_by_events_and_by_bytes() {
        // V2
        let all = Arc::new(PendingEvents::default());
        (0..MOST + 3).for_each(|_| all.add(event(EventKind::Paused), sinks()));
        assert_eq!(all.lost(), 3);
        assert_eq!(portions(&all), vec![TOGETHER; MOST / TOGETHER]);
        (0..20).for_each(|_| all.add(published(1024 * 1024), sinks()));
        assert_eq!(all.lost(), 3 + 5);
        assert_eq!(portions(&all), [1; 15], "each is large enough to be written alone");
        // However large one is, it is told.
        all.add(published(2 * MOST_BYTES), sinks());
        assert_eq!((portions(&all), all.lost(), all.lock().bytes), (vec![1], 8, 0));
    }

    #[test]
    fn what_a_runtime_leaves_behind_is_written_in_the_next() {
        // V2
        let store: Arc<dyn Store> = Arc::new(ModelStore::default());
        let all = Arc::new(PendingEvents::default());
        all.keep_in(&store);
        let runtime = || Builder::new_current_thread().enable_time().build().expect("a runtime");
        // The task that writes goes with its runtime before it has begun.
        runtime().block_on(async { all.add(event(EventKind::Paused), sinks()) });
        let waiting = runtime().block_on(async {
            all.add(event(EventKind::Resumed), sinks());
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            store.outbox_backlog(STREAM_SINK).await.expect("the model is there").messages
        });
        assert_eq!((waiting, all.lost()), (2, 0));
    }
}
