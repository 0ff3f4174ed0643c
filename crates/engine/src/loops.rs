//! The engine's own loops: each has a heartbeat, a deadline and a count of restarts (H11).
//!
//! A loop that panics or returns is started again, with a pause that grows. A loop that is silent for longer than its
//! deadline turns readiness red, so that whoever watches the process sees it before its users do.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop_store::Error as StoreError;
use serde::Serialize;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::quiet::Quiet;

/// Longest pause before a dead loop is started again.
const RESTART_PAUSE_MAX: Duration = Duration::from_secs(10);

/// How a worker's loops are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Health {
    /// True when every loop was heard of within its deadline.
    pub ready: bool,
    /// Each loop.
    pub loops: Vec<LoopHealth>,
}

/// How one loop is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LoopHealth {
    /// Its name.
    pub name: &'static str,
    /// True when it was heard of within its deadline.
    pub ok: bool,
    /// How long ago that was, in milliseconds.
    pub age_ms: u64,
    /// How long it may be silent, in milliseconds.
    pub deadline_ms: u64,
    /// How often it had to be started again.
    pub restarts: u32,
}

/// The pulse of one loop.
#[derive(Debug)]
pub(crate) struct Pulse {
    name: &'static str,
    deadline: Duration,
    born: Instant,
    last_beat_ms: AtomicU64,
    restarts: AtomicU32,
    complaints: Arc<Complaints>,
}

/// What the loops of one worker complain of, by the code of the error: a store that is away stops all of them, and one
/// line in ten seconds says so (F17).
type Complaints = Mutex<HashMap<&'static str, Quiet>>;

impl Pulse {
    /// Calls `log` unless a loop of this worker has complained of the like within the interval.
    pub(crate) fn warn(&self, error: &StoreError, log: impl FnOnce()) {
        let mut complaints = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        complaints.entry(error.code()).or_default().warn(log);
    }

    /// Says that the loop is alive.
    pub(crate) fn beat(&self) {
        self.last_beat_ms.store(millis(self.born.elapsed()), Ordering::Relaxed);
    }

    /// Waits, and says meanwhile that the loop is alive: one that waits for the store is not stuck.
    pub(crate) async fn rest(&self, span: Duration) {
        let until = Instant::now() + span;
        loop {
            self.beat();
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(self.deadline / 4)).await;
        }
    }

    fn health(&self) -> LoopHealth {
        let age_ms = millis(self.born.elapsed()).saturating_sub(self.last_beat_ms.load(Ordering::Relaxed));
        let deadline_ms = millis(self.deadline);
        LoopHealth {
            name: self.name,
            ok: age_ms <= deadline_ms,
            age_ms,
            deadline_ms,
            restarts: self.restarts.load(Ordering::Relaxed),
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Looks at the loops of a worker from elsewhere, such as a health check; clones are cheap.
#[derive(Debug, Clone)]
pub struct HealthWatch(pub(crate) Arc<Loops>);

impl HealthWatch {
    /// How its loops are; none when the worker has stopped.
    #[must_use]
    pub fn health(&self) -> Option<Health> {
        (!self.0.gone.load(Ordering::Acquire)).then(|| self.0.health())
    }
}

/// All loops of one worker.
#[derive(Debug, Default)]
pub(crate) struct Loops {
    pulses: Mutex<Vec<Arc<Pulse>>>,
    complaints: Arc<Complaints>,
    /// True once the worker has stopped: loops that are silent then are no alarm.
    gone: AtomicBool,
}

impl Loops {
    /// Says that the worker has stopped.
    pub(crate) fn leave(&self) {
        self.gone.store(true, Ordering::Release);
    }

    /// The first of these loops that is silent for longer than it may be.
    pub(crate) fn silent(&self, names: &[&str]) -> Option<&'static str> {
        let pulses = self.pulses.lock().unwrap_or_else(PoisonError::into_inner);
        let mut named = pulses.iter().filter(|pulse| names.contains(&pulse.name));
        named.find(|pulse| !pulse.health().ok).map(|pulse| pulse.name)
    }

    pub(crate) fn health(&self) -> Health {
        let pulses = self.pulses.lock().unwrap_or_else(PoisonError::into_inner);
        let loops: Vec<_> = pulses.iter().map(|pulse| pulse.health()).collect();
        Health { ready: loops.iter().all(|one| one.ok), loops }
    }

    fn pulse(&self, name: &'static str, deadline: Duration) -> Arc<Pulse> {
        let pulse = Arc::new(Pulse {
            name,
            deadline,
            born: Instant::now(),
            last_beat_ms: AtomicU64::new(0),
            restarts: AtomicU32::new(0),
            complaints: self.complaints.clone(),
        });
        self.pulses.lock().unwrap_or_else(PoisonError::into_inner).push(pulse.clone());
        pulse
    }

    /// Runs `body` until `stop`, starting it again whenever it panics or returns early.
    pub(crate) fn supervise<F, Fut>(
        &self,
        name: &'static str,
        deadline: Duration,
        stop: CancellationToken,
        body: F,
    ) -> tokio::task::JoinHandle<()>
    where
        F: Fn(Arc<Pulse>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let pulse = self.pulse(name, deadline);
        tokio::spawn(async move {
            let mut pause = Duration::from_millis(100);
            loop {
                let ended = Bound(tokio::spawn(body(pulse.clone()))).ended().await;
                if stop.is_cancelled() {
                    return;
                }
                let why = if ended.is_err() { "panicked" } else { "returned" };
                let restarts = pulse.restarts.fetch_add(1, Ordering::Relaxed) + 1;
                tracing::error!(loop_name = name, restarts, "an engine loop {why} and is started again");
                tokio::select! {
                    () = tokio::time::sleep(pause) => pause = (pause * 2).min(RESTART_PAUSE_MAX),
                    () = stop.cancelled() => return,
                }
            }
        })
    }
}

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
        let (fetch, beat) =
            (loops.pulse("fetch", Duration::from_secs(1)), loops.pulse("heartbeat", Duration::from_secs(1)));
        let away = StoreError::Unavailable { location: "db".into(), problem: "gone".into(), source: None };
        let full = StoreError::DiskFull { location: "db".into(), source: None };
        let mut lines = Vec::new();
        for _ in 0..60 {
            fetch.warn(&away, || lines.push("fetch"));
            beat.warn(&away, || lines.push("heartbeat"));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(lines.len(), 6, "{lines:?}");
        // Another trouble is not hidden behind the first.
        beat.warn(&full, || lines.push("disk"));
        assert_eq!(lines.last(), Some(&"disk"));
    }
}
