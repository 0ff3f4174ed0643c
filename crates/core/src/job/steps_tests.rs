//! What a call of a step comes to, and what is written of it.

use super::*;
use crate::job::{EffectCall, EffectPolicy, EffectReplay, NoteError, Record, Remark, Spec};
use crate::time::Timestamp;
use crate::{Fence, JobId, Lease, WorkerId};

fn done(index: u32, name: &str) -> StepWrite {
    StepWrite { index: Some(index), name: name.to_owned(), fact: StepFact::Done("1".into()) }
}

fn begun(index: u32, name: &str, key: &str) -> StepWrite {
    StepWrite { index: Some(index), name: name.to_owned(), fact: StepFact::Begun(key.to_owned()) }
}

fn history(writes: &[StepWrite]) -> StepHistory {
    let mut history = StepHistory::default();
    for write in writes {
        history.write(write, 1);
    }
    history
}

#[test]
fn a_stored_success_answers_and_what_is_not_stored_runs() {
    // W7
    let history = history(&[done(0, "fetch"), done(1, "render")]);
    assert_eq!(history.replay(0, "fetch", None), Ok(StepReplay::Stored(0)));
    assert_eq!(history.replay(1, "render", None), Ok(StepReplay::Stored(1)));
    assert_eq!(history.replay(2, "send", None), Ok(StepReplay::Run));
    assert_eq!(history.next_index(), 2);
}

#[test]
fn other_names_and_another_order_are_told_with_both() {
    // W7
    let history = history(&[done(0, "fetch"), done(1, "render")]);
    for (index, name, stored) in [
        (0, "download", "step `fetch` at index 0"),
        (0, "render", "step `render` at index 1"),
        (2, "fetch", "step `fetch` at index 0"),
    ] {
        let said = history.replay(index, name, None).expect_err(name).to_string();
        assert!(said.contains(stored), "{said}");
        assert!(said.contains(&format!("calls step `{name}` at index {index}")), "{said}");
    }
    let said = history.replay(0, "fetch", Some("k")).expect_err("a step is not an effect").to_string();
    assert!(said.contains("calls effect `fetch` with key `k` at index 0"), "{said}");
}

#[test]
fn a_run_that_went_well_has_called_all_that_is_stored() {
    // W7
    let history = history(&[done(0, "fetch"), done(1, "render")]);
    assert_eq!(history.all_called(2), Ok(()));
    assert_eq!(history.all_called(3), Ok(()));
    let said = history.all_called(1).expect_err("one is missing").to_string();
    assert!(
        said.contains("step `render` at index 1 is stored, and the code called only 1 and ended"),
        "{said}"
    );
}

#[test]
fn steps_that_run_side_by_side_leave_gaps_which_are_filled() {
    // W7
    let mut history = history(&[done(1, "right")]);
    assert_eq!((history.replay(0, "left", None), history.next_index()), (Ok(StepReplay::Run), 0));
    assert_eq!(history.write(&done(0, "left"), 2), Some(1), "a position is where it was stored");
    assert_eq!(history.replay(0, "left", None), Ok(StepReplay::Stored(1)));
    assert_eq!(history.next_index(), 2);
}

#[test]
fn a_success_is_written_once() {
    // W7
    let mut history = history(&[done(0, "fetch")]);
    let before = history.clone();
    assert_eq!(history.write(&done(0, "fetch"), 2), None);
    assert_eq!(history, before);
}

#[test]
fn what_comes_without_an_index_goes_behind_the_others() {
    // W7
    let mut history = history(&[done(0, "fetch"), done(4, "late")]);
    let next = StepWrite { index: None, ..done(0, "more") };
    history.write(&next, 1);
    assert_eq!(history.marks().last().map(|mark| mark.index), Some(5));
}

#[test]
fn an_effect_is_unknown_from_its_beginning_to_its_outcome() {
    // W8
    let mut history = history(&[begun(0, "charge", "k")]);
    assert_eq!(history.replay(0, "charge", Some("k")), Ok(StepReplay::Unknown { run: 1, confirmed: false }));
    assert_eq!(history.unknown().count(), 1);
    assert!(history.replay(0, "charge", Some("other")).is_err(), "its key must stay the same");
    let not_done = StepWrite { fact: StepFact::NotDone, ..done(0, "charge") };
    history.write(&not_done, 1);
    assert_eq!(history.replay(0, "charge", Some("k")), Ok(StepReplay::Run));
    history.write(&begun(0, "charge", "k"), 2);
    history.confirm();
    assert_eq!(history.replay(0, "charge", Some("k")), Ok(StepReplay::Unknown { run: 2, confirmed: true }));
    history.write(&done(0, "charge"), 3);
    assert_eq!(history.replay(0, "charge", Some("k")), Ok(StepReplay::Stored(0)));
    assert_eq!(history.unknown().count(), 0);
}

fn charge(index: Option<u32>, key: &str, policy: EffectPolicy) -> EffectCall<'_> {
    EffectCall { index, name: "charge", key, policy, not_seen: false }
}

#[test]
fn the_policy_says_what_becomes_of_an_unknown_effect() {
    // W8
    use EffectPolicy::{Ask, RetrySafe, Verify};
    let unknown = |confirmed| StepReplay::Unknown { run: 3, confirmed };
    for (replay, [safe, verify, ask]) in [
        (StepReplay::Run, [EffectReplay::Begin; 3]),
        (StepReplay::Stored(4), [EffectReplay::Stored(4); 3]),
        (unknown(false), [EffectReplay::Run, EffectReplay::Verify, EffectReplay::Unknown { run: 3 }]),
        (unknown(true), [EffectReplay::Begin, EffectReplay::Verify, EffectReplay::Begin]),
    ] {
        let answers = [RetrySafe, Verify, Ask].map(|policy| replay.under(policy));
        assert_eq!(answers, [safe, verify, ask], "{replay:?}");
    }
}

#[test]
fn an_effect_that_is_called_again_after_a_redrive_is_unknown_again() {
    // W8: a run that dies once more leaves it to the dry run and to `explain`.
    for policy in [EffectPolicy::RetrySafe, EffectPolicy::Ask] {
        let mut stored = history(&[begun(0, "charge", "k")]);
        stored.confirm();
        assert_eq!(stored.unknown().count(), 0, "a person has looked");
        let call = charge(Some(0), "k", policy);
        assert_eq!(stored.replay_effect(&call, 2), Ok(EffectReplay::Begin), "{policy:?}");
        stored.write(&begun(0, "charge", "k"), 2);
        assert_eq!(stored.replay_effect(&call, 2), Ok(EffectReplay::Run), "the answer was lost: {policy:?}");
        let runs: Vec<u32> = stored.unknown().map(|mark| mark.run).collect();
        assert_eq!(runs, [2], "{policy:?}");
    }
}

#[test]
fn what_the_other_side_has_not_seen_is_begun_again() {
    // W8
    let verify = charge(Some(0), "k", EffectPolicy::Verify);
    let not_seen = EffectCall { not_seen: true, ..verify };
    for is_confirmed in [false, true] {
        let mut stored = history(&[begun(0, "charge", "k")]);
        if is_confirmed {
            stored.confirm();
        }
        assert_eq!(stored.replay_effect(&verify, 2), Ok(EffectReplay::Verify));
        assert_eq!(stored.replay_effect(&not_seen, 2), Ok(EffectReplay::Begin));
        stored.write(&begun(0, "charge", "k"), 2);
        assert_eq!(stored.replay_effect(&not_seen, 2), Ok(EffectReplay::Run), "the answer was lost");
        assert_eq!(stored.unknown().map(|mark| mark.run).collect::<Vec<_>>(), [2]);
        stored.write(&done(0, "charge"), 2);
        assert_eq!(stored.replay_effect(&not_seen, 2), Ok(EffectReplay::Stored(0)));
    }
}

#[test]
fn a_step_is_written_in_its_place_or_not_at_all() {
    // W7, E7: of two calls on their way at once, the second was decided without the first.
    let spec = Spec::new(JobId::from_u128(1), "work", "{}");
    let mut record = Record::new(&spec, Timestamp::EPOCH);
    let lease = Lease { job: spec.id, worker: WorkerId::from_u128(2), fence: Fence(3) };
    record.claim(lease.worker, lease.fence, Timestamp::EPOCH, true).expect("it is pending");
    let mut note = |write: StepWrite| {
        let answer = record.note(&lease, &Remark::Step(write));
        (answer, record.steps().len())
    };
    assert_eq!(note(done(0, "fetch")), (Ok(Some(0)), 1));
    for write in [done(0, "scale"), done(1, "fetch"), begun(0, "pay", "k")] {
        let (answer, steps) = note(write);
        assert!(matches!(answer, Err(NoteError::StepsChanged(_))), "{answer:?}");
        assert_eq!(steps, 1);
    }
    assert_eq!(note(done(1, "scale")), (Ok(Some(1)), 2));
    assert_eq!(note(StepWrite { index: None, ..done(0, "render") }), (Ok(Some(2)), 3));
}

#[test]
fn an_effect_that_did_not_happen_is_over_in_its_run() {
    // W8, E7
    let mut history = history(&[begun(0, "charge", "k")]);
    assert!(!history.is_over_in(1, "charge"), "it may have happened");
    history.write(&StepWrite { fact: StepFact::NotDone, ..done(0, "charge") }, 1);
    assert!(history.is_over_in(1, "charge"));
    assert!(!history.is_over_in(2, "charge"), "the next run calls it again");
    assert!(!history.is_over_in(1, "other"));
}

#[test]
fn an_effect_that_the_run_itself_has_begun_is_answered_as_the_first_time() {
    // W8
    let mut stored = history(&[done(0, "fetch"), begun(1, "charge", "k")]);
    for policy in [EffectPolicy::RetrySafe, EffectPolicy::Verify, EffectPolicy::Ask] {
        assert_eq!(stored.replay_effect(&charge(Some(1), "k", policy), 1), Ok(EffectReplay::Run));
    }
    let ask = |index| charge(index, "k", EffectPolicy::Ask);
    assert_eq!(stored.replay_effect(&ask(None), 2), Ok(EffectReplay::Unknown { run: 1 }), "by its name");
    assert!(stored.replay_effect(&ask(Some(0)), 2).is_err(), "a step is there");
    assert!(stored.replay_effect(&ask(Some(2)), 2).is_err(), "it is stored before");
    assert!(stored.replay_effect(&charge(None, "other", EffectPolicy::Ask), 2).is_err(), "another key");
    stored.confirm();
    assert_eq!(stored.replay_effect(&ask(None), 2), Ok(EffectReplay::Begin));
    stored.write(&begun(1, "charge", "k"), 2);
    assert_eq!(stored.replay_effect(&ask(None), 2), Ok(EffectReplay::Run), "the answer was lost");
    assert_eq!(stored.replay_effect(&ask(None), 3), Ok(EffectReplay::Unknown { run: 2 }));
    stored.write(&done(1, "charge"), 3);
    assert_eq!(stored.replay_effect(&ask(None), 4), Ok(EffectReplay::Stored(1)));
}

#[test]
fn the_outcome_of_a_call_elsewhere_has_the_place_of_the_call() {
    // W7, W8
    let stored = history(&[done(0, "fetch"), begun(1, "charge", "k"), done(2, "signal:paid")]);
    for (index, name, fits) in [
        (None, "send", true),
        (Some(3), "send", true),
        (Some(2), "send", false),
        (Some(0), "fetch", true),
        (Some(1), "fetch", false),
        (Some(1), "charge", true),
    ] {
        let checked = stored.check_place(index, name);
        assert_eq!(checked.is_ok(), fits, "{index:?} {name}");
        let told = checked.err().map(|changed| changed.called().map(|place| place.name.clone()));
        assert_eq!(told, (!fits).then(|| Some(name.to_owned())));
    }
    let changed = stored.check_place(Some(1), "send").expect_err("an effect is there");
    let place = StepPlace { index: 1, name: "charge".to_owned(), key: Some("k".to_owned()) };
    assert_eq!(*changed.stored(), place);
    for (index, signal, fits) in
        [(None, "paid", true), (Some(3), "sent", true), (Some(2), "paid", true), (Some(2), "sent", false)]
    {
        assert_eq!(stored.check_wait(index, signal).is_ok(), fits, "{index:?} {signal}");
    }
    assert_eq!(
        (stored.is_begun("charge"), stored.is_begun("fetch"), stored.is_begun("send")),
        (true, false, false)
    );
}

#[test]
fn a_full_job_has_room_for_what_it_has() {
    // W7
    let most = u32::try_from(MOST_STEPS).expect("few");
    let full: Vec<StepWrite> = (0..most).map(|index| done(index, &format!("step-{index}"))).collect();
    let (full, room) = (history(&full), history(&full[1..]));
    assert_eq!((full.has_room_for("step-7"), full.has_room_for("more")), (true, false));
    assert!(room.has_room_for("more"));
}
