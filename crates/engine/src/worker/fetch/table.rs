//! What the fetch loop does next: one function over every state and event, without a clock, a store or a task.
//!
//! The loop saves statements by believing what it hears: that a notice means work for its queues, that a filled claim
//! has more behind it, that nothing is due before a look said so. Each belief is a field here. [`FetchState::next`] is
//! tested row by row, and `model.rs` plays it against every order in which jobs, notices and slots can come and go.

use std::time::Duration;

use backstop_store::Peek;
use tokio::time::Instant;

use crate::poll_interval::PollInterval;

/// Looks for lost jobs after the answer to a claim was lost: at once, and two more. A server that has lost a connection
/// may still do what it was told over it.
const SEARCHES: u32 = 3;

/// What the loop believes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct FetchState {
    /// Whether there is work.
    work: Work,
    /// The last notice that was believed was for our queues. One that was not is a reason to look before a claim.
    credible: bool,
    /// Nothing is due before this moment but what is announced from now on.
    idle_until: Option<Instant>,
    /// Jobs are claimed before there are slots to run them.
    claims_ahead: bool,
    /// How soon to look again when nothing is announced.
    interval: PollInterval,
    /// Searches left for jobs that this worker may hold without knowing it, and when the next is due.
    searches: u32,
    next_search: Option<Instant>,
    search_every: Duration,
}

/// What the loop knows of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Work {
    /// Nothing: it looks before it claims.
    Unknown,
    /// It has just been stored, or the last claim was filled. Looking first would only cost time.
    Expected,
    /// A look has seen it.
    Seen,
}

/// What has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FetchEvent {
    /// A round begins.
    Began {
        /// Every loop is alive without which a claimed job would be lost (H2).
        ready: bool,
        now: Instant,
    },
    /// What lost answers had taken was handed back, as far as it can be seen.
    Searched { now: Instant },
    /// Buffered jobs were started, and slots set aside for a claim of so many jobs.
    Prepared { asked: usize },
    /// The store was asked whether there is work.
    Looked { found: Found, now: Instant },
    /// A claim was answered. `held_for`: limits have no room left for about this long. `notified`: work was announced
    /// meanwhile.
    Claimed { taken: usize, asked: usize, held_for: Option<Duration>, notified: bool, now: Instant },
    /// Claims were made until one was not filled, or no room was left for a whole batch.
    WorkedOff { filled: bool, notified: bool },
    /// There may be room.
    RoomCame,
    /// The wait for work is over.
    StoodBy(WaitResult),
    /// A pause is over, or this worker has been enlisted again.
    Rested,
    /// The store refused.
    Failed(Fault),
}

/// What a look at the store found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Something that can be claimed.
    Work,
    /// Nothing; the next job is due after this time, if the store knows of one.
    Nothing { due_in: Option<Duration> },
}

impl Found {
    pub(super) fn of(peek: &Peek) -> Self {
        if peek.has_work() {
            return Self::Work;
        }
        Self::Nothing { due_in: peek.next_due.map(|due| peek.now.until(due)) }
    }
}

/// Why a wait for work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitResult {
    /// A look found work.
    Due,
    /// Work was announced, for somebody.
    Notice,
    /// The store handed over what it stored. Nothing else was announced, and nothing is due before this moment.
    Served { until: Instant },
    /// Nothing was heard: there is room again, or the store could not be looked at.
    Nothing,
}

/// What a refusal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The lease of this worker has run out.
    LeaseLost,
    /// The lease of its incarnation before this one has.
    OldLeaseLost,
    /// Whether it was carried out is unknown.
    AnswerLost { now: Instant },
    /// It was not carried out.
    Refused,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum FetchStep {
    /// Begin a round. `afresh`: what was announced before is forgotten, because this round looks for itself.
    Begin { afresh: bool },
    /// Hand back what lost answers had taken.
    Search,
    /// Start buffered jobs and set aside slots for a claim.
    Prepare,
    /// Ask the store whether there is work.
    Look,
    /// Claim.
    Claim,
    /// Claim with another claim under way for as long as they are filled.
    WorkOff,
    /// Wait for a free slot.
    AwaitRoom,
    /// Wait for work that is announced, handed over, or due at this moment.
    StandBy { until: Instant },
    /// Come back as a new incarnation.
    Enlist,
    /// Let a short time pass.
    Pause,
}

impl FetchState {
    /// As the loop begins. After a `restart` whatever was under way in the loop before it may have taken something.
    pub(super) fn new(
        longest_pause: Duration,
        lease: Duration,
        claims_ahead: bool,
        restart: Option<Instant>,
    ) -> Self {
        Self {
            work: Work::Unknown,
            credible: true,
            idle_until: None,
            claims_ahead,
            interval: PollInterval::new(longest_pause),
            searches: if restart.is_some() { SEARCHES } else { 0 },
            next_search: restart,
            search_every: lease / 2,
        }
    }

    /// The table.
    pub(super) fn next(&mut self, event: FetchEvent) -> FetchStep {
        match event {
            FetchEvent::Began { ready: false, .. } => {
                self.idle_until = None;
                FetchStep::Pause
            }
            FetchEvent::Began { now, .. } if self.next_search.is_some_and(|due| due <= now) => {
                FetchStep::Search
            }
            FetchEvent::Began { .. } => FetchStep::Prepare,
            FetchEvent::Searched { now } => {
                self.searches = self.searches.saturating_sub(1);
                self.next_search = (self.searches > 0).then(|| now + self.search_every);
                self.begin()
            }
            FetchEvent::Prepared { asked } => self.prepared(asked),
            FetchEvent::Looked { found: Found::Work, .. } => {
                self.work = Work::Seen;
                FetchStep::Claim
            }
            FetchEvent::Looked { found: Found::Nothing { due_in }, now } => {
                FetchStep::StandBy { until: self.look_again(due_in, now) }
            }
            // There is work, and looking for it would only find that. Whoever ends a run here announces it.
            FetchEvent::Claimed { taken, asked, held_for: Some(span), notified: false, now }
                if taken < asked =>
            {
                if taken > 0 {
                    self.interval.found_work();
                }
                self.idle_until = Some(self.look_again(Some(span), now));
                (self.work, self.credible) = (Work::Unknown, true);
                self.begin()
            }
            // If it was seen, somebody else has it in hand: claiming again at once would go on for as long as that
            // lasts.
            FetchEvent::Claimed { taken: 0, now, .. } => {
                self.idle_until = (self.work == Work::Seen).then(|| self.look_again(None, now));
                (self.work, self.credible) = (Work::Unknown, false);
                self.begin()
            }
            FetchEvent::Claimed { taken, asked, notified, .. } if taken < asked => self.took_all(notified),
            FetchEvent::Claimed { .. } if self.claims_ahead => self.await_room(),
            FetchEvent::Claimed { .. } => FetchStep::WorkOff,
            FetchEvent::WorkedOff { filled: false, notified } => self.took_all(notified),
            FetchEvent::WorkedOff { filled: true, .. } => self.await_room(),
            FetchEvent::RoomCame => {
                self.work = if self.idle_until.is_none() { Work::Expected } else { Work::Unknown };
                self.begin()
            }
            FetchEvent::StoodBy(heard) => {
                self.work = match heard {
                    WaitResult::Due => Work::Seen,
                    WaitResult::Notice if self.credible => Work::Expected,
                    WaitResult::Notice | WaitResult::Served { .. } | WaitResult::Nothing => Work::Unknown,
                };
                self.idle_until = if let WaitResult::Served { until } = heard { Some(until) } else { None };
                self.begin()
            }
            FetchEvent::Rested => self.begin(),
            FetchEvent::Failed(fault) => {
                (self.work, self.idle_until) = (Work::Unknown, None);
                self.after(fault)
            }
        }
    }

    fn prepared(&mut self, asked: usize) -> FetchStep {
        match (asked, self.idle_until) {
            (0, Some(_)) => FetchStep::AwaitRoom,
            (0, None) => self.await_room(),
            (_, Some(until)) => {
                self.idle_until = None;
                FetchStep::StandBy { until }
            }
            (_, None) if self.work == Work::Unknown => FetchStep::Look,
            (_, None) => FetchStep::Claim,
        }
    }

    /// When to look again after a look that found nothing, also while standing by.
    pub(super) fn look_again(&mut self, due_in: Option<Duration>, now: Instant) -> Instant {
        let pause = self.interval.pause();
        now + due_in.map_or(pause, |due| due.min(pause))
    }

    /// While idle nothing is looked for, so nothing that was announced may be forgotten.
    fn begin(&self) -> FetchStep {
        FetchStep::Begin { afresh: self.idle_until.is_none() }
    }

    /// A claim was not filled: everything that was there has been taken. What was stored meanwhile is not worth a look
    /// first either.
    fn took_all(&mut self, notified: bool) -> FetchStep {
        self.interval.found_work();
        (self.work, self.credible) = (if notified { Work::Expected } else { Work::Unknown }, true);
        self.begin()
    }

    /// There is work for the next slot.
    fn await_room(&mut self) -> FetchStep {
        self.interval.found_work();
        self.credible = true;
        FetchStep::AwaitRoom
    }

    fn after(&mut self, fault: Fault) -> FetchStep {
        match fault {
            Fault::LeaseLost => FetchStep::Enlist,
            Fault::OldLeaseLost => self.begin(),
            Fault::AnswerLost { now } => {
                (self.searches, self.next_search) = (SEARCHES, Some(now));
                FetchStep::Pause
            }
            Fault::Refused => FetchStep::Pause,
        }
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
