//! Maintenance of one engine: started by whoever serves, shared by all who do, stopped with the last of them.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use backstop_store::Store;
use tokio::task::JoinHandle;

use super::perform::DutyParts;
use super::running::{MaintenanceSlot, RunningMaintenance};
use super::state::{MaintenanceState, SHORTEST_LEASE};
use super::{
    alert_loop, counts, leadership_loop, lines, redrive, rescue, schedules, signals, sinks, upkeep, workflows,
};
use crate::config::WorkerTimes;
use crate::engine::Backstop;
use crate::loops::{Health, HealthWatch, LoopHeartbeat, Loops};

/// How long a stopped process may take to let others lead.
const RESIGNING: Duration = Duration::from_secs(2);

/// Takes part in the maintenance of the store: rescues what dead workers held, fails what has expired, archives,
/// purges, steps re-drive plans, fires schedules, delivers alerts. Made by [`Backstop::maintenance`].
///
/// Workers and the HTTP server do this by themselves; a program that has neither need not, but can. Of all processes
/// that take part one at a time leads each duty (L17).
#[derive(Clone)]
#[must_use = "nothing is done before it is started"]
pub struct Maintenance {
    parts: DutyParts,
    slot: Arc<MaintenanceSlot>,
    lease: Duration,
}

impl std::fmt::Debug for Maintenance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Maintenance").field("lease", &self.lease).finish_non_exhaustive()
    }
}

impl Backstop {
    /// Takes part in the maintenance of the store in the background (L17). Workers and the HTTP server do this by
    /// themselves; it is for programs that have neither. At most once for each engine, however often it is started.
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// use backstop::{Maintenance, MaintenanceHandle};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// # let engine = Backstop::open("memory:").await?;
    /// let maintenance: Maintenance = engine.maintenance();
    /// let running: MaintenanceHandle = maintenance.start();
    /// running.stop().await;
    /// # Ok(()) }
    /// ```
    pub fn maintenance(&self) -> Maintenance {
        Maintenance {
            parts: DutyParts::of(self),
            slot: self.maintenance.clone(),
            lease: WorkerTimes::default().lease,
        }
    }
}

/// Maintenance that runs. Dropping it stops it without waiting, unless others in this process hold it too.
pub struct MaintenanceHandle {
    running: Option<Arc<RunningMaintenance>>,
    store: Arc<dyn Store>,
    slot: Arc<MaintenanceSlot>,
    lease: Duration,
}

impl Maintenance {
    /// How long it may be silent before others take over what it leads (30 s unless told, 15 s of which count); with
    /// several in one process the shortest counts.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.max(SHORTEST_LEASE);
        self
    }

    /// Starts it in the background, or joins what runs for this engine already.
    ///
    /// # Panics
    /// Outside a runtime of tokio.
    pub fn start(self) -> MaintenanceHandle {
        let Self { parts, slot, lease } = self;
        let mut place = slot.lock();
        let running = if let Some(running) = place.upgrade() {
            running.state.join(lease);
            running
        } else {
            let running = Arc::new(start_loops(&parts, lease));
            *place = Arc::downgrade(&running);
            running
        };
        drop(place);
        MaintenanceHandle { running: Some(running), store: parts.engine.store.clone(), slot, lease }
    }

    /// Runs it until `shutdown` resolves, then lets others lead at once.
    pub async fn run_until(self, shutdown: impl Future<Output = ()> + Send) {
        let handle = self.start();
        shutdown.await;
        handle.stop().await;
    }
}

/// Starts the loops of one engine.
fn start_loops(parts: &DutyParts, lease: Duration) -> RunningMaintenance {
    let state = Arc::new(MaintenanceState::new(lease));
    let loops = Loops::new(parts.engine.error_throttle.clone());
    let starter = LoopStarter { parts, state: &state, loops: &loops, deadline: lease * 2 };
    let mut tasks = vec![
        starter.supervise("leadership", |parts, state, heartbeat| async move {
            leadership_loop::run(&*parts.engine.store, &state, &heartbeat).await;
        }),
        starter.supervise("rescue", |parts, state, heartbeat| async move {
            rescue::run(&parts.engine, &parts.remote, &state, &heartbeat).await;
        }),
        starter.supervise("redrive", |parts, state, heartbeat| async move {
            redrive::run(&parts.engine, &state, &heartbeat).await;
        }),
        starter.supervise("counts", |parts, state, heartbeat| async move {
            counts::run(&*parts.engine.store, &state, &heartbeat).await;
        }),
        starter.supervise("lines", |parts, state, heartbeat| async move {
            lines::run(&*parts.engine.store, &state, &heartbeat).await;
        }),
        starter.supervise("schedules", |parts, state, heartbeat| async move {
            schedules::run(&parts.engine, &state, &heartbeat).await;
        }),
        starter.supervise("signals", |parts, state, heartbeat| async move {
            signals::run(&parts.engine, &state, &heartbeat).await;
        }),
        starter.supervise("workflows", |parts, state, heartbeat| async move {
            workflows::run(&parts.engine, &state, &heartbeat).await;
        }),
        starter.supervise("sinks", |parts, state, heartbeat| async move {
            sinks::run(&parts.engine, &state, &heartbeat).await;
        }),
        starter.supervise("upkeep", |parts, state, heartbeat| async move {
            upkeep::run(&parts, &state, &heartbeat).await;
        }),
    ];
    if parts.engine.config.has_alerts() {
        tasks.push(starter.supervise("alerts", |parts, state, heartbeat| async move {
            alert_loop::run(parts.engine, &state, &heartbeat).await;
        }));
    }
    RunningMaintenance { state, loops, tasks }
}

/// Starts loops that share the same things.
struct LoopStarter<'a> {
    parts: &'a DutyParts,
    state: &'a Arc<MaintenanceState>,
    loops: &'a Loops,
    deadline: Duration,
}

impl LoopStarter<'_> {
    fn supervise<F, Fut>(&self, name: &'static str, body: F) -> JoinHandle<()>
    where
        F: Fn(DutyParts, Arc<MaintenanceState>, Arc<LoopHeartbeat>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let (parts, state) = (self.parts.clone(), self.state.clone());
        let stop = state.stop.clone();
        // A loop rests for some seconds between two rounds, however short the lease is.
        let deadline = self.deadline.max(Duration::from_secs(10));
        self.loops
            .supervise(name, deadline, stop, move |heartbeat| body(parts.clone(), state.clone(), heartbeat))
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
        self.loops().map_or_else(|| Loops::default().health(), |loops| loops.health())
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
        let state = running.state.clone();
        drop(running);
        // It is a courtesy: a store that is away must not hold up a stop.
        let _ = tokio::time::timeout(RESIGNING, leadership_loop::resign(&*self.store, &state)).await;
    }

    /// Gives up this hold; answers what ran when it was the last.
    fn leave(&mut self) -> Option<RunningMaintenance> {
        let running = self.running.take()?;
        // Nobody joins while it is found out whether this was the last.
        let _place = self.slot.lock();
        running.state.leave(self.lease);
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
        assert_eq!(
            start_loops(&DutyParts::of(&engine), SECOND).state.lease(),
            SECOND,
            "before anybody has joined"
        );
        let (long, short) =
            (engine.maintenance().lease(2 * SECOND).start(), engine.maintenance().lease(SECOND).start());
        let state = long.running.as_ref().expect("it runs").state.clone();
        assert_eq!(state.lease(), SECOND, "the shortest counts");
        drop(short);
        assert_eq!(state.lease(), 2 * SECOND);
        drop(long);
        assert_eq!(state.lease(), 2 * SECOND, "of one who has just gone");
    }
}
