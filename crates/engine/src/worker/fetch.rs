//! The loop that claims work: at once when woken, by polling otherwise, never more than there is room for.

use std::sync::Arc;
use std::time::Duration;

use backstop_store::{Claim, ClaimQueue, ClaimedJob, Error as StoreError};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use super::doubt::Doubt;
use super::runtime::{Shared, lock};
use super::slots::Reserved;
use crate::loops::Pulse;
use crate::quiet::Quiet;

/// Jobs taken by one claim at most: enough to make a commit worth it, few enough to keep transactions short.
const BATCH: usize = 500;
/// Claims under way at once while there is a backlog: the store looks for the next jobs while the last ones are read.
const AHEAD: usize = 2;
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
        let mut doubt = Doubt::default();
        while !self.stop.is_cancelled() {
            pulse.beat();
            arrivals.mark_unchanged();
            if !self.is_ready(&mut unready) {
                self.rest(Wait::Pause(PAUSE_AFTER_ERROR), &mut arrivals, &mut patience).await;
                continue;
            }
            if doubt.wants_a_look() {
                match self.hand_back_unknown().await {
                    Ok(()) => doubt.looked(self.executor.pace.lease / 2),
                    Err(error) => {
                        pulse.warn(&error, || tracing::warn!(%error, "what a claim took cannot be seen"));
                        self.rest(Wait::Pause(PAUSE_AFTER_ERROR), &mut arrivals, &mut patience).await;
                        continue;
                    }
                }
            }
            match self.round(expected, pulse, &mut unready).await {
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
                    if error.is_unknown() {
                        doubt.raise();
                    }
                    pulse.warn(&error, || tracing::warn!(%error, "no work can be claimed for the moment"));
                    self.rest(Wait::Pause(PAUSE_AFTER_ERROR), &mut arrivals, &mut patience).await;
                }
            }
        }
    }

    /// A worker that is not ready takes nothing that another could do (H2).
    fn is_ready(&self, unready: &mut Quiet) -> bool {
        let silent = self.loops.silent(&RESTS_ON);
        if let Some(silent) = silent {
            unready.warn(|| tracing::error!(loop_name = silent, "a loop is silent: nothing is claimed"));
        }
        silent.is_none()
    }

    /// Starts what was claimed ahead, claims what there is room for, and says what to wait for.
    ///
    /// `expected` says that there is work, because it has just been stored or the last claim was filled: then looking
    /// before taking would only cost time.
    async fn round(
        self: &Arc<Self>,
        expected: bool,
        pulse: &Pulse,
        unready: &mut Quiet,
    ) -> Result<Wait, StoreError> {
        self.start_buffered().await?;
        self.gather_room().await;
        let wanted = self.want();
        if wanted.claim.queues.is_empty() {
            return Ok(Wait::Room);
        }
        if !expected {
            let peek = self.store().peek(&wanted.claim).await?;
            if !peek.has_work() {
                drop(wanted);
                let next = peek.next_due.map(|due| peek.now.until(due));
                return Ok(Wait::Work { next, full: self.some_are_full() });
            }
        }
        let asked = wanted.asked();
        // A claim that was filled has more behind it; one that was not looks again before it rests.
        match self.take(wanted).await? {
            0 => Ok(Wait::Misled),
            taken if taken < asked => Ok(Wait::Nothing),
            _ if self.queues.iter().any(|queue| queue.prefetch > 0) => Ok(Wait::Room),
            _ => self.work_off(pulse, unready).await,
        }
    }

    /// Works off a backlog: claims, with another claim already under way, for as long as they are filled and there is
    /// room for whole batches.
    async fn work_off(self: &Arc<Self>, pulse: &Pulse, unready: &mut Quiet) -> Result<Wait, StoreError> {
        let mut under_way: JoinSet<Result<bool, StoreError>> = JoinSet::new();
        let mut end = None;
        loop {
            let goes_on = end.is_none() && !self.stop.is_cancelled();
            if goes_on && under_way.len() < AHEAD && self.room() >= BATCH && self.is_ready(unready) {
                let (shared, wanted) = (self.clone(), self.want());
                let asked = wanted.asked();
                under_way.spawn(async move { Ok(shared.take(wanted).await? >= asked) });
                continue;
            }
            let Some(ended) = under_way.join_next().await else { break };
            pulse.beat();
            match ended.unwrap_or_else(carry_on) {
                Ok(true) => {}
                Ok(false) if end.is_none() => end = Some(Ok(())),
                Ok(false) => {}
                // That an answer was lost must not be forgotten for an error that came after it.
                Err(_) if matches!(&end, Some(Err(first)) if StoreError::is_unknown(first)) => {}
                Err(error) => end = Some(Err(error)),
            }
        }
        Ok(if end.transpose()?.is_some() { Wait::Nothing } else { Wait::Room })
    }

    /// Claims, and starts what comes; answers how many those are.
    async fn take(self: &Arc<Self>, wanted: Wanted) -> Result<usize, StoreError> {
        let claimed = self.store().claim(wanted.claim).await?;
        let taken = claimed.jobs.len();
        self.dispatch(claimed.jobs, wanted.room);
        Ok(taken)
    }

    fn room(&self) -> usize {
        self.queues.iter().map(|queue| queue.slots.room()).sum()
    }

    /// Lets slots that are being given back come back together, so that one claim fills them all.
    async fn gather_room(&self) {
        let mut gathered = 0;
        loop {
            let free = self.room();
            if free == gathered || free >= BATCH {
                return;
            }
            gathered = free;
            tokio::task::yield_now().await;
        }
    }

    /// A claim for all the room there is, which is set aside for it.
    fn want(&self) -> Wanted {
        let mut wanted = Vec::new();
        let mut room = Vec::with_capacity(self.queues.len());
        for queue in &self.queues {
            let reserved = queue.slots.reserve(BATCH);
            let ahead = queue.prefetch.saturating_sub(lock(&queue.buffer).len());
            let limit = reserved.count().saturating_add(ahead).min(BATCH);
            if limit > 0 {
                wanted.push(ClaimQueue {
                    queue: queue.slots.queue.clone(),
                    limit,
                    start: reserved.count(),
                    any_kind: queue.any_kind,
                });
            }
            room.push(reserved);
        }
        let claim = Claim {
            worker: self.id(),
            queues: wanted,
            kinds: self.kinds.clone(),
            aging: self.engine().inner.config.aging,
        };
        Wanted { claim, room }
    }

    fn some_are_full(&self) -> bool {
        self.queues.iter().any(|queue| queue.slots.room() == 0)
    }

    fn dispatch(self: &Arc<Self>, jobs: Vec<ClaimedJob>, mut room: Vec<Reserved>) {
        for claimed in jobs {
            let of = |queue: &Arc<str>| *queue == claimed.job.spec.queue;
            let Some(place) = self.queues.iter().position(|served| of(&served.slots.queue)) else { continue };
            if claimed.is_started() {
                let slot = room[place].take();
                self.launch(claimed, slot);
            } else {
                lock(&self.queues[place].buffer).push(claimed);
            }
        }
    }

    /// Counts the start of buffered jobs in the store, then runs them (C5).
    async fn start_buffered(self: &Arc<Self>) -> Result<(), StoreError> {
        for queue in &self.queues {
            let (ready, mut room): (Vec<ClaimedJob>, Reserved) = {
                let mut buffer = lock(&queue.buffer);
                let room = queue.slots.reserve(buffer.len());
                (buffer.drain(..room.count()).collect(), room)
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
                    self.launch(claimed, room.take());
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
        if until_room && !until_arrival && self.room() > 0 {
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

/// A claim, and the room for what it brings: for each queue of the worker.
struct Wanted {
    claim: Claim,
    room: Vec<Reserved>,
}

impl Wanted {
    fn asked(&self) -> usize {
        self.claim.queues.iter().map(|queue| queue.limit).sum()
    }
}

/// A panic goes on where it is looked after, as if what panicked had been no task of its own. Nobody aborts such a task
/// but who drops them all.
fn carry_on<T>(problem: JoinError) -> T {
    std::panic::resume_unwind(
        problem.try_into_panic().unwrap_or_else(|problem| Box::new(problem.to_string())),
    )
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
