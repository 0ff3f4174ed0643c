//! The kinds of a worker, each bound to the application's own context: from here on nothing depends on its type, so the
//! loops of a worker are compiled once, with this crate, and not again in every application.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use backstop_core::Refusal;
use backstop_core::circuit::KindDependency;
use backstop_core::failure::{Failure, HookAnswer};
use backstop_core::job::Spec;
use backstop_store::KnownKind;

use crate::bulk::calls::BulkCalls;
use crate::config::Config;
use crate::context::{JobContext, Run};
use crate::error::Error;
use crate::isolate::settings::IsolationSettings;
use crate::registry::{Handler, Registry, ReplyFuture};

/// One kind of job, ready to run.
pub(crate) trait KindHandler: Send + Sync {
    /// Decodes, validates and runs.
    fn run(&self, payload: Arc<str>, run: Arc<Run>) -> ReplyFuture;
    /// Asks the kind's retry policy (F7).
    fn ask(&self, attempt: u32, failure: &Failure) -> HookAnswer;
}

impl dyn KindHandler {
    /// The same, inside the span that what it says through `tracing` is found by (F15).
    pub(crate) fn run_logged(&self, payload: Arc<str>, run: &Arc<Run>) -> ReplyFuture {
        let reply = self.run(payload, run.clone());
        #[cfg(feature = "run-log")]
        let reply = Box::pin(tracing::Instrument::instrument(reply, crate::run_log::span(run)));
        reply
    }
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
#[derive(Clone)]
pub(crate) struct HandledKind {
    /// The highest payload version that it reads.
    version: u32,
    pub(crate) handler: Arc<dyn KindHandler>,
    /// How many of its jobs are handled in one call (W12).
    pub(crate) bulk: Option<Arc<BulkCalls>>,
    /// Which of its runs have a process of their own (E2).
    pub(crate) isolation: IsolationSettings,
    /// What it needs that may be away (H1), and where its payload says which one of several (H3).
    dependency: Option<Arc<str>>,
    dependency_from: Option<Arc<str>>,
}

impl HandledKind {
    pub(crate) fn need(&self) -> Option<KindDependency> {
        let (name, from) = (self.dependency.clone()?, self.dependency_from.clone());
        Some(KindDependency { name, from })
    }
}

/// See the module. Clones share everything.
#[derive(Clone)]
pub(crate) struct WorkerKinds(Arc<HashMap<&'static str, HandledKind>>);

impl WorkerKinds {
    /// The kinds of a registry, with the context that their handlers share and what operators say of them.
    pub(crate) fn new<C: Send + Sync + 'static>(
        registry: Registry<C>,
        app: &Arc<C>,
        config: &Config,
        stuck_after: Duration,
    ) -> Self {
        let kinds = registry.into_handlers().map(|(kind, handler)| {
            let operators = config.isolation.get(kind).copied().unwrap_or_default();
            let isolation = operators.or(handler.isolation());
            let named = config.kind_dependencies.get(kind).map(String::as_str).or(handler.dependency());
            let (version, dependency) = (handler.version(), named.map(Arc::from));
            let pointer = config.dependency_fields.get(kind).map(String::as_str);
            let dependency_from = pointer.or(handler.dependency_from()).map(Arc::from);
            let bulk = handler.bulk().map(|bulk| BulkCalls::new(bulk.bound(app.clone()), stuck_after));
            let handler = Arc::new(Bound { handler, app: app.clone() });
            (kind, HandledKind { version, handler, bulk, isolation, dependency, dependency_from })
        });
        Self(Arc::new(kinds.collect()))
    }

    pub(crate) fn find(&self, kind: &str, version: u32) -> Option<HandledKind> {
        self.0.get(kind).filter(|found| version <= found.version).cloned()
    }

    /// How many jobs like this one call can have: one, unless its kind is a bulk kind (W12).
    pub(crate) fn most_together(&self, spec: &Spec) -> usize {
        let bulk = self.find(&spec.kind, spec.version).and_then(|found| found.bulk);
        bulk.map_or(1, |calls| calls.most())
    }

    /// What to tell the store, in a stable order.
    pub(crate) fn known(&self) -> Arc<[KnownKind]> {
        let known =
            self.0.iter().map(|(kind, found)| KnownKind { kind: (*kind).into(), version: found.version });
        let mut known: Vec<_> = known.collect();
        known.sort_by(|a, b| a.kind.cmp(&b.kind));
        known.into()
    }

    /// Which dependency each of them needs, of those that need one (H1).
    pub(crate) fn needs(&self) -> BTreeMap<String, KindDependency> {
        let needs = |(kind, found): (&&'static str, &HandledKind)| Some(((*kind).to_owned(), found.need()?));
        self.0.iter().filter_map(needs).collect()
    }

    /// Refuses pointers that lead nowhere.
    fn check_pointers(&self) -> Result<(), Error> {
        for (kind, found) in self.0.iter() {
            let Some(pointer) = &found.dependency_from else { continue };
            let named = found.dependency.as_ref().map(drop).ok_or_else(|| {
                let problem = "it needs `dependency` beside it: the name that its values follow";
                Refusal::invalid("dependency_from", problem)
            });
            named
                .and_then(|()| KindDependency::check_pointer(pointer))
                .map_err(|problem| Error::Configuration { what: format!("kind `{kind}`"), problem })?;
        }
        Ok(())
    }

    /// Refuses bulk kinds that are to be isolated: a process of its own is for one run.
    fn check_bulk(&self) -> Result<(), Error> {
        let both = |found: &HandledKind| found.bulk.is_some() && found.isolation.may_isolate();
        match self.0.iter().filter(|(_, found)| both(found)).map(|(kind, _)| *kind).min() {
            None => Ok(()),
            Some(kind) => {
                let problem =
                    "one call handles many of its jobs: remove `isolate`, or handle them one by one";
                Err(Error::Isolation { kind: kind.to_owned(), problem: problem.to_owned() })
            }
        }
    }

    /// Refuses limits that would have no effect, and settings that exclude each other.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.check_pointers()?;
        self.check_bulk()?;
        match self.0.iter().filter(|(_, found)| found.isolation.limits_nothing()).map(|(kind, _)| *kind).min()
        {
            None => Ok(()),
            Some(kind) => {
                let problem = "it has limits and is never isolated: set `isolate`, or remove the limits";
                Err(Error::Isolation { kind: kind.to_owned(), problem: problem.to_owned() })
            }
        }
    }

    /// Those of which some runs have a process of their own, in a stable order.
    pub(crate) fn isolated(&self) -> BTreeMap<&'static str, IsolationSettings> {
        let all = self.0.iter().map(|(kind, found)| (*kind, found.isolation));
        all.filter(|(_, isolation)| isolation.may_isolate()).collect()
    }
}
