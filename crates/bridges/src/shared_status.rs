//! A status that a loop writes and others read, or wait for.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SharedStatus<T> {
    status: Mutex<T>,
    changed: Notify,
}

impl<T: Clone> SharedStatus<T> {
    pub(crate) fn read(&self) -> T {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn write(&self, change: impl FnOnce(&mut T)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_waiters();
    }

    pub(crate) async fn until(&self, wanted: impl Fn(&T) -> bool) -> T {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the look, so that no change is missed between the two.
            changed.as_mut().enable();
            let status = self.read();
            if wanted(&status) {
                return status;
            }
            changed.await;
        }
    }
}
