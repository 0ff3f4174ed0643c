//! The event log for whoever tells others of it (V2).

use std::sync::Arc;

use backstop_store::{DocumentRange, Drawer, Error as StoreError};

use super::kept::{EventLogEntry, EventLogKey, EventLogPage};
use super::relay;
use crate::engine::Backstop;
use crate::parts::EngineParts;

/// Documents of the log that are read at once.
const DOCUMENTS: usize = 4;

/// How far the log is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventLogPosition {
    /// Names the log: it has another name only when it was off in between, and then the numbers begin again.
    pub epoch: Arc<str>,
    /// The latest number.
    pub last: u64,
}

/// The events of every process of the store, in one order and with numbers without a hole: what event streams are made
/// of. Made by [`Backstop::event_log`].
///
/// It is off, and nothing is written, until somebody listens. Whoever listens says so every minute, moves what waits
/// into the log and reads behind the last number that he has seen; several processes may do that at once. How much
/// stays is a setting: see [`EventLogLimits`](crate::EventLogLimits).
///
/// ```
/// # use backstop::prelude::*;
/// use backstop::{EventLog, EventLogEntry, EventLogPage, EventLogPosition, LoggedEvent, LoggedWorkflow};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> JobResult {
/// let engine = Backstop::open("memory:").await?;
/// let log: EventLog = engine.event_log();
/// let position: EventLogPosition = log.listen().await?;
/// engine.enqueue_raw("report", "{}").submit().await?;
/// log.relay().await?;
/// let page: EventLogPage = log.after(&position.epoch, position.last).await?;
/// let [EventLogEntry::Told(LoggedEvent { name, queue, workflow, .. })] = &page.entries[..] else { panic!() };
/// assert_eq!((name.as_str(), queue.as_deref()), ("enqueued", Some("default")));
/// // An event of a workflow says whose it is.
/// assert!(workflow.as_ref().is_none_or(|LoggedWorkflow { queues, .. }| queues.contains("default")));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct EventLog {
    parts: Arc<EngineParts>,
}

impl Backstop {
    /// The events of every process of the store, in one order (V2).
    #[must_use]
    pub fn event_log(&self) -> EventLog {
        EventLog { parts: self.parts.clone() }
    }
}

impl EventLog {
    /// Says that somebody listens for the next two minutes, and switches the log on if it is off: what this process
    /// does is in it from now on, and what others do within five seconds. It stays on for five minutes more.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn listen(&self) -> Result<EventLogPosition, StoreError> {
        let head = relay::listen(&self.parts).await?;
        Ok(EventLogPosition { epoch: head.epoch, last: head.last })
    }

    /// Gives numbers to events that wait for one, a page of them. True when more may wait.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn relay(&self) -> Result<bool, StoreError> {
        relay::relay(&*self.parts.store, &self.parts.config.event_log, false).await
    }

    /// A page of what follows a number of the log of this name; nothing when it is off, or has another name by now.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn after(&self, epoch: &str, seq: u64) -> Result<EventLogPage, StoreError> {
        let range = DocumentRange::first(Drawer::EventLog, DOCUMENTS).under(EventLogKey::prefix(epoch));
        let mut range = range.after(EventLogKey::behind(epoch, seq));
        loop {
            let found = self.parts.store.documents(range.clone()).await?;
            let entries: Vec<_> =
                found.items.iter().flat_map(|document| EventLogEntry::all_of(document, seq)).collect();
            match found.items.last() {
                // Documents that are none of the log hold up none behind them (C7).
                Some(last) if entries.is_empty() && found.more => range = range.after(last.key.as_str()),
                _ => return Ok(EventLogPage { entries, more: found.more }),
            }
        }
    }
}
