//! Whether messages may become jobs now, as the store tells: asked once in a while for all sources of a process
//! together, however many they are.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use backstop::Backstop;
use backstop_core::circuit::CircuitState;
use backstop_core::health::WorkerReport;
use backstop_store::Error as StoreError;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::Source;
use crate::decide::{self, QueueCondition};

/// What sources of one process know together. Whoever needs to know first asks, and the others wait for the answer.
#[derive(Debug, Default)]
pub(crate) struct SharedLook {
    workers: Mutex<Looked<Arc<Vec<WorkerReport>>>>,
    queues: Mutex<HashMap<Arc<str>, Looked<QueueLook>>>,
    circuits: Mutex<HashMap<String, Looked<Option<CircuitState>>>>,
}

/// How a queue is: paused or not, and how many jobs wait in it.
#[derive(Debug, Clone, Copy, Default)]
struct QueueLook {
    paused: bool,
    pending: u64,
}

/// An answer of the store, and when it came; none before the first.
#[derive(Debug, Clone, Default)]
struct Looked<T> {
    at: Option<Instant>,
    value: T,
}

impl<T: Clone> Looked<T> {
    /// The answer, while it is not older than that.
    fn fresh(&self, age: Duration) -> Option<T> {
        self.at.filter(|at| at.elapsed() < age).map(|_| self.value.clone())
    }

    fn new(value: T) -> Self {
        Self { at: Some(Instant::now()), value }
    }
}

impl SharedLook {
    /// What is known of where the jobs of this source go.
    pub(super) async fn condition(&self, source: &Source) -> Result<QueueCondition, StoreError> {
        let Source { engine, route, times, .. } = source;
        let reports = self.reports(engine, times.look).await?;
        let queue = self.queue(source).await?;
        let config = engine.config();
        let configured = config.kind_dependencies.get(&*route.kind).cloned();
        let circuit = match configured.or_else(|| decide::dependency_of(&route.kind, reports.iter())) {
            Some(key) => self.circuit(engine, &key, times.look).await?.map(|state| (key, state)),
            None => None,
        };
        Ok(QueueCondition {
            paused: queue.paused,
            pending: queue.pending,
            max_depth: config.queues.get(&*route.queue).and_then(|queue| queue.max_depth),
            circuit,
            red: decide::red_for(&route.kind, reports.iter()),
            unanswered: unanswered(source).await?,
        })
    }

    /// What live workers tell.
    async fn reports(&self, engine: &Backstop, age: Duration) -> Result<Arc<Vec<WorkerReport>>, StoreError> {
        let mut known = self.workers.lock().await;
        if let Some(reports) = known.fresh(age) {
            return Ok(reports);
        }
        let mut workers = engine.workers().await?;
        workers.retain(|worker| worker.live);
        let reports = match workers.is_empty() {
            true => Vec::new(),
            false => engine.worker_reports(&workers).await?.into_values().collect(),
        };
        *known = Looked::new(Arc::new(reports));
        Ok(known.value.clone())
    }

    async fn queue(&self, source: &Source) -> Result<QueueLook, StoreError> {
        let Source { engine, route, times, .. } = source;
        let mut queues = self.queues.lock().await;
        if let Some(queue) = queues.get(&route.queue).and_then(|known| known.fresh(times.look)) {
            return Ok(queue);
        }
        let mut range = backstop::queue::QueueRange::under(&*route.queue);
        range.limit = Some(1);
        let page = engine.queues().page(range).await?;
        let view = page.items.first().filter(|view| view.name == *route.queue);
        let queue =
            view.map(|view| QueueLook { paused: view.paused, pending: view.pending }).unwrap_or_default();
        queues.insert(route.queue.clone(), Looked::new(queue));
        Ok(queue)
    }

    async fn circuit(
        &self,
        engine: &Backstop,
        key: &str,
        age: Duration,
    ) -> Result<Option<CircuitState>, StoreError> {
        let mut circuits: MutexGuard<'_, HashMap<_, _>> = self.circuits.lock().await;
        if let Some(state) = circuits.get(key).and_then(|known: &Looked<_>| known.fresh(age)) {
            return Ok(state);
        }
        let state = engine.circuits().get(key).await?.map(|view| view.circuit.state);
        circuits.insert(key.to_owned(), Looked::new(state));
        Ok(state)
    }
}

/// Why the jobs of more messages could not be answered, if a sink answers them.
async fn unanswered(source: &Source) -> Result<Option<String>, StoreError> {
    let Some((sink, _)) = &source.answered_by else { return Ok(None) };
    let view = source.engine.sinks().show(&sink.name).await?;
    Ok(view.as_ref().and_then(decide::unanswered))
}
