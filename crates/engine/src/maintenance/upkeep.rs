//! What is done seldom and may take long: each duty is led for as long as it takes, then left to whoever comes next.

use std::time::Duration;

use backstop_store::Duty;
use tokio::time::Instant;

use super::gates;
use super::perform::{DutyParts, lead};
use super::state::MaintenanceState;
use crate::loops::LoopHeartbeat;

/// How often each is done. What is kept for days need not be looked at every few seconds.
pub(super) const SELDOM: [(Duty, Duration); 3] = [
    (Duty::WatchCode, Duration::from_secs(60)),
    (Duty::Archive, Duration::from_secs(300)),
    (Duty::Prune, Duration::from_secs(300)),
];

/// With a lease that is shorter than the default, everything is done more often in the same measure.
const LEASE: Duration = Duration::from_secs(30);

pub(super) async fn run(parts: &DutyParts, state: &MaintenanceState, heartbeat: &LoopHeartbeat) {
    let engine = &parts.engine;
    let mut next = [Instant::now(); SELDOM.len()];
    let mut gates_are_told = false;
    while !state.stop.is_cancelled() {
        heartbeat.record();
        if !gates_are_told {
            let told = gates::publish(&*engine.store, &engine.config).await;
            gates_are_told = told.is_ok();
            state.heed(told, heartbeat);
        }
        let now = Instant::now();
        let mut due = Vec::new();
        for (moment, (duty, _)) in next.iter_mut().zip(SELDOM).filter(|(moment, _)| **moment <= now) {
            *moment = now + period(duty, state.lease());
            due.push(duty);
        }
        if !due.is_empty() {
            let span = state.term_span();
            let answer = lead(parts, state.node, span, due.clone(), heartbeat).await;
            state.heed(answer, heartbeat);
            // Whoever wants to do one of them by hand need not wait; what cannot be written is left to the terms.
            let _ = engine.store.lead(state.node, due, Duration::ZERO).await;
        }
        let soonest = next.iter().min().copied().unwrap_or(now).min(now + state.lease() / 3);
        tokio::select! {
            () = tokio::time::sleep_until(soonest) => {}
            () = state.stop.cancelled() => {}
        }
    }
}

/// How often a duty is done that is done seldom.
fn period(duty: Duty, lease: Duration) -> Duration {
    let seldom = SELDOM.iter().find(|(one, _)| *one == duty).map_or(LEASE, |(_, period)| *period);
    seldom.min(seldom.mul_f64(lease.as_secs_f64() / LEASE.as_secs_f64()))
}
