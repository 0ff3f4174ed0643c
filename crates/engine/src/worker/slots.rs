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

    /// Sets room aside, as much as there is. Only the fetch loop does, so nobody else takes it in between.
    pub(crate) fn reserve(self: &Arc<Self>, most: usize) -> Reserved {
        let count = self.room().min(most);
        self.in_use.fetch_add(count, Ordering::AcqRel);
        Reserved { queue: self.clone(), count }
    }
}

/// Room that a claim under way may fill. What it does not fill is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Reserved {
    queue: Arc<QueueSlots>,
    count: usize,
}

impl Reserved {
    /// How many slots are left in it.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// One slot of it. A store that hands out more than it was asked for gets room all the same: what it says is
    /// started must run.
    pub(crate) fn take(&mut self) -> RunSlot {
        match self.count.checked_sub(1) {
            Some(left) => self.count = left,
            None => {
                self.queue.in_use.fetch_add(1, Ordering::AcqRel);
            }
        }
        let number = self.queue.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        RunSlot { queue: self.queue.clone(), number: number.unwrap_or(self.queue.limit) }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.queue.in_use.fetch_sub(self.count, Ordering::AcqRel);
    }
}

/// One taken slot; dropping it gives it back and wakes the fetch loop.
#[derive(Debug)]
pub(crate) struct RunSlot {
    queue: Arc<QueueSlots>,
    number: usize,
}

impl RunSlot {
    /// How many slots its queue has.
    pub(crate) fn of_queue(&self) -> usize {
        self.queue.limit
    }

    /// Which slot of its queue it is, from 0.
    pub(crate) const fn number(&self) -> usize {
        self.number
    }
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        self.queue.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
        self.queue.in_use.fetch_sub(1, Ordering::AcqRel);
        self.queue.freed.notify_one();
    }
}
