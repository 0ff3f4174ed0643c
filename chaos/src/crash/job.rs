//! The job of the crash matrix: it does something outside, and its process may die around that.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use backstop::prelude::*;

use super::trap::{CrashTrap, die_once};
use super::{KillPoint, statements};
use crate::journal::{Journal, JournalEntry};
use crate::journal_layer::JournalLayer;
use crate::sabotage::{Bug, SabotagedStore};
use crate::work::policy;
use backstop::Config;
use backstop_core::job::NewJob;
use backstop_store::Submit;

/// Jobs of one batch.
pub const BATCH: usize = 40;

/// Does something outside, which it tells the journal, and answers its label.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EffectJob {
    /// No other job has it. Nothing that its worker writes holds it before the end of the run.
    pub label: String,
    /// Where its process dies, if its first run is to see that.
    pub point: Option<KillPoint>,
}

impl Job for EffectJob {
    const KIND: &'static str = "effect";
    type Context = Arc<Journal>;
    type Output = JobResult<String>;

    async fn run(self, cx: JobContext<Arc<Journal>>) -> JobResult<String> {
        let (lease, run, journal) = (cx.lease(), cx.run_number(), cx.app());
        journal.write(JournalEntry::Began { lease, run });
        self.die_at(KillPoint::LeaseHeld, run);
        if self.point == Some(KillPoint::RetryScheduling) && cx.attempt() == 1 {
            journal.write(JournalEntry::Ended { lease, run });
            return Err(format!("{} fails the first time", self.label).into());
        }
        journal.write(JournalEntry::Effect { job: cx.id(), key: cx.effect_key() });
        self.die_at(KillPoint::AfterEffect, run);
        journal.write(JournalEntry::Ended { lease, run });
        Ok(self.label)
    }
}

impl EffectJob {
    pub(super) fn die_at(&self, point: KillPoint, run: u32) {
        if self.point == Some(point) && run == 1 {
            die_once();
        }
    }

    /// As it is submitted.
    ///
    /// # Panics
    /// When it is refused, which nothing about it asks for.
    #[must_use]
    pub fn new_job(self, engine: &Backstop) -> NewJob {
        let label = self.label.clone();
        let job = engine.enqueue(self).policy(policy()).idempotency_key(label);
        job.into_new_job().expect("it is admitted")
    }
}

/// The label of one job of a batch.
#[must_use]
pub fn batch_label(batch: &str, number: usize) -> String {
    format!("{batch}-{number:02}")
}

/// All jobs of a batch.
#[must_use]
pub fn batch(engine: &Backstop, batch: &str) -> Submit {
    let job = |number| EffectJob { label: batch_label(batch, number), point: None }.new_job(engine);
    Submit { jobs: (0..BATCH).map(job).collect(), atomic: true }
}

/// Opens the store as a process of the matrix does: watched where it is SQLite, and with the bug that it is told of.
///
/// # Errors
/// When the store cannot be opened.
pub async fn open(url: &str, folder: &Path) -> JobResult<(Backstop, Arc<Journal>)> {
    if let Some(trap) = CrashTrap::of_this_process() {
        statements::watch(trap);
    }
    let bug = std::env::var("CHAOS_BUG").ok();
    let bug = bug.map(|name| Bug::named(&name).ok_or(format!("no such bug: {name}"))).transpose()?;
    let journal = Arc::new(Journal::create_in(folder));
    let store = SabotagedStore::over(Backstop::open(url).await?.store().clone(), bug);
    Ok((Backstop::on(JournalLayer::over(store, journal.clone()), Config::default()), journal))
}

/// Runs one job at a time until it dies or is asked to stop.
///
/// # Errors
/// When the store cannot be opened.
pub async fn work(url: &str, folder: &Path, lease: Duration) -> JobResult {
    let (engine, journal) = open(url, folder).await?;
    let worker = engine.worker(journal).register::<EffectJob>().queue("default", 1);
    worker.lease(lease).poll(Duration::from_millis(50)).grace(Duration::from_secs(5)).run().await?;
    Ok(())
}

/// Submits the batch that the environment names, as one.
///
/// # Errors
/// When the store cannot be opened, or it refuses the batch.
pub async fn submit(url: &str, folder: &Path) -> JobResult {
    let (engine, _) = open(url, folder).await?;
    let name = std::env::var("CHAOS_BATCH")?;
    for answer in engine.store().submit(batch(&engine, &name)).await? {
        answer?;
    }
    Ok(())
}
