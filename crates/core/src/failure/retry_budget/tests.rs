//! The rate, the calendar and its bounds, against a plain model; the storm of an outage is in `storm`.

mod storm;

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn at(seconds: f64) -> Timestamp {
    Timestamp::EPOCH.after(Duration::from_secs_f64(1_000_000.0 + seconds))
}

fn settings(share: f64, floor: u32) -> BudgetSettings {
    BudgetSettings { share, floor }
}

fn stored(budget: &RetryBudget) -> String {
    serde_json::to_string(budget).expect("plain")
}

fn assert_goes_round(budget: &RetryBudget) {
    let json = stored(budget);
    assert_eq!(&serde_json::from_str::<RetryBudget>(&json).expect(&json), budget);
}

#[test]
fn the_defaults_are_the_documented_ones() {
    // F19
    assert_eq!(BudgetSettings::default(), settings(0.2, 100));
    assert_eq!(serde_json::from_str::<BudgetSettings>("{}").expect("all optional"), settings(0.2, 100));
    assert_eq!(
        stored(&RetryBudget::default()),
        r#"{"first_runs":{"newest":0,"counts":[0,0,0,0,0,0,0,0,0,0]},"calendar":{"start":0,"booked":[]}}"#
    );
    assert_eq!(serde_json::from_str::<RetryBudget>("{}").expect("all optional"), RetryBudget::default());
}

#[test]
fn settings_without_sense_are_refused() {
    // F19
    for good in [settings(0.0, 1), settings(10.0, u32::MAX), BudgetSettings::default()] {
        assert_eq!(good.validate(), Ok(()));
    }
    for share in [-0.1, 10.1, f64::NAN, f64::INFINITY] {
        let error = settings(share, 1).validate().expect_err("no share");
        assert!(error.to_string().contains("from 0 to 10"), "{error}");
    }
    assert_eq!(settings(0.2, 0).validate(), Err(BudgetError::Floor));
}

#[test]
fn the_rate_is_the_floor_and_a_share_of_the_first_runs() {
    // F19
    let mut budget = RetryBudget::default();
    let rate = |budget: &RetryBudget, seconds| budget.rate(at(seconds), &BudgetSettings::default());
    assert_eq!(rate(&budget, 0.0), 100);
    budget.note_first_runs(at(0.0), 1_500);
    assert_eq!(rate(&budget, 0.0), 101, "1,500 * 20 % over 300 s is one a second");
    budget.note_first_runs(at(100.0), 1);
    assert_eq!(rate(&budget, 100.0), 102, "rounded up");
    assert_eq!(rate(&budget, 301.0), 101, "the first 1,500 have left the window");
    assert_eq!(rate(&budget, 401.0), 100);
    budget.note_first_runs(at(500.0), u64::MAX);
    budget.note_first_runs(at(500.0), u64::MAX);
    assert_eq!(rate(&budget, 500.0), u32::MAX);
    assert_eq!(budget.rate(at(500.0), &settings(f64::NAN, 0)), 1, "bad settings still let retries run");
    assert_goes_round(&budget);
}

#[test]
fn a_clock_that_goes_back_holds_nothing_up() {
    // F19
    let mut budget = RetryBudget::default();
    let one = settings(0.0, 1);
    budget.note_first_runs(at(9_000.0), 300_000);
    assert_eq!(budget.admit(at(9_000.0), at(9_000.0), &one), at(9_000.0));
    assert_eq!(budget.admit(at(8_990.0), at(8_990.0), &one), at(9_001.0), "within the slack: one calendar");
    assert_eq!(budget.rate(at(0.0), &BudgetSettings::default()), 100);
    assert_eq!(budget.admit(at(0.0), at(0.5), &one), at(0.5), "set right by hours: a new calendar");
    budget.note_first_runs(at(0.0), 1_500);
    assert_eq!(budget.rate(at(0.0), &BudgetSettings::default()), 101);
}

#[test]
fn a_second_with_room_keeps_the_asked_time_and_a_full_one_spreads() {
    // F19
    let mut budget = RetryBudget::default();
    let four = settings(0.0, 4);
    let answers: Vec<_> = (0..10).map(|_| budget.admit(at(0.0), at(2.7), &four)).collect();
    assert_eq!(answers[..4], [at(2.7); 4]);
    assert_eq!(answers[4..8], [at(3.0), at(3.25), at(3.5), at(3.75)]);
    assert_eq!(answers[8..], [at(4.0), at(4.25)]);
    assert_eq!(budget.admit(at(0.0), at(1.9), &four), at(1.9), "an earlier second still has room");
    assert_eq!(budget.admit(at(5.0), at(4.0), &four), at(5.0), "what has passed is gone");
}

#[test]
fn retries_far_ahead_pass_unbooked() {
    // F19
    let mut budget = RetryBudget::default();
    let one = settings(0.0, 1);
    let mut book = |seconds| budget.admit(at(0.0), at(seconds), &one);
    assert_eq!([book(3_600.001), book(3_600.001)], [at(3_600.001); 2]);
    assert_eq!([book(3_600.0), book(3_600.0)], [at(3_600.0), at(3_601.0)]);
    assert_eq!(budget.admit(at(0.0), Timestamp::MAX, &one), Timestamp::MAX);
    assert_eq!(budget.admit(Timestamp::MAX, Timestamp::MAX, &one), Timestamp::MAX);
    let _ = budget.admit(Timestamp::MIN, Timestamp::MIN, &one);
}

#[test]
fn a_calendar_that_is_full_for_hours_goes_on_behind_them() {
    // F19: 20,000 retries at one a second are five and a half hours, far beyond the ring.
    let mut budget = RetryBudget::default();
    let one = settings(0.0, 1);
    for second in 0..20_000_u32 {
        assert_eq!(budget.admit(at(0.0), at(0.0), &one), at(f64::from(second)));
    }
    assert!(stored(&budget).len() < 200, "{}", stored(&budget));
    // A higher rate finds the room that it makes, first to last, near and far.
    let two = settings(0.0, 2);
    for second in 0..20_000_u32 {
        let planned = budget.admit(at(0.0), at(0.0), &two);
        let half = if second == 0 { 0.0 } else { 0.5 };
        assert_eq!(planned, at(f64::from(second) + half));
    }
    assert_eq!(budget.admit(at(15_000.0), at(15_000.0), &two), at(20_000.0));
    assert_eq!(budget.admit(at(50_000.0), at(50_000.0), &one), at(50_000.0));
    assert_goes_round(&budget);
}

#[test]
fn a_damaged_document_is_refused_or_harmless() {
    // F19
    for booked in ["[[4294967295,18446744073709551615]]", "[[0,0],[1,18446744073709551615],[2,9]]"] {
        for start in [i64::MIN, 0, i64::MAX] {
            let calendar = format!(r#"{{"start":{start},"booked":{booked}}}"#);
            let json = format!(
                r#"{{"first_runs":{{"newest":{start},"counts":[1,1,1,1,1,1,1,1,1,1]}},"calendar":{calendar}}}"#
            );
            let mut budget: RetryBudget = serde_json::from_str(&json).expect(&json);
            budget.note_first_runs(at(0.0), 1);
            assert!(budget.admit(at(0.0), at(0.0), &settings(0.2, 1)) >= at(0.0));
        }
    }
    for json in [r#"{"calender":{}}"#, r#"{"calendar":{"start":0}}"#, r#"{"first_runs":{"counts":[1]}}"#] {
        assert!(serde_json::from_str::<RetryBudget>(json).is_err(), "{json}");
    }
}

/// One thing that happens to a budget.
#[derive(Debug, Clone)]
enum Step {
    Pass(f64),
    FirstRuns(u64),
    /// So many retries that are due so far ahead.
    Retries(u32, f64),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (0.0..90.0).prop_map(Step::Pass),
        1 => (0.0..6_000.0).prop_map(Step::Pass),
        2 => (0_u64..100_000).prop_map(Step::FirstRuns),
        6 => (1_u32..400, prop_oneof![0.0..5.0, 0.0..3_600.0]).prop_map(|(n, ahead)| Step::Retries(n, ahead)),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// F19: no second is booked beyond the rate of the moment, no answer is early, nothing waits while a
    /// second has room, and a restart from the stored document changes nothing.
    #[test]
    fn no_second_is_overbooked(
        share in 0.0..10.0,
        floor in 1_u32..60,
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let settings = settings(share, floor);
        let (mut budget, mut now) = (RetryBudget::default(), at(0.0));
        let mut model: HashMap<i64, u32> = HashMap::new();
        for step in steps {
            match step {
                Step::Pass(seconds) => now = now.after(Duration::from_secs_f64(seconds)),
                Step::FirstRuns(count) => budget.note_first_runs(now, count),
                Step::Restart => {
                    assert_goes_round(&budget);
                    budget = serde_json::from_str(&stored(&budget)).expect("it goes round");
                }
                Step::Retries(count, ahead) => {
                    let earliest = now.after(Duration::from_secs_f64(ahead));
                    let rate = budget.rate(now, &settings);
                    for _ in 0..count {
                        let answer = budget.admit(now, earliest, &settings);
                        prop_assert!(answer >= earliest);
                        let first_free = (second_of(earliest)..)
                            .find(|second| model.get(second).copied().unwrap_or(0) < rate);
                        prop_assert_eq!(Some(second_of(answer)), first_free);
                        let held = model.entry(second_of(answer)).or_default();
                        *held += 1;
                        prop_assert!(*held <= rate);
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// F19: however 50,000 bookings fall, the document stays in the tens of kilobytes.
    #[test]
    fn the_document_stays_small(seed in any::<u64>(), floor in 1_u32..200, noise in any::<bool>()) {
        let mut random = storm::Random(seed);
        let mut budget = RetryBudget::default();
        for number in 0..50_000_u64 {
            if noise && number % 50 == 0 {
                // The rate changes all the time, which is the worst for runs of equal seconds.
                budget.note_first_runs(at(0.0), random.next() % 1_000);
            }
            let _ = budget.admit(at(0.0), at(3_600.0 * random.unit()), &settings(0.2, floor));
        }
        let size = stored(&budget).len();
        println!("50,000 bookings take {size} bytes");
        prop_assert!(size < 64 * 1024, "{} bytes", size);
        assert_goes_round(&budget);
    }
}
