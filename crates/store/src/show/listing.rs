//! Pages, and the lanes in which a filter can find something.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use backstop_core::Limits;
use backstop_core::job::State;
use backstop_core::tenant;

use super::{LaneCounts, Roster, StateCounts};
use crate::{Error, JobFilter, Page};

/// Refuses a page that is too large.
///
/// # Errors
/// [`Error::TooMany`].
pub fn page_limit(limit: usize) -> Result<(), Error> {
    let most = Limits::default().page;
    if limit > most {
        return Err(Error::TooMany { what: "the page", actual: limit, limit: most });
    }
    Ok(())
}

/// Cuts the one row too many that was read to see whether more follow.
pub fn cut<T, K>(mut items: Vec<T>, limit: usize, key: impl Fn(&T) -> K) -> Page<T, K> {
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().map(key).filter(|_| more);
    Page { items, next }
}

/// The states in which a job can have a reason: a dead letter may be paused, and then be canceled.
const DEAD: [State; 3] = [State::Failed, State::Paused, State::Canceled];

/// Where a filter can find something, by the kept counts.
#[derive(Debug)]
pub struct SearchSpace {
    /// Numbers of the lanes with jobs that can match, those with most of them first.
    pub lanes: Vec<i64>,
    /// True when other lanes have jobs that only their lane keeps out: then the lane of every job is looked at.
    pub confined: bool,
    /// When waiting jobs are asked for: the lanes whose pending jobs are shown as waiting (H10).
    pub held: Vec<i64>,
    /// The states, as they are shown, that a match can be in; none when it can be in any.
    pub states: Option<Vec<State>>,
    /// How much there is to read.
    pub sizes: ListSizes,
    /// True when no job can match.
    pub empty: bool,
}

/// Numbers of jobs that a list may have to read, by the kept counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListSizes {
    /// In all lanes and states.
    pub all: u64,
    /// In the lanes of the scope, in any state.
    pub inside: u64,
    /// In the states of the scope, in any lane.
    pub in_state: u64,
    /// In the lanes and the states of the scope.
    pub matching: u64,
}

/// Numbers of jobs in all lanes that were read a moment ago: reading them takes as long as there are lanes, whoever
/// they belong to. They choose from where a list is read, and not what is in it.
#[derive(Debug, Default)]
pub struct KnownTotals(Mutex<Option<(Instant, StateCounts)>>);

impl KnownTotals {
    /// How old they may be.
    const AGE: Duration = Duration::from_secs(10);

    /// The sums, unless they are old.
    pub fn known(&self) -> Option<StateCounts> {
        let known = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.filter(|(at, _)| at.elapsed() < Self::AGE).map(|(_, totals)| totals)
    }

    /// Keeps sums that were just read.
    pub fn keep(&self, totals: StateCounts) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), totals));
    }
}

impl SearchSpace {
    /// What `filter` means where only the lanes of the queues that it names were read, and these are the sums of all.
    #[must_use]
    pub fn within(filter: &JobFilter, lanes: &[LaneCounts], totals: &StateCounts, roster: &Roster) -> Self {
        let mut scope = Self::of(filter, lanes, roster);
        let in_state = |states: &Vec<State>| states.iter().map(|state| totals.of(*state)).sum();
        let in_state: u64 = scope.states.as_ref().map_or(totals.all(), in_state);
        scope.sizes.all = scope.sizes.all.max(totals.all());
        scope.sizes.in_state = scope.sizes.in_state.max(in_state);
        // There may be others.
        scope.confined = true;
        scope
    }

    /// What `filter` means for these lanes, which are all there are.
    #[must_use]
    pub fn of(filter: &JobFilter, lanes: &[LaneCounts], roster: &Roster) -> Self {
        let states = states(filter);
        let mut sizes = ListSizes::default();
        let mut inside: Vec<(u64, i64)> = Vec::new();
        let (mut held, mut confined) = (Vec::new(), false);
        for counts in lanes {
            let (jobs, is_held) = (counts.jobs.all(), counts.is_held(roster));
            let matching = states
                .as_deref()
                .map_or(jobs, |states| states.iter().map(|state| counts.shown(*state, is_held)).sum());
            sizes.all += jobs;
            sizes.in_state += matching;
            let named = is_named(filter, counts);
            // A pending job of a held lane is stored like the others, and shown as waiting.
            confined |=
                !named || (filter.state == Some(State::Pending) && is_held && counts.jobs.pending > 0);
            if named && matching > 0 {
                sizes.inside += jobs;
                sizes.matching += matching;
                inside.push((matching, counts.id));
                if filter.state == Some(State::Waiting) && is_held && counts.jobs.pending > 0 {
                    held.push(counts.id);
                }
            }
        }
        inside.sort_unstable_by(|one, other| other.cmp(one));
        let lanes: Vec<i64> = inside.into_iter().map(|(_, lane)| lane).collect();
        Self { empty: lanes.is_empty(), lanes, confined, held, states, sizes }
    }
}

/// True when the names in a filter are those of a lane.
fn is_named(filter: &JobFilter, counts: &LaneCounts) -> bool {
    filter.queue.as_deref().is_none_or(|queue| queue == &*counts.lane.queue)
        && filter.tenant.as_deref().is_none_or(|name| name == tenant::shown(&counts.lane.queue))
        && filter.kind.as_deref().is_none_or(|kind| kind == &*counts.lane.kind)
}

/// The states that a match can be in; none when it can be in any.
fn states(filter: &JobFilter) -> Option<Vec<State>> {
    match (filter.state, filter.reason) {
        (None, None) => None,
        (Some(state), None) => Some(vec![state]),
        (asked, Some(_)) => {
            Some(DEAD.into_iter().filter(|state| asked.is_none_or(|asked| asked == *state)).collect())
        }
    }
}
