//! Queues whose jobs nobody would run: said before somebody wonders why nothing happens.

use backstop_store::QueueView;

use crate::client::Client;
use crate::config::Settings;
use crate::output::figures::counted;
use crate::problem::Problem;

/// The queue of a job that names none.
const DEFAULT: &str = "default";

/// What the settings alone say: queues with a section and without a slot.
pub(super) fn by_settings(settings: &Settings) -> Vec<String> {
    let idle = settings.queues.iter().filter(|(_, concurrency)| **concurrency == 0);
    idle.map(|(queue, _)| {
        if queue == DEFAULT {
            "queue `default` has concurrency 0: jobs that name no queue wait for another worker".to_owned()
        } else {
            format!("queue `{queue}` has concurrency 0: `backstop up` does not serve it")
        }
    })
    .collect()
}

/// Queues with jobs to run that no live worker serves and that these settings do not serve either.
pub(super) async fn by_store(client: &Client, settings: &Settings) -> Result<Vec<String>, Problem> {
    let queues: Vec<QueueView> = client.list("/api/v1/queues").await?;
    Ok(of(&queues, |queue| settings.queues.get(queue).is_some_and(|concurrency| *concurrency > 0)))
}

/// The same for queues as the store has them.
pub(super) fn of(queues: &[QueueView], is_served: impl Fn(&str) -> bool) -> Vec<String> {
    let jobs = |queue: &QueueView| queue.pending + queue.waiting;
    let alone =
        queues.iter().filter(|queue| queue.workers == 0 && jobs(queue) > 0 && !is_served(&queue.name));
    alone
        .map(|queue| {
            let (name, waiting) = (&queue.name, counted(jobs(queue), "job"));
            let next = format!("add [queues.{name}] or start a worker");
            format!("queue `{name}` has {waiting} to run and no worker serves it: {next}")
        })
        .collect()
}
