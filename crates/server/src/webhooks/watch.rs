//! Hears of events, and knows who wants them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use backstop::{Event, Events, LoopHeartbeat};
use backstop_store::QueueView;
use tokio::sync::{mpsc, oneshot};

use super::SharedWorker;
use super::delivery::{self, QUEUE, WebhookDelivery};
use super::subscription::{self, Subscription};
use crate::api::Api;

/// Deliveries at once.
const CONCURRENCY: usize = 16;

/// How soon a subscription that another node has made or removed is known here.
const RELOAD: Duration = Duration::from_secs(2);

/// Those who ask that the subscriptions be read again.
type Reloads = mpsc::UnboundedReceiver<oneshot::Sender<()>>;

/// The task that hears of events and picks out what somebody wants.
pub(super) struct EventWatch {
    api: Api,
    messages: mpsc::Sender<WebhookDelivery>,
    subscriptions: Vec<Subscription>,
    /// None while nobody subscribes: then the engine tells nothing.
    events: Option<Events>,
    missed: u64,
    /// What delivers; none until there is something to deliver.
    worker: SharedWorker,
    /// True once it is known that no other process has left messages.
    looked: bool,
}

impl EventWatch {
    pub(super) fn new(api: Api, messages: mpsc::Sender<WebhookDelivery>, worker: SharedWorker) -> Self {
        let (subscriptions, events) = (Vec::new(), None);
        Self { api, messages, subscriptions, events, missed: 0, worker, looked: false }
    }

    /// Runs until nobody can ask it any more.
    pub(super) async fn run(mut self, mut reloads: Reloads, heartbeat: &LoopHeartbeat) {
        let mut tick = tokio::time::interval(RELOAD);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            heartbeat.record();
            tokio::select! {
                asked = reloads.recv() => {
                    let Some(done) = asked else { return };
                    self.reload().await;
                    let _ = done.send(());
                }
                _ = tick.tick() => self.reload().await,
                event = next(&mut self.events) => match event {
                    Some(event) => self.reporting(&event),
                    None => return,
                },
            }
        }
    }

    async fn reload(&mut self) {
        match subscription::all(&**self.api.engine().store()).await {
            Ok(subscriptions) => self.subscriptions = subscriptions,
            // They stay as they were; the engine's own loops complain of the store.
            Err(error) => tracing::debug!(%error, "webhooks cannot be read at the moment"),
        }
        if let Err(error) = self.work().await {
            tracing::warn!(%error, "messages to webhooks wait: what delivers them could not be started");
        }
        if self.subscriptions.is_empty() {
            (self.events, self.missed) = (None, 0);
        } else if self.events.is_none() {
            self.events = Some(self.api.engine().events());
        }
    }

    /// Starts what delivers, once there is something to deliver. It stays: messages may wait for days.
    async fn work(&mut self) -> Result<(), backstop::Error> {
        let mut courier = self.worker.clone().lock_owned().await;
        if courier.is_some() || (self.subscriptions.is_empty() && !self.left_by_others().await?) {
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

    fn reporting(&mut self, event: &Event) {
        let counts = &self.api.reporting().webhooks;
        let missed = self.events.as_ref().map_or(0, Events::missed);
        counts.dropped.fetch_add(missed - self.missed, Ordering::Relaxed);
        self.missed = missed;
        for subscription in &self.subscriptions {
            let Some(view) = subscription.view(event) else { continue };
            counts.waiting.fetch_add(1, Ordering::Relaxed);
            if self.messages.try_send(WebhookDelivery::new(subscription, event, view)).is_err() {
                counts.waiting.fetch_sub(1, Ordering::Relaxed);
                counts.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

async fn next(events: &mut Option<Events>) -> Option<Arc<Event>> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}
