//! What a handler sees of its job and of the world around it (E1).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_core::job::{Job as StoredJob, Progress, Record};
use backstop_core::{JobId, Lease, text};
use backstop_store::{Note, Store};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

/// A handler's view of its run. Clones are cheap and speak of the same run.
pub struct JobContext<C> {
    app: Arc<C>,
    run: Arc<Run>,
}

/// What one run carries, whatever the application's context is.
pub(crate) struct Run {
    pub(crate) job: Arc<StoredJob>,
    pub(crate) record: Record,
    pub(crate) lease: Lease,
    pub(crate) canceled: CancellationToken,
    pub(crate) output: Mutex<Output>,
    pub(crate) store: Arc<dyn Store>,
}

/// What the handler logged, up to a limit.
#[derive(Debug)]
pub(crate) struct Output {
    text: String,
    limit: usize,
    dropped: usize,
}

impl Output {
    pub(crate) const fn new(limit: usize) -> Self {
        Self { text: String::new(), limit, dropped: 0 }
    }

    fn push(&mut self, line: &str) {
        let room = self.limit.saturating_sub(self.text.len());
        if line.len() < room {
            self.text.push_str(line);
            self.text.push('\n');
        } else {
            self.dropped += 1;
        }
    }

    /// Takes what was logged, with a last line that says how much did not fit.
    pub(crate) fn take(&mut self) -> Option<String> {
        let mut text = std::mem::take(&mut self.text);
        if self.dropped > 0 {
            text.push_str(&format!("… {} more lines did not fit\n", self.dropped));
        }
        (!text.is_empty()).then_some(text)
    }
}

impl<C> Clone for JobContext<C> {
    fn clone(&self) -> Self {
        Self { app: self.app.clone(), run: self.run.clone() }
    }
}

impl<C> JobContext<C> {
    pub(crate) const fn new(app: Arc<C>, run: Arc<Run>) -> Self {
        Self { app, run }
    }

    /// The application's own context, as it was given to the worker.
    #[must_use]
    pub fn app(&self) -> &C {
        &self.app
    }

    /// The job's id.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.run.job.spec.id
    }

    /// The job's kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.run.job.spec.kind
    }

    /// The job's queue.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.run.job.spec.queue
    }

    /// Which attempt this is, from 1. Runs that were not charged do not count.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.run.record.attempt.saturating_add(1)
    }

    /// Which run this is, from 1. Every start counts, also after crashes and snoozes.
    #[must_use]
    pub fn run_number(&self) -> u32 {
        self.run.record.runs
    }

    /// How many charged runs may follow the first.
    #[must_use]
    pub fn max_retries(&self) -> u32 {
        self.run.job.spec.policy.max_retries
    }

    /// A key for outside effects that stays the same over every run of this job.
    #[must_use]
    pub fn effect_key(&self) -> String {
        self.id().to_string()
    }

    /// The right to write about this run; other systems can use its fence.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.run.lease
    }

    /// The job's tags.
    #[must_use]
    pub fn tags(&self) -> &[String] {
        &self.run.job.spec.tags
    }

    /// The job's params, decoded; missing params decode as the empty object.
    ///
    /// # Errors
    /// When they do not have the shape of `T`.
    pub fn params<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.run.job.spec.params.as_deref().unwrap_or("{}"))
    }

    /// What ties the job to a request or a trace outside.
    #[must_use]
    pub fn correlation_id(&self) -> Option<&str> {
        self.run.job.spec.correlation_id.as_deref()
    }

    /// The job's business key.
    #[must_use]
    pub fn business_key(&self) -> Option<&str> {
        self.run.job.spec.business_key.as_deref()
    }

    /// The job whose callback this is.
    #[must_use]
    pub fn callback_of(&self) -> Option<JobId> {
        self.run.job.spec.callback_of
    }

    /// How long this run may take.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        self.run.job.spec.policy.timeout
    }

    /// Keeps a line with the run, up to the output limit (F15).
    pub fn log(&self, line: impl AsRef<str>) {
        let line = text::storable(line.as_ref());
        if let Ok(mut output) = self.run.output.lock() {
            output.push(&line);
        }
    }

    /// Stores how far the run is. A stale lease is not an error here: the run is being stopped already.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn progress(&self, percent: u8, note: impl Into<String>) -> Result<(), backstop_store::Error> {
        let note = text::truncate_chars(&text::storable(&note.into()), 500).into_owned();
        let progress = Progress { percent: percent.min(100), note };
        self.run.store.annotate(vec![Note { lease: self.run.lease, progress }]).await?;
        Ok(())
    }

    /// Resolves when the run should stop: its job was canceled, its lease was lost, its time is up.
    pub async fn canceled(&self) {
        self.run.canceled.cancelled().await;
    }

    /// True when the run should stop.
    #[must_use]
    pub fn is_canceled(&self) -> bool {
        self.run.canceled.is_cancelled()
    }

    /// The token behind [`JobContext::canceled`], to hand to other code.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.run.canceled.clone()
    }
}
