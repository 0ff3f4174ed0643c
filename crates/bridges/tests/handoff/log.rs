//! Counts the lines that tell of refused deliveries.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Lines so far.
#[derive(Clone, Default)]
pub(crate) struct DeliveryFailures(Arc<AtomicU64>);

impl DeliveryFailures {
    /// Counts what this thread logs, until the guard goes away.
    pub(crate) fn counted() -> (Self, tracing::subscriber::DefaultGuard) {
        let counts = Self::default();
        (counts.clone(), tracing::subscriber::set_default(counts))
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

struct IsFailure(bool);

impl Visit for IsFailure {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0 |= field.name() == "message" && format!("{value:?}").starts_with("delivery failure");
    }
}

impl Subscriber for DeliveryFailures {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut found = IsFailure(false);
        event.record(&mut found);
        self.0.fetch_add(u64::from(found.0), Ordering::SeqCst);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
