//! Fire times around every change of every clock of the time zone database in thirty years, compared with an oracle that
//! looks at the clock on the wall minute by minute and knows nothing of cron but what a field matches. Every clock is
//! compared with two patterns, some with all; the long form, under `BACKSTOP_TORTURE`, compares every clock with all.

use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::*;

/// An expression, and what its seconds, minute and hour mean; every day counts.
struct Pattern {
    cron: &'static str,
    follows_clock: bool,
    seconds: &'static [i64],
    matches: fn(hour: i64, minute: i64) -> bool,
}

/// The first [`EVERYWHERE`] are compared for all clocks in every run.
const PATTERNS: [Pattern; 8] = [
    Pattern {
        cron: "10,40 0,30 0-3,22-23 * * *",
        follows_clock: false,
        seconds: &[10, 40],
        matches: |h, m| (h <= 3 || h >= 22) && m % 30 == 0,
    },
    Pattern { cron: "5 * * * *", follows_clock: true, seconds: &[0], matches: |_, m| m == 5 },
    Pattern {
        cron: "0-59/20 59 * * * *",
        follows_clock: true,
        seconds: &[0, 20, 40],
        matches: |_, m| m == 59,
    },
    Pattern { cron: "30 2 * * *", follows_clock: false, seconds: &[0], matches: |h, m| h == 2 && m == 30 },
    Pattern {
        cron: "0,15,45 0-3 * * *",
        follows_clock: false,
        seconds: &[0],
        matches: |h, m| h <= 3 && [0, 15, 45].contains(&m),
    },
    Pattern { cron: "59 23 * * *", follows_clock: false, seconds: &[0], matches: |h, m| h == 23 && m == 59 },
    Pattern { cron: "*/20 * * * *", follows_clock: true, seconds: &[0], matches: |_, m| m % 20 == 0 },
    Pattern {
        cron: "*/10 1,2 * * *",
        follows_clock: true,
        seconds: &[0],
        matches: |h, m| (h == 1 || h == 2) && m % 10 == 0,
    },
];

/// Patterns of every clock: one of six fields that means times of the day, and one that goes with the clock.
const EVERYWHERE: usize = 2;

const BEGIN: i64 = 1_104_537_600; // 2005-01-01T00:00:00Z
const END: i64 = BEGIN + 30 * 31_557_600;

/// Minutes before and after a change that are compared.
const AROUND: i64 = 8 * 60;

/// Minutes before those of which the oracle remembers what the clock has shown.
const MEMORY: i64 = 26 * 60;

fn offset(zone: &TimeZone, moment: i64) -> i64 {
    zone.to_offset(jiff::Timestamp::from_second(moment).expect("a moment of these years")).seconds().into()
}

/// What clocks show from the minute `first` on, in minutes, one for each minute.
struct Wall {
    first: i64,
    shown: Vec<i64>,
}

impl Wall {
    /// Offsets change at most once in these hours but for very few zones, so each minute is asked only in an hour at
    /// whose ends the clock differs. One that was changed there and back within an hour would be compared wrongly, and
    /// so told.
    fn around(zone: &TimeZone, change: i64) -> Self {
        let (first, last) = (change / 60 - AROUND - MEMORY, change / 60 + AROUND);
        let ahead = |minute: i64| offset(zone, minute * 60).div_euclid(60);
        let (mut shown, mut from, mut now) = (Vec::new(), first, ahead(first));
        while from <= last {
            let next = from + 60;
            let then = ahead(next);
            let shows = |minute: i64| minute + if now == then { now } else { ahead(minute) };
            shown.extend((from..next.min(last + 1)).map(shows));
            (from, now) = (next, then);
        }
        Self { first, shown }
    }

    /// When a pattern fires, in seconds, where the oracle remembers enough.
    fn fires(&self, pattern: &Pattern) -> Vec<i64> {
        let begin = usize::try_from(MEMORY).expect("small");
        let matches =
            |shown: i64| (pattern.matches)(shown.div_euclid(60).rem_euclid(24), shown.rem_euclid(60));
        let mut fires = Vec::new();
        let mut highest = self.shown[..begin].iter().copied().max().expect("some");
        for at in begin..self.shown.len() {
            let (before, shown) = (self.shown[at - 1], self.shown[at]);
            let minute = (self.first + i64::try_from(at).expect("small")) * 60;
            // Of times that a clock jumps over, whatever their seconds, there is one fire: when it jumps.
            let mut jumped = (before + 1).max(highest + 1)..shown;
            if !pattern.follows_clock && jumped.any(matches) {
                fires.push(minute);
            }
            // What it has shown before is over, unless the pattern goes with the clock.
            if (pattern.follows_clock || shown > highest) && matches(shown) {
                fires.extend(pattern.seconds.iter().map(|second| minute + second));
            }
            highest = highest.max(shown);
        }
        fires.dedup();
        fires
    }
}

/// Compares the hours around each change of a clock; answers how many changes there were.
fn compare(zone: &TimeZone, name: &str, patterns: &[Pattern]) -> usize {
    let begin = jiff::Timestamp::from_second(BEGIN).expect("a moment of these years");
    let mut changes = 0;
    for change in zone.following(begin) {
        let change = change.timestamp().as_second();
        if change > END {
            break;
        }
        // All clocks have gone in whole minutes since 1972.
        assert_eq!((change % 60, offset(zone, change) % 60), (0, 0), "{name} at {change}");
        changes += 1;
        let wall = Wall::around(zone, change);
        let from = Timestamp::from_micros((wall.first + MEMORY) * 60_000_000 - 1);
        let to = Timestamp::from_micros((change / 60 + AROUND) * 60_000_000 + 59_000_000);
        for pattern in patterns {
            let cron: Cron = pattern.cron.parse().expect(pattern.cron);
            assert_eq!(cron.follows_clock(), pattern.follows_clock, "{}", pattern.cron);
            let times = FireTimes::Cron(Box::new(cron), zone.clone());
            let fires: Vec<i64> = times.between(from, to).map(|fire| fire.as_micros() / 1_000_000).collect();
            assert_eq!(fires, wall.fires(pattern), "{} in {name} around {to}", pattern.cron);
        }
    }
    changes
}

/// Zones that differ in what their clocks did in these years: most names are another name of one of them.
fn distinct_zones() -> Vec<(String, TimeZone)> {
    let database = TimeZoneDatabase::bundled();
    let begin = jiff::Timestamp::from_second(BEGIN).expect("a moment of these years");
    let mut known = std::collections::BTreeMap::new();
    for name in database.available() {
        let zone = database.get(name.as_str()).expect("it is in the list");
        let mut changes = vec![(BEGIN, offset(&zone, BEGIN))];
        let until_end = zone.following(begin).map(|change| change.timestamp().as_second());
        changes.extend(until_end.take_while(|at| *at <= END).map(|at| (at, offset(&zone, at))));
        known.entry(changes).or_insert_with(|| (name.as_str().to_owned(), zone));
    }
    known.into_values().collect()
}

#[test]
fn fires_are_those_of_the_clock_on_the_wall_in_every_zone_for_thirty_years() {
    // W11
    let zones = distinct_zones();
    assert!(zones.len() > 150, "the database has {} clocks", zones.len());
    let whole = std::env::var_os("BACKSTOP_TORTURE").is_some();
    let mut changes = 0;
    for (at, (name, zone)) in zones.iter().enumerate() {
        // With the other patterns, clocks that go as they always do are compared by the long form.
        let all = whole || at % 8 == 0 || offset(zone, END) % 3_600 != 0 || is_odd(name);
        changes += compare(zone, name, if all { &PATTERNS[..] } else { &PATTERNS[..EVERYWHERE] });
    }
    assert!(changes > 3_000, "{changes} changes were compared");
}

/// Clocks that did what others do not.
fn is_odd(name: &str) -> bool {
    ["Pacific/Apia", "Africa/Casablanca", "Antarctica/Troll", "Australia/Lord_Howe", "America/St_Johns"]
        .contains(&name)
}
