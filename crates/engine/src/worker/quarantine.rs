//! Suspects of a worker (C3): those that must run alone wait here, held and not started, until nothing else runs; and
//! nothing else starts until they have ended.
//!
//! A worker that is busy is emptied for them: it takes nothing new. What runs may itself wait for a job that is not
//! taken now, or take hours; so after a while they are handed back, for a worker that has less to do, and this one goes
//! on. The next time it tries for longer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_core::{Lease, WorkerId};
use backstop_store::{ClaimedJob, Error as StoreError};
use tokio::time::Instant;

use super::execute::hand_back;
use super::report::PendingEnding;
use super::runtime::{RunningWorker, lock};

/// The longest time for which a worker takes nothing new because of a suspect.
const LONGEST_WAIT: Duration = Duration::from_secs(15 * 60);

/// See the module.
#[derive(Default)]
pub(crate) struct Quarantine(Mutex<Suspects>);

#[derive(Default)]
struct Suspects {
    /// Claimed, and not looked into yet.
    arrived: Vec<ClaimedJob>,
    /// Must run alone, in the order in which they were claimed.
    waiting: VecDeque<Suspect>,
    /// The one that runs, and who it died with.
    running: Option<(Lease, Option<WorkerId>)>,
    /// Until when nothing new is taken, because suspects wait.
    closed_until: Option<Instant>,
    /// How often this worker could not be emptied in that time, since a suspect last ran.
    failures: u32,
}

/// A suspect that must run alone.
struct Suspect {
    claimed: ClaimedJob,
    died_with: Option<WorkerId>,
}

impl Suspects {
    /// Waits for the worker to be empty, for the first time this long; answers for how long, once that time is over.
    fn wait_until_empty(&mut self, now: Instant, first: Duration) -> Option<Duration> {
        let doubled = first.saturating_mul(1 << self.failures.min(16));
        let span = doubled.min(first.max(LONGEST_WAIT));
        let until = *self.closed_until.get_or_insert(now + span);
        if now < until {
            return None;
        }
        self.closed_until = None;
        self.failures = self.failures.saturating_add(1);
        Some(span)
    }
}

impl Quarantine {
    /// Keeps a suspect that was claimed and not started.
    pub(super) fn hold(&self, claimed: ClaimedJob) {
        lock(&self.0).arrived.push(claimed);
    }

    /// True when nothing may be claimed: a suspect has to be looked into first, or runs, or is about to.
    pub(super) fn is_closed(&self) -> bool {
        let suspects = lock(&self.0);
        !suspects.arrived.is_empty() || suspects.running.is_some() || suspects.closed_until.is_some()
    }

    /// True when a suspect has to be looked into.
    pub(super) fn has_arrivals(&self) -> bool {
        !lock(&self.0).arrived.is_empty()
    }

    /// What is held here and has not started.
    pub(super) fn leases(&self) -> Vec<Lease> {
        let suspects = lock(&self.0);
        let waiting = suspects.waiting.iter().map(|suspect| &suspect.claimed);
        suspects.arrived.iter().chain(waiting).map(|claimed| claimed.lease).collect()
    }

    /// Lets go of what is held here and has not started.
    pub(super) fn take_all(&self) -> Vec<ClaimedJob> {
        let suspects = &mut *lock(&self.0);
        suspects.closed_until = None;
        let waiting = suspects.waiting.drain(..).map(|suspect| suspect.claimed);
        suspects.arrived.drain(..).chain(waiting).collect()
    }

    /// A lease is no longer held.
    pub(super) fn lose(&self, lease: Lease) {
        let mut suspects = lock(&self.0);
        suspects.arrived.retain(|claimed| claimed.lease != lease);
        suspects.waiting.retain(|suspect| suspect.claimed.lease != lease);
    }

    /// What died with this worker is to be looked into again.
    pub(super) fn look_again(&self, died_with: WorkerId) {
        let suspects = &mut *lock(&self.0);
        let (again, waiting) = std::mem::take(&mut suspects.waiting)
            .into_iter()
            .partition::<VecDeque<Suspect>, _>(|suspect| suspect.died_with == Some(died_with));
        suspects.waiting = waiting;
        suspects.arrived.extend(again.into_iter().map(|suspect| suspect.claimed));
    }

    /// A run has ended. Answers who it died with, if it was a suspect that ran alone.
    pub(super) fn ended(&self, lease: Lease) -> Option<WorkerId> {
        let running = &mut lock(&self.0).running;
        let (_, died_with) = running.take_if(|(suspect, _)| *suspect == lease)?;
        died_with
    }
}

impl RunningWorker {
    /// Looks into suspects that were claimed: those that may run beside others are started as what was claimed ahead.
    pub(super) async fn sort_suspects(&self) -> Result<(), StoreError> {
        let mut arrived = std::mem::take(&mut lock(&self.quarantine.0).arrived).into_iter();
        while let Some(claimed) = arrived.next() {
            let suspect = match self.look_into(&claimed).await {
                Ok(suspect) => suspect,
                Err(error) => {
                    lock(&self.quarantine.0).arrived.extend(std::iter::once(claimed).chain(arrived));
                    return Err(error);
                }
            };
            if let Some(died_with) = suspect {
                lock(&self.quarantine.0).waiting.push_back(Suspect { claimed, died_with });
                continue;
            }
            let of = |queue: &Arc<str>| *queue == claimed.job.spec.queue;
            if let Some(queue) = self.queues.iter().find(|served| of(&served.slots.queue)) {
                lock(&queue.buffer).push(claimed);
            }
        }
        Ok(())
    }

    /// Who a suspect died with, if it must run alone; none when it need not.
    async fn look_into(&self, claimed: &ClaimedJob) -> Result<Option<Option<WorkerId>>, StoreError> {
        let ClaimedJob { job, record, .. } = claimed;
        if self.executor.gives_a_process_to(job, record) {
            return Ok(None);
        }
        let parts = self.parts();
        let found = parts.cleared_suspects.look_into(&*parts.store, job, record).await?;
        Ok(found.alone.then_some(found.died_with))
    }

    /// Starts the next suspect once nothing else runs here; answers whether other jobs may start.
    pub(super) async fn run_suspects(self: &Arc<Self>) -> Result<bool, StoreError> {
        while let Some(next) = self.next_suspect() {
            if self.run_alone(next).await? {
                break;
            }
        }
        Ok(!self.quarantine.is_closed())
    }

    /// The next suspect, if it can start now.
    fn next_suspect(&self) -> Option<Suspect> {
        // An end that is not durable would be blamed as much as a run.
        let empty = lock(&self.running).is_empty() && self.outbox.leases().is_empty();
        let suspects = &mut *lock(&self.quarantine.0);
        if suspects.running.is_some() || suspects.waiting.is_empty() {
            suspects.closed_until = None;
            return None;
        }
        if empty {
            (suspects.closed_until, suspects.failures) = (None, 0);
            return suspects.waiting.pop_front();
        }
        let delay = suspects.wait_until_empty(Instant::now(), self.executor.times.lease)?;
        tracing::warn!(suspects = suspects.waiting.len(), waited = ?delay,
            "jobs that may have killed their process run alone, and this worker is never empty: they are handed back");
        for suspect in suspects.waiting.drain(..) {
            let finish = hand_back(&suspect.claimed, delay);
            self.outbox.push(PendingEnding::new(finish, false, None));
        }
        None
    }

    /// Starts a suspect; false when it is no longer this worker's, and the next can start.
    async fn run_alone(self: &Arc<Self>, suspect: Suspect) -> Result<bool, StoreError> {
        let of = |queue: &Arc<str>| *queue == suspect.claimed.job.spec.queue;
        let slots = self.queues.iter().map(|served| &served.slots).find(|slots| of(&slots.queue));
        let Some(mut room) = slots.map(|slots| slots.reserve(1)) else { return Ok(false) };
        if room.count() == 0 {
            // A handler that does not let go has the last slot of the queue.
            lock(&self.quarantine.0).waiting.push_front(suspect);
            return Ok(true);
        }
        let lease = suspect.claimed.lease;
        let answers = match self.store().start(vec![lease]).await {
            Ok(answers) => answers,
            Err(error) => {
                lock(&self.quarantine.0).waiting.push_front(suspect);
                return Err(error);
            }
        };
        let Suspect { mut claimed, died_with } = suspect;
        // A stale one was canceled or taken while it waited here: nothing of it was run.
        let started = answers.iter().all(Result::is_ok) && claimed.note_started();
        if started {
            lock(&self.quarantine.0).running = Some((lease, died_with));
            self.launch(claimed, room.take());
        }
        Ok(started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_worker_is_emptied_for_longer_each_time() {
        // C3
        let (begun, first) = (Instant::now(), Duration::from_secs(30));
        let mut suspects = Suspects::default();
        let mut waited = Vec::new();
        for second in 0..10_000 {
            waited.extend(suspects.wait_until_empty(begun + Duration::from_secs(second), first));
        }
        let waited: Vec<u64> = waited.into_iter().map(|span| span.as_secs()).collect();
        assert_eq!(waited[..6], [30, 60, 120, 240, 480, 900]);
        assert!(waited[6..].iter().all(|span| *span == LONGEST_WAIT.as_secs()));
        let long = Duration::from_secs(3_600);
        assert_eq!(
            Suspects::default().wait_until_empty(begun, long),
            None,
            "the lease may be longer than that"
        );
    }
}
