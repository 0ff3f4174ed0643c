//! Every order in which jobs, notices and slots can come and go, played against the table.
//!
//! Time stands still: whatever the loop finds without its timer it has found by being told. What must hold whenever it
//! waits: no announced job is left that it has room for, no job that was claimed ahead waits beside a free slot, and it
//! gets there in a few steps, so nothing makes it spin.

use std::collections::HashSet;

use super::*;

const SLOTS: u8 = 2;
/// More steps than any way from one wait to the next takes while nothing else happens.
const STEPS: usize = 24;

/// The loop, its slots, and the jobs of its queues.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    state: FetchState,
    step: FetchStep,
    prefetch: u8,
    /// Due and announced.
    due: u8,
    /// Due, and nobody was told: their time has come, or whoever had them gave them back.
    unannounced: u8,
    /// Still to be seen by a look, but somebody else has them in hand.
    taken: u8,
    /// Something was announced since the loop last listened.
    notice: bool,
    free: u8,
    running: u8,
    /// Runs that have ended, and the store has not heard of it.
    unwritten: u8,
    /// So many may be held at once, by a limit (H5).
    most: u8,
    buffered: u8,
    /// A slot was freed since the loop last waited for one.
    freed: bool,
    /// Slots set aside for a claim or an offer, and jobs that it may take beyond them.
    wanted: Option<(u8, u8)>,
    /// The store has handed over a job; the loop has not come round to it.
    served: bool,
    /// What may still happen: jobs for us, for others, taken by others, come due.
    left: [u8; 4],
}

impl World {
    fn new(prefetch: u8, most: u8) -> Self {
        Self {
            state: FetchState::new(Duration::from_millis(40), Duration::from_secs(30), prefetch > 0, None),
            step: FetchStep::Begin { afresh: true },
            prefetch,
            due: 0,
            unannounced: 0,
            taken: 0,
            notice: false,
            free: SLOTS,
            running: 0,
            unwritten: 0,
            most,
            buffered: 0,
            freed: false,
            wanted: None,
            served: false,
            left: [3, 1, 1, 1],
        }
    }

    fn visible(&self) -> u8 {
        self.due + self.unannounced + self.taken
    }

    fn is_limited(&self) -> bool {
        self.most < u8::MAX
    }

    /// What the limit leaves.
    fn left(&self) -> u8 {
        self.most - self.running - self.buffered - self.unwritten
    }

    fn give_back(&mut self) -> (u8, u8) {
        let (start, ahead) = self.wanted.take().unwrap_or_default();
        self.free += start;
        (start, ahead)
    }

    fn want(&mut self) -> u8 {
        let (start, ahead) = (self.free, self.prefetch.saturating_sub(self.buffered));
        (self.free, self.wanted) = (0, Some((start, ahead)));
        start + ahead
    }

    fn start_buffered(&mut self) {
        let starts = self.buffered.min(self.free);
        self.buffered -= starts;
        self.free -= starts;
        self.running += starts;
    }

    /// Takes what there is; answers how many, of how many.
    fn claim(&mut self) -> (usize, usize) {
        let (start, ahead) = self.give_back();
        let most = if self.is_limited() { start.min(self.left()) } else { start + ahead };
        let taken = most.min(self.due + self.unannounced);
        let announced = taken.min(self.due);
        self.due -= announced;
        self.unannounced -= taken - announced;
        let started = taken.min(start);
        self.free -= started;
        self.running += started;
        self.buffered += taken - started;
        (usize::from(taken), usize::from(start + ahead))
    }

    fn then(mut self, event: FetchEvent) -> Self {
        self.step = self.state.next(event);
        self
    }

    /// Where the loop can be after its step; nowhere when it waits.
    fn steps(&self, now: Instant) -> Vec<Self> {
        let mut world = self.clone();
        match self.step {
            FetchStep::Begin { afresh } => {
                world.give_back();
                world.notice &= !afresh;
                vec![world.then(FetchEvent::Began { ready: true, now })]
            }
            FetchStep::Prepare => {
                world.start_buffered();
                let asked = usize::from(world.want());
                vec![world.then(FetchEvent::Prepared { asked })]
            }
            FetchStep::Look => {
                let found = if self.visible() > 0 { Found::Work } else { Found::Nothing { due_in: None } };
                vec![world.then(FetchEvent::Looked { found, now })]
            }
            FetchStep::Claim => {
                let (taken, asked) = world.claim();
                let held_for = (world.left() == 0).then_some(Duration::MAX);
                let notified = self.notice;
                vec![world.then(FetchEvent::Claimed { taken, asked, held_for, notified, now })]
            }
            FetchStep::WorkOff => {
                let mut all = self.clone();
                all.want();
                let (taken, asked) = all.claim();
                let short = (taken < asked)
                    .then(|| all.then(FetchEvent::WorkedOff { filled: false, notified: self.notice }));
                let no_room = world.then(FetchEvent::WorkedOff { filled: true, notified: self.notice });
                short.into_iter().chain([no_room]).collect()
            }
            FetchStep::AwaitRoom => {
                world.give_back();
                if world.free == 0 && !world.freed {
                    return Vec::new();
                }
                world.freed &= world.free > 0;
                vec![world.then(FetchEvent::RoomCame)]
            }
            FetchStep::StandBy { until } => self.stands_by(until),
            FetchStep::Search | FetchStep::Enlist | FetchStep::Pause => {
                unreachable!("the store refuses nothing here")
            }
        }
    }

    fn stands_by(&self, until: Instant) -> Vec<Self> {
        let mut ends = Vec::new();
        let mut end = |heard, change: fn(&mut Self)| {
            let mut world = self.clone();
            change(&mut world);
            world.served = false;
            world.give_back();
            ends.push(world.then(FetchEvent::StoodBy(heard)));
        };
        if self.notice {
            end(WaitResult::Notice, |world| world.notice = false);
        }
        if self.served {
            end(WaitResult::Served { until }, |_| {});
        } else if self.freed && self.wanted.is_some_and(|(start, _)| start == 0) {
            end(WaitResult::Nothing, |world| world.freed = false);
        }
        ends
    }

    /// What others can do meanwhile.
    fn events(&self) -> Vec<Self> {
        let mut worlds = Vec::new();
        let mut may = |possible: bool, change: &dyn Fn(&mut Self)| {
            if possible {
                let mut world = self.clone();
                change(&mut world);
                worlds.push(world);
            }
        };
        let [own, others, taken, unannounced] = self.left;
        may(own > 0, &|world| {
            world.left[0] -= 1;
            world.due += 1;
            world.notice = true;
        });
        // What has limits is never handed over with its submit.
        let offers = matches!(self.step, FetchStep::StandBy { .. }) && !self.served && !self.is_limited();
        for notice in [self.notice, true] {
            may(own > 0 && offers && self.wanted.is_some_and(|(start, _)| start > 0), &|world| {
                world.left[0] -= 1;
                world.wanted = world.wanted.map(|(start, ahead)| (start - 1, ahead));
                world.running += 1;
                (world.served, world.notice) = (true, notice);
            });
        }
        may(others > 0, &|world| {
            world.left[1] -= 1;
            world.notice = true;
        });
        may(self.due > 0 && taken > 0, &|world| {
            world.left[2] -= 1;
            world.due -= 1;
            world.taken += 1;
        });
        may(self.taken > 0, &|world| world.taken -= 1);
        may(self.taken > 0, &|world| {
            world.taken -= 1;
            world.unannounced += 1;
        });
        may(unannounced > 0, &|world| {
            world.left[3] -= 1;
            world.unannounced += 1;
        });
        may(self.running > 0, &|world| {
            world.running -= 1;
            world.free += 1;
            world.freed = true;
            world.unwritten += u8::from(world.is_limited());
        });
        may(self.unwritten > 0, &|world| {
            world.unwritten -= 1;
            world.notice = true;
        });
        worlds
    }

    /// What is wrong with a loop that waits like this.
    fn complaint(&self) -> Option<&'static str> {
        let (start, ahead) = self.wanted.unwrap_or_default();
        let waits_for_work = matches!(self.step, FetchStep::StandBy { .. });
        if waits_for_work && self.due > 0 && start + ahead > 0 && self.left() > 0 {
            return Some("an announced job is passed by");
        }
        if self.buffered > 0 && start + self.free > 0 {
            return Some("a job that was claimed ahead waits beside a free slot");
        }
        (waits_for_work && start == 0 && self.free > 0).then_some("a free slot is offered to nobody")
    }

    /// The waits that the loop comes to when nothing else happens.
    fn waits(&self, now: Instant) -> Vec<Self> {
        let (mut waits, mut under_way) = (Vec::new(), vec![self.clone()]);
        for _ in 0..STEPS {
            let mut next = Vec::new();
            for world in under_way {
                let steps = world.steps(now);
                if steps.is_empty() {
                    waits.push(world);
                }
                next.extend(steps);
            }
            under_way = next;
        }
        assert!(under_way.is_empty(), "the loop does not come to rest: {self:#?}");
        waits
    }

    /// The timer of a loop that stands by: it looks.
    fn timer(&self, now: Instant) -> Self {
        let mut world = self.clone();
        if self.visible() > 0 {
            world.give_back();
            return world.then(FetchEvent::StoodBy(WaitResult::Due));
        }
        world.step = FetchStep::StandBy { until: world.state.look_again(None, now) };
        world
    }
}

fn explore(prefetch: u8, most: u8) -> usize {
    let now = Instant::now();
    let mut seen = HashSet::new();
    let mut open = vec![World::new(prefetch, most)];
    while let Some(world) = open.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        let steps = world.steps(now);
        if steps.is_empty() {
            assert_eq!(world.complaint(), None, "{world:#?}");
            if matches!(world.step, FetchStep::StandBy { .. }) {
                let claimable = |world: &World| world.due + world.unannounced;
                for later in world.timer(now).waits(now) {
                    let room = world.wanted.is_some_and(|(start, ahead)| start + ahead > 0);
                    let found = claimable(&later) == 0 || claimable(&later) < claimable(&world);
                    assert!(
                        !room || found || world.left() == 0,
                        "its timer does not find what is due: {world:#?}"
                    );
                }
                open.push(world.timer(now));
            }
        } else {
            world.waits(now);
        }
        open.extend(steps);
        open.extend(world.events());
    }
    seen.len()
}

#[test]
fn no_order_of_events_leaves_a_job_beside_a_free_slot() {
    // L2, L13
    for prefetch in [0, 1] {
        let states = explore(prefetch, u8::MAX);
        assert!(states > 1_000, "the search went somewhere: {states} states");
    }
}

#[test]
fn no_order_of_events_leaves_a_job_beside_room_that_a_limit_has() {
    // H5
    for (prefetch, most) in [(0, 1), (0, 2), (1, 1), (1, 2)] {
        let states = explore(prefetch, most);
        assert!(states > 1_000, "the search went somewhere: {states} states");
    }
}
