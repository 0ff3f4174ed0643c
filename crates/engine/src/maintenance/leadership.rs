//! What this node leads of what somebody has to lead all the time.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use backstop_store::{Duty, Term};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// What must be led without a gap. The rest is led by [`super::upkeep`] and by the loop of alerts when it has something
/// to do: so a person can archive or prune by hand in between.
pub(super) const ALWAYS: [Duty; 5] = [Duty::Rescue, Duty::Expire, Duty::Redrive, Duty::Count, Duty::Schedule];

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

    /// Resolves when the store has refused a term.
    pub(super) async fn lost(&self) {
        self.lost.notified().await;
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

    pub(super) fn led(&self) -> Vec<Duty> {
        ALWAYS.into_iter().filter(|duty| self.term(*duty).is_some()).collect()
    }

    /// Notes the answers to what was asked for.
    pub(super) fn note(&self, asked: &[Duty], answers: Vec<Option<Term>>, until: Instant) {
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
