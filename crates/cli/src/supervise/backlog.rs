//! What waits and runs, look by look. A look that takes long keeps nobody from being started or stopped.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backstop_server::shape::{QueueScale, Worker};
use tokio::sync::mpsc;

use crate::client::{Client, query};
use crate::commands::worker::WORKERS;
use crate::problem::Problem;

const SCALE: &str = "/api/v1/scale";

/// Queues that the engine keeps for itself, which no program serves.
const RESERVED: &str = "backstop.";

/// How long a look may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where to look, and for which queues.
#[derive(Debug)]
pub(crate) struct Backlog {
    /// All of them, if none is named.
    pub(crate) queues: Vec<String>,
    /// How often.
    pub(crate) every: Duration,
}

/// What one look has found.
#[derive(Debug)]
pub(super) struct BacklogLook {
    pub(super) queues: Result<Vec<QueueScale>, Problem>,
    /// The ids of live workers, when somebody wants to know and they could be read.
    pub(super) workers: Option<BTreeSet<String>>,
}

/// Looks, one after the other.
pub(super) struct BacklogLooks {
    backlog: Arc<Backlog>,
    client: Arc<Client>,
    looks: mpsc::Receiver<BacklogLook>,
    with_workers: Arc<AtomicBool>,
}

impl BacklogLooks {
    /// Begins to look.
    pub(super) fn begin(backlog: Backlog, client: Arc<Client>) -> Self {
        let (backlog, with_workers) = (Arc::new(backlog), Arc::new(AtomicBool::new(false)));
        let looks = look(&backlog, &client, &with_workers);
        Self { backlog, client, looks, with_workers }
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> BacklogLook {
        loop {
            if let Some(look) = self.looks.recv().await {
                return look;
            }
            // It looks as long as there is somebody to tell, so it has panicked. The first look is a while away.
            tracing::error!("the task that watches the backlog panicked; starting it again");
            self.looks = look(&self.backlog, &self.client, &self.with_workers);
        }
    }

    /// Whether looks tell of workers too.
    pub(super) fn tell_workers(&self, wanted: bool) {
        self.with_workers.store(wanted, Ordering::Relaxed);
    }
}

fn look(
    backlog: &Arc<Backlog>,
    client: &Arc<Client>,
    with_workers: &Arc<AtomicBool>,
) -> mpsc::Receiver<BacklogLook> {
    let (to, looks) = mpsc::channel(1);
    tokio::spawn(look_on(backlog.clone(), client.clone(), with_workers.clone(), to));
    looks
}

async fn look_on(
    backlog: Arc<Backlog>,
    client: Arc<Client>,
    with_workers: Arc<AtomicBool>,
    to: mpsc::Sender<BacklogLook>,
) {
    loop {
        tokio::time::sleep(backlog.every).await;
        let queues = in_time(backlog.read(&client)).await;
        let workers = if with_workers.load(Ordering::Relaxed) {
            in_time(client.list::<Worker>(WORKERS)).await.ok().map(live)
        } else {
            None
        };
        if to.send(BacklogLook { queues, workers }).await.is_err() {
            return;
        }
    }
}

impl Backlog {
    async fn read(&self, client: &Client) -> Result<Vec<QueueScale>, Problem> {
        if self.queues.is_empty() {
            let mut all: Vec<QueueScale> = client.list(SCALE).await?;
            all.retain(|row| !row.queue.starts_with(RESERVED));
            return Ok(all);
        }
        let mut found = Vec::with_capacity(self.queues.len());
        for queue in &self.queues {
            let path = format!("{SCALE}{}", query([("queue", Some(queue.clone()))]));
            let page: backstop_server::shape::ScaleView = client.get(&path).await?;
            found.extend(page.items);
        }
        Ok(found)
    }
}

fn live(workers: Vec<Worker>) -> BTreeSet<String> {
    workers.into_iter().filter(|worker| worker.live).map(|worker| worker.id.to_string()).collect()
}

async fn in_time<T>(call: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
    tokio::time::timeout(PATIENCE, call)
        .await
        .unwrap_or_else(|_| Err(Problem::failed("no_answer", "no answer within 10 s")))
}

#[cfg(test)]
mod tests {
    use backstop::Backstop;

    use super::*;

    #[tokio::test]
    async fn a_watcher_that_has_panicked_is_started_again() {
        // H9, H11
        let engine = Backstop::open("memory:").await.expect("memory");
        let client = Arc::new(Client::here(engine, &[], "ann".to_owned()));
        let backlog = Backlog { queues: Vec::new(), every: Duration::from_millis(1) };
        let mut looks = BacklogLooks::begin(backlog, client);
        assert!(looks.next().await.queues.is_ok());
        // As if it had panicked: nobody is there who would tell of another look.
        (_, looks.looks) = mpsc::channel(1);
        looks.tell_workers(true);
        let look = looks.next().await;
        assert!(look.queues.is_ok() && look.workers.is_some(), "the new one knows what is wanted of it");
    }
}
