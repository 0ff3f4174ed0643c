//! Room for runs, per queue.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// The room of one queue.
#[derive(Debug)]
pub(crate) struct QueueSlots {
    pub(crate) queue: Arc<str>,
    limit: usize,
    in_use: AtomicUsize,
    free: Mutex<Vec<usize>>,
    freed: Arc<Notify>,
}

impl QueueSlots {
    pub(crate) fn new(queue: Arc<str>, limit: usize, freed: Arc<Notify>) -> Arc<Self> {
        let free = Mutex::new((0..limit).rev().collect());
        Arc::new(Self { queue, limit, in_use: AtomicUsize::new(0), free, freed })
    }

    pub(crate) fn room(&self) -> usize {
        self.limit.saturating_sub(self.in_use.load(Ordering::Acquire))
    }

    /// Takes a slot. Only the fetch loop takes, and only after it has seen room.
    pub(crate) fn take(self: &Arc<Self>) -> Slot {
        self.in_use.fetch_add(1, Ordering::AcqRel);
        let number = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Slot { queue: self.clone(), number: number.unwrap_or(self.limit) }
    }
}

/// One taken slot; dropping it gives it back and wakes the fetch loop.
#[derive(Debug)]
pub(crate) struct Slot {
    queue: Arc<QueueSlots>,
    number: usize,
}

impl Slot {
    /// Which slot of its queue it is, from 0.
    pub(crate) const fn number(&self) -> usize {
        self.number
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.queue.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
        self.queue.in_use.fetch_sub(1, Ordering::AcqRel);
        self.queue.freed.notify_one();
    }
}
