//! A running worker: starts its loops, and stops them in order (L18).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop_core::failure::Cause;
use backstop_core::{JobId, Lease, WorkerId};
use backstop_store::{ClaimedJob, KnownKind, NewWorker, Store};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::execute::{Closing, Executor, hand_back};
use super::health::WorkerHealth;
use super::parts::WorkerParts;
use super::quarantine::Quarantine;
use super::report::{Outbox, PendingEnding};
use super::slots::{QueueSlots, RunSlot};
use super::started_by;
use crate::dependency::watched::LocalClock;
use crate::error::Error;
use crate::loops::{Health, HealthWatch, Loops};
use crate::maintenance::MaintenanceHandle;
use crate::parts::EngineParts;

/// How long the last writes of a stopping worker may take before they are left to the lease.
const LAST_WRITES: Duration = Duration::from_secs(10);

/// How long the answer to a claim is waited for when a worker stops, if its grace period is not shorter: a store that
/// is away must not hold it up.
const LAST_CLAIM: Duration = Duration::from_secs(5);

/// How long the loop that looks after a worker's health may be silent.
const HEALTH_DEADLINE: Duration = Duration::from_secs(30);

/// What the loops of one worker share.
pub(crate) struct RunningWorker {
    pub(crate) executor: Executor,
    pub(crate) queues: Vec<Served>,
    pub(crate) kinds: Arc<[KnownKind]>,
    pub(crate) name: String,
    pub(crate) identity: Mutex<WorkerId>,
    pub(crate) running: Mutex<HashMap<JobId, Running>>,
    /// Suspects that must run alone (C3).
    pub(crate) quarantine: Quarantine,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) freed: Arc<Notify>,
    pub(crate) idle: Notify,
    pub(crate) stop: CancellationToken,
    /// Fires when nothing more is claimed: not when a stop is asked for, but when the last claim has been answered.
    pub(crate) fetched: CancellationToken,
    pub(crate) interrupt: CancellationToken,
    pub(crate) loops: Arc<Loops>,
    /// What decides which kinds it claims.
    pub(crate) health: Arc<WorkerHealth>,
}

/// A queue that is served.
pub(crate) struct Served {
    pub(crate) slots: Arc<QueueSlots>,
    pub(crate) prefetch: usize,
    pub(crate) any_kind: bool,
    /// Claimed ahead, not started (C2).
    pub(crate) buffer: Mutex<Vec<ClaimedJob>>,
}

/// A run under way.
pub(crate) struct Running {
    pub(crate) lease: Lease,
    pub(crate) canceled: CancellationToken,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RunningWorker {
    pub(crate) fn new(parts: WorkerParts, clock: LocalClock) -> Self {
        let freed = Arc::new(Notify::new());
        let config = &parts.executor.engine.parts.config;
        let queues = parts.queues.iter().map(|queue| Served {
            slots: QueueSlots::new(queue.name.clone(), queue.concurrency, freed.clone()),
            prefetch: queue.prefetch,
            any_kind: config.queues.get(&*queue.name).is_some_and(|queue| queue.fail_unknown_kind),
            buffer: Mutex::new(Vec::new()),
        });
        let mut slots = BTreeMap::new();
        for queue in &parts.queues {
            let room = u64::try_from(queue.concurrency).unwrap_or(u64::MAX);
            let sum: &mut u64 = slots.entry(queue.name.to_string()).or_default();
            *sum = sum.saturating_add(room);
        }
        let engine = parts.executor.engine.parts.clone();
        let health = WorkerHealth::new(parts.name.clone(), slots, parts.needs, engine, clock);
        let loops = parts.executor.engine.loops();
        loops.rest_on(health.clone());
        Self {
            queues: queues.collect(),
            kinds: parts.executor.kinds.known(),
            name: parts.name,
            identity: Mutex::new(crate::ids::worker_id()),
            running: Mutex::new(HashMap::new()),
            quarantine: Quarantine::default(),
            outbox: Outbox::new(),
            freed,
            idle: Notify::new(),
            stop: CancellationToken::new(),
            fetched: CancellationToken::new(),
            interrupt: CancellationToken::new(),
            loops,
            health,
            executor: parts.executor,
        }
    }

    pub(crate) fn parts(&self) -> &EngineParts {
        &self.executor.engine.parts
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.executor.engine.parts.store
    }

    pub(crate) fn id(&self) -> WorkerId {
        *lock(&self.identity)
    }

    /// Makes this worker known under `id`.
    pub(crate) async fn enlist(&self, id: WorkerId) -> Result<(), backstop_store::Error> {
        started_by::tell(id);
        let worker = NewWorker {
            id,
            name: self.name.clone(),
            code_version: self.executor.code_version.as_deref().map(str::to_owned),
            queues: self.queues.iter().map(|queue| queue.slots.queue.clone()).collect(),
            kinds: self.kinds.clone(),
            lease: self.executor.times.lease,
        };
        self.store().enlist(worker).await
    }

    /// Everything this worker holds: running or claimed ahead.
    pub(crate) fn held(&self) -> Vec<Lease> {
        let mut held: Vec<Lease> = lock(&self.running).values().map(|run| run.lease).collect();
        for queue in &self.queues {
            held.extend(lock(&queue.buffer).iter().map(|claimed| claimed.lease));
        }
        held.extend(self.quarantine.leases());
        held
    }

    /// Starts one run in a task of its own.
    pub(crate) fn launch(self: &Arc<Self>, claimed: ClaimedJob, slot: RunSlot) {
        let (job, lease, first) = (claimed.lease.job, claimed.lease, claimed.record.runs == 1);
        let kind = claimed.job.spec.kind.clone();
        if let Some(hold) = claimed.record.hold {
            self.health.waited(&claimed.job.spec.queue, hold.claimed_at.since(claimed.record.run_at));
        }
        let needs = self.health.dependencies.of_run(&claimed.job.spec);
        let canceled = CancellationToken::new();
        lock(&self.running).insert(job, Running { lease, canceled: canceled.clone() });
        self.parts().runs.add(job, canceled.clone());
        let worker = self.clone();
        tokio::spawn(async move {
            let slot = Arc::new(slot);
            let needed = needs.key.clone();
            let interrupt = worker.interrupt.clone();
            let closing = worker.executor.execute(claimed, needs, canceled, interrupt, slot.clone()).await;
            let cause = match &closing {
                Closing::Write { finish, unavailable } => {
                    let cause = finish.ending.cause;
                    worker.health.ran(&kind, needed.as_deref(), cause, unavailable.as_deref());
                    Some(cause)
                }
                Closing::Completed => {
                    worker.health.ran(&kind, needed.as_deref(), Cause::Succeeded, None);
                    Some(Cause::Succeeded)
                }
                Closing::Lost => None,
            };
            let succeeded = cause == Some(Cause::Succeeded);
            if let Closing::Write { finish, .. } = closing {
                worker.outbox.push(PendingEnding::new(*finish, first, Some(slot)));
            }
            if let Some(died_with) = worker.quarantine.ended(lease).filter(|_| succeeded) {
                worker.parts().cleared_suspects.note(died_with);
                worker.quarantine.look_again(died_with);
            }
            worker.parts().runs.remove(job);
            let none_left = {
                let mut running = lock(&worker.running);
                // The same job may run here again under a newer lease: only this run's entry goes.
                if running.get(&job).is_some_and(|run| run.lease == lease) {
                    running.remove(&job);
                }
                running.is_empty()
            };
            if none_left {
                worker.idle.notify_waiters();
            }
        });
    }

    /// Resolves when no run is under way.
    async fn all_idle(&self) {
        loop {
            let idle = self.idle.notified();
            if lock(&self.running).is_empty() {
                return;
            }
            idle.await;
        }
    }

    /// Gives up on everything this worker thought it held.
    pub(crate) fn lose_everything(&self) {
        for run in lock(&self.running).values() {
            run.canceled.cancel();
        }
        for queue in &self.queues {
            lock(&queue.buffer).clear();
        }
        drop(self.quarantine.take_all());
    }
}

/// How a worker stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// Runs that did not end within the grace period and were handed back (L18).
    pub interrupted: usize,
    /// True when every ending is durable.
    pub clean: bool,
}

/// A worker that runs in the background. Dropping it stops it without waiting.
pub struct WorkerHandle {
    id: WorkerId,
    control: Arc<dyn Control>,
    loops: Arc<Loops>,
    tasks: Vec<JoinHandle<()>>,
    /// Its part in maintenance, unless that is left to others.
    maintenance: Option<MaintenanceHandle>,
    hurry: CancellationToken,
}

type Later<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a handle needs of a worker whose context type it does not know.
trait Control: Send + Sync {
    fn stop(&self, hurry: CancellationToken) -> Later<'_, Stopped>;
    fn abandon(&self);
    fn running(&self) -> usize;
}

impl WorkerHandle {
    pub(crate) async fn start(parts: WorkerParts) -> Result<Self, Error> {
        let maintenance = parts.maintenance;
        let clock = parts.needs.clock(&*parts.executor.engine.parts.store).await?;
        let worker = Arc::new(RunningWorker::new(parts, clock));
        let id = worker.id();
        worker.enlist(id).await?;
        let loops = worker.loops.clone();
        let tasks = start_loops(&worker, &loops);
        let lease = worker.executor.times.lease;
        let maintenance = maintenance.then(|| worker.executor.engine.maintenance().lease(lease).start());
        let hurry = CancellationToken::new();
        Ok(Self { id, control: worker, loops, tasks, maintenance, hurry })
    }

    /// This worker's identity at its start.
    #[must_use]
    pub const fn id(&self) -> WorkerId {
        self.id
    }

    /// How its loops are, and those of the maintenance it takes part in (H11).
    #[must_use]
    pub fn health(&self) -> Health {
        let own = self.loops.health();
        match &self.maintenance {
            Some(maintenance) => own.and(maintenance.health()),
            None => own,
        }
    }

    /// The same for others to look at, for as long as the worker runs: what a readiness check asks (H2).
    #[must_use]
    pub fn watch(&self) -> HealthWatch {
        let mut watch = self.loops.watch();
        watch.0.extend(self.maintenance.iter().flat_map(|maintenance| maintenance.watch().0));
        watch
    }

    /// Runs under way.
    #[must_use]
    pub fn running(&self) -> usize {
        self.control.running()
    }

    /// A token that ends the grace period of a stop at once.
    #[must_use]
    pub fn hurry(&self) -> CancellationToken {
        self.hurry.clone()
    }

    /// Stops claiming, lets running work finish within the grace period, hands the rest back as interrupted, and
    /// leaves nothing behind (L18).
    pub async fn stop(mut self) -> Stopped {
        let stopped = self.control.stop(self.hurry.clone()).await;
        for task in self.tasks.drain(..) {
            task.abort();
        }
        if let Some(maintenance) = self.maintenance.take() {
            maintenance.stop().await;
        }
        stopped
    }
}

impl Drop for WorkerHandle {
    fn drop(&mut self) {
        self.loops.leave();
        self.control.abandon();
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn start_loops(worker: &Arc<RunningWorker>, loops: &Loops) -> Vec<JoinHandle<()>> {
    let times = worker.executor.times.clone();
    // Long enough that one slow call to the store is no alarm, short enough to be seen before the lease runs out.
    let deadline = times.poll.max(times.lease) * 2;
    // Writing and renewing go on until the very end; only fetching stops when a stop is asked for.
    let forever = worker.interrupt.child_token();
    let (fetch, report, renew, health) = (worker.clone(), worker.clone(), worker.clone(), worker.clone());
    vec![
        loops.supervise("fetch", deadline, worker.stop.clone(), move |heartbeat| {
            let worker = fetch.clone();
            async move {
                worker.clone().fetch(&heartbeat).await;
                worker.fetched.cancel();
            }
        }),
        loops.supervise("report", deadline, forever.clone(), move |heartbeat| {
            let worker = report.clone();
            async move { worker.outbox.write_all(worker.parts(), &heartbeat, times.poll).await }
        }),
        loops.supervise("heartbeat", deadline, forever.clone(), move |heartbeat| {
            let worker = renew.clone();
            async move { worker.heartbeat(&heartbeat).await }
        }),
        // It rests for some seconds between two rounds, however short the lease is.
        loops.supervise("health", deadline.max(HEALTH_DEADLINE), forever, move |heartbeat| {
            let worker = health.clone();
            async move { worker.watch_health(&heartbeat).await }
        }),
    ]
}

impl Control for RunningWorker {
    fn stop(&self, hurry: CancellationToken) -> Later<'_, Stopped> {
        Box::pin(async move {
            self.stop.cancel();
            let over = Instant::now() + self.executor.times.grace;
            // What a claim under way brings would be left to the lease, and blamed for it.
            tokio::select! {
                () = self.fetched.cancelled() => {}
                () = tokio::time::sleep_until(over.min(Instant::now() + LAST_CLAIM)) => {}
                () = hurry.cancelled() => {}
            }
            let ahead = self.queues.iter().flat_map(|queue| std::mem::take(&mut *lock(&queue.buffer)));
            for claimed in ahead.chain(self.quarantine.take_all()) {
                self.outbox.push(PendingEnding::new(hand_back(&claimed, Duration::ZERO), false, None));
            }
            let graceful = tokio::select! {
                () = self.all_idle() => true,
                () = tokio::time::sleep_until(over) => false,
                () = hurry.cancelled() => false,
            };
            let interrupted = if graceful { 0 } else { lock(&self.running).len() };
            self.interrupt.cancel();
            let last = async {
                self.all_idle().await;
                self.outbox.empty().await;
            };
            let clean = tokio::time::timeout(LAST_WRITES, last).await.is_ok();
            self.executor.engine.parts.events.gathered().settle().await;
            // What could not be written is found by the lease; a worker that is clean leaves nothing to find.
            if clean {
                let _ = self.store().retire(self.id()).await;
                self.untell_health().await;
            }
            Stopped { interrupted, clean }
        })
    }

    fn abandon(&self) {
        self.stop.cancel();
        self.interrupt.cancel();
    }

    fn running(&self) -> usize {
        lock(&self.running).len()
    }
}
