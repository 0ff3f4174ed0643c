//! Who stops and who does not (H8).

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_micros(second * 1_000_000)
}

/// Counts by kind: runs, and how many of them failed.
fn counts(kinds: &[(&str, u64, u64)]) -> CountsByKind {
    let count = |(kind, runs, failures): &(&str, u64, u64)| {
        ((*kind).to_owned(), RunCounts { runs: *runs, failures: *failures })
    };
    kinds.iter().map(count).collect()
}

#[test]
fn a_worker_stops_when_its_failures_are_far_above_the_rest() {
    // H8
    let plain: &[(&str, u64, u64)] = &[("mail", 100, 2)];
    type Counts<'a> = &'a [(&'a str, u64, u64)];
    let rows: &[(&str, Counts<'_>, Counts<'_>, bool)] = &[
        ("everything fails here and little elsewhere", &[("mail", 20, 20)], plain, true),
        ("half of it fails here", &[("mail", 40, 20)], plain, true),
        ("less than half of it", &[("mail", 40, 19)], plain, false),
        ("too few runs to tell", &[("mail", 19, 19)], plain, false),
        ("it fails alike everywhere", &[("mail", 20, 20)], &[("mail", 100, 97)], false),
        ("it fails often elsewhere too", &[("mail", 20, 20)], &[("mail", 100, 26)], false),
        ("a quarter of it elsewhere", &[("mail", 20, 20)], &[("mail", 100, 25)], true),
        ("alone in the fleet", &[("mail", 500, 500)], &[], false),
        ("the rest ran too few", &[("mail", 20, 20)], &[("mail", 9, 0)], false),
        ("the rest runs other kinds", &[("mail", 20, 20)], &[("charge", 100, 0)], false),
        (
            "a kind that fails everywhere",
            &[("bad", 30, 30), ("mail", 20, 0)],
            &[("bad", 90, 90), ("mail", 90, 0)],
            false,
        ),
        (
            "beside it one that fails here",
            &[("bad", 5, 5), ("mail", 40, 40)],
            &[("bad", 90, 90), ("mail", 90, 0)],
            true,
        ),
        ("nothing fails", &[("mail", 1_000, 0)], plain, false),
    ];
    for (what, own, rest, stops) in rows {
        let mut pause = FailurePause::default();
        assert_eq!(pause.judge(&counts(own), &counts(rest), at(0)), *stops, "{what}");
        assert_eq!(pause.paused().is_some(), *stops, "{what}");
    }
    let why = compare(&counts(&[("mail", 20, 19)]), &counts(plain), 20).expect("far above");
    assert_eq!(why.to_string(), "19 of 20 runs failed here, 2 % of such runs elsewhere");
}

#[test]
fn of_three_workers_only_the_sick_one_stops_and_of_three_alike_none() {
    // H8
    let judge = |fleet: &[RunCounts; 3]| -> Vec<bool> {
        let stops = |place: usize| {
            let others = fleet.iter().enumerate().filter(|(other, _)| *other != place);
            let rest = others.fold(RunCounts::default(), |sum, (_, one)| sum.and(*one));
            let kind = |counts| CountsByKind::from([("mail".to_owned(), counts)]);
            FailurePause::default().judge(&kind(fleet[place]), &kind(rest), at(0))
        };
        (0..3).map(stops).collect()
    };
    let (well, sick) = (RunCounts { runs: 50, failures: 1 }, RunCounts { runs: 50, failures: 50 });
    assert_eq!(judge(&[well, sick, well]), [false, true, false]);
    assert_eq!(judge(&[sick, sick, sick]), [false; 3]);
    assert_eq!(judge(&[well, well, well]), [false; 3]);
}

#[test]
fn a_worker_that_stopped_tries_again_with_a_few_runs() {
    // H8
    let (mail, none) = (|failures| counts(&[("mail", 20, failures)]), CountsByKind::new());
    let (few, rest) = (|failures| counts(&[("mail", 5, failures)]), counts(&[("mail", 100, 0)]));
    let mut pause = FailurePause::default();
    assert_eq!(pause.room(&mail(20), 7), None, "any number");
    assert!(pause.judge(&mail(20), &rest, at(0)));
    let (since, until, _) = pause.paused().expect("paused");
    assert_eq!((since, until, pause.room(&none, 0)), (at(0), at(60), Some(0)));
    assert!(!pause.judge(&mail(20), &rest, at(30)) && !pause.tick(at(59)), "it rests");
    assert!(pause.tick(at(60)) && pause.paused().is_none());
    assert_eq!(pause.room(&none, 2), Some(3), "two are under way");
    assert_eq!(pause.room(&few(5), 1), Some(0));
    // It still fails: the pause is longer, up to ten minutes.
    for (round, seconds) in [120, 240, 480, 600, 600].into_iter().enumerate() {
        assert!(pause.judge(&few(4), &rest, at(1_000)), "round {round}");
        assert_eq!(pause.paused().map(|(_, until, _)| until), Some(at(1_000 + seconds)));
        assert!(pause.tick(at(1_000 + seconds)));
    }
    assert!(!pause.judge(&counts(&[("mail", 4, 4)]), &rest, at(5_000)), "too few to tell");
    assert_eq!(pause.room(&counts(&[("mail", 4, 4)]), 0), Some(1), "still on trial");
    assert!(!pause.judge(&few(2), &rest, at(5_000)));
    assert_eq!(pause, FailurePause::default(), "well again, and what was is forgotten");
}

#[test]
fn runs_count_for_five_minutes() {
    // H8
    let mut window = RunWindow::default();
    window.note("mail", true, at(0));
    window.note("mail", false, at(9));
    window.note("charge", true, at(15));
    assert_eq!(window.counts(at(299)), counts(&[("charge", 1, 1), ("mail", 2, 1)]));
    assert_eq!(window.counts(at(300)), counts(&[("charge", 1, 1)]));
    assert_eq!(window.counts(at(315)), CountsByKind::new());
    for kind in 0..250 {
        window.note(&format!("kind-{kind}"), false, at(400 + kind));
    }
    assert_eq!(window.counts(at(660)).len(), KINDS, "a report stays small");
    window.clear();
    assert_eq!(window.counts(at(660)), CountsByKind::new());
}
