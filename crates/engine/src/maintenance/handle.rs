//! Maintenance of one engine: started by whoever serves, shared by all who do, stopped with the last of them.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use backstop_core::WorkerId;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::leadership::Leadership;
use super::{alert_loop, counts, leadership, redrive, rescue, upkeep};
use crate::config::Pace;
use crate::engine::Backstop;
use crate::loops::{Health, HealthWatch, Loops, Pulse};

/// How long a stopped process may take to let others lead.
const RESIGNING: Duration = Duration::from_secs(2);

/// The shortest lease: the loops would spin.
const SHORTEST: Duration = Duration::from_millis(100);

/// Takes part in the maintenance of the store: rescues what dead workers held, fails what has expired, archives,
/// purges, steps re-drive plans, delivers alerts. Made by [`Backstop::maintenance`].
///
/// Workers and the HTTP server do this by themselves; a program that has neither need not, but can. Of all processes
/// that take part one at a time leads each duty (L17).
#[derive(Debug, Clone)]
#[must_use = "nothing is done before it is started"]
pub struct Maintenance {
    engine: Backstop,
    lease: Duration,
}

/// Maintenance that runs. Dropping it stops it without waiting, unless others in this process hold it too.
pub struct MaintenanceHandle {
    running: Option<Arc<Running>>,
    lease: Duration,
}

/// Where an engine keeps what runs: at most one, whoever started it.
#[derive(Debug, Default)]
pub(crate) struct Slot(Mutex<Weak<Running>>);

/// The loops of one engine.
struct Running {
    engine: Backstop,
    shared: Arc<Shared>,
    loops: Arc<Loops>,
    tasks: Vec<JoinHandle<()>>,
}

/// What the loops share.
pub(super) struct Shared {
    pub(super) node: WorkerId,
    pub(super) leadership: Leadership,
    pub(super) stop: CancellationToken,
    /// One for each holder, so never empty while a loop runs: the shortest counts.
    leases: Mutex<Vec<Duration>>,
}

impl Shared {
    /// How long others may have to wait for this process when it dies.
    pub(super) fn lease(&self) -> Duration {
        let leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        leases.iter().min().copied().unwrap_or(SHORTEST)
    }

    fn join(&self, lease: Duration) {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner).push(lease);
    }

    fn leave(&self, lease: Duration) {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        // The last one's stays: a loop that has not ended yet asks for a term of that length, not of another.
        if leases.len() > 1
            && let Some(place) = leases.iter().position(|one| *one == lease)
        {
            leases.swap_remove(place);
        }
    }
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("node", &self.shared.node).finish_non_exhaustive()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.loops.leave();
        self.shared.stop.cancel();
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Maintenance {
    pub(crate) fn new(engine: Backstop) -> Self {
        Self { engine, lease: Pace::default().lease }
    }

    /// How long it may be silent before others take over what it leads (30 s unless told, 15 s of which count); with
    /// several in one process the shortest counts.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.max(SHORTEST);
        self
    }

    /// Starts it in the background, or joins what runs for this engine already.
    ///
    /// # Panics
    /// Outside a runtime of tokio.
    pub fn start(self) -> MaintenanceHandle {
        let Self { engine, lease } = self;
        let mut slot = engine.inner.maintenance.0.lock().unwrap_or_else(PoisonError::into_inner);
        let running = if let Some(running) = slot.upgrade() {
            running.shared.join(lease);
            running
        } else {
            let running = Arc::new(Running::start(&engine, lease));
            *slot = Arc::downgrade(&running);
            running
        };
        drop(slot);
        MaintenanceHandle { running: Some(running), lease }
    }

    /// Runs it until `shutdown` resolves, then lets others lead at once.
    pub async fn run_until(self, shutdown: impl Future<Output = ()> + Send) {
        let handle = self.start();
        shutdown.await;
        handle.stop().await;
    }
}

impl Running {
    fn start(engine: &Backstop, lease: Duration) -> Self {
        let shared = Arc::new(Shared {
            node: crate::ids::worker_id(),
            leadership: Leadership::default(),
            stop: CancellationToken::new(),
            leases: Mutex::new(vec![lease]),
        });
        let loops = Loops::new(engine.inner.complaints.clone());
        let keep = Keep { engine, shared: &shared, loops: &loops, deadline: lease * 2 };
        let mut tasks = vec![
            keep.supervise("leadership", |engine, shared, pulse| async move {
                leadership::run(&engine, &shared, &pulse).await;
            }),
            keep.supervise("rescue", |engine, shared, pulse| async move {
                rescue::run(&engine, &shared, &pulse).await;
            }),
            keep.supervise("redrive", |engine, shared, pulse| async move {
                redrive::run(&engine, &shared, &pulse).await;
            }),
            keep.supervise("counts", |engine, shared, pulse| async move {
                counts::run(&engine, &shared, &pulse).await;
            }),
            keep.supervise("upkeep", |engine, shared, pulse| async move {
                upkeep::run(&engine, &shared, &pulse).await;
            }),
        ];
        if !engine.inner.config.alerts.channels.is_empty() {
            tasks.push(keep.supervise("alerts", |engine, shared, pulse| async move {
                alert_loop::run(engine, &shared, &pulse).await;
            }));
        }
        Self { engine: engine.clone(), shared, loops, tasks }
    }
}

/// Starts loops that share the same things.
struct Keep<'a> {
    engine: &'a Backstop,
    shared: &'a Arc<Shared>,
    loops: &'a Loops,
    deadline: Duration,
}

impl Keep<'_> {
    fn supervise<F, Fut>(&self, name: &'static str, body: F) -> JoinHandle<()>
    where
        F: Fn(Backstop, Arc<Shared>, Arc<Pulse>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let (engine, shared) = (self.engine.clone(), self.shared.clone());
        let stop = shared.stop.clone();
        // A loop rests for some seconds between two rounds, however short the lease is.
        let deadline = self.deadline.max(Duration::from_secs(10));
        self.loops.supervise(name, deadline, stop, move |pulse| body(engine.clone(), shared.clone(), pulse))
    }
}

impl std::fmt::Debug for MaintenanceHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MaintenanceHandle").finish_non_exhaustive()
    }
}

impl MaintenanceHandle {
    fn loops(&self) -> Option<&Arc<Loops>> {
        self.running.as_ref().map(|running| &running.loops)
    }

    /// How its loops are (H11).
    #[must_use]
    pub fn health(&self) -> Health {
        self.loops().map_or(Health { ready: true, loops: Vec::new() }, |loops| loops.health())
    }

    /// The same for others to look at, for as long as it runs: what a readiness check asks (H2).
    #[must_use]
    pub fn watch(&self) -> HealthWatch {
        HealthWatch(self.loops().cloned().into_iter().collect())
    }

    /// Stops, and lets others lead at once: a node that dies is waited for until its terms run out. What others in this
    /// process still hold goes on.
    pub async fn stop(mut self) {
        let Some(running) = self.leave() else { return };
        let (engine, shared) = (running.engine.clone(), running.shared.clone());
        drop(running);
        // It is a courtesy: a store that is away must not hold up a stop.
        let _ = tokio::time::timeout(RESIGNING, leadership::resign(&engine, &shared)).await;
    }

    /// Gives up this hold; answers what ran when it was the last.
    fn leave(&mut self) -> Option<Running> {
        let running = self.running.take()?;
        let engine = running.engine.clone();
        // Nobody joins while it is found out whether this was the last.
        let _slot = engine.inner.maintenance.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.shared.leave(self.lease);
        Arc::into_inner(running)
    }
}

impl Drop for MaintenanceHandle {
    fn drop(&mut self) {
        drop(self.leave());
    }
}

#[cfg(test)]
mod tests {
    use backstop_store::ModelStore;

    use super::*;
    use crate::Config;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test]
    async fn no_loop_ever_sees_a_lease_that_nobody_asked_for() {
        // L15, L17: a term asked for in the first or last moment holds up others for as long as it says.
        let engine = Backstop::on(Arc::new(ModelStore::default()), Config::default());
        assert_eq!(Running::start(&engine, SECOND).shared.lease(), SECOND, "before anybody has joined");
        let (long, short) =
            (engine.maintenance().lease(2 * SECOND).start(), engine.maintenance().lease(SECOND).start());
        let shared = long.running.as_ref().expect("it runs").shared.clone();
        assert_eq!(shared.lease(), SECOND, "the shortest counts");
        drop(short);
        assert_eq!(shared.lease(), 2 * SECOND);
        drop(long);
        assert_eq!(shared.lease(), 2 * SECOND, "of one who has just gone");
    }
}
