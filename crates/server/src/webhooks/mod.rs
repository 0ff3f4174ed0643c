//! Events by webhook (V2): from the commit to a job that delivers.
//!
//! An event that somebody subscribed to becomes a job of our own engine; from then on nothing is lost, and a receiver
//! that is away delays nothing but its own messages. Between the commit and that job lies a bounded queue in memory:
//! what is in it when the process dies is lost, and what does not fit is dropped and counted.

mod delivery;
pub(crate) mod subscription;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop::figures::{Family, Sample, Sort, float};
use backstop::{Backstop, Event, Events, WorkerHandle};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::api::Api;
use delivery::{Carrier, Courier, Delivery, Http, QUEUE};
use subscription::Subscription;

/// Messages that wait to become jobs at most.
const BACKLOG: usize = 10_000;

/// Messages that become jobs in one commit at most.
const BATCH: usize = 200;

/// Deliveries at once.
const CONCURRENCY: usize = 16;

/// How soon a subscription that another node has made or removed is known here.
const RELOAD: Duration = Duration::from_secs(2);

const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How long the last messages of a server that stops may take to become jobs.
const LAST_MESSAGES: Duration = Duration::from_secs(5);

/// Asks the hand-over to read the subscriptions anew; it answers when it has.
type Ask = mpsc::UnboundedSender<oneshot::Sender<()>>;

/// What requests and figures know of the hand-over.
#[derive(Debug, Default)]
pub(crate) struct HandOver {
    /// Asks the hand-over to read the subscriptions anew; none while it does not run here.
    reload: Mutex<Option<Ask>>,
    waiting: AtomicU64,
    handed_over: AtomicU64,
    dropped: AtomicU64,
}

impl HandOver {
    /// Resolves when the hand-over of this process knows the subscriptions as they are now.
    pub(crate) async fn reload(&self) {
        let (done, known) = oneshot::channel();
        let asked = self.lock().as_ref().is_some_and(|reload| reload.send(done).is_ok());
        if asked {
            // A hand-over that stops in between knows nothing any more, and need not.
            let _ = known.await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Ask>> {
        self.reload.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn families(&self) -> Vec<Family> {
        let family = |name, help, sort, number: &AtomicU64| {
            let value = float(number.load(Ordering::Relaxed));
            Family::new(name, help, sort, vec![Sample::number(vec![], value)])
        };
        vec![
            family(
                "backstop_webhook_backlog",
                "Messages that wait to become jobs.",
                Sort::Gauge,
                &self.waiting,
            ),
            family(
                "backstop_webhook_messages_total",
                "Messages that became jobs.",
                Sort::Counter,
                &self.handed_over,
            ),
            family(
                "backstop_webhook_dropped_total",
                "Events that no subscriber will get, because they came faster than they were stored.",
                Sort::Counter,
                &self.dropped,
            ),
        ]
    }
}

/// Deliveries under way. Dropping it stops them without waiting.
pub struct Webhooks {
    api: Api,
    worker: WorkerHandle,
    watch: JoinHandle<()>,
    hand_over: JoinHandle<()>,
}

impl std::fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhooks").finish_non_exhaustive()
    }
}

impl Api {
    /// Starts to deliver events to those who subscribed by webhook: what is committed through this process, and what
    /// other processes have left.
    ///
    /// # Errors
    /// When the worker cannot be started.
    pub async fn deliver_webhooks(&self) -> Result<Webhooks, backstop::Error> {
        Webhooks::start(self.clone(), Box::new(Http)).await
    }
}

impl Webhooks {
    async fn start(api: Api, carrier: Box<dyn Carrier>) -> Result<Self, backstop::Error> {
        let engine = api.engine().clone();
        let courier = Courier { engine: engine.clone(), carrier };
        let worker = engine.worker(courier).register::<Delivery>().queue(QUEUE, CONCURRENCY);
        let worker = worker.name("webhooks").start().await?;
        let watched = worker.watch();
        api.watch("webhooks", move || watched.health());
        let (messages, waiting) = mpsc::channel(BACKLOG);
        let (reload, reloads) = mpsc::unbounded_channel();
        *api.tell().webhooks.lock() = Some(reload);
        let watch = Watch { api: api.clone(), messages, subscriptions: Vec::new(), events: None, missed: 0 };
        let watch = tokio::spawn(watch.run(reloads));
        api.tell().webhooks.reload().await;
        let hand_over = tokio::spawn(hand_over(api.clone(), waiting));
        Ok(Self { api, worker, watch, hand_over })
    }

    /// Stops: what has been told becomes jobs, deliveries under way may end, the rest is for later.
    pub async fn stop(self) {
        let Self { api, worker, watch, hand_over } = self;
        *api.tell().webhooks.lock() = None;
        watch.abort();
        let mut hand_over = hand_over;
        if tokio::time::timeout(LAST_MESSAGES, &mut hand_over).await.is_err() {
            hand_over.abort();
        }
        worker.stop().await;
    }
}

/// The task that hears of events and picks out what somebody wants.
struct Watch {
    api: Api,
    messages: mpsc::Sender<Delivery>,
    subscriptions: Vec<Subscription>,
    /// None while nobody subscribes: then the engine tells nothing.
    events: Option<Events>,
    missed: u64,
}

impl Watch {
    async fn run(mut self, mut reloads: mpsc::UnboundedReceiver<oneshot::Sender<()>>) {
        let mut tick = tokio::time::interval(RELOAD);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                asked = reloads.recv() => {
                    let Some(done) = asked else { return };
                    self.reload().await;
                    let _ = done.send(());
                }
                _ = tick.tick() => self.reload().await,
                event = next(&mut self.events) => match event {
                    Some(event) => self.tell(&event),
                    None => return,
                },
            }
        }
    }

    async fn reload(&mut self) {
        match subscription::all(&**self.api.engine().store()).await {
            Ok(subscriptions) => self.subscriptions = subscriptions,
            // They stay as they were; the engine's own loops complain of the store.
            Err(error) => tracing::debug!(%error, "webhooks cannot be read for the moment"),
        }
        if self.subscriptions.is_empty() {
            (self.events, self.missed) = (None, 0);
        } else if self.events.is_none() {
            self.events = Some(self.api.engine().events());
        }
    }

    fn tell(&mut self, event: &Event) {
        let counts = &self.api.tell().webhooks;
        let missed = self.events.as_ref().map_or(0, Events::missed);
        counts.dropped.fetch_add(missed - self.missed, Ordering::Relaxed);
        self.missed = missed;
        for subscription in &self.subscriptions {
            let Some(view) = subscription.view(event) else { continue };
            counts.waiting.fetch_add(1, Ordering::Relaxed);
            if self.messages.try_send(Delivery::new(subscription, event, view)).is_err() {
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

/// Makes jobs of messages until there are no more to come.
async fn hand_over(api: Api, mut waiting: mpsc::Receiver<Delivery>) {
    let mut batch = Vec::new();
    while waiting.recv_many(&mut batch, BATCH).await > 0 {
        store(api.engine(), &batch).await;
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let counts = &api.tell().webhooks;
        counts.waiting.fetch_sub(count, Ordering::Relaxed);
        counts.handed_over.fetch_add(count, Ordering::Relaxed);
        batch.clear();
    }
}

/// Stores messages as jobs, however often that has to be tried. A repeat keeps the message's id.
async fn store(engine: &Backstop, batch: &[Delivery]) {
    let mut pause = PAUSE_MIN;
    loop {
        let jobs = batch.iter().map(|delivery| engine.enqueue(delivery.clone())).collect();
        match engine.submit_all(jobs, false).await {
            Ok(answers) => {
                for refusal in answers.into_iter().filter_map(Result::err) {
                    tracing::error!(%refusal, "a message to a webhook was refused as a job");
                }
                return;
            }
            Err(error) => {
                tracing::warn!(%error, messages = batch.len(), "messages to webhooks wait for the store");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }
}
