//! A short campaign inside one process, on a store that may have a bug.
//!
//! Workers that come and go, workers that sleep past their lease, clients that repeat and cancel: enough that every
//! planted bug shows, and nothing that an honest store could not stand. Bugs about workflows have a campaign of their
//! own in [`workflows`].

pub mod workflows;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop::prelude::*;
use backstop::{Config, WorkerHandle};
use backstop_core::failure::{Cause, Decision};
use backstop_core::job::Ending;
use backstop_store::{Claim, ClaimQueue, Finish, KnownKind, ModelStore, NewWorker, Store};

use crate::checker::{self, CampaignReport};
use crate::client::{self, ClientBehaviour};
use crate::errand::SignalJob;
use crate::group::live_jobs;
use crate::journal::{Journal, JournalEntry};
use crate::journal_layer::JournalLayer;
use crate::sabotage::{Bug, SabotagedStore};
use crate::steps::SteppingJob;
use crate::work::{CampaignJob, SLOW, policy};

const LEASE: Duration = Duration::from_millis(200);
/// The lease of those who sleep past it.
const SHORT_LEASE: Duration = Duration::from_millis(120);
const SLEEPERS: u64 = 12;
const CLIENTS: usize = 3;
/// Jobs with durable steps whose first runs fail after a step.
const STEPPING: usize = 12;
/// Twice in a campaign the workers die and others take their place.
const ACTS: usize = 3;
const ACT: Duration = Duration::from_millis(350);
/// An honest store has come to rest long before.
const PATIENCE: Duration = Duration::from_secs(4);

/// What the participants of one campaign share.
struct Stage<'a> {
    store: Arc<dyn Store>,
    folder: &'a Path,
}

/// Runs the campaign on a store in memory, with a bug or without one, and asks the checker.
///
/// # Errors
/// When the store cannot be read.
pub async fn campaign(folder: &Path, bug: Option<Bug>) -> JobResult<CampaignReport> {
    let store = SabotagedStore::over(Arc::new(ModelStore::default()), bug);
    let stage = Stage { store, folder };
    let sleepers: Vec<_> = stage.put_sleepers_to_bed().await?;
    let mut clients = Vec::new();
    let (engine, journal) = stage.enter();
    for _ in 0..STEPPING {
        // A bug may eat the job; the others are enough.
        let _ = engine.enqueue(SteppingJob { number: 5 }).policy(policy()).submit().await;
    }
    clients.push(tokio::spawn(client::watch(engine, journal)));
    for _ in 0..CLIENTS {
        let behaviour = ClientBehaviour { pause_ms: (2, 10), repeat_every: 2, cancel_every: 5 };
        clients.push(tokio::spawn(client::submit(stage.enter().0, behaviour)));
    }
    let mut workers = vec![stage.hire().await?, stage.hire().await?];
    for _ in 1..ACTS {
        tokio::time::sleep(ACT).await;
        // Dropped, not stopped: what it held is found by its lease.
        drop(workers.remove(0));
        workers.push(stage.hire().await?);
    }
    tokio::time::sleep(ACT).await;
    clients.iter().for_each(tokio::task::JoinHandle::abort);
    for sleeper in sleepers {
        sleeper.await?;
    }
    let engine = Backstop::on(stage.store.clone(), Config::default());
    let began = Instant::now();
    while live_jobs(&engine).await > 0 && began.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for worker in workers {
        worker.hurry().cancel();
        worker.stop().await;
    }
    checker::check(&engine, folder).await
}

impl Stage<'_> {
    /// A client with a journal of its own.
    fn enter(&self) -> (Backstop, Arc<Journal>) {
        let journal = Arc::new(Journal::create_in(self.folder));
        (Backstop::on(JournalLayer::over(self.store.clone(), journal.clone()), Config::default()), journal)
    }

    /// Starts a worker.
    async fn hire(&self) -> JobResult<WorkerHandle> {
        let (engine, journal) = self.enter();
        let worker = engine.worker(journal).register::<CampaignJob>().register::<SteppingJob>();
        let worker = worker.register::<SignalJob>().queue("default", 4).prefetch(4);
        let worker = worker.queue("naps", 8).lease(LEASE).poll(Duration::from_millis(10));
        Ok(worker.start().await?)
    }

    /// Workers that claim a job each and fall asleep before anybody else is there.
    async fn put_sleepers_to_bed(&self) -> JobResult<Vec<tokio::task::JoinHandle<()>>> {
        let mut sleepers = Vec::new();
        for number in 0..SLEEPERS {
            let (engine, journal) = self.enter();
            let job = engine.enqueue(CampaignJob { number: SLOW + 3 }).policy(policy()).queue("naps");
            // A bug may eat the job; the others are enough.
            let _ = job.submit().await;
            let Some(finish) = claim_one(&engine, &journal).await? else { continue };
            let sleep = SHORT_LEASE + Duration::from_millis(2 + number * 15);
            sleepers.push(tokio::spawn(async move {
                tokio::time::sleep(sleep).await;
                // Refused by every honest store: the lease has run out.
                let _ = engine.store().finish(vec![finish]).await;
            }));
        }
        Ok(sleepers)
    }
}

/// Takes a job, says that its handler has run, and answers the end that is to be reported.
async fn claim_one(engine: &Backstop, journal: &Journal) -> JobResult<Option<Finish>> {
    let store = engine.store();
    let worker = backstop::worker_id();
    let kinds: Arc<[KnownKind]> = vec![KnownKind { kind: CampaignJob::KIND.into(), version: 1 }].into();
    let (name, queues) = ("sleeper".to_owned(), vec!["naps".into()]);
    let enlist =
        NewWorker { id: worker, name, code_version: None, queues, kinds: kinds.clone(), lease: SHORT_LEASE };
    store.enlist(enlist).await?;
    let queue = ClaimQueue { queue: "naps".into(), limit: 1, start: 1, any_kind: false };
    let claim = Claim {
        worker,
        queues: vec![queue],
        kinds,
        aging: engine.config().aging,
        limits: Default::default(),
    };
    let Some(claimed) = store.claim(claim).await?.jobs.pop() else { return Ok(None) };
    let (lease, run) = (claimed.lease, claimed.record.runs);
    journal.write_all([JournalEntry::Began { lease, run }, JournalEntry::Ended { lease, run }]);
    let ending = Ending::plain(claimed.job.spec.header(), Cause::Succeeded, Decision::succeeded());
    Ok(Some(Finish { lease, ending }))
}
