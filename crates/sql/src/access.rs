//! Who may have a connection, so that no kind of call can take all of them.
//!
//! Heartbeats, endings and duties have one each that nobody else takes, and share the others. Reads get a part of the
//! others only. A call that met a lock gives its connection back, and waits for the lock with one of a few.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

/// What a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A worker's lease is renewed.
    Heartbeat,
    /// Runs start and end.
    Ending,
    /// Duties are led and done.
    Duty,
    /// Anything else that writes.
    Write,
    /// Anything else that reads.
    Read,
}

/// How long what keeps a worker alive may take at most: well below any sensible lease.
const VITAL_DEADLINE: Duration = Duration::from_secs(10);

impl Class {
    /// True when it gives its connection back on meeting a lock, and tries again with patience.
    pub(crate) const fn hurries(self) -> bool {
        matches!(self, Self::Write | Self::Ending | Self::Duty)
    }

    /// How long one call may take, of what is allowed at most.
    pub(crate) fn deadline(self, most: Duration) -> Duration {
        match self {
            Self::Heartbeat | Self::Ending | Self::Duty => most.min(VITAL_DEADLINE),
            Self::Write | Self::Read => most,
        }
    }
}

/// The rights to hold connections.
#[derive(Debug)]
pub struct Access {
    general: Semaphore,
    reads: Semaphore,
    patient: Semaphore,
    heartbeat: Semaphore,
    ending: Semaphore,
    duty: Semaphore,
}

/// The right to hold a connection.
#[derive(Debug)]
pub(crate) struct Pass<'a> {
    _of_class: Option<SemaphorePermit<'a>>,
    _connection: Option<SemaphorePermit<'a>>,
}

impl Access {
    /// Connections that one kind of call has for itself, beside those that all share.
    pub const OWN: usize = 3;

    /// For so many connections that all share.
    pub(crate) fn new(connections: usize) -> Self {
        let part = |share: usize| Semaphore::new((connections / share).max(1));
        Self {
            general: part(1),
            reads: part(2),
            patient: part(3),
            heartbeat: Semaphore::new(1),
            ending: Semaphore::new(1),
            duty: Semaphore::new(1),
        }
    }

    /// Waits for a connection's turn.
    pub(crate) async fn pass(&self, class: Class) -> Pass<'_> {
        let own = match class {
            Class::Write => None,
            Class::Read => return self.both(&self.reads).await,
            Class::Heartbeat => Some(&self.heartbeat),
            Class::Ending => Some(&self.ending),
            Class::Duty => Some(&self.duty),
        };
        let connection = match own {
            None => self.general.acquire().await,
            Some(own) => tokio::select! {
                biased;
                one = self.general.acquire() => one,
                one = own.acquire() => one,
            },
        };
        Pass { _of_class: None, _connection: connection.ok() }
    }

    /// Waits for the right to wait for a lock.
    pub(crate) async fn patient(&self) -> Pass<'_> {
        self.both(&self.patient).await
    }

    // Nobody closes them, so none of them fails.
    async fn both<'a>(&'a self, class: &'a Semaphore) -> Pass<'a> {
        let of_class = class.acquire().await.ok();
        Pass { _of_class: of_class, _connection: self.general.acquire().await.ok() }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn no_kind_of_call_takes_every_connection() {
        // Readers, and those who wait for locks, leave room for the others; these leave what heartbeats need.
        let access = Access::new(8);
        let now = |class| access.pass(class).now_or_never();
        let readers: Vec<_> = std::iter::from_fn(|| now(Class::Read)).take(100).collect();
        let waiting: Vec<_> = std::iter::from_fn(|| access.patient().now_or_never()).take(100).collect();
        let writers: Vec<_> = std::iter::from_fn(|| now(Class::Write)).take(100).collect();
        assert_eq!((readers.len(), waiting.len(), writers.len()), (4, 2, 2));
        for class in [Class::Heartbeat, Class::Ending, Class::Duty] {
            let own = now(class);
            assert!(own.is_some(), "{class:?} has one of its own");
            assert!(now(class).is_none(), "{class:?} has one only");
        }
        drop(writers);
        assert!(now(Class::Read).is_none(), "readers have their share already");
        let of_heartbeats: Vec<_> = std::iter::from_fn(|| now(Class::Heartbeat)).take(100).collect();
        assert_eq!(of_heartbeats.len(), 3, "theirs and what is free");
    }

    #[test]
    fn one_connection_is_enough_for_everybody_in_turn() {
        let access = Access::new(1);
        for class in [Class::Read, Class::Write, Class::Ending] {
            assert!(access.pass(class).now_or_never().is_some(), "{class:?}");
        }
        assert!(access.patient().now_or_never().is_some());
    }
}
