//! The loop that claims work: at once when woken, by polling otherwise, never more than there is room for.
//!
//! `table` decides, this file carries out, `wanted` keeps the books of slots and buffered jobs.

mod table;
mod wanted;

use std::sync::Arc;
use std::time::Duration;

use backstop_store::{Claim, Claimed, Error as StoreError, Peek};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use self::table::{Fault, FetchEvent, FetchState, FetchStep, Found, WaitResult};
use self::wanted::{BATCH, Wanted};
use super::runtime::{RunningWorker, lock};
use crate::log_throttle::LogThrottle;
use crate::loops::LoopHeartbeat;

/// Claims under way at once while there is a backlog: the store looks for the next jobs while the last ones are read.
const AHEAD: usize = 2;
/// The loops without which a claimed job would be lost: its lease would run out, or its end would never be written.
const RESTS_ON: [&str; 2] = ["heartbeat", "report"];
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(250);

impl RunningWorker {
    /// Runs until the worker stops.
    pub(crate) async fn fetch(self: Arc<Self>, heartbeat: &LoopHeartbeat) {
        let times = &self.executor.times;
        let restart = (heartbeat.restarts() > 0).then(Instant::now);
        let mut state = FetchState::new(times.poll, times.lease, self.claims_ahead(), restart);
        let mut fetcher = Fetcher {
            arrivals: self.parts().events.arrivals(),
            changes: self.health.changes(),
            wanted: None,
            unready: LogThrottle::default(),
            worker: &self,
            heartbeat,
        };
        let mut step = FetchStep::Begin { afresh: true };
        while !self.stop.is_cancelled() {
            let event = match fetcher.carry_out(step, &mut state).await {
                Ok(event) => event,
                Err(error) => FetchEvent::Failed(fetcher.fault(step, &error)),
            };
            step = state.next(event);
        }
    }

    /// After a lease was lost, the worker goes on as a new incarnation.
    pub(crate) async fn enlist_again(&self) {
        self.lose_everything();
        let id = crate::ids::worker_id();
        match self.enlist(id).await {
            Ok(()) => {
                *lock(&self.identity) = id;
                tracing::warn!(worker = %id, name = %self.name,
                    "the lease had expired: registered again as a new worker");
            }
            Err(error) => {
                tracing::warn!(%error, "cannot register again; trying again");
                tokio::time::sleep(PAUSE_AFTER_ERROR).await;
            }
        }
    }

    /// Claims, and starts what comes.
    async fn take(self: &Arc<Self>, mut wanted: Wanted) -> Result<TakenWork, StoreError> {
        self.parts().limit(&mut wanted.claim).await?;
        let Claimed { jobs, now, held_until } = self.store().claim(wanted.claim).await?;
        let taken = TakenWork { jobs: jobs.len(), held_for: held_until.map(|until| now.until(until)) };
        self.dispatch(jobs, wanted.room);
        Ok(taken)
    }

    /// Looks whether there is work; none when it cannot be seen, or must not be taken. A look goes on when nobody waits
    /// for it any more: one that is cut short costs a connection.
    async fn look(self: &Arc<Self>, claim: Claim) -> Option<Peek> {
        let (worker, asked) = (self.clone(), claim.kinds.clone());
        let look = tokio::spawn(async move { worker.store().peek(&claim).await });
        let peek = look.await.ok()?.ok()?;
        // An offer that was left under other limits, or while other circuits were open, is withdrawn.
        let parts = self.parts();
        parts.circuits.keep_up(&parts.into()).await.ok()?;
        if self.health.claimable(&self.kinds) != asked {
            return None;
        }
        if !parts.limits.follow(&*parts.store, &parts.config, &peek).await.ok()? {
            return None;
        }
        self.loops.silent(&RESTS_ON).is_none().then_some(peek)
    }

    async fn until_room(&self) {
        if self.room() == 0 && !self.quarantine.has_arrivals() {
            tokio::select! {
                () = self.freed.notified() => {}
                () = self.pause(self.executor.times.poll) => {}
            }
        }
    }

    async fn pause(&self, span: Duration) {
        tokio::select! {
            () = tokio::time::sleep(span) => {}
            () = self.stop.cancelled() => {}
        }
    }
}

/// What a claim brought.
struct TakenWork {
    jobs: usize,
    /// Limits have no room left, for about this long (H5).
    held_for: Option<Duration>,
}

/// Carries out the steps of the table.
struct Fetcher<'a> {
    worker: &'a Arc<RunningWorker>,
    heartbeat: &'a LoopHeartbeat,
    arrivals: watch::Receiver<u64>,
    /// Fires when other kinds may be claimed than before (H1, H8).
    changes: watch::Receiver<u64>,
    /// What the next claim asks for, with the slots that are set aside for it.
    wanted: Option<Wanted>,
    unready: LogThrottle,
}

impl Fetcher<'_> {
    async fn carry_out(&mut self, step: FetchStep, state: &mut FetchState) -> Result<FetchEvent, StoreError> {
        // Each call to the store has a deadline of its own.
        self.heartbeat.record();
        match step {
            FetchStep::Begin { afresh } => {
                let parts = self.worker.parts();
                parts.circuits.keep_up(&parts.into()).await?;
                Ok(self.begin(afresh))
            }
            FetchStep::Search => {
                self.worker.hand_back_unknown().await?;
                Ok(FetchEvent::Searched { now: Instant::now() })
            }
            FetchStep::Prepare => {
                let wanted = self.worker.prepare().await?;
                Ok(FetchEvent::Prepared { asked: self.wanted.insert(wanted).asked() })
            }
            FetchStep::Look => {
                let claim = self.wanted().claim.clone();
                let peek = self.worker.store().peek(&claim).await?;
                let parts = self.worker.parts();
                parts.limits.follow(&*parts.store, &parts.config, &peek).await?;
                Ok(FetchEvent::Looked { found: Found::of(&peek), now: Instant::now() })
            }
            FetchStep::Claim => {
                let wanted = self.take_wanted();
                let asked = wanted.asked();
                let TakenWork { jobs: taken, held_for } = self.worker.take(wanted).await?;
                let (notified, now) = (self.notified(), Instant::now());
                Ok(FetchEvent::Claimed { taken, asked, held_for, notified, now })
            }
            FetchStep::WorkOff => {
                let filled = self.work_off().await?;
                Ok(FetchEvent::WorkedOff { filled, notified: self.notified() })
            }
            FetchStep::AwaitRoom => {
                self.wanted = None;
                self.worker.until_room().await;
                Ok(FetchEvent::RoomCame)
            }
            FetchStep::StandBy { until } => Ok(FetchEvent::StoodBy(self.stand_by(until, state).await?)),
            FetchStep::Enlist => {
                self.worker.enlist_again().await;
                Ok(FetchEvent::Rested)
            }
            FetchStep::Pause => {
                self.worker.pause(PAUSE_AFTER_ERROR).await;
                Ok(FetchEvent::Rested)
            }
        }
    }

    /// What an error means; said in the log unless it is settled at once.
    fn fault(&mut self, step: FetchStep, error: &StoreError) -> Fault {
        self.wanted = None;
        match error {
            StoreError::NotEnlisted { worker } if *worker == self.worker.id() => return Fault::LeaseLost,
            // It has been enlisted again meanwhile.
            StoreError::NotEnlisted { .. } => return Fault::OldLeaseLost,
            _ if step == FetchStep::Search => {
                self.heartbeat.warn(
                    error,
                    || tracing::warn!(%error, "cannot check what a claim took whose answer was lost"),
                );
            }
            _ => {
                self.heartbeat.warn(error, || tracing::warn!(%error, "cannot claim jobs; trying again"));
            }
        }
        if error.is_unknown() { Fault::AnswerLost { now: Instant::now() } } else { Fault::Refused }
    }

    fn begin(&mut self, afresh: bool) -> FetchEvent {
        self.wanted = None;
        if afresh {
            self.arrivals.mark_unchanged();
        }
        // What is set aside from here on follows from how things are now.
        self.changes.mark_unchanged();
        FetchEvent::Began { ready: self.is_ready(), now: Instant::now() }
    }

    /// A worker that is not ready takes nothing that another could do (H2).
    fn is_ready(&mut self) -> bool {
        let silent = self.worker.loops.silent(&RESTS_ON);
        if let Some(silent) = silent {
            self.unready
                .warn(|| tracing::error!(loop_name = silent, "a loop does not respond: no jobs are claimed"));
        }
        silent.is_none() && self.worker.may_claim()
    }

    fn notified(&self) -> bool {
        self.arrivals.has_changed().unwrap_or(false)
    }

    fn wanted(&mut self) -> &Wanted {
        self.wanted.get_or_insert_with(|| self.worker.want())
    }

    fn take_wanted(&mut self) -> Wanted {
        self.wanted.take().unwrap_or_else(|| self.worker.want())
    }

    /// Works off a backlog: claims, with another claim already under way, for as long as they are filled and there is
    /// room for whole batches. Answers whether all of them were.
    async fn work_off(&mut self) -> Result<bool, StoreError> {
        let mut under_way: JoinSet<Result<bool, StoreError>> = JoinSet::new();
        let mut end = None;
        loop {
            let goes_on = end.is_none() && !self.worker.stop.is_cancelled();
            if goes_on && under_way.len() < AHEAD && self.worker.room() >= BATCH && self.is_ready() {
                let (worker, wanted) = (self.worker.clone(), self.worker.want());
                let asked = wanted.asked();
                under_way.spawn(async move { Ok(worker.take(wanted).await?.jobs >= asked) });
                continue;
            }
            let Some(ended) = under_way.join_next().await else { break };
            self.heartbeat.record();
            match ended.unwrap_or_else(carry_on) {
                Ok(true) => {}
                Ok(false) if end.is_none() => end = Some(Ok(())),
                Ok(false) => {}
                // That an answer was lost must not be forgotten for an error that came after it.
                Err(_) if matches!(&end, Some(Err(first)) if StoreError::is_unknown(first)) => {}
                Err(error) => end = Some(Err(error)),
            }
        }
        Ok(end.transpose()?.is_none())
    }

    /// Waits for work that arrives or becomes due, or for room in a queue that is full, and lets the store hand over
    /// what it stores meanwhile: also while it looks whether there is any.
    async fn stand_by(
        &mut self,
        mut until: Instant,
        state: &mut FetchState,
    ) -> Result<WaitResult, StoreError> {
        let (worker, heartbeat) = (self.worker, self.heartbeat);
        let mut wanted = self.take_wanted();
        wanted.claim.limits = worker.parts().limits.last_read();
        let full = wanted.room.iter().any(|room| room.count() == 0);
        let looked_for = wanted.claim.clone();
        let (offer, room) = wanted.at_once();
        let (arrivals, changes) = (&mut self.arrivals, &mut self.changes);
        let mut heard = WaitResult::Nothing;
        let withdrawn = async {
            loop {
                tokio::select! {
                    () = worker.freed.notified(), if full => return,
                    changed = arrivals.changed() => {
                        if changed.is_ok() {
                            heard = WaitResult::Notice;
                        }
                        return;
                    }
                    // The store would go on handing over what must not be taken any more.
                    _ = changes.changed() => return,
                    () = worker.stop.cancelled() => return,
                    () = tokio::time::sleep_until(until) => {}
                }
                heartbeat.record();
                match worker.look(looked_for.clone()).await.map(|peek| Found::of(&peek)) {
                    Some(Found::Nothing { due_in }) => until = state.look_again(due_in, Instant::now()),
                    Some(Found::Work) => {
                        heard = WaitResult::Due;
                        return;
                    }
                    None => return,
                }
            }
        };
        let served = worker.store().offer(offer, Box::pin(withdrawn)).await?;
        if let Some(claimed) = served {
            worker.dispatch(claimed.jobs, room);
            if heard == WaitResult::Nothing {
                return Ok(WaitResult::Served { until });
            }
        }
        Ok(heard)
    }
}

/// A panic goes on where it is looked after, as if what panicked had been no task of its own. Nobody aborts such a task
/// but who drops them all.
fn carry_on<T>(problem: JoinError) -> T {
    std::panic::resume_unwind(
        problem.try_into_panic().unwrap_or_else(|problem| Box::new(problem.to_string())),
    )
}
