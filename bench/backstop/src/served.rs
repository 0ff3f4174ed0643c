//! The queues of a phase: their names, the worker that serves them all, and what their counts say.

use backstop::prelude::*;
use backstop::{WorkerBuilder, WorkerHandle};
use backstop_contest::{DriverCall, DriverError, RunCount};
use backstop_store::QueueView;

use crate::work::{HandlerBehaviour, HandlerState, Work};

/// Runs at once. Handlers that wait for nothing need no more than what one claim brings.
pub(crate) const CONCURRENCY: usize = 3_000;

/// The queue of every phase that is not about queues.
pub(crate) const QUEUE: &str = "default";

/// Counts the jobs of a queue that have ended in one way.
pub(crate) type EndedCounter = fn(&QueueView) -> u64;

/// The queues that the worker serves.
pub(crate) struct ServedQueues {
    names: Vec<String>,
    filled: usize,
}

impl ServedQueues {
    /// As many as the command line asks for.
    pub(crate) fn new(arguments: &DriverCall) -> Self {
        let names = match arguments.queues {
            1 => vec![QUEUE.to_owned()],
            many => (0..many).map(|number| format!("queue-{number:03}")).collect(),
        };
        Self { names, filled: arguments.filled }
    }

    /// The queue of the job of this number: those that have jobs at all have equally many.
    pub(crate) fn queue_of(&self, number: usize) -> &str {
        self.names.get(number % self.filled).map_or(QUEUE, String::as_str)
    }

    /// Starts the worker. Those queues that have jobs share the runs at once; the others could have as many.
    pub(crate) async fn worker(
        &self,
        engine: &Backstop,
        tally: &RunCount,
        mood: HandlerBehaviour,
    ) -> Result<WorkerHandle, DriverError> {
        let each = (CONCURRENCY / self.filled).max(1);
        let worker = engine.worker(HandlerState::new(tally, mood)).register::<Work>();
        let serve = |worker: WorkerBuilder<HandlerState>, name: &String| worker.queue(name.as_str(), each);
        Ok(self.names.iter().fold(worker, serve).start().await?)
    }

    /// How many jobs of all queues have ended like this, by the engine's own counts.
    pub(crate) async fn count(&self, engine: &Backstop, ended: EndedCounter) -> Result<usize, DriverError> {
        let queues = engine.queues().list().await?;
        let own = queues.iter().filter(|queue| self.names.contains(&queue.name));
        Ok(own.map(|queue| usize::try_from(ended(queue)).unwrap_or(0)).sum())
    }
}
