//! An engine on the model store, jobs that die of what they are told, and a channel that can be in any mood.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backstop::prelude::*;
use backstop::{
    AlertChannel, AlertError, AlertFuture, AlertLog, AlertMessage, Alerts, Config, JobId, WorkerId, worker_id,
};
use backstop_core::alert::Notice;
use backstop_core::failure::Fingerprint;
use backstop_core::incident::{IncidentUpdate, IncidentVerb};
use backstop_store::{Amend, Amended, DocumentRange, Drawer, Edit, Expect, ManualClock, ModelStore, Store};

pub(crate) const TERM: Duration = Duration::from_secs(30);

/// A job that dies at once, of these words; without any it ends well.
#[derive(Serialize, Deserialize)]
pub(crate) struct Die {
    of: String,
}

impl Job for Die {
    const KIND: &'static str = "die";
    type Context = ();
    type Output = JobResult;

    async fn run(self, _: JobContext<()>) -> JobResult {
        if self.of.is_empty() { Ok(()) } else { Err(Outcome::permanent(self.of))? }
    }
}

pub(crate) fn die(of: &str) -> Die {
    Die { of: of.to_owned() }
}

/// How a channel behaves.
#[derive(Clone, Default)]
pub(crate) enum Mood {
    #[default]
    Listens,
    Refuses(&'static str),
    Hangs,
    Panics,
    /// Hears, and loses the leadership to another node before that can be written down.
    LosesItsNode(Arc<dyn Store>, ManualClock),
}

/// A channel that remembers what it was told. Clones share everything.
#[derive(Clone, Default)]
pub(crate) struct Ear {
    name: &'static str,
    heard: Arc<Mutex<Vec<AlertMessage>>>,
    tries: Arc<Mutex<u32>>,
    mood: Arc<Mutex<Mood>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ear {
    pub(crate) fn named(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    pub(crate) fn mood(&self, mood: Mood) -> Self {
        *lock(&self.mood) = mood;
        self.clone()
    }

    pub(crate) fn heard(&self) -> Vec<AlertMessage> {
        lock(&self.heard).clone()
    }

    pub(crate) fn counts(&self) -> Vec<u64> {
        self.heard().iter().map(|message| message.count).collect()
    }

    pub(crate) fn tries(&self) -> u32 {
        *lock(&self.tries)
    }

    async fn hear(&self, message: &AlertMessage) -> Result<(), AlertError> {
        *lock(&self.tries) += 1;
        let mood = lock(&self.mood).clone();
        match mood {
            Mood::Listens => {}
            Mood::Refuses(why) => return Err(AlertError::new(why)),
            Mood::Hangs => std::future::pending().await,
            Mood::Panics => panic!("the channel's own bug"),
            Mood::LosesItsNode(store, clock) => {
                clock.advance(TERM * 2);
                let duties = vec![backstop_store::Duty::Alert];
                store.lead(worker_id(), duties, TERM).await.expect("the model is there");
            }
        }
        lock(&self.heard).push(message.clone());
        Ok(())
    }
}

impl AlertChannel for Ear {
    fn name(&self) -> &str {
        self.name
    }

    fn deliver<'a>(&'a self, message: &'a AlertMessage) -> AlertFuture<'a> {
        Box::pin(self.hear(message))
    }
}

/// An engine whose only node is the test.
pub(crate) struct Stage {
    pub(crate) engine: Backstop,
    pub(crate) clock: ManualClock,
    pub(crate) node: WorkerId,
}

impl Stage {
    pub(crate) fn new(channels: impl IntoIterator<Item = Ear>) -> Self {
        let alerts = channels.into_iter().fold(Alerts::default(), Alerts::channel);
        Self::with(alerts)
    }

    pub(crate) fn with(alerts: Alerts) -> Self {
        let clock = ManualClock::default();
        let store: Arc<dyn Store> = Arc::new(ModelStore::new(Arc::new(clock.clone())));
        Self { engine: Backstop::on(store, Config::default().alerts(alerts)), clock, node: worker_id() }
    }

    /// Runs a job to its death for each of these words.
    pub(crate) async fn kill(&self, of: &[&str]) -> Vec<JobId> {
        let jobs = of.iter().map(|of| self.engine.enqueue(die(of))).collect();
        let stored = self.engine.submit_all(jobs, true).await.expect("the model is there");
        self.work().await;
        stored.into_iter().map(|answer| answer.expect("admitted").id).collect()
    }

    pub(crate) async fn work(&self) {
        let worker = self.engine.worker(()).register::<Die>().queue("default", 50).inline();
        worker.expect("a worker").drain(10_000).await.expect("the model is there");
    }

    pub(crate) async fn maintain(&self) {
        self.engine.maintain(self.node, TERM).await.expect("the model is there");
    }

    /// Lets time pass, and does what a node would do then.
    pub(crate) async fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
        self.maintain().await;
    }

    /// Another process on the same store, with these channels.
    pub(crate) fn restart(&self, channels: impl IntoIterator<Item = Ear>) -> Self {
        let alerts = channels.into_iter().fold(Alerts::default(), Alerts::channel);
        let engine = Backstop::on(self.engine.store().clone(), Config::default().alerts(alerts));
        Self { engine, clock: self.clock.clone(), node: worker_id() }
    }

    pub(crate) async fn say(&self, incident: &str, verb: IncidentVerb) {
        let known: Fingerprint = incident.parse().expect("a fingerprint");
        let statement = IncidentUpdate { verb, by: "ann".into(), note: None };
        let said = self.engine.store().say(vec![known], statement).await.expect("the model is there");
        assert!(said[0].is_some(), "the incident is known");
    }

    /// The log of the only channel.
    pub(crate) async fn log(&self, incident: &str) -> AlertLog {
        self.engine.incidents().alert_logs(incident).await.expect("the model is there").remove(0)
    }

    /// How many alerts wait in the outbox.
    pub(crate) async fn outbox(&self) -> usize {
        let range = DocumentRange::first(Drawer::Alerts, 1_000);
        self.engine.store().documents(range).await.expect("the model is there").items.len()
    }

    /// Puts copies of the only waiting alert into the outbox, as if more jobs had died of it.
    pub(crate) async fn copy_notice(&self, copies: u32) {
        let store = self.engine.store();
        let found =
            store.documents(DocumentRange::first(Drawer::Alerts, 1)).await.expect("the model is there");
        let mut notice: Notice = serde_json::from_str(&found.items[0].body).expect("a notice");
        for batch in (0..copies).collect::<Vec<_>>().chunks(5_000) {
            let edits = batch.iter().map(|_| {
                notice.job = backstop::job_id();
                let body = serde_json::to_string(&notice).expect("plain data").into();
                Edit { drawer: Drawer::Alerts, key: notice.key(), expect: Expect::Absent, body: Some(body) }
            });
            let amend = Amend { edits: edits.collect(), ..Amend::default() };
            assert!(matches!(store.amend(amend).await, Ok(Amended::Done { .. })));
        }
    }
}
