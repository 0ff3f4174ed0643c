//! Queues: what waits where, and holding it back.

pub use backstop_store::{QueueRange, QueueView};

use std::collections::BTreeMap;
use std::sync::Arc;

use backstop_core::admit::queue_name;
use backstop_core::scale::LimitedJobs;
pub use backstop_core::scale::QueueRoom;
use backstop_store::{Error as StoreError, Page};

use crate::circuits::Circuits;
use crate::engine::Backstop;
use crate::error::OperateError;
use crate::limits::SharedLimits;
use crate::parts::EngineParts;

/// The queues of a store: see [`Backstop::queues`].
#[derive(Debug, Clone, Copy)]
pub struct Queues<'a> {
    parts: &'a Arc<EngineParts>,
}

impl Backstop {
    /// Queues: their counts, and pausing them.
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// let engine = Backstop::open("memory:").await?;
    /// engine.enqueue_raw("report", "{}").queue("nightly").submit().await?;
    /// engine.queues().pause_because("nightly", "the warehouse is moved").await?;
    /// let nightly = &engine.queues().list().await?[0];
    /// assert_eq!((nightly.pending, nightly.paused), (1, true));
    /// engine.queues().resume("nightly").await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub const fn queues(&self) -> Queues<'_> {
        Queues { parts: &self.parts }
    }
}

impl Queues<'_> {
    /// Every queue with its counts, which are kept, not counted.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn list(self) -> Result<Vec<QueueView>, StoreError> {
        self.parts.store.queues().await
    }

    /// The queues of a range, with their counts; no other is read.
    ///
    /// # Errors
    /// When the store is away or the page is too large.
    pub async fn page(self, range: QueueRange) -> Result<Page<QueueView, String>, StoreError> {
        self.parts.config.check_page(range.limit.unwrap_or_default())?;
        self.parts.store.queue_page(range).await
    }

    /// What limits and circuits hold back on these queues, by name: no worker could start it, however many there were.
    /// Of jobs that share something, with keys, names or pools, a thousand of each queue are looked at; where more
    /// could start, none of them counts as held back.
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// use backstop::limits::RunLimit;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// # let engine = Backstop::open("memory:").await?;
    /// engine.limits().set(RunLimit { concurrency: Some(2), ..RunLimit::of_queue("nightly") }).await?;
    /// for _ in 0..5 {
    ///     engine.enqueue_raw("report", "{}").queue("nightly").submit().await?;
    /// }
    /// let queues = engine.queues().list().await?;
    /// assert_eq!(engine.queues().held_back(&queues).await?["nightly"].jobs, 3);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When the store is away.
    pub async fn held_back(self, queues: &[QueueView]) -> Result<BTreeMap<String, QueueRoom>, StoreError> {
        let waiting: Vec<&QueueView> = queues.iter().filter(|view| view.pending > 0).collect();
        if waiting.is_empty() {
            return Ok(BTreeMap::new());
        }
        let names: Vec<&str> = waiting.iter().map(|view| &*view.name).collect();
        let limits = SharedLimits::of(self.parts);
        let mut limited = limits.limited(&waiting).await?;
        for (queue, jobs) in Circuits::of(self.parts).limited(&names).await? {
            limited.entry(queue).or_default().extend(jobs);
        }
        self.leave_out_codeless(&mut limited).await?;
        for (queue, jobs) in limits.limited_by_sharing(&waiting).await? {
            limited.entry(queue).or_default().extend(jobs);
        }
        Ok(limited.into_iter().map(|(queue, jobs)| (queue, QueueRoom::by_limits(&jobs))).collect())
    }

    /// Counts of kinds have jobs in them that wait for code (H10). Those are not among the pending ones of a queue, so
    /// nothing is held back of them.
    async fn leave_out_codeless(
        self,
        limited: &mut BTreeMap<String, Vec<LimitedJobs>>,
    ) -> Result<(), StoreError> {
        let is_held = |jobs: &LimitedJobs| jobs.kind.is_some() && jobs.pending > jobs.room;
        if !limited.values().flatten().any(is_held) {
            return Ok(());
        }
        for lane in self.parts.store.held_lanes().await? {
            for jobs in limited.get_mut(&lane.queue).into_iter().flatten() {
                if jobs.kind.as_deref() == Some(&*lane.kind) {
                    jobs.pending = jobs.pending.saturating_sub(lane.jobs);
                }
            }
        }
        Ok(())
    }

    /// Pauses a queue: nothing is claimed from it until it is resumed. Answers false when it was paused already.
    ///
    /// # Errors
    /// When no queue can have this name, or the store is away.
    pub async fn pause(self, queue: &str) -> Result<bool, OperateError> {
        self.set(queue, true, None).await
    }

    /// The same, and says who or what asked for it.
    ///
    /// # Errors
    /// As [`Queues::pause`].
    pub async fn pause_because(self, queue: &str, note: &str) -> Result<bool, OperateError> {
        self.set(queue, true, Some(note)).await
    }

    /// Resumes a queue. Answers false when it was not paused.
    ///
    /// # Errors
    /// As [`Queues::pause`].
    pub async fn resume(self, queue: &str) -> Result<bool, OperateError> {
        self.set(queue, false, None).await
    }

    async fn set(self, queue: &str, paused: bool, note: Option<&str>) -> Result<bool, OperateError> {
        let EngineParts { store, config, .. } = &**self.parts;
        queue_name(queue, &config.limits)?;
        let note = note.map(|note| config.sanitized(note));
        Ok(store.pause_queue(queue, paused, note.as_deref()).await?)
    }
}
