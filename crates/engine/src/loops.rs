//! Loops that run for as long as the process does: each has a heartbeat, a deadline and a count of restarts (H11).
//!
//! A loop that panics, returns or hangs is started again, with a pause that grows. One that is silent for longer than
//! its deadline, or has been started again and not come round yet, turns readiness red, so that whoever watches the
//! process sees it before its users do. The engine's own loops are kept here, and those of the server and the program.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use backstop_store::Error as StoreError;
use serde::Serialize;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::log_throttle::LogThrottle;

/// Longest pause before a dead loop is started again.
const RESTART_PAUSE_MAX: Duration = Duration::from_secs(10);

/// A loop that is silent for so long hangs, however short its deadline is: every call to a store ends before.
const HANGS: Duration = Duration::from_secs(60);

/// How often a loop is looked at before it counts as hung.
const LOOKS: u32 = 4;

/// Heartbeats of a loop that was started again before it counts as well: one at its start, one when it came round.
const PROOF: u32 = 2;

/// How a set of loops is, such as those of one worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Health {
    /// True when every loop was heard of within its deadline, no dependency is red, and nothing keeps the worker from
    /// claiming.
    pub ready: bool,
    /// Each loop.
    pub loops: Vec<LoopHealth>,
    /// Each dependency of a worker's kinds (H1).
    pub dependencies: Vec<DependencyHealth>,
    /// Why a worker claims nothing because of its own failures (H8).
    pub paused: Option<PausedHealth>,
}

impl Health {
    /// Both together.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.ready &= other.ready;
        self.loops.extend(other.loops);
        self.dependencies.extend(other.dependencies);
        self.paused = self.paused.or(other.paused);
        self
    }
}

/// How one loop is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LoopHealth {
    /// Its name.
    pub name: &'static str,
    /// True when it was heard of within its deadline, and has come round since it was last started again.
    pub ok: bool,
    /// How long ago it was heard of, in milliseconds.
    pub age_ms: u64,
    /// How long it may be silent, in milliseconds.
    pub deadline_ms: u64,
    /// How often it had to be started again.
    pub restarts: u32,
}

/// How a dependency is for a worker (H2).
///
/// ```
/// # use backstop::prelude::*;
/// use backstop::{Config, DependencyHealth, PausedHealth};
///
/// # #[job]
/// # async fn send_email(to: String) {}
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> JobResult {
/// let engine = Backstop::open_with("memory:", Config::default().kind_dependency("send_email", "smtp")).await?;
/// let worker = engine.worker(()).register::<SendEmail>().queue("default", 1).start().await?;
/// let health = worker.health();
/// let smtp: &DependencyHealth = &health.dependencies[0];
/// assert!(smtp.ok, "without a check it is green until a run finds it unavailable");
/// let paused: Option<PausedHealth> = health.paused;
/// assert!(paused.is_none());
/// # worker.stop().await;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DependencyHealth {
    /// Its name.
    pub name: String,
    /// True when it is green: kinds that need it are claimed.
    pub ok: bool,
    /// How long ago it was last checked or found unavailable, in milliseconds.
    pub age_ms: u64,
    /// For how long it is as it is, in milliseconds.
    pub since_ms: u64,
    /// What is wrong, in a stable word: `unchecked`, `failed`, `timed_out` or `run_failed`.
    pub problem: Option<&'static str>,
}

/// A worker that claims nothing because its failures are far above the rest's (H8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PausedHealth {
    /// For how long, in milliseconds.
    pub since_ms: u64,
    /// Why, in words.
    pub why: String,
}

/// What readiness rests on besides loops.
pub(crate) trait HealthConditions: std::fmt::Debug + Send + Sync {
    /// Adds what it knows.
    fn add_to(&self, health: &mut Health);
}

/// The heartbeat of one loop.
#[derive(Debug)]
pub struct LoopHeartbeat {
    name: &'static str,
    deadline: Duration,
    born: Instant,
    recorded_at_ms: AtomicU64,
    records: AtomicU64,
    /// True while there is nothing to do, and nobody to be heard of.
    idle: AtomicBool,
    restarts: AtomicU32,
    /// Heartbeats that are missing until a loop that was started again counts as well.
    unproven: AtomicU32,
    error_throttle: Arc<ErrorThrottle>,
}

/// Holds the errors of all loops of one process to a few log lines, by the code of the error: a store that is away
/// stops all of them, and one line in ten seconds says so (F17).
#[derive(Debug, Default)]
pub(crate) struct ErrorThrottle(Mutex<HashMap<&'static str, LogThrottle>>);

impl LoopHeartbeat {
    pub(crate) fn new(name: &'static str, deadline: Duration, error_throttle: Arc<ErrorThrottle>) -> Self {
        Self {
            name,
            deadline,
            born: Instant::now(),
            recorded_at_ms: AtomicU64::new(0),
            records: AtomicU64::new(0),
            idle: AtomicBool::new(false),
            restarts: AtomicU32::new(0),
            unproven: AtomicU32::new(0),
            error_throttle,
        }
    }

    /// Calls `log` unless a loop of this process has complained of the like within the interval.
    pub fn warn(&self, error: &StoreError, log: impl FnOnce()) {
        let mut error_throttle = self.error_throttle.0.lock().unwrap_or_else(PoisonError::into_inner);
        error_throttle.entry(error.code()).or_default().warn(log);
    }

    /// Says that the loop is alive.
    pub fn record(&self) {
        self.recorded_at_ms.store(millis(self.born.elapsed()), Ordering::Relaxed);
        self.records.fetch_add(1, Ordering::Relaxed);
        self.idle.store(false, Ordering::Relaxed);
        let fewer = |left: u32| left.checked_sub(1);
        // There is nothing to prove for one that was never started again.
        let _ = self.unproven.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
    }

    /// Says that there is nothing to do: until the next heartbeat nobody waits for one.
    pub fn idle(&self) {
        self.unproven.store(0, Ordering::Relaxed);
        self.idle.store(true, Ordering::Relaxed);
    }

    /// Waits, and says meanwhile that the loop is alive: one that waits for the store is not stuck.
    pub async fn rest(&self, span: Duration) {
        let until = Instant::now() + span;
        loop {
            self.record();
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(self.deadline / 4)).await;
        }
    }

    /// How often its loop had to be started again.
    pub(crate) fn restarts(&self) -> u32 {
        self.restarts.load(Ordering::Relaxed)
    }

    fn age(&self) -> Duration {
        if self.idle.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        let last = Duration::from_millis(self.recorded_at_ms.load(Ordering::Relaxed));
        self.born.elapsed().saturating_sub(last)
    }

    /// Resolves when the loop has been silent for so long that it hangs. It looks several times meanwhile: a process
    /// that was stopped as a whole finds every loop silent when it goes on, and none of them hangs.
    async fn hangs(&self) {
        let step = self.deadline.max(HANGS) / LOOKS;
        let (mut seen, mut silent) = (None, 0);
        while silent < LOOKS {
            tokio::time::sleep(step).await;
            let records = self.records.load(Ordering::Relaxed);
            let alive = self.idle.load(Ordering::Relaxed) || seen.replace(records) != Some(records);
            silent = if alive { 0 } else { silent + 1 };
        }
    }

    fn health(&self) -> LoopHealth {
        let (age_ms, deadline_ms) = (millis(self.age()), millis(self.deadline));
        LoopHealth {
            name: self.name,
            ok: age_ms <= deadline_ms && self.unproven.load(Ordering::Relaxed) == 0,
            age_ms,
            deadline_ms,
            restarts: self.restarts(),
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Looks at loops from elsewhere, such as a health check; clones are cheap.
#[derive(Debug, Clone)]
pub struct HealthWatch(pub(crate) Vec<Arc<Loops>>);

impl HealthWatch {
    /// How the loops are; none when they have stopped for good.
    #[must_use]
    pub fn health(&self) -> Option<Health> {
        let first = self.0.first().filter(|loops| !loops.gone.load(Ordering::Acquire))?;
        let rest = self.0.iter().skip(1).filter(|loops| !loops.gone.load(Ordering::Acquire));
        Some(rest.fold(first.health(), |all, loops| all.and(loops.health())))
    }
}

/// Loops that belong together, such as those of one worker.
#[derive(Debug, Default)]
pub struct Loops {
    heartbeats: Mutex<Vec<Arc<LoopHeartbeat>>>,
    error_throttle: Arc<ErrorThrottle>,
    /// What the work of these loops rests on besides.
    conditions: OnceLock<Arc<dyn HealthConditions>>,
    /// True once they have stopped: loops that are silent then are no alarm.
    gone: AtomicBool,
}

impl Loops {
    pub(crate) fn new(error_throttle: Arc<ErrorThrottle>) -> Arc<Self> {
        Arc::new(Self { error_throttle, ..Self::default() })
    }

    /// The same for others to look at, for as long as they run (H2).
    #[must_use]
    pub fn watch(self: &Arc<Self>) -> HealthWatch {
        HealthWatch(vec![self.clone()])
    }

    /// Lets their health rest on these conditions too; the first stay.
    pub(crate) fn rest_on(&self, conditions: Arc<dyn HealthConditions>) {
        let _ = self.conditions.set(conditions);
    }

    /// Says that they have stopped.
    pub(crate) fn leave(&self) {
        self.gone.store(true, Ordering::Release);
    }

    /// The first of these loops that is silent for longer than it may be.
    pub(crate) fn silent(&self, names: &[&str]) -> Option<&'static str> {
        let heartbeats = self.heartbeats.lock().unwrap_or_else(PoisonError::into_inner);
        let mut named = heartbeats.iter().filter(|heartbeat| names.contains(&heartbeat.name));
        named.find(|heartbeat| !heartbeat.health().ok).map(|heartbeat| heartbeat.name)
    }

    pub(crate) fn health(&self) -> Health {
        let heartbeats = self.heartbeats.lock().unwrap_or_else(PoisonError::into_inner);
        let loops: Vec<_> = heartbeats.iter().map(|heartbeat| heartbeat.health()).collect();
        let ready = loops.iter().all(|one| one.ok);
        let mut health = Health { ready, loops, dependencies: Vec::new(), paused: None };
        if let Some(conditions) = self.conditions.get() {
            conditions.add_to(&mut health);
        }
        health
    }

    /// The heartbeat of this name, for a task that is no loop: one that has something to do and is silent for longer
    /// than its deadline turns readiness red.
    pub fn heartbeat(&self, name: &'static str, deadline: Duration) -> Arc<LoopHeartbeat> {
        let mut heartbeats = self.heartbeats.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = heartbeats.iter().find(|heartbeat| heartbeat.name == name) {
            return known.clone();
        }
        let heartbeat = Arc::new(LoopHeartbeat::new(name, deadline, self.error_throttle.clone()));
        heartbeats.push(heartbeat.clone());
        heartbeat
    }

    /// Runs `body` until `stop`, starting it again whenever it panics, hangs or returns early.
    pub fn supervise<F, Fut>(
        &self,
        name: &'static str,
        deadline: Duration,
        stop: CancellationToken,
        body: F,
    ) -> tokio::task::JoinHandle<()>
    where
        F: Fn(Arc<LoopHeartbeat>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        // Erased, so that what supervises is compiled once and not for every loop of every crate.
        self.supervise_erased(name, deadline, stop, Box::new(move |heartbeat| Box::pin(body(heartbeat))))
    }

    fn supervise_erased(
        &self,
        name: &'static str,
        deadline: Duration,
        stop: CancellationToken,
        body: LoopBody,
    ) -> tokio::task::JoinHandle<()> {
        let heartbeat = self.heartbeat(name, deadline);
        heartbeat.record();
        tokio::spawn(async move {
            let mut pause = Duration::from_millis(100);
            loop {
                let task = Bound(tokio::spawn(body(heartbeat.clone())));
                let why = tokio::select! {
                    ended = task.ended() => if ended.is_err() { "panicked" } else { "returned" },
                    // What is aborted here ends at its next await.
                    () = heartbeat.hangs() => "hangs",
                };
                if stop.is_cancelled() {
                    return heartbeat.idle();
                }
                let restarts = heartbeat.restarts.fetch_add(1, Ordering::Relaxed) + 1;
                heartbeat.unproven.store(PROOF, Ordering::Relaxed);
                tracing::error!(loop_name = name, restarts, "a loop {why} and is restarted");
                tokio::select! {
                    () = tokio::time::sleep(pause) => pause = (pause * 2).min(RESTART_PAUSE_MAX),
                    () = stop.cancelled() => return heartbeat.idle(),
                }
            }
        })
    }
}

/// What a loop does until it is started again.
type LoopBody = Box<dyn Fn(Arc<LoopHeartbeat>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// A task that ends with whoever waits for it: a supervisor that is dropped must not leave its loop behind, renewing
/// leases for a worker that is gone.
struct Bound(tokio::task::JoinHandle<()>);

impl Bound {
    async fn ended(mut self) -> Result<(), tokio::task::JoinError> {
        (&mut self.0).await
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn loops_that_miss_the_store_say_so_once_in_ten_seconds_together() {
        // F17
        let loops = Loops::default();
        let (fetch, renew) = (
            loops.heartbeat("fetch", Duration::from_secs(1)),
            loops.heartbeat("heartbeat", Duration::from_secs(1)),
        );
        let away = StoreError::Unavailable { location: "db".into(), problem: "gone".into(), source: None };
        let full = StoreError::DiskFull { location: "db".into(), source: None };
        let mut lines = Vec::new();
        for _ in 0..60 {
            fetch.warn(&away, || lines.push("fetch"));
            renew.warn(&away, || lines.push("heartbeat"));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(lines.len(), 6, "{lines:?}");
        // Another trouble is not hidden behind the first.
        renew.warn(&full, || lines.push("disk"));
        assert_eq!(lines.last(), Some(&"disk"));
    }

    /// A loop that does as its last word says, once a second.
    fn supervised(loops: &Loops, word: &Arc<Mutex<&'static str>>) -> tokio::task::JoinHandle<()> {
        let word = word.clone();
        loops.supervise("it", Duration::from_secs(5), CancellationToken::new(), move |heartbeat| {
            let word = word.clone();
            async move {
                loop {
                    heartbeat.record();
                    let said = *word.lock().unwrap_or_else(PoisonError::into_inner);
                    match said {
                        "hang" => std::future::pending().await,
                        "panic" => panic!("as it was told"),
                        _ => tokio::time::sleep(Duration::from_secs(1)).await,
                    }
                }
            }
        })
    }

    async fn pass(seconds: u64) {
        for _ in 0..seconds {
            tokio::time::advance(Duration::from_secs(1)).await;
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_hangs_is_red_until_one_that_was_started_again_came_round() {
        // H11
        let (loops, word) = (Loops::default(), Arc::new(Mutex::new("work")));
        let say = |said| *word.lock().unwrap_or_else(PoisonError::into_inner) = said;
        let running = supervised(&loops, &word);
        pass(30).await;
        assert!(loops.health().ready, "{:?}", loops.health());
        say("hang");
        pass(10).await;
        assert!(!loops.health().ready && loops.health().loops[0].restarts == 0, "silent past its deadline");
        pass(80).await;
        let health = loops.health();
        assert!(
            !health.ready && health.loops[0].restarts == 1,
            "started again, and it hangs again: {health:?}"
        );
        say("work");
        pass(90).await;
        let health = loops.health();
        assert!(health.ready && health.loops[0].restarts == 2, "{health:?}");
        running.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_was_stopped_for_long_starts_nothing_again() {
        // H11
        let (loops, word) = (Loops::default(), Arc::new(Mutex::new("work")));
        let running = supervised(&loops, &word);
        pass(2).await;
        tokio::time::advance(Duration::from_secs(3_600)).await;
        pass(2).await;
        let health = loops.health();
        assert!(health.ready && health.loops[0].restarts == 0, "{health:?}");
        running.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_dies_is_red_until_it_came_round() {
        // H11
        let (loops, word) = (Loops::default(), Arc::new(Mutex::new("work")));
        let say = |said| *word.lock().unwrap_or_else(PoisonError::into_inner) = said;
        let running = supervised(&loops, &word);
        pass(2).await;
        say("panic");
        pass(2).await;
        assert!(!loops.health().ready && loops.health().loops[0].restarts > 0);
        say("work");
        pass(15).await;
        assert!(loops.health().ready, "{:?}", loops.health());
        running.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_with_nothing_to_do_is_no_alarm() {
        // H11
        let loops = Loops::default();
        let heartbeat = loops.heartbeat("audit", Duration::from_secs(5));
        heartbeat.idle();
        pass(60).await;
        assert!(loops.health().ready, "nobody waits for it");
        heartbeat.record();
        pass(6).await;
        assert!(!loops.health().ready, "it began something and is silent");
    }
}
