//! The books of the fetch loop: slots that are set aside for a claim, and jobs that were claimed ahead of theirs.

use std::sync::Arc;
use std::time::Duration;

use backstop_store::{Claim, ClaimQueue, ClaimedJob, Error as StoreError};
use tokio::time::{Instant, timeout_at};

use super::super::execute::hand_back;
use super::super::report::PendingEnding;
use super::super::runtime::{RunningWorker, lock};
use super::super::slots::Reserved;

/// Jobs taken by one claim at most: enough to make a commit worth it, few enough to keep transactions short.
pub(super) const BATCH: usize = 500;
/// So much room is worth a claim of its own. A claim of one job costs the store about as much as one of so many.
const WORTH_A_CLAIM: usize = 64;
/// How long a claim of less waits for the room of runs whose ends are being written. A write that takes longer holds up
/// nobody.
const MOST_GATHERING: Duration = Duration::from_millis(10);

/// A claim, and the room for what it brings: for each queue of the worker.
pub(super) struct Wanted {
    pub(super) claim: Claim,
    pub(super) room: Vec<Reserved>,
}

impl Wanted {
    /// The claim without what is claimed ahead, and its room.
    pub(super) fn at_once(self) -> (Claim, Vec<Reserved>) {
        let Self { mut claim, room } = self;
        claim.queues.retain_mut(|queue| {
            queue.limit = queue.start;
            queue.limit > 0
        });
        (claim, room)
    }

    pub(super) fn asked(&self) -> usize {
        self.claim.queues.iter().map(|queue| queue.limit).sum()
    }
}

impl RunningWorker {
    /// True when jobs are claimed before there are slots to run them.
    pub(super) fn claims_ahead(&self) -> bool {
        self.queues.iter().any(|queue| queue.prefetch > 0)
    }

    /// Room for what is claimed; none for anybody while a suspect is to run alone (C3).
    pub(super) fn room(&self) -> usize {
        if self.quarantine.is_closed() {
            return 0;
        }
        self.queues.iter().map(|queue| queue.slots.room()).sum()
    }

    /// Starts what was claimed ahead, and sets aside what room is left.
    pub(super) async fn prepare(self: &Arc<Self>) -> Result<Wanted, StoreError> {
        loop {
            self.sort_suspects().await?;
            if !self.run_suspects().await? {
                return Ok(self.want());
            }
            self.start_buffered().await?;
            self.gather_room().await;
            let wanted = self.want();
            // Room that came back meanwhile is for what waits here. Nobody would wake us for it again: the claim holds
            // that room now, and waits for other jobs.
            if !self.could_start(&wanted) {
                return Ok(wanted);
            }
        }
    }

    /// True when a claim has set room aside in a queue where jobs wait that were claimed ahead.
    fn could_start(&self, wanted: &Wanted) -> bool {
        let mut queues = self.queues.iter().zip(&wanted.room);
        queues.any(|(queue, room)| room.count() > 0 && !lock(&queue.buffer).is_empty())
    }

    /// Lets slots that are being given back come back together, so that one claim fills them all: also those of runs
    /// whose ends are being written, while that is most of what a small claim could fill.
    async fn gather_room(&self) {
        let until = Instant::now() + MOST_GATHERING;
        let mut gathered = 0;
        loop {
            let free = self.room();
            if free >= BATCH {
                return;
            }
            if free != gathered {
                gathered = free;
                tokio::task::yield_now().await;
            } else if !is_worth_waiting(free, self.outbox.count())
                || timeout_at(until, self.freed.notified()).await.is_err()
            {
                return;
            }
        }
    }

    /// A claim for all the room there is, which is set aside for it.
    pub(super) fn want(&self) -> Wanted {
        let mut wanted = Vec::new();
        let mut room = Vec::with_capacity(self.queues.len());
        let kinds = self.health.claimable(&self.kinds);
        let all_kinds = kinds.len() == self.kinds.len();
        let mut left = self.health.room(|| self.held().len()).unwrap_or(usize::MAX);
        for queue in &self.queues {
            let most = if self.quarantine.is_closed() { 0 } else { BATCH.min(left) };
            let reserved = queue.slots.reserve(most);
            let ahead = queue.prefetch.saturating_sub(lock(&queue.buffer).len());
            let limit = reserved.count().saturating_add(ahead).min(most);
            left = left.saturating_sub(limit);
            if limit > 0 {
                wanted.push(ClaimQueue {
                    queue: queue.slots.queue.clone(),
                    limit,
                    start: reserved.count(),
                    // A kind that is left out for now is known all the same.
                    any_kind: queue.any_kind && all_kinds,
                });
            }
            room.push(reserved);
        }
        let claim = Claim {
            worker: self.id(),
            queues: wanted,
            kinds,
            aging: self.parts().config.aging,
            limits: Arc::default(),
        };
        Wanted { claim, room }
    }

    pub(super) fn dispatch(self: &Arc<Self>, jobs: Vec<ClaimedJob>, mut room: Vec<Reserved>) {
        for claimed in jobs {
            let of = |queue: &Arc<str>| *queue == claimed.job.spec.queue;
            let Some(place) = self.queues.iter().position(|served| of(&served.slots.queue)) else { continue };
            if claimed.is_started() {
                let slot = room[place].take();
                self.launch(claimed, slot);
            } else if !claimed.record.starts_when_claimed() {
                self.quarantine.hold(claimed);
            } else {
                lock(&self.queues[place].buffer).push(claimed);
            }
        }
    }

    /// True when some kind may be claimed, and some run. Otherwise what was claimed ahead goes back to others.
    pub(super) fn may_claim(&self) -> bool {
        let may = !self.health.claimable(&self.kinds).is_empty();
        if !may {
            self.hand_back_unwanted();
        }
        may && self.health.room(|| self.held().len()) != Some(0)
    }

    /// Hands back what was claimed ahead and must not start now (H1, H8): others may be able to.
    fn hand_back_unwanted(&self) {
        let unwanted = |claimed: &mut ClaimedJob| !self.health.allows(&claimed.job.spec.kind);
        for queue in &self.queues {
            let back: Vec<ClaimedJob> = lock(&queue.buffer).extract_if(.., unwanted).collect();
            for claimed in back {
                self.outbox.push(PendingEnding::new(hand_back(&claimed, Duration::ZERO), false, None));
            }
        }
    }

    /// Counts the start of buffered jobs in the store, then runs them (C5).
    async fn start_buffered(self: &Arc<Self>) -> Result<(), StoreError> {
        self.hand_back_unwanted();
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
}

/// True when a claim for `free` slots had better wait for those of `ending` runs: at once it would take less than half
/// of what it can take in a moment.
const fn is_worth_waiting(free: usize, ending: usize) -> bool {
    free > 0 && free < WORTH_A_CLAIM && ending >= free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_claims_wait_for_the_room_that_is_about_to_come() {
        for (free, ending, waits) in [
            (0, 9, false),
            (1, 0, false),
            (1, 1, true),
            (10, 9, false),
            (10, 22, true),
            (WORTH_A_CLAIM - 1, WORTH_A_CLAIM, true),
            (WORTH_A_CLAIM, BATCH, false),
        ] {
            assert_eq!(is_worth_waiting(free, ending), waits, "{free} free, {ending} about to be");
        }
    }
}
