//! Where rejects go, how many a run may make, and what is done when they cannot be handed over (W9).

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use backstop_core::reject::{RejectBatch, RejectLimit};

use crate::outcome::BoxError;

/// What a [`RejectSink`] answers with.
pub type RejectSinkAnswer<'a> = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send + 'a>>;

/// Where rejects go in place of the store.
///
/// A batch may come again, when nobody knows whether it arrived or when its job runs again: job, generation and item
/// fingerprint tell the same reject from a new one.
///
/// ```
/// use std::sync::Mutex;
/// use backstop::rejects::{RejectBatch, RejectSettings, RejectSink, RejectSinkAnswer};
/// use backstop::Config;
///
/// /// Keeps them in memory.
/// #[derive(Default)]
/// struct Memory(Mutex<Vec<RejectBatch>>);
///
/// impl RejectSink for Memory {
///     fn name(&self) -> &str {
///         "memory"
///     }
///
///     fn is_durable(&self) -> bool {
///         false
///     }
///
///     fn put<'a>(&'a self, batch: &'a RejectBatch) -> RejectSinkAnswer<'a> {
///         Box::pin(async move {
///             self.0.lock().map_err(|_| "a panic")?.push(batch.clone());
///             Ok(())
///         })
///     }
/// }
///
/// let config = Config::default().rejects(RejectSettings::default().sink(Memory::default()));
/// # assert!(config.rejects.sink.is_some());
/// ```
pub trait RejectSink: Send + Sync + 'static {
    /// Its name, for people.
    fn name(&self) -> &str;

    /// False when what it was given may be lost; workers say so when they start.
    fn is_durable(&self) -> bool;

    /// Takes a batch. When it answers, the rejects are where they belong.
    ///
    /// # Errors
    /// Whatever kept it from that; [`SinkFailure`] says what follows.
    fn put<'a>(&'a self, batch: &'a RejectBatch) -> RejectSinkAnswer<'a>;
}

/// Writes each reject as a line of the program's log, without the item. Nothing is stored.
///
/// ```
/// use backstop::rejects::{RejectLog, RejectSettings, RejectSink};
///
/// let settings = RejectSettings::default().sink(RejectLog);
/// assert!(!RejectLog.is_durable());
/// # assert!(settings.sink.is_some());
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct RejectLog;

impl RejectSink for RejectLog {
    fn name(&self) -> &'static str {
        "log"
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn put<'a>(&'a self, batch: &'a RejectBatch) -> RejectSinkAnswer<'a> {
        for reject in &batch.rejects {
            tracing::warn!(target: "backstop::rejects", job = %batch.job, kind = %batch.kind, run = batch.run,
                step = reject.step.as_deref(), item = reject.item_fingerprint, count = reject.count,
                fingerprint = %reject.fingerprint, error_type = reject.error_type, error = reject.error,
                "an item was rejected");
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

/// What is done when rejects cannot be handed over.
///
/// ```
/// use backstop::rejects::{RejectSettings, SinkFailure};
///
/// let settings = RejectSettings::default().on_failure(SinkFailure::Continue);
/// # assert_eq!(settings.on_failure, SinkFailure::Continue);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SinkFailure {
    /// The run fails: a success never loses a reject.
    #[default]
    Fail,
    /// The run goes on. What was not handed over is counted and logged.
    Continue,
}

/// Settings of rejects.
///
/// ```
/// use backstop::Config;
/// use backstop::rejects::{RejectLimit, RejectSettings};
///
/// let rejects = RejectSettings::default()
///     .limit(RejectLimit::NONE.percent(0.5)?)
///     .limit_of("import", RejectLimit::NONE.most(1_000));
/// let config = Config::default().rejects(rejects);
/// # assert_eq!(config.rejects.limit_for("import").most, Some(1_000));
/// # assert_eq!(config.rejects.limit_for("import").percent, Some(0.5.try_into()?));
/// # Ok::<(), backstop::rejects::InvalidRejectPercent>(())
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct RejectSettings {
    /// Where rejects go; none keeps them in the store.
    pub sink: Option<Arc<dyn RejectSink>>,
    /// What is done when they cannot be handed over.
    pub on_failure: SinkFailure,
    /// True keeps each rejected item too, and not only what tells it from others.
    pub keep_items: bool,
    /// How many items a run may reject, unless its kind or its handler says otherwise.
    pub limit: RejectLimit,
    /// The same by kind.
    pub limits: BTreeMap<String, RejectLimit>,
    /// True once people were told that the sink may lose rejects.
    told: Arc<AtomicBool>,
}

impl fmt::Debug for RejectSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RejectSettings")
            .field("sink", &self.sink_name())
            .field("on_failure", &self.on_failure)
            .field("keep_items", &self.keep_items)
            .field("limit", &self.limit)
            .field("limits", &self.limits)
            .finish()
    }
}

impl RejectSettings {
    /// Sends rejects there in place of the store.
    #[must_use]
    pub fn sink(mut self, sink: impl RejectSink) -> Self {
        self.sink = Some(Arc::new(sink));
        self
    }

    /// Says what is done when rejects cannot be handed over.
    #[must_use]
    pub const fn on_failure(mut self, on_failure: SinkFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// Keeps rejected items too.
    #[must_use]
    pub const fn keep_items(mut self) -> Self {
        self.keep_items = true;
        self
    }

    /// Limits what a run may reject.
    #[must_use]
    pub const fn limit(mut self, limit: RejectLimit) -> Self {
        self.limit = limit;
        self
    }

    /// Limits what a run of one kind may reject.
    #[must_use]
    pub fn limit_of(mut self, kind: impl Into<String>, limit: RejectLimit) -> Self {
        self.limits.insert(kind.into(), limit);
        self
    }

    /// How many items a run of a kind may reject.
    #[must_use]
    pub fn limit_for(&self, kind: &str) -> RejectLimit {
        self.limits.get(kind).copied().unwrap_or_default().or(self.limit)
    }

    /// What people call the place where rejects go.
    #[must_use]
    pub fn sink_name(&self) -> &str {
        self.sink.as_ref().map_or("store", |sink| sink.name())
    }

    /// The sink whose rejects may be lost, if it is one.
    pub(crate) fn lossy_sink(&self) -> Option<&str> {
        self.sink.as_ref().filter(|sink| !sink.is_durable()).map(|sink| sink.name())
    }

    /// Names a sink that may lose rejects, once, when a worker starts or a server that takes rejects of workers
    /// elsewhere.
    pub(crate) fn tell(&self) {
        if let Some(sink) = self.lossy_sink().filter(|_| !self.told.swap(true, Ordering::Relaxed)) {
            tracing::warn!(sink, "rejects of items go to a sink that is not durable: they may be lost");
        }
    }
}
