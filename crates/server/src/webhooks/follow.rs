//! From the outbox to jobs that deliver (V2): what commits of any process have written for a webhook becomes jobs.
//!
//! One process at a time does that for each webhook, under the lease of its sink, and a page of messages becomes jobs
//! in the transaction that removes it: whoever dies when, each message becomes one job.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use backstop::sinks::{
    JobsMade, OutboxMessage, OutboxPage, OutboxPublisher, Sink, SinkProblem, WEBHOOK_SINKS,
};
use backstop::{Backstop, LoopHeartbeat, Refusal};
use backstop_core::job::NewJob;
use backstop_store::{Error as StoreError, QueueView};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::SharedWorker;
use super::backlog::WebhookBacklog;
use super::delivery::{self, QUEUE, WebhookDelivery};
use super::subscription::{self, LIMITS, Subscription};
use crate::api::Api;

/// Deliveries at once.
const CONCURRENCY: usize = 16;

/// How soon a webhook that another process has made or removed is known here.
const RELOAD: Duration = Duration::from_secs(2);

/// How often it looks whether something waits, while there are webhooks.
const LOOK: Duration = Duration::from_millis(250);

/// How long a process may be silent before another one goes on for a webhook, and how long a lease that was renewed is
/// trusted without asking.
const LEASE: Duration = Duration::from_secs(15);
const TRUSTED: Duration = Duration::from_secs(3);

/// How long a webhook is left alone for which another process works, or whose messages cannot become jobs now.
const REST: Duration = Duration::from_secs(1);

/// Documents of the outbox in a page, and pages before the next webhook has its turn.
const PAGE: usize = 100;
const PAGES: usize = 10;

/// Those who ask that the webhooks be read again.
pub(super) type Reloads = mpsc::UnboundedReceiver<oneshot::Sender<()>>;

/// The task that makes jobs of what waits for webhooks.
pub(super) struct WebhookQueue {
    api: Api,
    /// Every webhook, by the name of its sink.
    followed: BTreeMap<String, WebhookOutbox>,
    /// What delivers; none until there is something to deliver.
    worker: SharedWorker,
    /// True once it is known that no other process has left messages.
    looked: bool,
}

/// A webhook, and who makes jobs for it.
struct WebhookOutbox {
    subscription: Subscription,
    publisher: OutboxPublisher,
    /// When its lease was last renewed; none without one.
    held: Option<Instant>,
    /// It is left alone until then.
    rests_until: Option<Instant>,
}

impl WebhookQueue {
    pub(super) fn new(api: Api, worker: SharedWorker) -> Self {
        Self { api, followed: BTreeMap::new(), worker, looked: false }
    }

    /// Runs until nobody can ask it any more.
    pub(super) async fn run(mut self, mut reloads: Reloads, heartbeat: &LoopHeartbeat) {
        let mut tick = tokio::time::interval(RELOAD);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            heartbeat.record();
            tokio::select! {
                asked = reloads.recv() => {
                    let Some(done) = asked else { break };
                    self.reload().await;
                    let _ = done.send(());
                }
                _ = tick.tick() => self.reload().await,
                () = tokio::time::sleep(LOOK), if !self.followed.is_empty() => self.look(heartbeat).await,
            }
        }
        self.release().await;
    }

    /// Lets other processes go on at once.
    async fn release(&mut self) {
        for followed in self.followed.values_mut() {
            if let Err(error) = followed.publisher.release().await {
                tracing::debug!(%error, "a webhook is left to the end of its lease");
            }
        }
    }

    async fn reload(&mut self) {
        if let Err(error) = self.read().await {
            // They stay as they were; the engine's own loops complain of the store.
            tracing::debug!(%error, "webhooks cannot be read at the moment");
        }
        if let Err(error) = self.work().await {
            tracing::warn!(%error, "messages to webhooks wait: what delivers them could not be started");
        }
    }

    /// Reads the webhooks, and sets the sinks of those that have none. What was written for one that is gone, by a
    /// process that knew of webhooks and not of their sinks, is removed.
    async fn read(&mut self) -> Result<(), SinkProblem> {
        let engine = self.api.engine();
        let sinks = engine.sinks();
        // Before the webhooks: a sink is made and removed together with its webhook, so what is known here and is no
        // webhook's any more was removed.
        let known: Vec<Sink> = sinks.known().into_iter().map(|sink| Sink { full: false, ..sink }).collect();
        let stored = subscription::stored(&**engine.store()).await?;
        let names: BTreeSet<String> = stored.iter().map(|(id, _)| subscription::sink_name(id)).collect();
        for sink in known.iter().filter(|sink| sink.webhook().is_some() && !names.contains(&*sink.name)) {
            sinks.remove_with(&sink.name, Vec::new()).await?;
        }
        self.followed.retain(|name, _| names.contains(name));
        for subscription in stored.into_iter().filter_map(|(_, subscription)| subscription) {
            let sink = subscription.sink();
            if !known.contains(&sink) {
                match sinks.set(&sink, LIMITS).await {
                    Ok(()) => {}
                    Err(problem @ SinkProblem::Store(_)) => return Err(problem),
                    // One that can have none holds up no other (C7).
                    Err(problem) => {
                        tracing::error!(%problem, webhook = subscription.id, "a webhook has no sink");
                        continue;
                    }
                }
            }
            let name = sink.name.to_string();
            match self.followed.get_mut(&name) {
                Some(followed) => followed.subscription = subscription,
                None => {
                    let publisher = sinks.publisher(&name).lease(LEASE);
                    let followed = WebhookOutbox { subscription, publisher, held: None, rests_until: None };
                    self.followed.insert(name, followed);
                }
            }
        }
        Ok(())
    }

    /// Starts what delivers, once there is something to deliver. It stays: messages may wait for days.
    async fn work(&mut self) -> Result<(), backstop::Error> {
        let mut courier = self.worker.clone().lock_owned().await;
        if courier.is_some() || (self.followed.is_empty() && !self.left_by_others().await?) {
            return Ok(());
        }
        let engine = self.api.engine();
        let way_out = self.api.settings().reporting.webhooks.clone();
        let worker = engine.worker(delivery::DeliveryContext { engine: engine.clone(), way_out });
        let worker =
            worker.register::<WebhookDelivery>().queue(QUEUE, CONCURRENCY).name("webhooks").start().await?;
        let watched = worker.watch();
        self.api.watch("webhooks", move || watched.health());
        *courier = Some(worker);
        Ok(())
    }

    /// True when messages wait although nobody subscribes any more: they are canceled when their turn comes.
    async fn left_by_others(&mut self) -> Result<bool, backstop::Error> {
        if self.looked {
            return Ok(false);
        }
        let queues = self.api.engine().queues().list().await?;
        let waits = |queue: &QueueView| queue.pending + queue.waiting + queue.running > 0;
        let left = queues.iter().any(|queue| queue.name == QUEUE && waits(queue));
        // What is left is looked for again until something delivers it.
        self.looked = !left;
        Ok(left)
    }

    /// Makes jobs of what waits: one read when nothing does.
    async fn look(&mut self, heartbeat: &LoopHeartbeat) {
        let (engine, counts) = (self.api.engine(), &self.api.reporting().webhooks);
        let waiting = match engine.sinks().waiting(WEBHOOK_SINKS).await {
            Ok(waiting) => waiting,
            Err(error) => return tracing::debug!(%error, "messages to webhooks wait for the store"),
        };
        for name in waiting {
            heartbeat.record();
            // One that another process has made is known here soon.
            let Some(followed) = self.followed.get_mut(&name) else { continue };
            if let Err(error) = followed.hand_over(engine, counts).await {
                tracing::debug!(%error, "messages to a webhook wait for the store");
            }
        }
    }
}

impl WebhookOutbox {
    async fn hand_over(&mut self, engine: &Backstop, counts: &WebhookBacklog) -> Result<(), StoreError> {
        if self.rests_until.is_some_and(|until| Instant::now() < until) {
            return Ok(());
        }
        for _ in 0..PAGES {
            if !self.holds().await? {
                self.rest();
                break;
            }
            let page = self.publisher.next(PAGE).await?;
            if page.is_empty() {
                // What cannot be read waits for a person.
                self.rest();
                break;
            }
            if !self.store(engine, &page, counts).await? || !page.more {
                break;
            }
        }
        Ok(())
    }

    /// Makes jobs of a page, or of as much of it as the queue has room for; false when something of it is left.
    async fn store(
        &mut self,
        engine: &Backstop,
        page: &OutboxPage,
        counts: &WebhookBacklog,
    ) -> Result<bool, StoreError> {
        let mut jobs = self.jobs(engine, &page.messages);
        let mut first = page.messages.len();
        self.held = None;
        loop {
            let batch: Vec<NewJob> = jobs.iter().map(|(_, job)| job.clone()).collect();
            match self.publisher.became(page, first, batch).await? {
                JobsMade::Stored => {
                    self.held = Some(Instant::now());
                    let made = u64::try_from(jobs.len()).unwrap_or(u64::MAX);
                    counts.handed_over.fetch_add(made, Ordering::Relaxed);
                    return Ok(first == page.messages.len());
                }
                JobsMade::Lost => return Ok(false),
                JobsMade::Refused { index, refusal: refusal @ Refusal::QueueFull { .. } } => {
                    first = jobs.get(index).map_or(0, |(position, _)| *position);
                    jobs.truncate(index);
                    if first == 0 {
                        self.publisher.failed(&refusal.to_string()).await?;
                        self.rest();
                        return Ok(false);
                    }
                }
                JobsMade::Refused { index, refusal } => {
                    tracing::error!(%refusal, webhook = self.subscription.id,
                        "a message to a webhook was refused as a job");
                    if index < jobs.len() {
                        jobs.remove(index);
                    } else {
                        jobs.clear();
                    }
                }
            }
        }
    }

    /// The jobs that deliver these messages, each with the place of its message.
    fn jobs(&self, engine: &Backstop, messages: &[OutboxMessage]) -> Vec<(usize, NewJob)> {
        let job = |(position, message): (usize, &OutboxMessage)| {
            let delivery = WebhookDelivery::new(&self.subscription, message)?;
            match engine.enqueue(delivery).into_new_job() {
                Ok(job) => Some((position, job)),
                Err(refusal) => {
                    tracing::error!(%refusal, webhook = self.subscription.id, id = message.id,
                        "a message to a webhook cannot be a job");
                    None
                }
            }
        };
        messages.iter().enumerate().filter_map(job).collect()
    }

    fn rest(&mut self) {
        self.rests_until = Some(Instant::now() + REST);
    }

    /// Holds the lease, which is renewed long before it runs out.
    async fn holds(&mut self) -> Result<bool, StoreError> {
        if self.held.is_some_and(|at| at.elapsed() < TRUSTED) {
            return Ok(true);
        }
        self.held = None;
        let holds = self.publisher.hold().await?;
        self.held = holds.then(Instant::now);
        Ok(holds)
    }
}
