//! Schedules by example.

use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::id::JobId;
use crate::job::{Spec, Start};

fn at(text: &str) -> Timestamp {
    text.parse().expect(text)
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn job() -> NewJob {
    NewJob::new(Spec::new(JobId::from_u128(1), "report", "{}"))
}

fn times(cron: &str, zone: &str) -> FireTimes {
    Timing::cron(cron).time_zone(zone).fire_times(Timestamp::EPOCH).expect(cron)
}

#[track_caller]
fn fires(cron: &str, zone: &str, after: &str, expected: &[&str]) {
    let found: Vec<String> =
        times(cron, zone).upcoming(at(after), expected.len()).iter().map(ToString::to_string).collect();
    assert_eq!(found, expected, "{cron} in {zone} after {after}");
}

#[test]
fn cron_means_what_people_know() {
    // W11
    for (cron, after, expected) in [
        ("*/15 * * * *", "2026-11-17T10:07:00Z", ["2026-11-17T10:15:00Z", "2026-11-17T10:30:00Z"]),
        ("*/20 * * * * *", "2026-11-17T10:07:00Z", ["2026-11-17T10:07:20Z", "2026-11-17T10:07:40Z"]),
        ("0 3 * * *", "2026-11-17T03:00:00Z", ["2026-11-18T03:00:00Z", "2026-11-19T03:00:00Z"]),
        ("0 9 * * MON-FRI", "2026-11-20T09:00:00Z", ["2026-11-23T09:00:00Z", "2026-11-24T09:00:00Z"]),
        ("0 9 * * sat,7", "2026-11-17T00:00:00Z", ["2026-11-21T09:00:00Z", "2026-11-22T09:00:00Z"]),
        ("0 0 * * FRI-SUN", "2026-11-20T00:00:00Z", ["2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z"]),
        ("0 0 L * *", "2027-01-31T00:00:00Z", ["2027-02-28T00:00:00Z", "2027-03-31T00:00:00Z"]),
        ("0 0 * * FRI#2", "2026-11-17T00:00:00Z", ["2026-12-11T00:00:00Z", "2027-01-08T00:00:00Z"]),
        ("0 0 * * MONL", "2026-11-17T00:00:00Z", ["2026-11-30T00:00:00Z", "2026-12-28T00:00:00Z"]),
        ("0 0 29 2 *", "2026-11-17T00:00:00Z", ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]),
        // Either day will do when both are given; both count when one begins with a star.
        ("0 0 13 * FRI", "2026-11-17T00:00:00Z", ["2026-11-20T00:00:00Z", "2026-11-27T00:00:00Z"]),
        ("0 0 */2 * MON", "2026-11-17T00:00:00Z", ["2026-11-23T00:00:00Z", "2026-12-07T00:00:00Z"]),
        ("5/20 1-5/2 ? jan,JUL *", "2026-11-17T00:00:00Z", ["2027-01-01T01:05:00Z", "2027-01-01T01:25:00Z"]),
        ("@weekly", "2026-11-17T00:00:00Z", ["2026-11-22T00:00:00Z", "2026-11-29T00:00:00Z"]),
    ] {
        fires(cron, "UTC", after, &expected);
    }
}

#[test]
fn what_the_clocks_leave_out_or_show_twice_follows_one_rule() {
    // W11: Berlin goes from 02:00 to 03:00 on 29 March 2026, and from 03:00 back to 02:00 on 25 October.
    let (spring, autumn) = ("2026-03-28T12:00:00Z", "2026-10-24T12:00:00Z");
    fires("30 2 * * *", "Europe/Berlin", spring, &["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
    fires("0,30 2,3 * * *", "Europe/Berlin", spring, &["2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"]);
    fires("30 2 * * *", "Europe/Berlin", autumn, &["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
    let every_half = "*/30 2 * * *";
    fires(every_half, "Europe/Berlin", spring, &["2026-03-30T00:00:00Z"]);
    let both =
        ["2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z"];
    fires(every_half, "Europe/Berlin", autumn, &both);
    // A whole day was left out.
    let samoa = ["2011-12-29T19:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T19:00:00Z"];
    fires("0 9 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", &samoa);
}

#[test]
fn an_interval_is_counted_from_when_it_was_set() {
    // W11
    let times = Timing::every(secs(90)).fire_times(at("2026-11-17T10:00:00.5Z")).expect("it is one");
    let seen = |after: &str| times.next(at(after)).expect("there is one").to_string();
    assert_eq!(seen("2026-11-17T10:00:00.5Z"), "2026-11-17T10:01:30.5Z");
    assert_eq!(seen("2026-11-17T10:01:30.5Z"), "2026-11-17T10:03:00.5Z");
    assert_eq!(seen("2026-01-01T00:00:00Z"), "2026-11-17T10:01:30.5Z", "never before it was set");
    assert_eq!(times.next(Timestamp::MAX), None);
}

#[test]
fn what_could_never_fire_or_cannot_be_meant_is_refused() {
    // W11
    let refused = |timing: Timing| timing.check().expect_err("it is refused").to_string();
    for cron in
        ["", "* * * *", "* * * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8"]
    {
        assert!(refused(Timing::cron(cron)).starts_with("cron is invalid"), "{cron}");
    }
    for cron in
        ["*/0 * * * *", "5-1 * * * *", "a * * * *", "1,, * * * *", "+1 * * * *", "* * * * MON#6", "@often"]
    {
        assert!(refused(Timing::cron(cron)).starts_with("cron is invalid"), "{cron}");
    }
    assert!(refused(Timing::cron("0 0 30 2 *")).contains("it never fires"));
    assert!(refused(Timing::cron("0 0 31 4,6,9,11 *")).contains("it never fires"));
    assert!(refused(Timing::cron("1,".repeat(1_000))).contains("256"));
    assert!(
        refused(Timing::cron("@daily").time_zone("Mars/Olympus")).contains("no time zone `Mars/Olympus`")
    );
    assert!(refused(Timing::cron("@daily").time_zone("z".repeat(1_000))).contains("64"));
    for every in [Duration::ZERO, secs(1) - Duration::from_millis(1), Duration::MAX] {
        assert!(refused(Timing::every(every)).contains("between one second and ten years"));
    }
    assert!(refused(Timing { every: Some(secs(5)), ..Timing::cron("@daily") }).contains("not both"));
    assert!(refused(Timing::default()).contains("give cron or an interval"));
    assert!(refused(Timing::every(secs(5)).time_zone("UTC")).contains("an interval has none"));
    let refused = |change: fn(&mut Schedule)| {
        let mut schedule = Schedule::new(Timing::cron("@daily"), job());
        assert_eq!(schedule.check(), Ok(()));
        change(&mut schedule);
        schedule.check().expect_err("it is refused").to_string()
    };
    assert!(refused(|schedule| schedule.misfire = Misfire::CatchUp(0)).contains("use skip"));
    assert!(
        refused(|schedule| schedule.job.spec.idempotency_key = Some("k".into())).contains("one of its own")
    );
    assert!(refused(|schedule| schedule.job.start = Start::At(Timestamp::EPOCH)).contains("run_at"));
    assert!(refused(|schedule| schedule.job.spec.expires_at = Some(Timestamp::EPOCH)).contains("expires_in"));
    assert!(refused(|schedule| schedule.job.spec.payload = "1".repeat(20_000).into()).contains("payload"));
    let limits = Limits::default();
    assert!(check_name("nightly report", &limits).is_ok());
    for name in ["", " nightly", "a/b", "line\nbreak", &"n".repeat(1_000)] {
        assert!(check_name(name, &limits).is_err(), "{name}");
    }
}

#[test]
fn what_was_missed_is_made_up_for_as_the_schedule_says() {
    // W11
    let hourly = times("0 * * * *", "UTC");
    let due = |now: &str, decided: &str, misfire| {
        let due = DueFires::at(at(now), at(decided), &hourly, misfire);
        let hours = |moment: &Timestamp| moment.to_string()[11..13].to_owned();
        (due.fires.iter().map(hours).collect::<Vec<_>>().join(" "), due.missed.map(|missed| hours(&missed)))
    };
    let night = "2026-11-17T00:30:00Z";
    for (misfire, fires, missed) in [
        (Misfire::Skip, "", Some("05")),
        (Misfire::FireOnce, "05", Some("04")),
        (Misfire::CatchUp(3), "03 04 05", Some("02")),
        (Misfire::CatchUp(9), "01 02 03 04 05", None),
    ] {
        assert_eq!(
            due("2026-11-17T05:40:00Z", night, misfire),
            (fires.to_owned(), missed.map(str::to_owned))
        );
    }
    // A fire within a minute is on time, and makes up for those before it.
    assert_eq!(due("2026-11-17T05:00:59Z", night, Misfire::Skip), ("05".into(), Some("04".into())));
    assert_eq!(due("2026-11-17T05:00:20Z", night, Misfire::FireOnce), ("05".into(), Some("04".into())));
    assert_eq!(due("2026-11-17T05:00:20Z", night, Misfire::CatchUp(2)).0, "03 04 05");
    // A clock that was put back by a little waits; one that was put back by much does not stay silent.
    assert_eq!(due("2026-11-17T04:59:30Z", "2026-11-17T05:00:10Z", Misfire::FireOnce).0, "");
    assert_eq!(due("2026-11-17T03:00:00Z", "2036-11-17T05:00:00Z", Misfire::FireOnce).0, "");
    let mut back = ScheduleState::new(at("2036-11-17T05:00:00Z"));
    assert_eq!(back.next(&hourly, at("2026-11-17T03:20:00Z")), Some(at("2026-11-17T04:00:00Z")));
    let schedule = Schedule::new(Timing::cron("0 * * * *"), job());
    assert!(back.decide(
        &schedule,
        &hourly,
        at("2026-11-17T03:20:00Z"),
        false,
        &none(),
        || JobId::from_u128(1)
    ));
    assert_eq!((back.decided, back.fires.len()), (at("2026-11-17T03:20:00Z"), 0), "it goes on from here");
}

#[test]
fn what_was_missed_in_years_is_found_from_its_end() {
    // W11
    let secondly = times("* * * * * *", "UTC");
    let due = DueFires::at(
        at("2026-11-17T00:00:00Z"),
        at("2001-01-01T00:00:00Z"),
        &secondly,
        Misfire::CatchUp(100),
    );
    assert_eq!(due.fires.len(), 160, "a hundred, and those of the last minute");
    assert_eq!(due.fires[0].to_string(), "2026-11-16T23:57:21Z");
    let leap = times("0 0 29 2 *", "UTC").last_of(at("2001-01-01T00:00:00Z"), at("2026-11-17T00:00:00Z"), 2);
    assert_eq!(leap, [at("2020-02-29T00:00:00Z"), at("2024-02-29T00:00:00Z")]);
}

/// No fire waits for room in its queue.
const fn none() -> BTreeSet<Timestamp> {
    BTreeSet::new()
}

/// Decides at each second of a minute after 10:00, while a job runs for `runs` seconds; answers when jobs were made for
/// which fire times.
fn decided(overlap: Overlap, every: u64, runs: u64) -> (Vec<(u64, u64)>, ScheduleState) {
    let begin = at("2026-11-17T10:00:00Z");
    let schedule = Schedule { overlap, ..Schedule::new(Timing::every(secs(every)), job()) };
    let mut state = ScheduleState::new(begin);
    let times = schedule.timing.fire_times(state.anchor).expect("it is one");
    let (mut made, mut ends) = (Vec::new(), 0);
    for second in 0..=60 {
        let before = state.fires.clone();
        let mut ids = (1..).map(|n| JobId::from_u128(u128::from(second) * 100 + n));
        let now = begin.after(secs(second));
        state.decide(&schedule, &times, now, second < ends, &none(), || ids.next().expect("endless"));
        if state.fires != before {
            ends = second + runs;
            made.extend(state.fires.iter().map(|fire| (second, fire.fire_time.since(begin).as_secs())));
        }
    }
    (made, state)
}

#[test]
fn a_fire_during_the_last_one_is_allowed_skipped_or_queued() {
    // W11
    let (allowed, state) = decided(Overlap::Allow, 10, 25);
    assert_eq!(allowed, [(10, 10), (20, 20), (30, 30), (40, 40), (50, 50), (60, 60)]);
    assert_eq!(state.passed, None);
    let (skipped, state) = decided(Overlap::Skip, 10, 25);
    assert_eq!(skipped, [(10, 10), (40, 40)]);
    let passed = state.passed.expect("some were");
    assert_eq!((passed.fire_time, passed.reason), (at("2026-11-17T10:01:00Z"), PassReason::Overlap));
    let (queued, state) = decided(Overlap::Queue, 10, 25);
    assert_eq!(queued, [(10, 10), (35, 20), (60, 30)]);
    let waits: Vec<String> = state.queued.iter().map(|fire| fire.to_string()[11..19].to_owned()).collect();
    assert_eq!(waits, ["10:00:40", "10:00:50", "10:01:00"], "in order");
}

#[test]
fn fires_that_wait_for_room_in_their_queue_are_kept() {
    // W11
    let begin = at("2026-11-17T10:00:00Z");
    let of = |overlap| Schedule { overlap, ..Schedule::new(Timing::every(secs(10)), job()) };
    let seconds =
        |fires: &[Timestamp]| -> Vec<u64> { fires.iter().map(|fire| fire.since(begin).as_secs()).collect() };
    for (overlap, fires, queued) in [
        (Overlap::Allow, vec![10, 20, 30], vec![]),
        (Overlap::Skip, vec![10], vec![]),
        (Overlap::Queue, vec![10], vec![20, 30]),
    ] {
        let schedule = of(overlap);
        let mut state = ScheduleState::new(begin);
        let times = schedule.timing.fire_times(begin).expect("it is one");
        for second in [10, 20, 30] {
            let unsubmitted = state.fires.iter().map(|fire| fire.fire_time).collect();
            let mut ids = (1..).map(|n| JobId::from_u128(u128::from(second) * 100 + n));
            let now = begin.after(secs(second));
            state.decide(&schedule, &times, now, false, &unsubmitted, || ids.next().expect("endless"));
        }
        let kept: Vec<Timestamp> = state.fires.iter().map(|fire| fire.fire_time).collect();
        assert_eq!((seconds(&kept), seconds(&state.queued)), (fires, queued), "{overlap:?}");
        assert_eq!(state.fires[0].job, JobId::from_u128(1_001), "it keeps its job");
        assert_eq!(state.passed.is_some(), overlap == Overlap::Skip);
    }
    let schedule = of(Overlap::Allow);
    let mut state = ScheduleState::new(begin);
    let times = schedule.timing.fire_times(begin).expect("it is one");
    for fire in 1..=150 {
        let unsubmitted = state.fires.iter().map(|fire| fire.fire_time).collect();
        let id = || JobId::from_u128(u128::from(fire));
        state.decide(&schedule, &times, begin.after(secs(fire * 10)), false, &unsubmitted, id);
    }
    let passed = state.passed.expect("it is bounded");
    assert_eq!((passed.fire_time, passed.reason), (begin.after(secs(1_500)), PassReason::QueueFull));
    assert_eq!(
        (state.fires.len(), state.last().map(|fire| fire.fire_time)),
        (100, Some(begin.after(secs(1_000))))
    );
}

#[test]
fn what_is_queued_is_bounded_and_a_pause_holds_everything() {
    // W11
    let begin = at("2026-11-17T10:00:00Z");
    let schedule = Schedule { overlap: Overlap::Queue, ..Schedule::new(Timing::every(secs(1)), job()) };
    let mut state = ScheduleState::new(begin);
    let times = schedule.timing.fire_times(begin).expect("it is one");
    for second in 1..=150 {
        assert!(
            state.decide(&schedule, &times, begin.after(secs(second)), true, &none(), || JobId::from_u128(1))
        );
    }
    assert_eq!((state.queued.len(), state.fires.len()), (MOST_QUEUED, 0));
    assert_eq!(state.passed.map(|passed| passed.reason), Some(PassReason::QueueFull));
    let before = state.clone();
    assert!(
        !state.decide(&schedule, &times, state.decided, true, &none(), || JobId::from_u128(1)),
        "nothing is due"
    );
    assert_eq!(state, before);
    state.paused = Some(Pause { by: "ann".into(), at: begin });
    assert!(!state.decide(&schedule, &times, begin.after(secs(900)), false, &none(), || JobId::from_u128(1)));
    assert_eq!(state.next(&times, begin), None);
}

#[test]
fn a_schedule_reads_back_as_it_was() {
    // W11
    let mut schedule = Schedule::new(Timing::cron("0 3 * * *").time_zone("Europe/Berlin"), job());
    schedule.misfire = Misfire::CatchUp(5);
    schedule.overlap = Overlap::Queue;
    schedule.expires_in = Some(secs(60));
    let text = serde_json::to_string(&schedule).expect("it is plain data");
    assert_eq!(serde_json::from_str::<Schedule>(&text).expect(&text), schedule);
    for misfire in [Misfire::Skip, Misfire::FireOnce, Misfire::CatchUp(7)] {
        assert_eq!(misfire.to_string().parse(), Ok(misfire));
    }
    for word in ["", "catch_up", "catch_up:0", "catch_up:101", "catch_up:-1"] {
        assert!(word.parse::<Misfire>().is_err(), "{word}");
    }
    for owner in [ScheduleOwner::Api, ScheduleOwner::Settings, ScheduleOwner::Code("billing".into())] {
        let text = serde_json::to_string(&owner).expect("it is plain data");
        assert_eq!(serde_json::from_str::<ScheduleOwner>(&text).expect(&text), owner);
    }
}
