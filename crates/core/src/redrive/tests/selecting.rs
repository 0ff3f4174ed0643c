//! Selectors, settings and the dry run: what is refused before anything changes.

use super::*;
use crate::failure::TerminalReason as Reason;

fn kind(kind: &str) -> PlanSelector {
    PlanSelector { kind: Some(kind.into()), ..PlanSelector::default() }
}

#[test]
fn a_selector_must_say_what_it_means() {
    // D4: an empty selector is more often a slip than a wish.
    let everything = PlanSelector::default().validate().expect_err("empty");
    assert_eq!(everything.code(), "selects_everything");
    assert!(everything.to_string().contains("`--all`"), "{everything}");
    assert_eq!(PlanSelector::all().validate(), Ok(()));
    assert_eq!(kind(KIND).validate(), Ok(()));
    let both = PlanSelector { all: true, ..kind(KIND) }.validate().expect_err("a contradiction");
    assert_eq!(both.to_string(), "`--all` and kind exclude each other: leave one of them out");
    let empty = kind("").validate().expect_err("an empty kind");
    assert_eq!(empty.to_string(), "kind can match nothing: it is empty; leave it out to match any");
    let nul = PlanSelector { tag: Some("a\0b".into()), ..PlanSelector::default() }.validate().unwrap_err();
    assert_eq!(nul.to_string(), "tag can match nothing: it contains a NUL character, and no name does");
    let never =
        PlanSelector { finished_after: Some(at(9)), finished_before: Some(at(9)), ..PlanSelector::default() };
    assert_eq!(never.validate().expect_err("no moment lies in between").code(), "invalid");
}

#[test]
fn every_condition_narrows() {
    // D4: incident, kind, queue, reason, age, tag.
    let mut view = dead(1, "null");
    view.job.spec.tags = vec!["eu".into()];
    let table: [(PlanSelector, bool); 14] = [
        (PlanSelector::all(), true),
        (PlanSelector::incident(bug("null")), true),
        (PlanSelector::incident(bug("other")), false),
        (kind(KIND), true),
        (kind("mail.send"), false),
        (PlanSelector { queue: Some("default".into()), ..PlanSelector::default() }, true),
        (PlanSelector { queue: Some("slow".into()), ..PlanSelector::default() }, false),
        (PlanSelector { tag: Some("eu".into()), ..PlanSelector::default() }, true),
        (PlanSelector { tag: Some("us".into()), ..PlanSelector::default() }, false),
        (PlanSelector { reason: Some(Reason::Expired), ..PlanSelector::default() }, false),
        (PlanSelector { finished_before: Some(at(10)), ..PlanSelector::default() }, false),
        (PlanSelector { finished_before: Some(at(11)), ..PlanSelector::default() }, true),
        (PlanSelector { finished_after: Some(at(10)), ..PlanSelector::default() }, true),
        (PlanSelector { finished_after: Some(at(11)), ..PlanSelector::default() }, false),
    ];
    for (selector, matches) in table {
        assert_eq!(selector.matches(&view), matches, "{selector}");
    }
    for state in State::ALL.into_iter().filter(|state| *state != State::Failed) {
        view.record.state = state;
        assert!(!PlanSelector::all().matches(&view), "{state} is not a dead letter");
    }
}

#[test]
fn never_retry_reasons_are_driven_only_when_asked_for_by_name() {
    // D4
    for reason in Reason::ALL {
        let mut view = dead(1, "null");
        view.record.reason = Some(*reason);
        let never = matches!(reason, Reason::Invalid | Reason::Signature);
        assert_eq!(PlanSelector::all().matches(&view), !never, "{reason}");
        let by_name = PlanSelector { reason: Some(*reason), ..PlanSelector::default() };
        assert!(by_name.matches(&view), "{reason}");
    }
}

#[test]
fn settings_are_bounded() {
    // D4
    let good = PlanSettings::default();
    assert_eq!(good.validate(), Ok(()));
    let table = [
        (PlanSettings { per_second: 0, ..good }, "the rate is 0, it must be at least 1 job a second"),
        (PlanSettings { batch: 0, ..good }, "the batch is 0, it must be from 1 to 1000 jobs"),
        (PlanSettings { batch: 1_001, ..good }, "the batch is 1001, it must be from 1 to 1000 jobs"),
        (PlanSettings { in_flight: 0, ..good }, "the number in flight is 0, it must be"),
        (PlanSettings { in_flight: 10_001, ..good }, "the number in flight is 10001, it must be"),
        (PlanSettings { canary: 0, ..good }, "the canary is 0, it must be at least 1 job"),
        (PlanSettings { canary: 11, in_flight: 10, ..good }, "the canary is 11, it must be no more than"),
        (PlanSettings { ceiling: 0, ..good }, "the ceiling is 0, it must be at least 1"),
    ];
    for (settings, sentence) in table {
        let refused = settings.validate().expect_err(sentence);
        assert!(refused.to_string().starts_with(sentence), "{refused}");
        assert!(Plan::new(draft(PlanSelector::all(), settings), 5, at(100)).is_err(), "{sentence}");
    }
}

#[test]
fn the_dry_run_counts_by_group_and_says_what_is_left_out() {
    // D4
    let mut survey = PlanSurvey::new(kind(KIND), PlanSettings::default());
    for id in 1..=5 {
        survey.count(&dead(id, "null"));
    }
    survey.count(&dead(6, "other"));
    let mut worn = dead(7, "null");
    worn.record.redrives = 3;
    survey.count(&worn);
    let mut invalid = dead(8, "null");
    invalid.record.reason = Some(Reason::Invalid);
    survey.count(&invalid);
    let mut foreign = dead(9, "null");
    foreign.job.spec.kind = "mail.send".into();
    survey.count(&foreign);

    let survey = survey.finish().expect("six jobs");
    assert_eq!((survey.jobs, survey.complete), (6, true));
    let groups: Vec<_> = survey.groups.iter().map(|group| (group.sample.as_deref(), group.jobs)).collect();
    assert_eq!(groups, [(Some("null"), 5), (Some("other"), 1)]);
    let left_out: Vec<_> = survey.left_out.iter().map(|(why, many)| (*why, *many)).collect();
    assert_eq!(left_out, [(LeftOut::NeverRetry, 1), (LeftOut::Ceiling, 1)]);
}

#[test]
fn a_selector_that_matches_nothing_is_refused_in_one_sentence() {
    // D4
    let refused = PlanSurvey::new(kind("mail.send"), PlanSettings::default()).finish().expect_err("nothing");
    assert_eq!(refused.to_string(), "no dead letter matches kind `mail.send`: nothing to drive again");
    let mut survey = PlanSurvey::new(kind(KIND), PlanSettings { ceiling: 1, ..PlanSettings::default() });
    let mut worn = dead(1, "null");
    worn.record.redrives = 1;
    survey.count(&worn);
    let refused = survey.finish().expect_err("nothing that may be driven");
    assert!(refused.to_string().contains("(left out: 1 by ceiling)"), "{refused}");
    let refused =
        Plan::new(draft(PlanSelector::all(), PlanSettings::default()), 0, at(100)).expect_err("nothing");
    assert_eq!(refused.code(), "matches_nothing");
}

#[test]
fn sums_of_a_store_take_the_place_of_counting() {
    // D4: a great many dead letters are counted by the store.
    let group = |reason, jobs| PlanSurveyGroup {
        kind: KIND.into(),
        queue: "default".into(),
        reason: Some(reason),
        fingerprint: None,
        sample: None,
        jobs,
    };
    let mut survey = PlanSurvey::new(PlanSelector::all(), PlanSettings::default());
    survey.count(&dead(1, "null"));
    let groups =
        vec![group(Reason::Invalid, 40), group(Reason::Expired, 2), group(Reason::RetryExhausted, 900)];
    survey.widen(groups, false);
    let survey = survey.finish().expect("many jobs");
    assert_eq!((survey.jobs, survey.complete), (902, false));
    assert_eq!(survey.left_out.get(&LeftOut::NeverRetry), Some(&40));
    assert_eq!(survey.groups[0].jobs, 900);
}
