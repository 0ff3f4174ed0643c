//! The kinds of a worker, each bound to the application's own context: from here on nothing depends on its type, so the
//! loops of a worker are compiled once, with this crate, and not again in every application.

use std::collections::HashMap;
use std::sync::Arc;

use backstop_core::failure::{Failure, HookAnswer};
use backstop_store::KnownKind;

use crate::context::{JobContext, Run};
use crate::registry::{Handler, Registry, ReplyFuture};

/// One kind of job, ready to run.
pub(crate) trait KindHandler: Send + Sync {
    /// Decodes, validates and runs.
    fn run(&self, payload: Arc<str>, run: Arc<Run>) -> ReplyFuture;
    /// Asks the kind's retry policy (F7).
    fn ask(&self, attempt: u32, failure: &Failure) -> HookAnswer;
}

struct Bound<C> {
    handler: Arc<dyn Handler<C>>,
    app: Arc<C>,
}

impl<C: Send + Sync + 'static> KindHandler for Bound<C> {
    fn run(&self, payload: Arc<str>, run: Arc<Run>) -> ReplyFuture {
        self.handler.run(payload, JobContext::new(self.app.clone(), run))
    }

    fn ask(&self, attempt: u32, failure: &Failure) -> HookAnswer {
        self.handler.ask(attempt, failure)
    }
}

/// A kind that a worker can run.
struct WorkerKind {
    /// The highest payload version that it reads.
    version: u32,
    handler: Arc<dyn KindHandler>,
}

/// See the module.
pub(crate) struct WorkerKinds(HashMap<&'static str, WorkerKind>);

impl WorkerKinds {
    /// The kinds of a registry, with the context that their handlers share.
    pub(crate) fn new<C: Send + Sync + 'static>(registry: Registry<C>, app: &Arc<C>) -> Self {
        let kinds = registry.into_handlers().map(|(kind, handler)| {
            let version = handler.version();
            (kind, WorkerKind { version, handler: Arc::new(Bound { handler, app: app.clone() }) })
        });
        Self(kinds.collect())
    }

    pub(crate) fn find(&self, kind: &str, version: u32) -> Option<Arc<dyn KindHandler>> {
        self.0.get(kind).filter(|found| version <= found.version).map(|found| found.handler.clone())
    }

    /// What to tell the store, in a stable order.
    pub(crate) fn known(&self) -> Arc<[KnownKind]> {
        let known =
            self.0.iter().map(|(kind, found)| KnownKind { kind: (*kind).into(), version: found.version });
        let mut known: Vec<_> = known.collect();
        known.sort_by(|a, b| a.kind.cmp(&b.kind));
        known.into()
    }
}
