//! New processes take over from old ones, one after the other: no old one is told to stop before a new one works.
//!
//! A new process works when the store knows a live worker that was not there before it was started. That may be the
//! worker of another machine; then somebody works all the same. A program that makes no worker known there counts as
//! up after a while.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::task::Id;
use tokio::time::Instant;

/// How long a process lives before it counts as up although no worker of it was seen.
const UP_AT_LATEST: Duration = Duration::from_secs(30);

/// Where a roll is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Roll {
    /// The next one is started as soon as it is known who is there.
    Next,
    /// A new process was started that does not count yet.
    Starting {
        task: Id,
        started: Instant,
        /// The workers that were there before.
        known: BTreeSet<String>,
    },
    /// An old process was told to stop.
    Stopping { task: Id },
}

impl Roll {
    /// True for the process that was started and does not count yet.
    pub(super) fn starts(&self, process: Id) -> bool {
        matches!(self, Self::Starting { task, .. } if *task == process)
    }

    /// True for the process that is waited for.
    pub(super) fn stops(&self, process: Id) -> bool {
        matches!(self, Self::Stopping { task } if *task == process)
    }

    /// True when the process that was started is up, by the workers that are there now.
    pub(super) fn is_up(&self, workers: Option<&BTreeSet<String>>) -> bool {
        let Self::Starting { started, known, .. } = self else { return false };
        workers.is_some_and(|workers| !workers.is_subset(known)) || started.elapsed() >= UP_AT_LATEST
    }
}
