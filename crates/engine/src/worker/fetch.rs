//! The loop that claims work: at once when woken, by polling otherwise, never more than there is room for.

use std::sync::Arc;
use std::time::Duration;

use backstop_store::{Claim, ClaimQueue, ClaimedJob, Error as StoreError, Peek};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

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
        // Until then nothing is due but what arrives.
        let mut lull = None;
        let mut unready = Quiet::default();
        let mut patience = Patience::new(self.executor.pace.poll);
        let mut doubt = Doubt::default();
        if pulse.restarts() > 0 {
            // Whatever was under way when the loop before this one ended may have taken something.
            doubt.raise();
        }
        while !self.stop.is_cancelled() {
            pulse.beat();
            if lull.is_none() {
                arrivals.mark_unchanged();
            }
            if !self.is_ready(&mut unready) {
                lull = None;
                self.pause(PAUSE_AFTER_ERROR).await;
                continue;
            }
            if doubt.wants_a_look() {
                match self.hand_back_unknown().await {
                    Ok(()) => doubt.looked(self.executor.pace.lease / 2),
                    Err(error) => {
                        pulse.warn(&error, || tracing::warn!(%error, "what a claim took cannot be seen"));
                        self.pause(PAUSE_AFTER_ERROR).await;
                        continue;
                    }
                }
            }
            let wait = match lull.take() {
                // What waits here starts in a round of its own.
                Some(until) if !self.has_buffered() => Ok(self.go_on_waiting(until)),
                _ => self.round(expected, pulse, &mut unready, &mut patience).await,
            };
            let rested = match wait {
                Ok(wait) => {
                    match wait {
                        Wait::Room | Wait::Nothing => credible = true,
                        Wait::Misled => credible = false,
                        Wait::Full { .. } | Wait::Work { .. } => {}
                    }
                    self.rest(wait, &mut arrivals, &mut patience, pulse).await
                }
                Err(error) => Err(error),
            };
            expected =
                matches!(rested, Ok(Rested::More)) || (matches!(rested, Ok(Rested::Arrived)) && credible);
            match rested {
                Ok(Rested::Lull { until }) => lull = Some(until),
                Ok(_) => {}
                // Unless it has been enlisted again meanwhile.
                Err(StoreError::NotEnlisted { worker }) if worker != self.id() => {}
                Err(StoreError::NotEnlisted { .. }) => self.enlist_again().await,
                Err(error) => {
                    if error.is_unknown() {
                        doubt.raise();
                    }
                    pulse.warn(&error, || tracing::warn!(%error, "no work can be claimed for the moment"));
                    self.pause(PAUSE_AFTER_ERROR).await;
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
        patience: &mut Patience,
    ) -> Result<Wait, StoreError> {
        let wanted = loop {
            self.start_buffered().await?;
            self.gather_room().await;
            let wanted = self.want();
            // Room that came back meanwhile is for what waits here. Nobody would wake us for it again: the claim holds
            // that room now, and waits for other jobs.
            if !self.could_start(&wanted) {
                break wanted;
            }
        };
        if wanted.claim.queues.is_empty() {
            return Ok(Wait::Room);
        }
        // Each call to the store has a deadline of its own.
        pulse.beat();
        if !expected {
            let peek = self.store().peek(&wanted.claim).await?;
            if !peek.has_work() {
                return Ok(Wait::Work { until: patience.next_look(&peek), wanted });
            }
        }
        let asked = wanted.asked();
        pulse.beat();
        // A claim that was filled has more behind it; one that was not looks again before it rests.
        match self.take(wanted).await? {
            0 => Ok(Wait::Misled),
            taken if taken < asked => Ok(Wait::Nothing),
            _ if self.queues.iter().any(|queue| queue.prefetch > 0) => Ok(Wait::Room),
            _ => self.work_off(pulse, unready).await,
        }
    }

    /// True when a claim has set room aside in a queue where jobs wait that were claimed ahead.
    fn could_start(&self, wanted: &Wanted) -> bool {
        let mut queues = self.queues.iter().zip(&wanted.room);
        queues.any(|(queue, room)| room.count() > 0 && !lock(&queue.buffer).is_empty())
    }

    /// True when jobs wait here that were claimed ahead.
    fn has_buffered(&self) -> bool {
        self.queues.iter().any(|queue| !lock(&queue.buffer).is_empty())
    }

    /// Waits for the rest of a lull in which only what arrives is due.
    fn go_on_waiting(&self, until: Instant) -> Wait {
        let wanted = self.want();
        if wanted.claim.queues.is_empty() { Wait::Full { until } } else { Wait::Work { until, wanted } }
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

    /// Waits for something to do.
    async fn rest(
        self: &Arc<Self>,
        wait: Wait,
        arrivals: &mut watch::Receiver<u64>,
        patience: &mut Patience,
        pulse: &Pulse,
    ) -> Result<Rested, StoreError> {
        match wait {
            Wait::Nothing => {
                patience.found_work();
                // What was stored while we claimed is not worth a look first either.
                let arrived = arrivals.has_changed().unwrap_or(false);
                Ok(if arrived { Rested::Arrived } else { Rested::Plainly })
            }
            Wait::Misled => Ok(Rested::Plainly),
            Wait::Room => {
                patience.found_work();
                self.until_room().await;
                Ok(Rested::More)
            }
            Wait::Full { until } => {
                self.until_room().await;
                Ok(Rested::Lull { until })
            }
            Wait::Work { until, wanted } => self.stand_by(until, wanted, arrivals, patience, pulse).await,
        }
    }

    /// Waits for work that arrives or becomes due, or for room in a queue that is full, and lets the store hand over
    /// what it stores meanwhile: also while it looks whether there is any.
    async fn stand_by(
        self: &Arc<Self>,
        mut until: Instant,
        wanted: Wanted,
        arrivals: &mut watch::Receiver<u64>,
        patience: &mut Patience,
        pulse: &Pulse,
    ) -> Result<Rested, StoreError> {
        let full = wanted.room.iter().any(|room| room.count() == 0);
        let looked_for = wanted.claim.clone();
        let (offer, room) = wanted.at_once();
        let (mut arrived, mut due) = (false, false);
        let withdrawn = async {
            loop {
                tokio::select! {
                    () = self.freed.notified(), if full => return,
                    changed = arrivals.changed() => {
                        arrived = changed.is_ok();
                        return;
                    }
                    () = self.stop.cancelled() => return,
                    () = tokio::time::sleep_until(until) => {}
                }
                pulse.beat();
                match self.look(looked_for.clone()).await {
                    Some(peek) if !peek.has_work() => until = patience.next_look(&peek),
                    peek => {
                        due = peek.is_some();
                        return;
                    }
                }
            }
        };
        let served = self.store().offer(offer, Box::pin(withdrawn)).await?;
        let is_served = served.is_some();
        if let Some(claimed) = served {
            self.dispatch(claimed.jobs, room);
        }
        Ok(if due {
            Rested::More
        } else if arrived {
            Rested::Arrived
        } else if is_served {
            Rested::Lull { until }
        } else {
            Rested::Plainly
        })
    }

    /// Looks whether there is work; none when it cannot be seen, or must not be taken. A look goes on when nobody waits
    /// for it any more: one that is cut short costs a connection.
    async fn look(self: &Arc<Self>, claim: Claim) -> Option<Peek> {
        let shared = self.clone();
        let look = tokio::spawn(async move { shared.store().peek(&claim).await });
        let peek = look.await.ok()?.ok()?;
        self.loops.silent(&RESTS_ON).is_none().then_some(peek)
    }

    async fn until_room(&self) {
        if self.room() == 0 {
            tokio::select! {
                () = self.freed.notified() => {}
                () = self.pause(self.executor.pace.poll) => {}
            }
        }
    }

    async fn pause(&self, span: Duration) {
        tokio::select! {
            () = tokio::time::sleep(span) => {}
            () = self.stop.cancelled() => {}
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

    /// When to look again after a look that found nothing due.
    fn next_look(&mut self, peek: &Peek) -> Instant {
        let look = self.pause();
        Instant::now() + peek.next_due.map_or(look, |due| peek.now.until(due).min(look))
    }

    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause
    }
}

/// A claim, and the room for what it brings: for each queue of the worker.
struct Wanted {
    claim: Claim,
    room: Vec<Reserved>,
}

impl Wanted {
    /// The claim without what is claimed ahead, and its room.
    fn at_once(self) -> (Claim, Vec<Reserved>) {
        let Self { mut claim, room } = self;
        claim.queues.retain_mut(|queue| {
            queue.limit = queue.start;
            queue.limit > 0
        });
        (claim, room)
    }

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
    /// A free slot, for the work that there is.
    Room,
    /// A free slot. Before this only what arrives is due.
    Full { until: Instant },
    /// Work that arrives or becomes due, or room in a queue that is full.
    Work { until: Instant, wanted: Wanted },
}

/// How a wait ended.
enum Rested {
    /// It is time to look.
    Plainly,
    /// There is work, or there was more than could be claimed.
    More,
    /// It was told that work has arrived.
    Arrived,
    /// It was handed work or has room again, and has heard of no other work; nothing else is due before this.
    Lull { until: Instant },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_rare_while_nothing_comes() {
        // L13
        let mut patience = Patience::new(Duration::from_secs(1));
        let mut looks = || -> Vec<u128> { (0..7).map(|_| patience.pause().as_millis()).collect() };
        assert_eq!(looks(), [20, 40, 80, 160, 320, 640, 1_000]);
        assert_eq!(looks(), [1_000; 7]);
        patience.found_work();
        assert_eq!(patience.pause().as_millis(), 20);
        assert_eq!(
            Patience::new(Duration::from_millis(5)).pause().as_millis(),
            5,
            "never slower than asked for"
        );
    }
}
