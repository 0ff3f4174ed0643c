//! What a handler says through `tracing` is kept with its run (F15), once the program has installed [`RunLog`].
//!
//! Every handler runs inside a span of its own. The layer finds the run behind that span and adds each event in it,
//! also of code that the handler calls and of tasks that carry the span on, to the lines of the run.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Span, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::context::Run;

/// The target of the spans that handlers run in.
const TARGET: &str = "backstop::run";
/// The field that says which run it is.
const NUMBER: &str = "number";

/// True once there is a layer that asks for runs.
static INSTALLED: AtomicBool = AtomicBool::new(false);
static NEXT: AtomicU64 = AtomicU64::new(1);

type Runs = Mutex<HashMap<u64, Weak<Run>>>;

/// The runs under way whose spans are just being made.
fn runs() -> &'static Runs {
    static RUNS: OnceLock<Runs> = OnceLock::new();
    RUNS.get_or_init(Runs::default)
}

/// The span that a handler runs in.
pub(crate) fn span(run: &Arc<Run>) -> Span {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let installed = INSTALLED.load(Ordering::Relaxed);
    if installed {
        runs().lock().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::downgrade(run));
    }
    // At the highest level, so that a filter which lets through any line of the handler lets its span through too.
    let span = tracing::error_span!(target: TARGET, "run", job = %run.job.spec.id, kind = %run.job.spec.kind, number);
    if installed {
        runs().lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }
    span
}

/// A layer for `tracing-subscriber` that keeps what handlers say with their runs, as far as the output limit goes.
///
/// ```
/// use tracing_subscriber::layer::SubscriberExt as _;
///
/// let subscriber = tracing_subscriber::registry().with(backstop::RunLog::new());
/// # drop(subscriber);
/// ```
#[derive(Debug)]
pub struct RunLog {
    level: Level,
}

impl RunLog {
    /// Keeps what handlers say at the level `INFO` and above.
    #[must_use]
    pub fn new() -> Self {
        INSTALLED.store(true, Ordering::Relaxed);
        Self { level: Level::INFO }
    }

    /// The same down to another level.
    #[must_use]
    pub const fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }
}

impl Default for RunLog {
    fn default() -> Self {
        Self::new()
    }
}

/// The run that a span belongs to.
struct Behind(Weak<Run>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for RunLog {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if attributes.metadata().target() != TARGET {
            return;
        }
        let mut number = Number(None);
        attributes.record(&mut number);
        let runs = runs().lock().unwrap_or_else(PoisonError::into_inner);
        let run = number.0.and_then(|number| runs.get(&number).cloned());
        if let (Some(run), Some(span)) = (run, context.span(id)) {
            span.extensions_mut().insert(Behind(run));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if *event.metadata().level() > self.level {
            return;
        }
        let mut around = context.event_scope(event).into_iter().flatten();
        let run = around.find_map(|span| span.extensions().get::<Behind>().map(|behind| behind.0.clone()));
        let Some(run) = run.and_then(|run| run.upgrade()) else { return };
        let mut line = Line(format!("{} {}:", event.metadata().level(), event.metadata().target()));
        event.record(&mut line);
        run.log(&line.0);
    }
}

/// The number of a run.
struct Number(Option<u64>);

impl Visit for Number {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == NUMBER {
            self.0 = Some(value);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

/// An event in one line: its message, then its fields.
struct Line(String);

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            let _ = write!(self.0, " {value}");
        } else {
            let _ = write!(self.0, " {}={value:?}", field.name());
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            let _ = write!(self.0, " {value:?}");
        } else {
            let _ = write!(self.0, " {}={value:?}", field.name());
        }
    }
}
