//! Turns: how jobs that share something are taken (H5, H6).
//!
//! Jobs with a limit key, a single instance or permits are in lanes of their own, and beside `ready` in an index by
//! their turn key. A claim looks at the first job of each key, asks whether there is room for it, and lets the keys
//! take turns: each gets as many starts as its weight says before the next one does. All other jobs of the queue
//! together are one more that takes turns. A key that has no room is passed by, however many jobs wait under it.
//!
//! [`plan`] decides. It knows the beginnings of the keys that were read, and says of which ones it needs more.
//! [`plan_all`] decides the same for somebody who takes nothing and only wants to know how much could start (H9).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use backstop_core::job::{Aging, Priority, SharingNeeds};
use backstop_core::run_limit::{RunRooms, SharedRooms, SharingJob};
use backstop_core::{JobId, Timestamp};

/// Keys of one lane that a claim looks at. With more of them, the next claim goes on where this one stopped.
pub const MOST_KEYS: usize = 500;

/// Jobs of a key that a claim reads at first: the second one tells whether one is kept back when the first is taken.
pub const FIRST_HEADS: usize = 2;

/// Sorts behind every turn key.
pub const LAST_KEY: &str = "\u{10ffff}\u{10ffff}";

/// Due jobs of one lane that need the same.
#[derive(Debug, Clone)]
pub struct KeyedJobs {
    /// The number of their lane.
    pub lane: i64,
    /// Their queue.
    pub queue: Arc<str>,
    /// Their kind.
    pub kind: Arc<str>,
    /// Their priority.
    pub priority: Priority,
    /// Their turn key.
    pub key: Arc<str>,
    /// What each of them needs.
    pub needs: SharingNeeds,
    /// The first of them that were read, the earliest first; never none.
    pub heads: Vec<(Timestamp, JobId)>,
    /// True when there may be more.
    pub more: bool,
}

impl KeyedJobs {
    /// One of its jobs, as far as what it shares goes.
    #[must_use]
    pub fn job(&self) -> SharingJob {
        SharingJob { queue: self.queue.clone(), kind: self.kind.clone(), needs: self.needs.clone() }
    }
}

/// Who had the last turn in each queue, as this process knows. Each process lets keys take turns by itself: together
/// they give each key as many as any one of them does.
#[derive(Debug, Default)]
pub struct LastTurn(Mutex<HashMap<Arc<str>, Arc<str>>>);

impl Clone for LastTurn {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()))
    }
}

impl LastTurn {
    /// Whose turn was the last one in a queue.
    #[must_use]
    pub fn of(&self, queue: &str) -> Arc<str> {
        let turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.get(queue).cloned().unwrap_or_default()
    }

    /// Notes whose turn was the last one.
    pub fn note(&self, queue: &Arc<str>, sharer: &Arc<str>) {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.insert(queue.clone(), sharer.clone());
    }
}

/// The keys that come after this sharer's own, and those up to and with its own, each as two bounds: above the first,
/// up to the second.
#[must_use]
pub fn key_ranges(last: &str) -> [(String, String); 2] {
    if last.is_empty() {
        return [(String::new(), LAST_KEY.to_owned()), (LAST_KEY.to_owned(), LAST_KEY.to_owned())];
    }
    // A sharer's keys are its own name, or begin with it and the separator, which sorts before this.
    let own = format!("{last}\u{2}");
    [(own.clone(), LAST_KEY.to_owned()), (String::new(), own)]
}

/// What a claim may take of jobs that take turns.
#[derive(Debug, Clone)]
pub struct TurnPlan {
    /// The jobs in the order of their turns: the index of the stack and of the head in it.
    pub jobs: Vec<(usize, usize)>,
    /// Stacks of which more heads are needed, and how many in all. Unless there is none, the rest is a guess.
    pub needs_more: BTreeMap<usize, usize>,
    /// How many turns the jobs get that share nothing.
    pub plain: usize,
    /// Who had the last turn; empty for jobs that share nothing. None when nobody but those could have had one.
    pub last: Option<Arc<str>>,
    /// What is left of limits afterwards.
    pub limits: RunRooms,
    /// What is left of what is shared afterwards.
    pub rooms: SharedRooms,
}

/// What turns are given from.
#[derive(Debug, Clone, Copy)]
pub struct TurnInput<'a> {
    /// The stacks of one queue.
    pub stacks: &'a [KeyedJobs],
    /// Whose turn was the last one.
    pub last: &'a str,
    /// Jobs to take at most.
    pub limit: usize,
    /// How many of them may share something: such jobs are never claimed ahead, where they would hold what others wait
    /// for.
    pub most_sharing: usize,
    /// True when jobs that share nothing take turns too.
    pub with_plain: bool,
    /// How waiting counts against priority.
    pub aging: Aging,
    /// What limits leave room for.
    pub limits: &'a RunRooms,
    /// What is left of what is shared.
    pub rooms: &'a SharedRooms,
}

/// Decides which jobs are taken.
#[must_use]
pub fn plan(input: &TurnInput<'_>) -> TurnPlan {
    let mut round = Rounds {
        input,
        taken: vec![0; input.stacks.len()],
        closed: vec![false; input.stacks.len()],
        plan: TurnPlan {
            jobs: Vec::new(),
            needs_more: BTreeMap::new(),
            plain: 0,
            last: None,
            limits: input.limits.clone(),
            rooms: input.rooms.clone(),
        },
        total: 0,
        sharing: 0,
    };
    let mut sharers: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    if input.with_plain {
        sharers.insert("", Vec::new());
    }
    for (place, stack) in input.stacks.iter().enumerate() {
        sharers.entry(SharingNeeds::sharer(&stack.key)).or_default().push(place);
    }
    let after = sharers.iter().filter(|(sharer, _)| **sharer > input.last);
    let before = sharers.iter().filter(|(sharer, _)| **sharer <= input.last);
    let order: Vec<(&str, &[usize])> =
        after.chain(before).map(|(sharer, places)| (*sharer, places.as_slice())).collect();
    let contested = (0..input.stacks.len()).any(|place| round.is_open(place));
    while round.total < input.limit && round.go_round(&order) {}
    round.plan.last = round.plan.last.filter(|_| contested);
    round.plan
}

/// What could start now of the jobs of one queue that share something, `most` of them at most, whatever limits say that
/// count all runs together.
#[must_use]
pub fn plan_all(stacks: &[KeyedJobs], rooms: &SharedRooms, most: usize) -> TurnPlan {
    let limits = RunRooms::new([], Timestamp::EPOCH);
    plan(&TurnInput {
        stacks,
        last: "",
        limit: most,
        most_sharing: most,
        with_plain: false,
        aging: Aging::default(),
        limits: &limits,
        rooms,
    })
}

/// Pending jobs of one queue and kind that share something, and how much of them could start: for those who ask how
/// many workers there should be (H9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharingWork {
    /// Their queue.
    pub queue: Arc<str>,
    /// Their kind.
    pub kind: Arc<str>,
    /// How many there are, due or not. Those that wait for code are not counted (H10).
    pub pending: u64,
    /// How many of them could start now: all of them where there were too many to look at.
    pub startable: u64,
}

impl SharingWork {
    /// What [`plan_all`] has found in a queue whose kinds have so many pending jobs that share something, when it was
    /// asked for `most`.
    #[must_use]
    pub fn of(
        queue: &Arc<str>,
        pending: BTreeMap<Arc<str>, u64>,
        stacks: &[KeyedJobs],
        plan: &TurnPlan,
        most: usize,
    ) -> Vec<Self> {
        let (mut keys, mut found) = (BTreeMap::<i64, usize>::new(), HashMap::<&str, u64>::new());
        for stack in stacks {
            *keys.entry(stack.lane).or_default() += 1;
        }
        for (place, _) in &plan.jobs {
            *found.entry(&*stacks[*place].kind).or_default() += 1;
        }
        // What was not looked at may all have room: to want somebody for nothing is better than to leave it waiting.
        let all = plan.jobs.len() >= most || keys.values().any(|keys| *keys >= MOST_KEYS);
        let work = |(kind, pending): (Arc<str>, u64)| {
            let found = found.get(&*kind).copied().unwrap_or_default();
            let startable = if all { pending } else { found.min(pending) };
            Self { queue: queue.clone(), kind, pending, startable }
        };
        pending.into_iter().map(work).collect()
    }
}

/// Rounds of turns under way.
struct Rounds<'a> {
    input: &'a TurnInput<'a>,
    taken: Vec<usize>,
    closed: Vec<bool>,
    plan: TurnPlan,
    total: usize,
    sharing: usize,
}

impl Rounds<'_> {
    /// Gives each sharer its turn; false when nobody took anything.
    fn go_round(&mut self, order: &[(&str, &[usize])]) -> bool {
        let before = self.total;
        let mut shared = false;
        for (sharer, places) in order {
            let Some(first) = places.first() else {
                // Jobs that share nothing are found later: here they have one for each of their turns.
                if self.total < self.input.limit {
                    self.plan.plain += 1;
                    self.total += 1;
                    self.plan.last = Some("".into());
                }
                continue;
            };
            let stack = &self.input.stacks[*first];
            let weight = self.plan.rooms.weight(&stack.queue, &stack.kind, &stack.needs);
            for _ in 0..weight {
                let full = self.total == self.input.limit || self.sharing == self.input.most_sharing;
                if full || !self.take_best(places) {
                    break;
                }
                shared = true;
                self.plan.last = Some((*sharer).into());
            }
        }
        if !shared && self.total > before {
            // Nobody else has anything: all that is left is for jobs that share nothing.
            self.plan.plain += self.input.limit - self.total;
            self.total = self.input.limit;
        }
        self.total > before
    }

    /// Takes the best job of one sharer that there is room for.
    fn take_best(&mut self, places: &[usize]) -> bool {
        let mut best: Option<((u8, i64), JobId, usize)> = None;
        for place in places.iter().copied() {
            if self.closed[place] {
                continue;
            }
            let stack = &self.input.stacks[place];
            let known = stack.heads.get(self.taken[place]);
            let Some((run_at, id)) = known.or(stack.heads.last().filter(|_| stack.more)) else { continue };
            let rank = (self.input.aging.rank(stack.priority, *run_at), *id);
            if best.is_none_or(|(best_rank, best_id, _)| rank < (best_rank, best_id)) && self.has_room(place)
            {
                best = Some((rank.0, rank.1, place));
            }
        }
        let Some((_, _, place)) = best else { return false };
        let stack = &self.input.stacks[place];
        let head = self.taken[place];
        self.taken[place] += 1;
        self.total += 1;
        self.sharing += 1;
        if head < stack.heads.len() {
            self.plan.jobs.push((place, head));
        } else {
            self.plan.needs_more.insert(place, head + 1);
        }
        self.plan.limits.take(&stack.queue, &stack.kind);
        let job = stack.heads.get(head).or(stack.heads.last()).map_or(JobId::from_u128(0), |(_, id)| *id);
        self.plan.rooms.take(&stack.queue, &stack.kind, &stack.needs, job);
        true
    }

    /// True when there is room for a job of a stack.
    fn is_open(&self, place: usize) -> bool {
        let stack = &self.input.stacks[place];
        self.plan.limits.left(&stack.queue, &stack.kind) > 0
            && self.plan.rooms.hold(&stack.queue, &stack.kind, &stack.needs).is_none()
    }

    /// A stack that finds no room is not asked again: what is taken is not given back meanwhile.
    fn has_room(&mut self, place: usize) -> bool {
        let stack = &self.input.stacks[place];
        if self.plan.limits.left(&stack.queue, &stack.kind) == 0 {
            self.closed[place] = true;
            return false;
        }
        let Some(hold) = self.plan.rooms.hold(&stack.queue, &stack.kind, &stack.needs) else { return true };
        self.closed[place] = true;
        if self.taken[place] < stack.heads.len() {
            self.plan.rooms.note_held(&hold);
        } else {
            // Whether another job is kept back here is not known yet.
            self.plan.needs_more.insert(place, self.taken[place] + 1);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use backstop_core::run_limit::{CountBy, RunLimit};

    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

    fn stack(key: &str, jobs: usize) -> KeyedJobs {
        let needs = SharingNeeds { limit_key: Some(key.into()), ..SharingNeeds::default() };
        let head = |number| (NOW, JobId::from_u128(number as u128));
        KeyedJobs {
            lane: 1,
            queue: "mail".into(),
            kind: "send".into(),
            priority: Priority::default(),
            key: needs.turn_key().into(),
            needs,
            heads: (0..jobs).map(head).collect(),
            more: false,
        }
    }

    fn turns(stacks: &[KeyedJobs], last: &str, limit: usize, with_plain: bool, by_key: RunLimit) -> TurnPlan {
        let rooms = SharedRooms::new([by_key], HashMap::new(), HashMap::new(), NOW);
        let limits = RunRooms::new([], NOW);
        let (limits, rooms) = (&limits, &rooms);
        let (most_sharing, aging) = (limit, Aging::default());
        plan(&TurnInput { stacks, last, limit, most_sharing, with_plain, aging, limits, rooms })
    }

    fn keys(stacks: &[KeyedJobs], plan: &TurnPlan) -> String {
        plan.jobs.iter().map(|(place, _)| &*stacks[*place].key).collect()
    }

    #[test]
    fn keys_take_turns_from_where_the_last_claim_stopped() {
        // H5: one with many jobs does not starve one with few.
        let stacks = [stack("a", 100), stack("b", 1), stack("c", 2)];
        for (last, limit, taken, then) in [
            ("", 6, "abcaca", "a"),
            ("a", 2, "bc", "c"),
            ("c", 3, "abc", "c"),
            ("b", 1, "c", "c"),
            ("zz", 1, "a", "a"),
        ] {
            let plan = turns(&stacks, last, limit, false, RunLimit::new("none"));
            assert_eq!(
                (keys(&stacks, &plan).as_str(), plan.last.as_deref()),
                (taken, Some(then)),
                "after {last:?}"
            );
        }
    }

    #[test]
    fn a_weight_is_the_number_of_starts_in_a_turn() {
        // H5
        let stacks = [stack("a", 9), stack("b", 9)];
        let weights = [("b".into(), 3)].into();
        let weighted = RunLimit { by: CountBy::Key, weights, ..RunLimit::new("shares") };
        assert_eq!(keys(&stacks, &turns(&stacks, "", 8, false, weighted)), "abbbabbb");
    }

    #[test]
    fn jobs_that_share_nothing_take_turns_as_one() {
        // H5
        let stacks = [stack("a", 1), stack("b", 5)];
        let plan = turns(&stacks, "", 5, true, RunLimit::new("none"));
        assert_eq!((keys(&stacks, &plan).as_str(), plan.plain), ("abb", 2));
        let plan = turns(&stacks[..1], "", 5, true, RunLimit::new("none"));
        assert_eq!((keys(&stacks, &plan).as_str(), plan.plain), ("a", 4), "the rest is for them");
        let plan = turns(&[], "", 5, true, RunLimit::new("none"));
        assert_eq!(plan.plain, 5);
        let plan = turns(&stacks, "b", 1, true, RunLimit::new("none"));
        assert_eq!((plan.plain, plan.last.as_deref()), (1, Some("")), "after the last key it is their turn");
    }

    #[test]
    fn no_more_are_taken_than_start_at_once() {
        // H5
        let (stacks, limits) = ([stack("a", 5), stack("b", 5)], RunRooms::new([], NOW));
        let rooms = SharedRooms::new([], HashMap::new(), HashMap::new(), NOW);
        let (last, aging) = ("", Aging::default());
        let input = TurnInput {
            stacks: &stacks,
            last,
            limit: 9,
            most_sharing: 3,
            with_plain: true,
            aging,
            limits: &limits,
            rooms: &rooms,
        };
        let plan = plan(&input);
        assert_eq!((keys(&stacks, &plan).as_str(), plan.plain), ("aba", 6));
    }

    #[test]
    fn a_key_without_room_is_passed_by() {
        // H5
        let stacks = [stack("a", 5), stack("b", 5)];
        let one = RunLimit { by: CountBy::Key, concurrency: Some(1), ..RunLimit::new("one") };
        let plan = turns(&stacks, "", 10, false, one);
        assert_eq!(keys(&stacks, &plan), "ab");
        let none = RunLimit { by: CountBy::Key, concurrency: Some(0), ..RunLimit::new("none") };
        assert_eq!(turns(&stacks, "a", 1, true, none).last, None, "nobody had a turn to lose");
        assert_eq!(plan.rooms.held_until(), Some(Timestamp::MAX), "a run has to end first");
    }

    #[test]
    fn more_is_asked_for_where_it_may_be_needed() {
        // H5
        let mut stacks = [stack("a", 1), stack("b", 1)];
        stacks[0].more = true;
        let plan = turns(&stacks, "", 4, false, RunLimit::new("none"));
        assert_eq!(plan.needs_more, BTreeMap::from([(0, 3)]));
        stacks[0] = stack("a", 2);
        let plan = turns(&stacks, "", 4, false, RunLimit::new("none"));
        assert_eq!((keys(&stacks, &plan).as_str(), plan.needs_more.len()), ("aba", 0));
    }

    #[test]
    fn what_could_start_is_counted_and_what_was_not_looked_at_counts_as_startable() {
        // H9, H5
        let stacks = [stack("a", 5), stack("b", 5)];
        let two = RunLimit { by: CountBy::Key, concurrency: Some(2), ..RunLimit::new("two") };
        let rooms = SharedRooms::new([two], HashMap::new(), HashMap::new(), NOW);
        let kind: Arc<str> = "send".into();
        let work = |stacks: &[KeyedJobs], most: usize| {
            let (queue, pending) = ("mail".into(), BTreeMap::from([(kind.clone(), 12)]));
            let plan = plan_all(stacks, &rooms, most);
            SharingWork::of(&queue, pending, stacks, &plan, most).remove(0).startable
        };
        assert_eq!(work(&stacks, 100), 4);
        assert_eq!(work(&stacks, 4), 12, "as many as were asked for: there may be more");
        assert_eq!(work(&[], 100), 0, "none of them is due");
        let many: Vec<KeyedJobs> = (0..MOST_KEYS).map(|key| stack(&format!("{key:03}"), 1)).collect();
        assert_eq!(work(&many[1..], 10_000), 12, "no more than are pending");
        let none = RunLimit { by: CountBy::Key, concurrency: Some(0), ..RunLimit::new("none") };
        let rooms = SharedRooms::new([none], HashMap::new(), HashMap::new(), NOW);
        let plan = plan_all(&many, &rooms, 10_000);
        let pending = || BTreeMap::from([(kind.clone(), 900)]);
        let of = |stacks: &[KeyedJobs]| {
            SharingWork::of(&"mail".into(), pending(), stacks, &plan, 10_000).remove(0).startable
        };
        assert_eq!((of(&many[1..]), of(&many)), (0, 900), "behind so many keys there may be others");
    }

    #[test]
    fn the_ranges_of_keys_part_where_the_last_turn_was() {
        // H5
        let [after, upto] = key_ranges("a");
        let is_in = |key: &str, (from, to): &(String, String)| key > from.as_str() && key <= to.as_str();
        for (key, comes_after) in
            [("a", false), ("a\u{1}0123", false), ("a b", true), ("b", true), ("A", false)]
        {
            assert_eq!((is_in(key, &after), is_in(key, &upto)), (comes_after, !comes_after), "{key:?}");
        }
    }
}
