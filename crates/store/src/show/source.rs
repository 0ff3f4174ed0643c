//! From where a list is read: the choice between the ways a store has, by the kept counts. Pure; stores only apply it.
//!
//! Lists are newest first, so a way that has its rows in this order is walked until the page is full, and any other is
//! read whole and sorted. How far a walk goes depends on where the matches are: evenly spread they come soon, but the
//! jobs that a bulk load left behind, or that ended first, are the oldest.

use backstop_core::job::State;

use super::{ListSizes, SearchSpace};

/// Where the rows of a list come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListSource {
    /// All jobs, newest first.
    All,
    /// The jobs of each lane of the scope, newest first.
    Lanes,
    /// The jobs in the states of the scope, whatever their lane; pending ones in its lanes only, and sorted.
    States,
    /// The jobs in the states of the scope in each of its lanes, newest first.
    LaneStates,
}

/// What a store can do with its tables.
#[derive(Debug, Clone, Copy)]
pub struct ListSupport {
    /// True when jobs that succeeded can be read newest first; otherwise all of them are sorted.
    pub walks_succeeded: bool,
    /// So many lanes it can walk side by side; more are read whole and sorted.
    pub lanes: usize,
}

/// Beginning to read a lane takes as long as reading so many rows.
const SEEK: u64 = 10;
/// One walk in so many is taken to meet the worst order, that is, to find all matches at its end.
const UNLUCKY: u64 = 20;

/// What a way to read costs, in rows.
#[derive(Debug, Clone, Copy)]
struct Cost {
    spread: u64,
    worst: u64,
}

impl Cost {
    /// Rows in the order of the list, of which `matching` are wanted, until `page` of them are found.
    fn walk(rows: u64, matching: u64, page: u64) -> Self {
        let wanted = page.min(matching);
        let worst = rows.saturating_sub(matching) + wanted;
        let spread = u128::from(wanted) * u128::from(rows) / u128::from(matching.max(1));
        Self { spread: u64::try_from(spread).unwrap_or(u64::MAX).min(worst), worst }
    }

    const fn sort(rows: u64) -> Self {
        Self { spread: rows, worst: rows }
    }

    const fn rows(self) -> u64 {
        self.spread.saturating_add(self.worst / UNLUCKY)
    }
}

impl SearchSpace {
    /// The source that reads least for `page` rows.
    #[must_use]
    pub fn source(&self, page: usize, reach: ListSupport) -> ListSource {
        let page = u64::try_from(page).unwrap_or(u64::MAX);
        let ListSizes { all, matching, .. } = self.sizes;
        let ways = [
            (ListSource::States, self.by_states(page, reach)),
            (ListSource::LaneStates, self.by_lane_states(page, reach)),
            (ListSource::Lanes, Some(self.by_lanes(page, reach))),
            (ListSource::All, Some(Cost::walk(all, matching, page).rows())),
        ];
        let known = ways.into_iter().filter_map(|(source, rows)| Some((source, rows?)));
        known.min_by_key(|(_, rows)| *rows).map_or(ListSource::All, |(source, _)| source)
    }

    fn by_states(&self, page: u64, reach: ListSupport) -> Option<u64> {
        let ListSizes { in_state, matching, .. } = self.sizes;
        match self.states.as_deref()? {
            [State::Pending] => Some(Cost::sort(matching).rows()),
            [State::Succeeded] if !reach.walks_succeeded => Some(Cost::sort(in_state).rows()),
            [State::Waiting] if !self.held.is_empty() => None,
            states => Some(seeks(states.len()).saturating_add(Cost::walk(in_state, matching, page).rows())),
        }
    }

    fn by_lane_states(&self, page: u64, reach: ListSupport) -> Option<u64> {
        let states = self.states.as_deref().filter(|states| states.iter().all(|state| is_shelved(*state)))?;
        let matching = self.sizes.matching;
        let strands = self.lanes.len().saturating_mul(states.len());
        let cost =
            if strands <= reach.lanes { Cost::walk(matching, matching, page) } else { Cost::sort(matching) };
        (self.held.is_empty()).then(|| seeks(strands).saturating_add(cost.rows()))
    }

    fn by_lanes(&self, page: u64, reach: ListSupport) -> u64 {
        let ListSizes { inside, matching, .. } = self.sizes;
        let walks = self.lanes.len() <= reach.lanes;
        let cost = if walks { Cost::walk(inside, matching, page) } else { Cost::sort(inside) };
        seeks(self.lanes.len()).saturating_add(cost.rows())
    }
}

fn seeks(strands: usize) -> u64 {
    u64::try_from(strands).unwrap_or(u64::MAX).saturating_mul(SEEK)
}

/// True for states that few jobs are in, and whose jobs every store keeps in order by lane as well.
const fn is_shelved(state: State) -> bool {
    matches!(state, State::Failed | State::Paused | State::Canceled | State::Waiting)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SQLITE: ListSupport = ListSupport { walks_succeeded: false, lanes: usize::MAX };
    const SERVER: ListSupport = ListSupport { walks_succeeded: true, lanes: 100 };

    fn scope(states: Option<State>, lanes: i64, [all, inside, in_state, matching]: [u64; 4]) -> SearchSpace {
        SearchSpace {
            lanes: (0..lanes).collect(),
            confined: true,
            held: Vec::new(),
            states: states.map(|state| vec![state]),
            sizes: ListSizes { all, inside, in_state, matching },
            empty: false,
        }
    }

    #[test]
    fn the_source_is_the_one_that_reads_least() {
        // F20
        const ALL: u64 = 2_000_000;
        use State::{Failed, Pending, Succeeded};
        let table = [
            ("everything", None, 50, [ALL, ALL, ALL, ALL], ListSource::All),
            ("one large lane", None, 1, [ALL, 900_000, ALL, 900_000], ListSource::Lanes),
            ("nearly everything", None, 1, [ALL, ALL - 9, ALL, ALL - 9], ListSource::All),
            ("a small lane", None, 1, [ALL, 40, ALL, 40], ListSource::Lanes),
            ("most of a thousand lanes", None, 1_000, [ALL, ALL - 9, ALL, ALL - 9], ListSource::All),
            ("few jobs in thousands of lanes", None, 4_000, [ALL, 9_000, ALL, 9_000], ListSource::Lanes),
            ("few pending", Some(Pending), 1, [ALL, ALL, 9_000, 9_000], ListSource::States),
            ("many pending", Some(Pending), 1, [ALL, 990_000, 900_000, 900_000], ListSource::Lanes),
            ("failed in one lane", Some(Failed), 1, [ALL, 1_000_000, 500_000, 5], ListSource::LaneStates),
            ("failed in every lane", Some(Failed), 900, [ALL, ALL, 9_000, 9_000], ListSource::States),
            ("few succeeded, in a large lane", Some(Succeeded), 1, [ALL, ALL, 900, 900], ListSource::States),
            ("succeeded, in a small lane", Some(Succeeded), 1, [ALL, 900, 900_000, 90], ListSource::Lanes),
        ];
        for (what, state, lanes, sizes, expected) in table {
            assert_eq!(scope(state, lanes, sizes).source(51, SQLITE), expected, "{what}");
        }
    }

    #[test]
    fn what_a_store_cannot_do_is_not_asked_of_it() {
        let halves = scope(Some(State::Succeeded), 2, [2_000_000, 1_000_000, 500_000, 400_000]);
        assert_eq!(
            (halves.source(51, SQLITE), halves.source(51, SERVER)),
            (ListSource::Lanes, ListSource::States)
        );
        let many = scope(None, 101, [2_000_000, 1_000_000, 0, 1_000_000]);
        assert_eq!((many.source(51, SQLITE), many.source(51, SERVER)), (ListSource::Lanes, ListSource::All));
        let held = SearchSpace { held: vec![1], ..scope(Some(State::Waiting), 1, [90, 30, 30, 30]) };
        assert_eq!(held.source(51, SQLITE), ListSource::Lanes, "its waiting jobs are stored in two ways");
    }

    #[test]
    fn the_choice_never_reads_far_more_than_sorting_would() {
        // Whatever the order: at most twenty times what the bounded way reads, and a bit for the page.
        for pending in [100, 10_000, 90_000, 150_000, 1_000_000, 1_999_999] {
            let scope = scope(Some(State::Pending), 1, [2_000_000, 2_000_000, pending, pending]);
            let worst = match scope.source(51, SQLITE) {
                ListSource::States => pending,
                _ => 2_000_000 - pending + 51,
            };
            assert!(worst <= UNLUCKY * pending + UNLUCKY * 51, "{pending} pending: {worst}");
        }
    }
}
