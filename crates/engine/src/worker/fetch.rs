//! The loop that claims work: at once when woken, by polling otherwise, never more than there is room for.

use std::sync::Arc;
use std::time::Duration;

use backstop_store::{Claim, ClaimQueue, ClaimedJob, Error as StoreError};
use tokio::sync::watch;

use super::runtime::{Served, Shared, lock};
use crate::loops::Pulse;
use crate::quiet::Quiet;

/// Jobs taken by one claim at most: enough to make a commit worth it, few enough to keep transactions short.
const BATCH: usize = 500;
/// The loops without which a claimed job would be lost: its lease would run out, or its end would never be written.
const RESTS_ON: [&str; 2] = ["heartbeat", "report"];
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(250);
/// How soon the next look follows after there was work: where it came from there may be more.
const FIRST_LOOK: Duration = Duration::from_millis(20);

impl<C: Send + Sync + 'static> Shared<C> {
    /// Runs until the worker stops.
    pub(crate) async fn fetch(self: Arc<Self>, pulse: &Pulse) {
        let mut arrivals = self.engine().inner.bus.arrivals();
        // A wake-up may be for the queues of others. One that was is a reason to look before the next claim.
        let (mut expected, mut credible) = (false, true);
        let mut unready = Quiet::default();
        let mut patience = Patience::new(self.executor.pace.poll);
        while !self.stop.is_cancelled() {
            pulse.beat();
            arrivals.mark_unchanged();
            // A worker that is not ready takes nothing that another could do (H2).
            if let Some(silent) = self.loops.silent(&RESTS_ON) {
                unready.warn(|| tracing::error!(loop_name = silent, "a loop is silent: nothing is claimed"));
                self.rest(Wait::Pause(PAUSE_AFTER_ERROR), &mut arrivals, &mut patience).await;
                continue;
            }
            match self.round(expected).await {
                Ok(wait) => {
                    match wait {
                        Wait::Room | Wait::Nothing => credible = true,
                        Wait::Misled => credible = false,
                        Wait::Work { .. } | Wait::Pause(_) => {}
                    }
                    let more = matches!(wait, Wait::Room);
                    let arrived = self.rest(wait, &mut arrivals, &mut patience).await;
                    expected = more || (arrived && credible);
                }
                Err(StoreError::NotEnlisted { .. }) => self.enlist_again().await,
                Err(error) => {
                    pulse.warn(&error, || tracing::warn!(%error, "no work can be claimed for the moment"));
                    self.rest(Wait::Pause(PAUSE_AFTER_ERROR), &mut arrivals, &mut patience).await;
                }
            }
        }
    }

    /// Starts what was claimed ahead, claims what there is room for, and says what to wait for.
    ///
    /// `expected` says that there is work, because it has just been stored or the last claim was filled: then looking
    /// before taking would only cost time.
    async fn round(self: &Arc<Self>, expected: bool) -> Result<Wait, StoreError> {
        self.start_buffered().await?;
        self.gather_room().await;
        let claim = self.claim();
        if claim.queues.is_empty() {
            return Ok(Wait::Room);
        }
        if !expected {
            let peek = self.store().peek(&claim).await?;
            if !peek.has_work() {
                let next = peek.next_due.map(|due| peek.now.until(due));
                return Ok(Wait::Work { next, full: self.some_are_full() });
            }
        }
        let asked: usize = claim.queues.iter().map(|queue| queue.limit).sum();
        let claimed = self.store().claim(claim).await?;
        let taken = claimed.jobs.len();
        self.dispatch(claimed.jobs);
        // A claim that was filled has more behind it; one that was not looks again before it rests.
        Ok(match taken {
            0 => Wait::Misled,
            taken if taken >= asked => Wait::Room,
            _ => Wait::Nothing,
        })
    }

    /// Lets slots that are being given back come back together, so that one claim fills them all.
    async fn gather_room(&self) {
        let room = || self.queues.iter().map(|queue| queue.slots.room()).sum::<usize>();
        let mut gathered = 0;
        loop {
            let free = room();
            if free == gathered || free >= BATCH {
                return;
            }
            gathered = free;
            tokio::task::yield_now().await;
        }
    }

    fn claim(&self) -> Claim {
        let queues = self.queues.iter().filter_map(|queue| {
            let free = queue.slots.room();
            let ahead = queue.prefetch.saturating_sub(lock(&queue.buffer).len());
            let limit = free.saturating_add(ahead).min(BATCH);
            (limit > 0).then(|| ClaimQueue {
                queue: queue.slots.queue.clone(),
                limit,
                start: free.min(limit),
                any_kind: queue.any_kind,
            })
        });
        Claim {
            worker: self.id(),
            queues: queues.collect(),
            kinds: self.kinds.clone(),
            aging: self.engine().inner.config.aging,
        }
    }

    fn some_are_full(&self) -> bool {
        self.queues.iter().any(|queue| queue.slots.room() == 0)
    }

    fn dispatch(self: &Arc<Self>, jobs: Vec<ClaimedJob>) {
        for claimed in jobs {
            let Some(queue) = self.served(&claimed) else { continue };
            if claimed.is_started() {
                let slot = queue.slots.take();
                self.launch(claimed, slot);
            } else {
                lock(&queue.buffer).push(claimed);
            }
        }
    }

    fn served(&self, claimed: &ClaimedJob) -> Option<&Served> {
        self.queues.iter().find(|queue| queue.slots.queue == claimed.job.spec.queue)
    }

    /// Counts the start of buffered jobs in the store, then runs them (C5).
    async fn start_buffered(self: &Arc<Self>) -> Result<(), StoreError> {
        for queue in &self.queues {
            let ready: Vec<ClaimedJob> = {
                let mut buffer = lock(&queue.buffer);
                let count = queue.slots.room().min(buffer.len());
                buffer.drain(..count).collect()
            };
            if ready.is_empty() {
                continue;
            }
            let answers = match self.store().start(ready.iter().map(|claimed| claimed.lease).collect()).await
            {
                Ok(answers) => answers,
                Err(error) => {
                    let mut buffer = lock(&queue.buffer);
                    buffer.splice(..0, ready);
                    return Err(error);
                }
            };
            for (mut claimed, answer) in ready.into_iter().zip(answers) {
                // A stale one was canceled or taken while it waited here: nothing of it was run.
                if answer.is_ok() && claimed.note_started() {
                    let slot = queue.slots.take();
                    self.launch(claimed, slot);
                }
            }
        }
        Ok(())
    }

    /// Waits for something to do; true when it was told that work has arrived.
    async fn rest(&self, wait: Wait, arrivals: &mut watch::Receiver<u64>, patience: &mut Patience) -> bool {
        let (longest, until_room, until_arrival) = match wait {
            Wait::Nothing => {
                patience.found_work();
                // What was stored while we claimed is not worth a look first either.
                return arrivals.has_changed().unwrap_or(false);
            }
            Wait::Misled => return false,
            Wait::Room => {
                patience.found_work();
                (self.executor.pace.poll, true, false)
            }
            Wait::Work { next, full } => {
                let look = patience.next_look();
                (next.unwrap_or(look).min(look), full, true)
            }
            Wait::Pause(pause) => (pause, false, false),
        };
        if until_room && !until_arrival && self.queues.iter().any(|queue| queue.slots.room() > 0) {
            return false;
        }
        tokio::select! {
            () = self.freed.notified(), if until_room => false,
            arrived = arrivals.changed(), if until_arrival => arrived.is_ok(),
            () = tokio::time::sleep(longest) => false,
            () = self.stop.cancelled() => false,
        }
    }

    /// After a lease was lost, the worker goes on as a new incarnation.
    pub(crate) async fn enlist_again(&self) {
        self.lose_everything();
        let id = crate::ids::worker_id();
        match self.enlist(id).await {
            Ok(()) => {
                *lock(&self.identity) = id;
                tracing::warn!(worker = %id, name = %self.name, "the lease had run out: enlisted again");
            }
            Err(error) => {
                tracing::warn!(%error, "cannot enlist again for the moment");
                tokio::time::sleep(PAUSE_AFTER_ERROR).await;
            }
        }
    }
}

/// How long to wait for a wake-up that may never come (L13): a store without notices is looked at often while work
/// comes, and ever more seldom while none does.
pub(crate) struct Patience {
    next: Duration,
    longest: Duration,
}

impl Patience {
    pub(crate) fn new(longest: Duration) -> Self {
        Self { next: FIRST_LOOK.min(longest), longest }
    }

    pub(crate) fn found_work(&mut self) {
        self.next = FIRST_LOOK.min(self.longest);
    }

    pub(crate) fn next_look(&mut self) -> Duration {
        let look = self.next;
        self.next = (look * 2).min(self.longest);
        look
    }
}

/// What the loop waits for before it looks again.
enum Wait {
    /// Nothing: look again at once.
    Nothing,
    /// Nothing either, although the claim found no work.
    Misled,
    /// A free slot.
    Room,
    /// Work that arrives or becomes due, or room in a queue that is full.
    Work { next: Option<Duration>, full: bool },
    /// A moment, after an error.
    Pause(Duration),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_rare_while_nothing_comes() {
        // L13
        let mut patience = Patience::new(Duration::from_secs(1));
        let mut looks = || -> Vec<u128> { (0..7).map(|_| patience.next_look().as_millis()).collect() };
        assert_eq!(looks(), [20, 40, 80, 160, 320, 640, 1_000]);
        assert_eq!(looks(), [1_000; 7]);
        patience.found_work();
        assert_eq!(patience.next_look().as_millis(), 20);
        assert_eq!(
            Patience::new(Duration::from_millis(5)).next_look().as_millis(),
            5,
            "never slower than asked for"
        );
    }
}
