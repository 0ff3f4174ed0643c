//! The connections there are: how many at most, which one goes when there are too many, and when the last has gone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::activity::ConnectionActivity;

/// Every connection.
#[derive(Debug)]
pub(super) struct Connections {
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
    activity: Arc<ConnectionActivity>,
    /// None until its task has begun.
    task: Option<AbortHandle>,
}

impl Connections {
    pub(super) fn new(most: usize) -> Self {
        Self { most, there: Mutex::default(), left: Notify::new() }
    }

    fn there(&self) -> MutexGuard<'_, There> {
        self.there.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place; when there is none, the connection that has been idle for longest makes room. None when all are busy.
    pub(super) fn enter(self: &Arc<Self>) -> Option<ConnectionPermit> {
        let mut there = self.there();
        if there.connections.len() >= self.most {
            let idle = |(id, one): (&u64, &One)| Some((one.activity.idle_since()?, *id));
            let (_, oldest) = there.connections.iter().filter_map(idle).min()?;
            let gone = there.connections.remove(&oldest)?;
            gone.task.inspect(AbortHandle::abort);
        }
        there.next += 1;
        let (id, activity) = (there.next, Arc::new(ConnectionActivity::new()));
        there.connections.insert(id, One { activity: activity.clone(), task: None });
        Some(ConnectionPermit { id, connections: self.clone(), activity })
    }

    /// Runs a connection in its place.
    pub(super) fn attend(
        &self,
        place: ConnectionPermit,
        connection: impl Future<Output = ()> + Send + 'static,
    ) {
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
pub(super) struct ConnectionPermit {
    id: u64,
    connections: Arc<Connections>,
    activity: Arc<ConnectionActivity>,
}

impl ConnectionPermit {
    pub(super) fn activity(&self) -> Arc<ConnectionActivity> {
        self.activity.clone()
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.connections.there().connections.remove(&self.id);
        self.connections.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn the_oldest_idle_connection_makes_room_and_busy_ones_never() {
        let connections = Arc::new(Connections::new(2));
        let (first, second) = (connections.enter().expect("room"), connections.enter().expect("room"));
        assert!(connections.enter().is_none());
        second.activity().idle();
        tokio::time::advance(Duration::from_secs(1)).await;
        first.activity().idle();
        let (gone, third) = (second.id, connections.enter().expect("room"));
        assert!(!connections.there().connections.contains_key(&gone));
        assert!(connections.there().connections.contains_key(&first.id));
        first.activity().busy();
        assert!(connections.enter().is_none());
        drop((first, second, third));
        connections.is_empty().await;
    }
}
