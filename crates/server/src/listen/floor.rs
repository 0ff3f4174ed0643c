//! The connections there are: how many at most, which one goes when there are too many, and when the last has gone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::pulse::Pulse;

/// Every connection.
#[derive(Debug)]
pub(super) struct Floor {
    most: usize,
    there: Mutex<There>,
    left: Notify,
}

#[derive(Debug, Default)]
struct There {
    next: u64,
    connections: HashMap<u64, One>,
}

#[derive(Debug)]
struct One {
    pulse: Arc<Pulse>,
    /// None until its task has begun.
    task: Option<AbortHandle>,
}

impl Floor {
    pub(super) fn new(most: usize) -> Self {
        Self { most, there: Mutex::default(), left: Notify::new() }
    }

    fn there(&self) -> MutexGuard<'_, There> {
        self.there.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place; when there is none, the connection that has been idle for longest makes room. None when all are busy.
    pub(super) fn enter(self: &Arc<Self>) -> Option<Place> {
        let mut there = self.there();
        if there.connections.len() >= self.most {
            let idle = |(id, one): (&u64, &One)| Some((one.pulse.idle_since()?, *id));
            let (_, oldest) = there.connections.iter().filter_map(idle).min()?;
            let gone = there.connections.remove(&oldest)?;
            gone.task.inspect(AbortHandle::abort);
        }
        there.next += 1;
        let (id, pulse) = (there.next, Arc::new(Pulse::new()));
        there.connections.insert(id, One { pulse: pulse.clone(), task: None });
        Some(Place { id, floor: self.clone(), pulse })
    }

    /// Runs a connection in its place.
    pub(super) fn attend(&self, place: Place, connection: impl Future<Output = ()> + Send + 'static) {
        let id = place.id;
        let task = tokio::spawn(async move {
            connection.await;
            drop(place);
        });
        // One that has ended already has no entry any more.
        if let Some(one) = self.there().connections.get_mut(&id) {
            one.task = Some(task.abort_handle());
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.there().connections.len()
    }

    /// Resolves when nobody is there.
    pub(super) async fn is_empty(&self) {
        loop {
            let left = self.left.notified();
            if self.len() == 0 {
                return;
            }
            left.await;
        }
    }

    /// Cuts everybody off.
    pub(super) fn clear(&self) {
        for (_, one) in self.there().connections.drain() {
            one.task.inspect(AbortHandle::abort);
        }
    }
}

/// A connection's place, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    id: u64,
    floor: Arc<Floor>,
    pulse: Arc<Pulse>,
}

impl Place {
    pub(super) fn pulse(&self) -> Arc<Pulse> {
        self.pulse.clone()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.floor.there().connections.remove(&self.id);
        self.floor.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn the_oldest_idle_connection_makes_room_and_busy_ones_never() {
        let floor = Arc::new(Floor::new(2));
        let (first, second) = (floor.enter().expect("room"), floor.enter().expect("room"));
        assert!(floor.enter().is_none());
        second.pulse().idle();
        tokio::time::advance(Duration::from_secs(1)).await;
        first.pulse().idle();
        let (gone, third) = (second.id, floor.enter().expect("room"));
        assert!(!floor.there().connections.contains_key(&gone));
        assert!(floor.there().connections.contains_key(&first.id));
        first.pulse().busy();
        assert!(floor.enter().is_none());
        drop((first, second, third));
        floor.is_empty().await;
    }
}
