//! Queues with their kept counts, and the lanes that wait for code.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use backstop_core::Timestamp;
use backstop_core::job::State;

use super::{PauseNote, Roster, cut};
use crate::working_set::LaneKey;
use crate::{HeldLane, NameRange, Page, QueueRange, QueueView};

/// Numbers of jobs by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StateCounts {
    /// Claimable now or later.
    pub pending: u64,
    /// Held by workers.
    pub running: u64,
    /// Ended well.
    pub succeeded: u64,
    /// Dead letters.
    pub failed: u64,
    /// Held back by people.
    pub paused: u64,
    /// Called off.
    pub canceled: u64,
    /// Held for a dependency or a signal.
    pub waiting: u64,
}

impl StateCounts {
    /// In any state.
    #[must_use]
    pub const fn all(&self) -> u64 {
        self.pending
            + self.running
            + self.succeeded
            + self.failed
            + self.paused
            + self.canceled
            + self.waiting
    }

    /// In one state, as it is stored.
    #[must_use]
    pub const fn of(&self, state: State) -> u64 {
        match state {
            State::Pending => self.pending,
            State::Running => self.running,
            State::Succeeded => self.succeeded,
            State::Failed => self.failed,
            State::Paused => self.paused,
            State::Canceled => self.canceled,
            State::Waiting => self.waiting,
        }
    }
}

/// A lane with its kept counts.
#[derive(Debug)]
pub struct LaneCounts {
    /// Its number.
    pub id: i64,
    /// Which one it is.
    pub lane: LaneKey,
    /// Its jobs.
    pub jobs: StateCounts,
    /// True when it was empty for long.
    pub retired: bool,
}

impl LaneCounts {
    /// True when its pending jobs are shown as waiting (H10).
    #[must_use]
    pub fn is_held(&self, roster: &Roster) -> bool {
        roster.holds(&self.lane.queue, &self.lane.kind, self.lane.version)
    }

    /// True when it is left out of lists and limits: it was retired, and is empty still.
    #[must_use]
    pub const fn is_retired(&self) -> bool {
        self.retired && self.jobs.all() == 0
    }

    /// How many jobs are shown in this state, when it is held or not.
    #[must_use]
    pub const fn shown(&self, state: State, held: bool) -> u64 {
        match state {
            State::Pending if held => 0,
            State::Waiting if held => self.jobs.waiting + self.jobs.pending,
            _ => self.jobs.of(state),
        }
    }

    /// True when it has pending jobs that may be claimed: then the queue's oldest one may be here.
    #[must_use]
    pub fn is_open(&self, roster: &Roster) -> bool {
        self.jobs.pending > 0 && !self.is_held(roster)
    }
}

/// Every queue that has a lane, was ever paused, or is served by a live worker, by name; not one all of whose lanes are
/// retired, unless it is paused or served.
///
/// `paused` are the queues that were ever paused, with the note of the pause for those that are now; `due` the first
/// due time of each open lane by its number.
#[must_use]
pub fn queues(
    roster: &Roster,
    paused: Vec<(String, Option<PauseNote>)>,
    lanes: &[LaneCounts],
    due: &HashMap<i64, Timestamp>,
    now: Timestamp,
) -> Vec<QueueView> {
    let mut queues: BTreeMap<String, QueueView> = BTreeMap::new();
    for name in roster.live().flat_map(|row| row.queues.iter()) {
        let (on_queue, _) = roster.crew(name, "", 0);
        queue(&mut queues, name).workers = u64::try_from(on_queue).unwrap_or(u64::MAX);
    }
    let (retired, lanes): (Vec<_>, Vec<_>) = lanes.iter().partition(|counts| counts.is_retired());
    let in_use: BTreeSet<&str> = lanes.iter().map(|counts| &*counts.lane.queue).collect();
    let at_rest: BTreeSet<&str> = retired.iter().map(|counts| &*counts.lane.queue).collect();
    for (name, paused) in paused {
        if paused.is_none() && at_rest.contains(&*name) && !in_use.contains(&*name) {
            continue;
        }
        let view = queue(&mut queues, &name);
        view.paused = paused.is_some();
        view.pause_note = paused.and_then(|pause| pause.0);
    }
    for counts in lanes {
        let view = queue(&mut queues, &counts.lane.queue);
        count_lane(view, counts, counts.is_held(roster));
        let oldest = due.get(&counts.id).copied().filter(|due| *due <= now);
        view.oldest_due = [view.oldest_due, oldest].into_iter().flatten().min();
    }
    queues.into_values().collect()
}

/// A page of what [`queues`] makes of the lanes of a span, and of all that is known of other names.
#[must_use]
pub fn queue_page(mut queues: Vec<QueueView>, range: &QueueRange) -> Page<QueueView, String> {
    queues.retain(|queue| range.holds(&queue.name));
    cut(queues, range.limit.unwrap_or(usize::MAX), |queue| queue.name.clone())
}

/// The names that a page of queues needs, once some names of its span are known from each of several sources, each in
/// order and with as many as were asked for: one more than the page has.
#[must_use]
pub fn page_span(range: &QueueRange, names: impl IntoIterator<Item = String>) -> NameRange {
    let mut span = range.span();
    let Some(limit) = range.limit else { return span };
    let names: BTreeSet<String> = names.into_iter().filter(|name| range.holds(name)).collect();
    // One more than the page has, to see whether more follow.
    if let Some(last) = names.into_iter().nth(limit) {
        span.end = NameRange::one(&last).end;
    }
    span
}

/// Lanes with pending jobs on a served queue that no live worker knows the kind of (H10), over all priorities.
#[must_use]
pub fn held_lanes(roster: &Roster, lanes: &[LaneCounts]) -> Vec<HeldLane> {
    let mut held: BTreeMap<(String, String, u32), u64> = BTreeMap::new();
    for counts in lanes.iter().filter(|counts| counts.jobs.pending > 0 && counts.is_held(roster)) {
        let lane = &counts.lane;
        let key = (lane.queue.to_string(), lane.kind.to_string(), lane.version);
        *held.entry(key).or_default() += counts.jobs.pending;
    }
    let lane = |((queue, kind, version), jobs)| HeldLane { queue, kind, version, jobs };
    held.into_iter().map(lane).collect()
}

fn queue<'q>(queues: &'q mut BTreeMap<String, QueueView>, name: &str) -> &'q mut QueueView {
    queues.entry(name.to_owned()).or_insert_with(|| QueueView {
        name: name.to_owned(),
        paused: false,
        pause_note: None,
        pending: 0,
        sharing: 0,
        waiting: 0,
        running: 0,
        paused_jobs: 0,
        succeeded: 0,
        failed: 0,
        canceled: 0,
        oldest_due: None,
        workers: 0,
    })
}

/// Adds a lane's counts to its queue; the pending jobs of a held lane are shown as waiting (H10).
fn count_lane(view: &mut QueueView, counts: &LaneCounts, held: bool) {
    let pending = if held { &mut view.waiting } else { &mut view.pending };
    *pending += counts.jobs.pending;
    if counts.lane.shares && !held {
        view.sharing += counts.jobs.pending;
    }
    view.waiting += counts.jobs.waiting;
    view.running += counts.jobs.running;
    view.paused_jobs += counts.jobs.paused;
    view.succeeded += counts.jobs.succeeded;
    view.failed += counts.jobs.failed;
    view.canceled += counts.jobs.canceled;
}
