//! What a plan makes of each ending, of each candidate, and what it says of itself.

use super::*;
use crate::job::{Operation, PausedFrom};

fn driving() -> World {
    let mut world =
        World::started(20, PlanSettings { batch: 10, max_failures: 2, ..PlanSettings::default() });
    world.step(100, at(101));
    world.succeed(20, at(102));
    assert_eq!(world.step(100, at(103)).len(), 10);
    world
}

#[test]
fn every_ending_has_one_outcome() {
    // D4
    let other = Some(bug("other"));
    type Change = fn(&mut JobView);
    let table: [(&str, Change, Option<PlanJobOutcome>); 13] = [
        ("waits", |_| {}, None),
        ("runs", |view| view.record.state = State::Running, None),
        ("succeeded", |view| view.record.state = State::Succeeded, Some(PlanJobOutcome::Succeeded)),
        ("canceled", |view| view.record.state = State::Canceled, Some(PlanJobOutcome::Canceled)),
        (
            "retried, same",
            |view| view.last_failure = Some(failure("null")),
            Some(PlanJobOutcome::FailedAgain),
        ),
        ("retried, other", |view| view.last_failure = Some(failure("other")), None),
        ("paused while pending", |view| view.record.state = State::Paused, None),
        ("paused when dead", paused_when_dead, Some(PlanJobOutcome::FailedAgain)),
        ("dead, other", dead_of_other, Some(PlanJobOutcome::FailedOtherwise { fingerprint: other })),
        ("driven by hand", driven_by_hand, Some(PlanJobOutcome::DrivenByHand)),
        (
            "its key is taken",
            |view| view.record.redrives = 0,
            not_driven("another live job holds its business key"),
        ),
        ("paused first", paused_first, not_driven("it was paused before its turn came")),
        ("by hand first", |view| view.record.marks = None, not_driven("somebody else drove it first")),
    ];
    for (name, change, expected) in table {
        let mut world = World::started(5, PlanSettings::default());
        world.step(10, at(101));
        change(world.job(5));
        let (mut item, view) = (world.open[0].clone(), world.job(5).clone());
        let outcome = world.plan.observe(&mut item, DrivenJob::Job(&JobSummary::from(&view)), at(102));
        assert_eq!(outcome, expected, "{name}");
        assert_eq!(item.outcome, expected, "{name}");
        assert_eq!(world.plan.open, u32::from(expected.is_none()), "{name}");
    }
}

fn not_driven(why: &str) -> Option<PlanJobOutcome> {
    Some(PlanJobOutcome::NotDriven { why: why.to_owned() })
}

fn paused_when_dead(view: &mut JobView) {
    view.record.state = State::Paused;
    view.record.paused_from = Some(PausedFrom::Failed);
    view.last_failure = Some(failure("null"));
}

fn paused_first(view: &mut JobView) {
    view.record.redrives = 0;
    view.record.state = State::Paused;
}

fn dead_of_other(view: &mut JobView) {
    view.record.state = State::Failed;
    view.last_failure = Some(failure("other"));
}

fn driven_by_hand(view: &mut JobView) {
    view.record.state = State::Failed;
    view.record.operate(&view.job, &Operation::Retry, at(102)).expect("a dead letter");
}

#[test]
fn what_was_archived_or_purged_has_an_outcome_too() {
    // D4
    let table = [
        (DrivenJob::Archived(State::Succeeded), PlanJobOutcome::Succeeded),
        (DrivenJob::Archived(State::Canceled), PlanJobOutcome::Canceled),
        (DrivenJob::Archived(State::Failed), PlanJobOutcome::FailedOtherwise { fingerprint: None }),
        (DrivenJob::Missing, PlanJobOutcome::Gone),
    ];
    for (sight, expected) in table {
        let mut world = driving();
        let mut item = world.open[0].clone();
        assert_eq!(world.plan.observe(&mut item, sight, at(104)), Some(expected));
    }
}

#[test]
fn a_job_without_an_error_fails_again_by_its_reason() {
    // D4: an expired job leaves no error, neither time.
    let mut world = World::started(2, PlanSettings::default());
    world.plan.selector = PlanSelector { reason: Some(TerminalReason::Expired), ..PlanSelector::default() };
    for view in &mut world.jobs {
        view.record.reason = Some(TerminalReason::Expired);
        view.last_failure = None;
    }
    world.step(10, at(101));
    world.die(2, "null", at(102));
    world.job(2).last_failure = None;
    world.job(2).record.reason = Some(TerminalReason::Expired);
    world.step(10, at(103));
    assert_eq!((world.plan.phase, world.plan.counts.failed_same), (PlanPhase::Halted, 1));
}

#[test]
fn the_same_fingerprint_halts_a_batch_at_once() {
    // D4: also while the job's own policy still retries it.
    let mut world = driving();
    let id = world.open[3].job.as_uuid().as_u128();
    world.job(id).last_failure = Some(failure("null"));
    assert_eq!(world.step(100, at(200)), []);
    assert_eq!(world.plan.phase, PlanPhase::Halted);
    assert_eq!((world.plan.open, world.open.len()), (9, 9), "the others stay in flight");
}

#[test]
fn other_failures_are_borne_up_to_a_bound() {
    // D4
    let mut world = driving();
    let open: Vec<u128> = world.open.iter().map(|item| item.job.as_uuid().as_u128()).collect();
    for (nth, id) in open.into_iter().take(3).enumerate() {
        assert_eq!(world.plan.phase, PlanPhase::Driving, "failure {nth}");
        world.die(id, "other", at(103));
        world.step(0, at(103));
    }
    assert_eq!(world.plan.phase, PlanPhase::Halted);
    let why = world.plan.halted.expect("it says why").why;
    assert!(why.starts_with("3 jobs failed in other ways"), "{why}");
}

#[test]
fn what_failed_before_a_round_does_not_halt_it() {
    // D4: a round halted for its like already.
    let mut world = driving();
    let open: Vec<u128> = world.open.iter().map(|item| item.job.as_uuid().as_u128()).collect();
    world.die(open[0], "null", at(104));
    world.step(100, at(105));
    assert_eq!(world.plan.phase, PlanPhase::Halted);
    world.die(open[1], "null", at(106));
    world.plan.resume("ann", at(107)).expect("halted");
    world.step(100, at(200));
    assert_eq!(world.plan.phase, PlanPhase::Canary, "it died before the fix");
    world.die(open[2], "null", at(201));
    world.step(100, at(202));
    assert_eq!(world.plan.phase, PlanPhase::Halted, "it died after the fix");
}

#[test]
fn the_ceiling_and_never_retry_reasons_are_left_out_and_reported() {
    // D4
    let mut world = World::started(5, PlanSettings { ceiling: 2, canary: 5, ..PlanSettings::default() });
    world.job(5).record.redrives = 2;
    world.job(4).record.reason = Some(TerminalReason::Signature);
    assert_eq!(world.step(10, at(101)), [3, 2, 1]);
    assert_eq!(world.plan.counts.skipped, 2);
    let left_out: Vec<_> = world.ended.iter().map(|item| item.job.as_uuid().as_u128()).collect();
    assert_eq!(left_out, [5, 4]);
    let why = world.ended[0].outcome.clone();
    assert_eq!(why, Some(PlanJobOutcome::from(LeftOut::Ceiling)));
}

#[test]
fn what_was_left_out_is_reported_once_however_many_rounds_there_are() {
    // D4
    let mut world = World::started(5, PlanSettings { ceiling: 1, ..PlanSettings::default() });
    world.job(5).record.redrives = 1;
    world.job(2).record.redrives = 1;
    for canary in [3u32, 4] {
        let (canary, begin) = (u128::from(7 - canary), u64::from(canary) * 100);
        assert_eq!(world.step(10, at(begin)), [canary]);
        world.die(canary, "null", at(begin + 1));
        world.step(10, at(begin + 2));
        world.plan.resume("ann", at(begin + 3)).expect("halted");
    }
    assert_eq!(world.step(10, at(900)), [1], "what failed again is over the ceiling by now");
    let left_out: Vec<_> = world
        .ended
        .iter()
        .filter(|item| matches!(item.outcome, Some(PlanJobOutcome::NotDriven { .. })))
        .map(|item| item.job)
        .collect();
    assert_eq!(left_out, [JobId::from_u128(5), JobId::from_u128(2)]);
    assert_eq!(world.plan.counts.skipped, 2);
}

#[test]
fn what_dies_after_the_plan_was_made_is_not_its_business() {
    // D4: so the plan is bounded.
    let mut world = World::started(3, PlanSettings { canary: 3, ..PlanSettings::default() });
    world.job(3).record.finished_at = Some(at(100));
    assert_eq!(world.step(10, at(101)), [2, 1]);
    assert_eq!((world.plan.counts.skipped, world.job(3).record.redrives), (0, 0));
}

#[test]
fn candidates_that_lie_before_the_cursor_are_not_taken_again() {
    // D4: a page that was read twice drives nothing twice.
    let mut world = World::started(5, PlanSettings { canary: 3, ..PlanSettings::default() });
    let page: Vec<JobView> = [5, 4, 3].map(|id| world.job(id).clone()).to_vec();
    assert_eq!(world.plan.advance(true, at(101)), PlanStep::Candidates(3));
    assert_eq!(world.plan.take(&page[..2], true, at(101)).drives.len(), 2);
    let again = world.plan.take(&page, true, at(150));
    let jobs: Vec<_> = again.drives.iter().map(|drive| drive.item.job).collect();
    assert_eq!(jobs, [JobId::from_u128(3)]);
}

#[test]
fn the_audit_is_bounded_and_keeps_who_made_the_plan() {
    // D4
    let mut plan = World::started(5, PlanSettings::default()).plan;
    for round in 0..500 {
        plan.pause("bob", at(200 + round)).expect("moving");
        plan.resume("bob", at(200 + round)).expect("paused");
    }
    assert_eq!(plan.history.len(), 100);
    assert_eq!(plan.history[0].what, "made: 5 jobs match");
    assert_eq!(plan.history[0].by.as_deref(), Some("ann"));
    assert_eq!(plan.history[99].at, at(699));
}

#[test]
fn every_phase_says_where_it_is_and_what_comes_next() {
    // D4, F20
    let mut world = World::of(5, PlanSettings::default());
    let says = |plan: &Plan, words: &str| assert!(plan.describe().contains(words), "{}", plan.describe());
    says(
        &world.plan,
        "5 jobs would be driven again; nothing happens until `backstop redrive start rd-00000007`",
    );
    world.plan.start("ann", at(100)).expect("planned");
    says(&world.plan, "canary: 1 job of 5 goes first");
    world.step(10, at(101));
    world.plan.advance(true, at(101));
    says(&world.plan, "gate: waits for its canary to end");
    world.succeed(5, at(102));
    world.plan.pause("ann", at(102)).expect("moving");
    says(&world.plan, "paused by a person while it was gate: 1 of 5 driven");
    world.plan.resume("ann", at(103)).expect("paused");
    world.step(2, at(104));
    says(&world.plan, "driving: 3 of 5 driven, 1 succeeded, 2 in flight");
    world.die(4, "null", at(105));
    world.step(2, at(106));
    says(&world.plan, "the cause is still there; fix it, then `backstop redrive resume rd-00000007`");
    world.plan.cancel("ann", at(107)).expect("halted");
    says(&world.plan, "canceled by a person: 3 of 5 driven");
}

#[test]
fn a_plan_and_its_items_come_back_as_they_were_written() {
    // D4: they are stored as documents.
    let mut world = driving();
    world.die(19, "other", at(104));
    world.step(100, at(105));
    let text = serde_json::to_string(&world.plan).expect("a document");
    assert_eq!(serde_json::from_str::<Plan>(&text).expect("what was written"), world.plan);
    for item in world.open.iter().chain(&world.ended) {
        let text = serde_json::to_string(item).expect("a document");
        assert_eq!(&serde_json::from_str::<PlanJob>(&text).expect("what was written"), item);
    }
    assert!(serde_json::from_str::<PlanPart>("\"batch x\"").is_err());
}
