//! What a call of a step comes to, and what is written of it.

use super::*;

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
