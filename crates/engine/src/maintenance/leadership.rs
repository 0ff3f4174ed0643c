//! Asks for what somebody has to lead all the time, renews it, and takes over as soon as a term of another runs out.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use backstop_store::{Duty, Error as StoreError, Term};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::handle::Shared;
use crate::engine::Backstop;
use crate::loops::Pulse;

/// What must be led without a gap. The rest is led by [`super::upkeep`] and by the loop of alerts when it has something
/// to do: so a person can archive or prune by hand in between.
const ALWAYS: [Duty; 4] = [Duty::Rescue, Duty::Expire, Duty::Redrive, Duty::Count];

/// The longest term: what a node that died led is taken over by then, also when workers hold leases for longer.
const LONGEST: Duration = Duration::from_secs(15);

/// The shortest pause between two looks at the terms of others.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// What this node leads, as far as it knows: the store has the last word.
#[derive(Debug)]
pub(super) struct Leadership {
    led: Mutex<BTreeMap<Duty, (Term, Instant)>>,
    /// Counts changes of what is led.
    changes: watch::Sender<u64>,
    /// Rung when the store has refused a term.
    lost: Notify,
}

impl Default for Leadership {
    fn default() -> Self {
        Self { led: Mutex::default(), changes: watch::Sender::new(0), lost: Notify::new() }
    }
}

impl Leadership {
    /// The term of a duty that this node leads now.
    pub(super) fn term(&self, duty: Duty) -> Option<Term> {
        let led = self.led.lock().unwrap_or_else(PoisonError::into_inner);
        led.get(&duty).filter(|(_, until)| *until > Instant::now()).map(|(term, _)| *term)
    }

    /// Hears of changes of what is led.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The store says that another node leads.
    pub(super) fn lose(&self, duty: Duty) {
        self.led.lock().unwrap_or_else(PoisonError::into_inner).remove(&duty);
        self.lost.notify_one();
    }

    fn led(&self) -> Vec<Duty> {
        ALWAYS.into_iter().filter(|duty| self.term(*duty).is_some()).collect()
    }

    /// Notes the answers to what was asked for.
    fn note(&self, asked: &[Duty], answers: Vec<Option<Term>>, until: Instant) {
        let mut led = self.led.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = false;
        for (duty, answer) in asked.iter().zip(answers) {
            let before = led.remove(duty).map(|(term, _)| term.number);
            changed |= before != answer.map(|term| term.number);
            if let Some(term) = answer {
                led.insert(*duty, (term, until));
            }
        }
        drop(led);
        if changed {
            self.changes.send_modify(|count| *count += 1);
        }
    }
}

/// How long a term runs.
pub(super) fn span(shared: &Shared) -> Duration {
    shared.lease().min(LONGEST)
}

/// Leads what nobody else does, until it is told to stop.
pub(super) async fn run(engine: &Backstop, shared: &Shared, pulse: &Pulse) {
    while !shared.stop.is_cancelled() {
        pulse.beat();
        let pause = ask(engine, shared).await.unwrap_or_else(|error| {
            pulse.warn(&error, || tracing::warn!(%error, "maintenance waits for the store"));
            span(shared) / 3
        });
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            // Not at once: whoever leads now does so for a while.
            () = shared.leadership.lost.notified() => tokio::time::sleep(SHORTEST_PAUSE).await,
            () = shared.stop.cancelled() => {}
        }
    }
}

/// Renews what this node leads and asks for what nobody does; answers when to do so again.
async fn ask(engine: &Backstop, shared: &Shared) -> Result<Duration, StoreError> {
    let (store, span) = (&engine.inner.store, span(shared));
    let mut wanted = shared.leadership.led();
    let mut pause = span / 3;
    if wanted.len() < ALWAYS.len() {
        let terms = store.terms().await?;
        for duty in ALWAYS.into_iter().filter(|duty| shared.leadership.term(*duty).is_none()) {
            match terms.of(duty).filter(|term| term.expires_at > terms.now) {
                // Its own from before a restart of this loop is renewed.
                Some(term) if term.node != shared.node => {
                    pause = pause.min(terms.now.until(term.expires_at).max(SHORTEST_PAUSE));
                }
                _ => wanted.push(duty),
            }
        }
    }
    if !wanted.is_empty() {
        let until = Instant::now() + span;
        let answers = store.lead(shared.node, wanted.clone(), span).await?;
        shared.leadership.note(&wanted, answers, until);
    }
    Ok(pause)
}

/// Lets others lead what this node led, at once.
pub(super) async fn resign(engine: &Backstop, shared: &Shared) {
    // What cannot be written is left to the terms.
    let _ = engine.inner.store.lead(shared.node, Duty::ALL.to_vec(), Duration::ZERO).await;
}

impl Shared {
    /// Passes an answer of the store on to whom it concerns: one who no longer leads asks again.
    pub(super) fn heed(&self, answer: Result<(), StoreError>, pulse: &Pulse) {
        match answer {
            Ok(()) => {}
            Err(StoreError::Deposed { duty }) => self.leadership.lose(duty),
            Err(error) => pulse.warn(&error, || tracing::warn!(%error, "maintenance waits for the store")),
        }
    }

    /// Waits until `moment`, or until it leads something else than before, or the end.
    pub(super) async fn pause(&self, until: Instant, changes: &mut watch::Receiver<u64>) {
        tokio::select! {
            () = tokio::time::sleep_until(until) => {}
            _ = changes.changed() => {}
            () = self.stop.cancelled() => {}
        }
    }
}
