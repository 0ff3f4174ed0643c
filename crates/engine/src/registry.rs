//! The kinds a worker can run, with their types erased once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;

use backstop_core::failure::{Cause, Failure, HookAnswer};
use backstop_store::KnownKind;

use crate::context::JobContext;
use crate::job::Job;
use crate::outcome::{Failed, IntoReply, Reply};

type ReplyFuture = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// The queue of a job whose kind and submit name none.
const DEFAULT_QUEUE: &str = "default";

/// One kind of job, erased.
pub(crate) trait Handler<C>: Send + Sync {
    /// The highest payload version it reads.
    fn version(&self) -> u32;
    /// The queue of its jobs when a submit names none.
    fn queue(&self) -> &'static str;
    /// Decodes, validates and runs.
    fn run(&self, payload: Arc<str>, cx: JobContext<C>) -> ReplyFuture;
    /// Asks the kind's retry policy (F7).
    fn ask(&self, attempt: u32, failure: &Failure) -> HookAnswer;
}

struct Typed<J>(PhantomData<fn() -> J>);

impl<C: Send + Sync + 'static, J: Job<Context = C>> Handler<C> for Typed<J> {
    fn version(&self) -> u32 {
        J::VERSION
    }

    fn queue(&self) -> &'static str {
        J::defaults().queue.unwrap_or(DEFAULT_QUEUE)
    }

    fn run(&self, payload: Arc<str>, cx: JobContext<C>) -> ReplyFuture {
        Box::pin(async move {
            match decode::<J>(&payload, cx.is_sealed()) {
                Ok(job) => job.run(cx).await.into_reply(),
                Err(failed) => Reply(Err(failed)),
            }
        })
    }

    fn ask(&self, attempt: u32, failure: &Failure) -> HookAnswer {
        let asked = catch_unwind(AssertUnwindSafe(|| {
            (J::should_retry(attempt, failure), J::delay(attempt, failure))
        }));
        match asked {
            Ok((should_retry, delay)) => {
                HookAnswer { should_retry: Some(should_retry), delay, panicked: false }
            }
            Err(_) => HookAnswer { panicked: true, ..HookAnswer::default() },
        }
    }
}

/// The second and third of the four points where invalid input is found (E11).
///
/// What the decoder says may quote the input, so of a payload that was sealed only the place is told (E12).
fn decode<J: Job>(payload: &str, sealed: bool) -> Result<J, Box<Failed>> {
    let invalid = |error_type: &str, message: String| {
        Failed::plain(
            Failure::new(Cause::Invalid, error_type, message).because("the input can never be handled"),
        )
    };
    let job: J = serde_json::from_str(payload).map_err(|problem| {
        let told = if sealed {
            format!("see line {} column {} of what was sealed", problem.line(), problem.column())
        } else {
            problem.to_string()
        };
        invalid("PayloadDecode", format!("the payload is no {}: {told}", J::KIND))
    })?;
    job.validate().map_err(|problem| invalid("PayloadValidation", problem))?;
    Ok(job)
}

/// Every kind a worker can run.
pub(crate) struct Registry<C> {
    handlers: HashMap<&'static str, Arc<dyn Handler<C>>>,
}

impl<C: Send + Sync + 'static> Registry<C> {
    pub(crate) fn new() -> Self {
        Self { handlers: HashMap::new() }
    }

    pub(crate) fn add<J: Job<Context = C>>(&mut self) {
        self.handlers.insert(J::KIND, Arc::new(Typed::<J>(PhantomData)));
    }

    pub(crate) fn find(&self, kind: &str, version: u32) -> Option<Arc<dyn Handler<C>>> {
        self.handlers.get(kind).filter(|handler| version <= handler.version()).cloned()
    }

    /// The queues that jobs of these kinds go to, each with its kinds, in a stable order.
    pub(crate) fn queues(&self) -> BTreeMap<&'static str, BTreeSet<&'static str>> {
        let mut queues: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (kind, handler) in &self.handlers {
            queues.entry(handler.queue()).or_default().insert(*kind);
        }
        queues
    }

    /// What to tell the store, in a stable order.
    pub(crate) fn known(&self) -> Arc<[KnownKind]> {
        let mut known: Vec<_> = self
            .handlers
            .iter()
            .map(|(kind, handler)| KnownKind { kind: (*kind).into(), version: handler.version() })
            .collect();
        known.sort_by(|a, b| a.kind.cmp(&b.kind));
        known.into()
    }
}
