//! Every phase and every move between phases.

use super::*;

type Ask = fn(&mut Plan, &str, Timestamp) -> Result<(), PlanError>;

fn small() -> PlanSettings {
    PlanSettings { batch: 2, per_second: 2, in_flight: 4, ..PlanSettings::default() }
}

/// Brings a plan of four jobs into `phase`.
fn in_phase(phase: PlanPhase) -> World {
    let mut world = World::of(4, PlanSettings { batch: 10, ..PlanSettings::default() });
    if phase == PlanPhase::Planned {
        return world;
    }
    world.plan.start("ann", at(100)).expect("planned");
    let to_gate = |world: &mut World| assert_eq!(world.step(10, at(101)), [4]);
    match phase {
        PlanPhase::Canary => {}
        PlanPhase::Gate => {
            to_gate(&mut world);
            world.plan.advance(true, at(101));
        }
        PlanPhase::Paused => world.plan.pause("ann", at(101)).expect("moving"),
        PlanPhase::Canceled => world.plan.cancel("ann", at(101)).expect("moving"),
        PlanPhase::Halted => {
            to_gate(&mut world);
            world.die(4, "null", at(102));
            world.step(10, at(103));
        }
        PlanPhase::Driving | PlanPhase::Draining | PlanPhase::Done => {
            to_gate(&mut world);
            world.succeed(4, at(102));
            if phase == PlanPhase::Driving {
                world.code_is_live = false;
                world.plan.needs = Some("2.0".into());
            }
            world.step(10, at(103));
            world.plan.advance(true, at(104));
            if phase == PlanPhase::Done {
                world.succeed_all_open(at(105));
                world.step(10, at(106));
            }
        }
        PlanPhase::Planned => unreachable!("returned above"),
    }
    world
}

#[test]
fn people_move_a_plan_only_as_drawn() {
    // D4: rows are phases, columns start, pause, resume, cancel; `.` is refused.
    use PlanPhase::{Canary, Canceled, Done, Draining, Driving, Gate, Halted, Paused, Planned};
    let drawn = [
        (Planned, [Some(Canary), None, None, Some(Canceled)]),
        (Canary, [None, Some(Paused), None, Some(Canceled)]),
        (Gate, [None, Some(Paused), None, Some(Canceled)]),
        (Driving, [None, Some(Paused), None, Some(Canceled)]),
        (Draining, [None, Some(Paused), None, Some(Canceled)]),
        (Done, [None, None, None, None]),
        (Paused, [None, None, Some(Canary), Some(Canceled)]),
        (Halted, [None, None, Some(Canary), Some(Canceled)]),
        (Canceled, [None, None, None, None]),
    ];
    assert_eq!(drawn.map(|(phase, _)| phase), PlanPhase::ALL);
    let verbs: [(&str, Ask); 4] = [
        ("started", Plan::start),
        ("paused", Plan::pause),
        ("resumed", Plan::resume),
        ("canceled", Plan::cancel),
    ];
    for (phase, row) in drawn {
        for ((verb, ask), expected) in verbs.into_iter().zip(row) {
            let mut plan = in_phase(phase).plan;
            assert_eq!(plan.phase, phase);
            let before = plan.clone();
            match (ask(&mut plan, "bob", at(200)), expected) {
                (Ok(()), Some(next)) => {
                    assert_eq!(plan.phase, next, "{phase} {verb}");
                    let entry = plan.history.last().expect("audited");
                    assert_eq!((entry.at, entry.by.as_deref()), (at(200), Some("bob")), "{phase} {verb}");
                }
                (Err(refused), None) => {
                    assert_eq!(plan, before, "a refusal changes nothing");
                    let sentence = format!("plan rd-00000007 is {phase} and cannot be {verb}: ");
                    assert!(refused.to_string().starts_with(&sentence), "{refused}");
                }
                (answer, expected) => panic!("{phase} {verb}: {answer:?} instead of {expected:?}"),
            }
        }
    }
}

#[test]
fn a_pause_goes_back_to_where_it_was() {
    // D4
    for phase in [PlanPhase::Canary, PlanPhase::Gate, PlanPhase::Driving, PlanPhase::Draining] {
        let mut world = in_phase(phase);
        world.plan.pause("ann", at(200)).expect("moving");
        assert_eq!(world.plan.advance(true, at(201)), PlanStep::Nothing, "a paused plan drives nothing");
        let stored = serde_json::to_string(&world.plan).expect("a document");
        let mut plan: Plan = serde_json::from_str(&stored).expect("what was written");
        plan.resume("ann", at(202)).expect("paused");
        assert_eq!((plan.phase, plan.paused_from), (phase, None));
    }
}

#[test]
fn it_goes_from_canary_to_done() {
    // D4: canary, gate, batches at the rate, draining, done.
    let mut world = World::started(5, small());
    assert_eq!(world.step(10, at(101)), [5], "the canary, newest first");
    for second in 102..110 {
        assert_eq!(world.step(10, at(second)), [], "the gate holds");
        assert_eq!(world.plan.phase, PlanPhase::Gate);
    }
    world.succeed(5, at(110));
    assert_eq!(world.step(10, at(110)), [4, 3], "a batch");
    assert_eq!(world.plan.phase, PlanPhase::Driving);
    assert_eq!(world.plan.advance(true, at(110)), PlanStep::Wait(at(111)), "two jobs at two a second");
    assert_eq!(world.step(10, at(111)), [2, 1]);
    world.step(10, at(112));
    assert_eq!(world.plan.phase, PlanPhase::Draining);
    world.succeed_all_open(at(113));
    world.step(10, at(113));
    assert_eq!((world.plan.phase, world.plan.open), (PlanPhase::Done, 0));
    let counts = PlanCounts { driven: 5, succeeded: 5, ..PlanCounts::default() };
    assert_eq!(world.plan.counts, counts);
    assert_eq!(world.plan.describe(), "done: 5 of 5 driven, 5 succeeded");
    assert!(!world.plan.wants_steps());
    let parts: Vec<_> = world.ended.iter().map(|item| item.part.to_string()).collect();
    assert_eq!(parts, ["canary", "batch 1", "batch 1", "batch 2", "batch 2"]);
    assert!(world.ended.iter().all(|item| item.outcome == Some(PlanJobOutcome::Succeeded)));
}

#[test]
fn the_number_in_flight_is_bounded() {
    // D4
    let mut world = World::started(9, PlanSettings { batch: 9, in_flight: 3, ..PlanSettings::default() });
    world.step(10, at(101));
    world.succeed(9, at(102));
    assert_eq!(world.step(10, at(102)), [8, 7, 6]);
    assert_eq!(world.step(10, at(110)), [], "no room");
    world.succeed(7, at(111));
    assert_eq!(world.step(10, at(111)), [5], "room for one");
}

#[test]
fn a_canary_that_fails_halts_the_plan_with_one_job_touched() {
    // D4
    for (name, sentence) in
        [("null", "failed again with the same error"), ("other", "failed for another reason")]
    {
        let mut world = World::started(5, small());
        assert_eq!(world.step(10, at(101)), [5]);
        world.die(5, name, at(102));
        assert_eq!(world.step(10, at(103)), []);
        assert_eq!(world.plan.phase, PlanPhase::Halted);
        let halt = world.plan.halted.clone().expect("it says why");
        assert_eq!((halt.at, halt.job), (at(103), JobId::from_u128(5)));
        assert!(halt.why.contains(sentence), "{}", halt.why);
        assert_eq!(world.step(10, at(999)), [], "a halted plan stays");
        assert_eq!(world.plan.counts.driven, 1);
    }
}

#[test]
fn a_halted_plan_begins_again_with_the_canary_that_failed() {
    // D4: all of them are driven in the end, also those that failed while the bug was there.
    let mut world = World::started(3, small());
    world.step(10, at(101));
    world.die(3, "null", at(102));
    world.step(10, at(103));
    world.plan.resume("ann", at(104)).expect("halted");
    assert_eq!(world.step(10, at(105)), [3], "its own dead letter goes first");
    world.succeed(3, at(106));
    assert_eq!(world.step(10, at(107)), [2, 1]);
    world.succeed_all_open(at(108));
    world.step(10, at(109));
    assert_eq!(world.plan.phase, PlanPhase::Done);
    assert_eq!((world.plan.counts.driven, world.plan.counts.succeeded), (4, 3));
    assert!(world.jobs.iter().all(|view| view.record.state == State::Succeeded));
}

#[test]
fn a_canary_that_was_called_off_is_replaced() {
    // D4: what was canceled or is gone proves nothing.
    let mut world = World::started(3, small());
    assert_eq!(world.step(10, at(101)), [3]);
    world.job(3).record.state = State::Canceled;
    assert_eq!(world.step(10, at(102)), [2], "another canary");
    assert_eq!(world.plan.phase, PlanPhase::Canary);
    world.jobs.retain(|view| view.job.spec.id != JobId::from_u128(2));
    assert_eq!(world.step(10, at(103)), [1], "and another");
    world.succeed(1, at(104));
    world.step(10, at(105));
    world.step(10, at(106));
    assert_eq!(world.plan.phase, PlanPhase::Done);
    assert_eq!((world.plan.counts.canceled, world.plan.counts.gone, world.plan.counts.succeeded), (1, 1, 1));
}

#[test]
fn fewer_jobs_than_canaries_are_no_obstacle() {
    // D4
    let mut world = World::started(2, PlanSettings { canary: 5, ..PlanSettings::default() });
    assert_eq!(world.step(10, at(101)), [2, 1]);
    world.step(10, at(102));
    assert_eq!(world.plan.phase, PlanPhase::Gate);
    world.succeed_all_open(at(103));
    world.step(10, at(104));
    assert_eq!(world.plan.phase, PlanPhase::Done);
}

#[test]
fn a_canceled_plan_still_sees_how_its_jobs_end() {
    // D4: the report is complete.
    let mut world = World::started(5, small());
    world.step(10, at(101));
    world.plan.cancel("ann", at(102)).expect("moving");
    assert!(world.plan.wants_steps());
    world.die(5, "null", at(103));
    assert_eq!(world.step(10, at(104)), []);
    assert_eq!((world.plan.phase, world.plan.counts.failed_same), (PlanPhase::Canceled, 1));
    assert!(!world.plan.wants_steps());
}

#[test]
fn a_plan_that_needs_code_waits_for_it_and_says_so() {
    // D7
    let mut world = World::started(2, small());
    world.plan.needs = Some("1.4".into());
    world.code_is_live = false;
    assert_eq!(world.step(10, at(101)), []);
    let sentence = world.plan.describe();
    assert!(sentence.contains("waits until a live worker has code version 1.4 or a later one"), "{sentence}");
    world.code_is_live = true;
    assert_eq!(world.step(10, at(102)), [2]);
    assert_eq!(world.job(2).record.needs(), Some("1.4"));
    assert!(!world.plan.describe().contains("waits until"));
}

#[test]
fn a_plan_looks_at_what_is_in_flight_when_that_bounds_it() {
    // D4: how many may fail unseen is what the number in flight says.
    let mut plan = plan(PlanSettings { batch: 3, in_flight: 10, ..PlanSettings::default() });
    let mut looks = |phase, open, exhausted| {
        (plan.phase, plan.open, plan.round.exhausted) = (phase, open, exhausted);
        plan.must_look()
    };
    assert!(!looks(PlanPhase::Driving, 0, false));
    assert!(!looks(PlanPhase::Driving, 7, false), "there is room for a whole batch");
    assert!(looks(PlanPhase::Driving, 8, false), "and here there is not");
    assert!(looks(PlanPhase::Driving, 0, true), "nothing is left to drive");
    for phase in PlanPhase::ALL.into_iter().filter(|phase| *phase != PlanPhase::Driving) {
        assert!(looks(phase, 0, false), "{phase}");
    }
}

#[test]
fn a_plan_that_drives_looks_no_further_than_it_must() {
    // D4
    let mut plan = plan(PlanSettings { batch: 3, in_flight: 20, ..PlanSettings::default() });
    let mut has_room = |phase, open| {
        (plan.phase, plan.open) = (phase, open);
        plan.has_room()
    };
    assert!(has_room(PlanPhase::Driving, 8), "four batches fit");
    assert!(!has_room(PlanPhase::Driving, 9));
    for phase in PlanPhase::ALL.into_iter().filter(|phase| *phase != PlanPhase::Driving) {
        assert!(!has_room(phase, 0), "{phase}: what is in flight is all that counts");
    }
    plan.settings.in_flight = 5;
    (plan.phase, plan.open) = (PlanPhase::Driving, 0);
    assert!(plan.has_room(), "nothing is in flight: there is no more room to be made");
    plan.phase = PlanPhase::Canary;
    assert!(!plan.looks_by_age(), "what an earlier round drove is all seen before a job is driven once more");
}
