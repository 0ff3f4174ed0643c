//! How far claims have come in each lane, so that the next one goes on from there.
//!
//! A job that is taken leaves a dead entry at the head of its lane. The database clears it away, but not while anybody
//! keeps an old snapshot open: then every claim would walk over all that was ever taken. A claim that begins at the
//! cursor walks over nothing.
//!
//! A cursor stays a little behind the moment, because transactions commit in another order than they read the clock
//! in. Something can still become due behind it: a transaction that was slower than that, or a claim of another process
//! that was rolled back. (What this process writes moves its cursors back.) So a part of the claims reads from the
//! start, as often as that costs little: where it is cheap, whenever there seems to be nothing and a few times a
//! second; and in any case so often that it takes one part in twenty of the time.
//!
//! A process that begins knows nothing of this, and its first claim would pay for all that was taken before it came. So
//! cursors are kept in the store now and then, with when everything was last read from the start and what that took:
//! whoever begins with them goes on as the process that kept them would have.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use backstop_core::{JobId, Timestamp};

/// After reading from the start for some time, cursors are believed for this many times as long.
const BELIEVED: u32 = 19;

/// And where that was cheap, no longer than this.
const BELIEVED_AT_MOST: Duration = Duration::from_millis(250);

/// How far cursors stay behind the moment: the most that a commit usually takes.
const SETTLED: Duration = Duration::from_millis(200);

/// Reading from the start for less than this is cheap: it is done before it is believed that there is nothing.
const CHEAP: Duration = Duration::from_millis(50);

/// A place in a lane, in the order of its jobs.
pub type Position = (Timestamp, JobId);

/// Where a claim begins to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begin {
    /// At the start of every lane.
    Start,
    /// At the cursors: by the ids of lanes. A lane that is not named is read from its start.
    Cursors(Vec<(i64, Position)>),
}

/// What one process tells others that begin later.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hints {
    /// Cursors, by the ids of lanes.
    pub lanes: Vec<(i64, Position)>,
    /// When everything was last read from the start; without this the cursors are worth nothing.
    pub checked: Option<Checked>,
}

/// A time that everything was read from the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checked {
    /// How long ago.
    pub ago: Duration,
    /// How long it took.
    pub took: Duration,
}

/// Where a cursor may move after a claim at `now` that took a job there, and so all before it: no further than to what
/// nothing is expected before any more.
#[must_use]
pub fn settled(at: Position, now: Timestamp) -> Position {
    at.min((now.before(SETTLED), JobId::from_u128(0)))
}

/// The cursors of one process, by the ids of lanes.
#[derive(Debug, Default)]
pub struct Cursors(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    lanes: HashMap<i64, Position>,
    /// When everything was last read from the start, and how long that took.
    whole: Option<(Instant, Duration)>,
    /// The cursors that the store keeps, as far as this process knows.
    kept: HashMap<i64, Position>,
}

impl State {
    fn is_due(&self, now: Instant) -> bool {
        self.whole.is_none_or(|(at, took)| {
            let believed = took * BELIEVED;
            let believed = if took < CHEAP { believed.min(BELIEVED_AT_MOST) } else { believed };
            now.saturating_duration_since(at) >= believed
        })
    }
}

impl Cursors {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is a single insert: nothing can be half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where to begin.
    #[must_use]
    pub fn begin(&self, now: Instant) -> Begin {
        let mut state = self.lock();
        if state.is_due(now) {
            // One at a time: others meanwhile go by the cursors, unless there has been none yet.
            state.whole = state.whole.map(|(_, took)| (now, took));
            return Begin::Start;
        }
        drop(state);
        self.here()
    }

    /// How far claims have come, whether or not reading from the start is due.
    #[must_use]
    pub fn here(&self) -> Begin {
        Begin::Cursors(self.lock().lanes.iter().map(|(lane, at)| (*lane, *at)).collect())
    }

    /// Whether to read from the start after all, when there seems to be nothing.
    #[must_use]
    pub fn may_start_over(&self, now: Instant) -> bool {
        let state = self.lock();
        state.is_due(now) || state.whole.is_some_and(|(_, took)| took < CHEAP)
    }

    /// Begins with what another process knew, unless this one has claimed already.
    pub fn take_hints(&self, hints: Hints, now: Instant) {
        let mut state = self.lock();
        state.kept = hints.lanes.into_iter().collect();
        let Some(checked) = hints.checked.filter(|_| state.whole.is_none() && state.lanes.is_empty()) else {
            return;
        };
        // A machine that has not been up for so long has no such instant: then it is not known when that was.
        if let Some(at) = now.checked_sub(checked.ago) {
            state.lanes = state.kept.clone();
            state.whole = Some((at, checked.took));
        }
    }

    /// What the store should keep for other processes; none when no cursor has moved since. It counts as kept.
    #[must_use]
    pub fn give_hints(&self, now: Instant) -> Option<Hints> {
        let mut state = self.lock();
        let State { lanes, kept, whole } = &mut *state;
        let moved = lanes.iter().filter(|(lane, at)| kept.get(*lane) != Some(*at));
        let mut moved: Vec<(i64, Position)> = moved.map(|(lane, at)| (*lane, *at)).collect();
        let (at, took) = (*whole).filter(|_| !moved.is_empty())?;
        moved.sort_unstable();
        kept.extend(moved.iter().copied());
        Some(Hints { lanes: moved, checked: Some(Checked { ago: now.saturating_duration_since(at), took }) })
    }

    /// Notes what it cost to read from the start.
    pub fn note(&self, began: Instant, ended: Instant) {
        self.lock().whole = Some((ended, ended.saturating_duration_since(began)));
    }

    /// Everything up to here is taken, for good.
    pub fn advance(&self, reached: impl IntoIterator<Item = (i64, Position)>) {
        let mut state = self.lock();
        for (lane, at) in reached {
            let cursor = state.lanes.entry(lane).or_insert(at);
            *cursor = at.max(*cursor);
        }
    }

    /// Something is there now, perhaps behind a cursor.
    pub fn go_back(&self, added: impl IntoIterator<Item = (i64, Position)>) {
        let mut state = self.lock();
        for (lane, at) in added {
            if let Some(cursor) = state.lanes.get_mut(&lane) {
                *cursor = at.min(*cursor);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: i64, id: u128) -> Position {
        (Timestamp::from_micros(micros), JobId::from_u128(id))
    }

    fn ms(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    #[test]
    fn the_first_claim_reads_everything_and_the_next_go_on_from_there() {
        let (cursors, zero) = (Cursors::default(), Instant::now());
        assert_eq!(cursors.begin(zero), Begin::Start);
        cursors.note(zero, zero + ms(2));
        cursors.advance([(7, at(5, 1)), (7, at(9, 2)), (7, at(6, 3))]);
        assert_eq!(cursors.begin(zero + ms(3)), Begin::Cursors(vec![(7, at(9, 2))]));
    }

    #[test]
    fn reading_from_the_start_takes_a_twentieth_of_the_time() {
        let (cursors, zero) = (Cursors::default(), Instant::now());
        cursors.note(zero, zero + ms(100));
        assert!(matches!(cursors.begin(zero + ms(1_999)), Begin::Cursors(_)));
        assert_eq!(cursors.begin(zero + ms(2_000)), Begin::Start);
        // Who comes while it is read does not read it too.
        assert!(matches!(cursors.begin(zero + ms(2_001)), Begin::Cursors(_)));
        cursors.note(zero + ms(2_000), zero + ms(2_010));
        assert_eq!(cursors.begin(zero + ms(2_200)), Begin::Start);
    }

    #[test]
    fn when_there_seems_to_be_nothing_it_is_read_again_where_that_is_cheap() {
        let (cursors, zero) = (Cursors::default(), Instant::now());
        for (cost, again) in [(49, true), (50, false), (500, false)] {
            cursors.note(zero, zero + ms(cost));
            assert_eq!(cursors.may_start_over(zero + ms(cost + 1)), again, "{cost} ms");
            assert!(cursors.may_start_over(zero + ms(cost * 20)), "{cost} ms, and long ago");
        }
    }

    #[test]
    fn where_it_is_cheap_it_is_done_a_few_times_a_second() {
        let (cursors, zero) = (Cursors::default(), Instant::now());
        cursors.note(zero, zero + ms(49));
        assert!(matches!(cursors.begin(zero + ms(298)), Begin::Cursors(_)));
        assert_eq!(cursors.begin(zero + ms(299)), Begin::Start);
    }

    #[test]
    fn who_begins_with_hints_goes_on_as_the_one_before() {
        // L3
        let (before, zero) = (Cursors::default(), Instant::now() + ms(10_000));
        assert_eq!(before.give_hints(zero), None, "nothing was claimed");
        before.note(zero, zero + ms(100));
        assert_eq!(before.give_hints(zero), None, "nothing was taken");
        before.advance([(7, at(5, 1))]);
        let hints = before.give_hints(zero + ms(600)).expect("a cursor moved");
        assert_eq!(hints.checked, Some(Checked { ago: ms(500), took: ms(100) }));
        assert_eq!(before.give_hints(zero + ms(700)), None, "it is kept");

        let after = Cursors::default();
        after.take_hints(hints.clone(), zero + ms(600));
        assert_eq!(after.begin(zero + ms(1_999)), Begin::Cursors(vec![(7, at(5, 1))]));
        assert!(!after.may_start_over(zero + ms(1_999)), "it costs too much");
        assert_eq!(after.begin(zero + ms(2_000)), Begin::Start);
        after.advance([(7, at(9, 1))]);
        after.take_hints(hints, zero + ms(2_000));
        assert_eq!(after.begin(zero + ms(2_001)), Begin::Cursors(vec![(7, at(9, 1))]), "its own are better");
    }

    #[test]
    fn cursors_of_which_nobody_says_when_they_were_checked_are_not_believed() {
        let (cursors, zero) = (Cursors::default(), Instant::now());
        cursors.take_hints(Hints { lanes: vec![(7, at(5, 1))], checked: None }, zero);
        assert_eq!(cursors.begin(zero), Begin::Start);
    }

    #[test]
    fn only_what_moved_is_given_to_keep() {
        let (cursors, zero) = (Cursors::default(), Instant::now());
        let checked = Some(Checked { ago: ms(0), took: ms(1) });
        cursors.take_hints(Hints { lanes: vec![(7, at(5, 1)), (8, at(5, 1))], checked }, zero);
        assert_eq!(cursors.give_hints(zero), None);
        cursors.advance([(7, at(6, 1)), (9, at(1, 1))]);
        let given = |cursors: &Cursors| cursors.give_hints(zero).map(|hints| hints.lanes);
        assert_eq!(given(&cursors), Some(vec![(7, at(6, 1)), (9, at(1, 1))]));
        assert_eq!(given(&cursors), None);
        cursors.go_back([(7, at(2, 1))]);
        assert_eq!(given(&cursors), Some(vec![(7, at(2, 1))]), "backwards too");
    }

    #[test]
    fn cursors_stay_behind_what_may_still_be_committed() {
        let now = Timestamp::from_micros(1_000_000);
        let moved = |due: i64| settled(at(due, 7), now);
        assert_eq!(moved(799_999), at(799_999, 7));
        // Jobs that are taken as they come move it too: else a claim would walk over all of them.
        assert_eq!([800_000, 800_001, 1_000_000].map(moved), [at(800_000, 0); 3]);
    }

    #[test]
    fn what_is_written_behind_a_cursor_moves_it_back() {
        // L3
        let (cursors, zero) = (Cursors::default(), Instant::now());
        cursors.note(zero, zero + ms(1));
        cursors.advance([(1, at(9, 2)), (2, at(9, 2))]);
        cursors.go_back([(1, at(9, 1)), (1, at(10, 1)), (2, at(9, 3)), (3, at(1, 1))]);
        let Begin::Cursors(mut begin) = cursors.begin(zero + ms(2)) else { panic!("not yet") };
        begin.sort_unstable();
        assert_eq!(begin, [(1, at(9, 1)), (2, at(9, 2))]);
    }
}
