//! Random walks: whatever happens in whatever order, a plan keeps its promises.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::job::Operation;

/// One thing that happens. Numbers choose a job, by its place in the list.
#[derive(Debug, Clone)]
enum Act {
    Step {
        page: usize,
    },
    /// A step whose writes were never committed: the node died before.
    LostStep {
        page: usize,
    },
    Pass {
        millis: u64,
    },
    Succeed(usize),
    Die(usize, bool),
    RetrySame(usize),
    ByHand(usize),
    Cancel(usize),
    Purge(usize),
    Pause,
    Resume,
    Code(bool),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let job = 0usize..24;
    let act = prop_oneof![
        12 => (0usize..12).prop_map(|page| Act::Step { page }),
        3 => (1usize..12).prop_map(|page| Act::LostStep { page }),
        6 => (0u64..3_000).prop_map(|millis| Act::Pass { millis }),
        12 => job.clone().prop_map(Act::Succeed),
        2 => (job.clone(), any::<bool>()).prop_map(|(job, same)| Act::Die(job, same)),
        1 => job.clone().prop_map(Act::RetrySame),
        1 => job.clone().prop_map(Act::ByHand),
        1 => job.clone().prop_map(Act::Cancel),
        1 => job.prop_map(Act::Purge),
        1 => Just(Act::Pause),
        4 => Just(Act::Resume),
        1 => any::<bool>().prop_map(Act::Code),
    ];
    prop::collection::vec(act, 1..160)
}

fn settings() -> impl Strategy<Value = PlanSettings> {
    (1u32..4, 1u32..6, 1u32..6, 4u32..9, 1u32..4, 0u32..3).prop_map(
        |(canary, batch, per_second, in_flight, ceiling, max_failures)| PlanSettings {
            canary,
            batch,
            per_second,
            in_flight,
            ceiling,
            max_failures,
        },
    )
}

/// A world of 24 jobs, some of which the plan must never touch.
fn mixed(settings: PlanSettings) -> World {
    let mut world = World::started(24, settings);
    for id in 1..=24 {
        let view = world.job(id);
        match id % 8 {
            1 => view.last_failure = Some(failure("other")),
            2 => view.record.finished_at = Some(at(100)),
            3 => view.record.reason = Some(TerminalReason::Invalid),
            4 => view.record.redrives = 1,
            _ => {}
        }
    }
    world.plan.needs = Some("2.0".into());
    world
}

/// What the plan did, as a witness beside it writes it down.
#[derive(Default)]
struct Witness {
    /// When, and how many at once.
    batches: Vec<(Timestamp, u64)>,
    by_round: BTreeMap<(u32, u128), u32>,
}

impl Witness {
    fn step(&mut self, world: &mut World, page: usize, now: Timestamp) {
        let (before, settings) = (world.jobs.clone(), world.plan.settings);
        let driven = world.step(page, now);
        let plan = &world.plan;
        if driven.is_empty() {
            return;
        }
        assert!(world.code_is_live, "it drove without the code that it needs");
        assert!(plan.phase.is_moving(), "it drove while it was {}", plan.phase);
        assert!(driven.len() <= settings.batch as usize, "a batch of {}", driven.len());
        assert!(plan.open <= settings.in_flight, "{} in flight", plan.open);
        for id in &driven {
            let view = before.iter().find(|view| view.job.spec.id == JobId::from_u128(*id)).expect("offered");
            assert!(plan.selector.matches(view), "job {id} is outside of the selector");
            assert!(view.record.redrives < settings.ceiling, "job {id} is over the ceiling");
            let times = self.by_round.entry((plan.round.number, *id)).or_default();
            *times += 1;
            assert_eq!(*times, 1, "job {id} was driven twice in round {}", plan.round.number);
        }
        let first_batch = world
            .open
            .iter()
            .any(|item| item.round == plan.round.number && matches!(item.part, PlanPart::Batch(_)));
        if first_batch {
            assert!(plan.round.canaries_passed >= settings.canary, "the gate was passed without proof");
        }
        self.batches.push((now, driven.len() as u64));
        self.check_rate(settings);
    }

    /// Between any two batches lies the time that the rate needs for what was driven from the first to the second.
    fn check_rate(&self, settings: PlanSettings) {
        let (last, _) = *self.batches.last().expect("just pushed");
        let mut driven = 0;
        for (moment, many) in self.batches.iter().rev().skip(1) {
            driven += many;
            let micros = u64::try_from(last.since(*moment).as_micros()).expect("a short walk");
            let allowed = u64::from(settings.per_second) * micros;
            assert!(driven * 1_000_000 <= allowed, "{driven} jobs in {micros} us");
        }
    }
}

fn apply(world: &mut World, witness: &mut Witness, act: &Act, now: &mut Timestamp) {
    let open = |world: &World, nth: usize| {
        world.open.get(nth).map(|item| item.job.as_uuid().as_u128()).filter(|id| {
            let id = JobId::from_u128(*id);
            world.jobs.iter().any(|view| view.job.spec.id == id && view.record.state == State::Pending)
        })
    };
    match act {
        Act::Step { page } => witness.step(world, *page, *now),
        Act::LostStep { page } => {
            let (plan, jobs) = (world.plan.clone(), world.jobs.clone());
            let (open, ended) = (world.open.clone(), world.ended.clone());
            world.step(*page, *now);
            (world.plan, world.jobs, world.open, world.ended) = (plan, jobs, open, ended);
        }
        Act::Pass { millis } => *now = now.after(Duration::from_millis(*millis)),
        Act::Succeed(nth) => open(world, *nth).into_iter().for_each(|id| world.succeed(id, *now)),
        Act::Die(nth, same) => {
            let name = if *same { "null" } else { "other" };
            open(world, *nth).into_iter().for_each(|id| world.die(id, name, *now));
        }
        Act::RetrySame(nth) => {
            open(world, *nth).into_iter().for_each(|id| world.job(id).last_failure = Some(failure("null")));
        }
        Act::ByHand(nth) => {
            if let Some(view) = world.jobs.get_mut(*nth) {
                let _ = view.record.operate(&view.job, &Operation::Retry, *now);
            }
        }
        Act::Cancel(nth) => {
            if let Some(view) = world.jobs.get_mut(*nth) {
                let cancel = Operation::Cancel { reason: "no".into() };
                let _ = view.record.operate(&view.job, &cancel, *now);
            }
        }
        Act::Purge(nth) if *nth < world.jobs.len() => drop(world.jobs.remove(*nth)),
        Act::Purge(_) => {}
        Act::Pause => drop(world.plan.pause("ann", *now)),
        Act::Resume => drop(world.plan.resume("ann", *now)),
        Act::Code(live) => world.code_is_live = *live,
    }
}

/// Mends everything and lets the plan go to its end.
fn finish(world: &mut World, witness: &mut Witness, mut now: Timestamp) {
    world.code_is_live = true;
    for _ in 0..500 {
        now = now.after(Duration::from_secs(10));
        let _ = world.plan.resume("ann", now);
        witness.step(world, 7, now);
        world.succeed_all_open_that_wait(now);
    }
}

impl World {
    fn succeed_all_open_that_wait(&mut self, now: Timestamp) {
        for item in self.open.clone() {
            if let Some(view) = self.jobs.iter_mut().find(|view| view.job.spec.id == item.job)
                && view.record.state == State::Pending
            {
                view.record.state = State::Succeeded;
                view.record.finished_at = Some(now);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_plan_keeps_its_promises_in_any_order(settings in settings(), acts in acts()) {
        // D4: never twice, never too many, never too fast, nothing outside of the selector.
        let mut world = mixed(settings);
        let mut witness = Witness::default();
        let mut now = at(100);
        for act in &acts {
            apply(&mut world, &mut witness, act, &mut now);
            prop_assert_eq!(world.plan.open as usize, world.open.len(), "the count of those in flight is right");
        }
        finish(&mut world, &mut witness, now);
        prop_assert_eq!(world.plan.phase, PlanPhase::Done, "{}", world.plan.describe());
        let counts = world.plan.counts;
        let ended = counts.succeeded + counts.failed_same + counts.failed_other;
        let lost = counts.canceled + counts.gone + counts.by_hand;
        prop_assert_eq!(counts.driven, ended + lost, "every drive has one outcome");
        prop_assert_eq!(world.ended.len() as u64, counts.driven + counts.skipped, "the report is complete");
        let left: Vec<_> = world.jobs.iter().filter(|view| {
            world.plan.judge(view) == super::super::selector::CandidateChoice::Drive
        }).map(|view| view.job.spec.id).collect();
        prop_assert_eq!(left, Vec::<JobId>::new(), "nothing was forgotten");
    }
}
