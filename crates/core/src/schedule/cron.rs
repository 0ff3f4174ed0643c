//! Cron expressions: five fields, or six with seconds in front, over days and times of one clock on the wall.
//!
//! Fields are minute, hour, day of month, month and day of week. Each is `*`, a number, a range, a list, with a step
//! after a slash; months and weekdays have names of three letters, and Sunday is 0 or 7. `L` is the last day of a
//! month, `FRI#2` its second Friday, `FRIL` its last one. When both days are given, either will do; when one of them
//! begins with `*`, both count. What time zones do to it is in [`super::FireTimes`].

use std::str::FromStr;

use super::calendar::{CalendarDay, DAY, day_of, length_of, next_month};
use crate::refusal::Refusal;

/// The longest expression, in characters.
const LONGEST: usize = 256;

/// How far ahead a day is looked for: the fifth Monday of February is up to forty years away.
const FARTHEST_DAYS: i64 = 41 * 366;

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// The bit that stands for the last one of a month, beside those from the first to the fifth.
const LAST: u8 = 1 << 6;

/// A cron expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: u64,
    last_day: bool,
    months: u64,
    weekdays: u64,
    /// By weekday, which ones of a month.
    nth_weekdays: [u8; 7],
    /// One of the two days begins with `*`: both count.
    both_days: bool,
    /// Seconds, minutes or hours begin with `*`: it goes with the clock, and means no time of the day.
    follows_clock: bool,
}

impl FromStr for Cron {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let actual = text.chars().count();
        if actual > LONGEST {
            return Err(Refusal::TooLarge { field: "cron", actual, limit: LONGEST, unit: "characters" });
        }
        let text = unabbreviated(text.trim());
        let fields: Vec<&str> = text.split_whitespace().collect();
        let (seconds, rest) = match fields.len() {
            5 => ("0", &fields[..]),
            6 => (fields[0], &fields[1..]),
            count => {
                let problem = format!("it has {count} fields; five are needed, or six with seconds in front");
                return Err(Refusal::invalid("cron", problem));
            }
        };
        let (minutes, hours, days, months, weekdays) = (rest[0], rest[1], rest[2], rest[3], rest[4]);
        let follows = |field: &str| field.starts_with('*');
        let any_day = |field: &str| field.starts_with(['*', '?']);
        let (days_mask, last_day) = month_days(days)?;
        let (weekdays_mask, nth_weekdays) = week_days(weekdays)?;
        Ok(Self {
            seconds: Field::new("second", 0, 59).mask(seconds)?,
            minutes: Field::new("minute", 0, 59).mask(minutes)?,
            hours: Field::new("hour", 0, 23).mask(hours)?,
            days: days_mask,
            last_day,
            months: Field { names: &MONTHS, first_name: 1, ..Field::new("month", 1, 12) }.mask(months)?,
            weekdays: weekdays_mask,
            nth_weekdays,
            both_days: any_day(days) || any_day(weekdays),
            follows_clock: [seconds, minutes, hours].into_iter().any(follows),
        })
    }
}

fn unabbreviated(text: &str) -> &str {
    match text {
        "@hourly" => "0 * * * *",
        "@daily" | "@midnight" => "0 0 * * *",
        "@weekly" => "0 0 * * 0",
        "@monthly" => "0 0 1 * *",
        "@yearly" | "@annually" => "0 0 1 1 *",
        text => text,
    }
}

/// One field: what it is called and which numbers it has.
#[derive(Clone, Copy)]
struct Field {
    name: &'static str,
    low: u32,
    high: u32,
    names: &'static [&'static str],
    first_name: u32,
}

impl Field {
    const fn new(name: &'static str, low: u32, high: u32) -> Self {
        Self { name, low, high, names: &[], first_name: 0 }
    }

    fn refuse(self, part: &str) -> Refusal {
        let Self { name, low, high, .. } = self;
        let problem = format!(
            "`{part}` is not a valid {name}: use a number from {low} to {high}, a range, a list or `*`, with /step"
        );
        Refusal::invalid("cron", problem)
    }

    /// The numbers of a list, as bits.
    fn mask(self, list: &str) -> Result<u64, Refusal> {
        list.split(',').try_fold(0, |mask, part| Ok(mask | self.part(part)?))
    }

    fn part(self, part: &str) -> Result<u64, Refusal> {
        let refused = || self.refuse(part);
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step.parse::<u32>().map_err(|_| refused())?)),
            None => (part, None),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (self.low, self.high),
            Some((from, to)) => {
                (self.number(from, false), self.number(to, true)).both().ok_or_else(refused)?
            }
            None => {
                let from = self.number(range, false).ok_or_else(refused)?;
                // With a step it goes on from there; without one it is that number alone.
                (from, if step.is_some() { self.high } else { from })
            }
        };
        let step = step.unwrap_or(1);
        if from > to || step == 0 || step > self.high {
            return Err(refused());
        }
        Ok((from..=to).step_by(step as usize).fold(0, |mask, number| mask | (1 << number)))
    }

    /// A number or a name. As the end of a range, Sunday comes after Saturday.
    fn number(self, text: &str, ends: bool) -> Option<u32> {
        let named =
            self.names.iter().zip(self.first_name..).find(|(name, _)| text.eq_ignore_ascii_case(name));
        let number = match named {
            Some((_, 0)) if ends => 7,
            Some((_, number)) => number,
            None if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok()?,
            None => return None,
        };
        (self.low..=self.high).contains(&number).then_some(number)
    }
}

trait Both<T> {
    fn both(self) -> Option<(T, T)>;
}

impl<T> Both<T> for (Option<T>, Option<T>) {
    fn both(self) -> Option<(T, T)> {
        Some((self.0?, self.1?))
    }
}

/// The days of a month as bits, and whether its last one is meant.
fn month_days(list: &str) -> Result<(u64, bool), Refusal> {
    let field = Field::new("day of the month", 1, 31);
    let (mut days, mut last) = (0, false);
    for part in list.split(',') {
        match part {
            "?" => days |= field.mask("*")?,
            "L" | "l" => last = true,
            part => days |= field.part(part)?,
        }
    }
    Ok((days, last))
}

/// The weekdays as bits, and which ones of a month.
fn week_days(list: &str) -> Result<(u64, [u8; 7]), Refusal> {
    let field = Field { names: &WEEKDAYS, ..Field::new("day of the week", 0, 7) };
    let (mut days, mut nth) = (0, [0; 7]);
    let of_week = |name: &str| field.number(name, false).and_then(|day| usize::try_from(day % 7).ok());
    for part in list.split(',') {
        if part == "?" {
            days |= field.mask("*")?;
        } else if let Some((name, which)) = part.split_once('#') {
            let which = which.parse::<u8>().ok().filter(|which| (1..=5).contains(which));
            let (day, which) = of_week(name).zip(which).ok_or_else(|| field.refuse(part))?;
            nth[day] |= 1 << which;
        } else if let Some(day) = part.strip_suffix(['L', 'l']).and_then(of_week) {
            nth[day] |= LAST;
        } else {
            days |= field.part(part)?;
        }
    }
    // Sunday is 0 and 7.
    Ok(((days | (days >> 7)) & 0x7f, nth))
}

impl Cron {
    /// True when it goes with the clock: seconds, minutes or hours begin with `*`.
    #[must_use]
    pub const fn follows_clock(&self) -> bool {
        self.follows_clock
    }

    /// The first time at or after `from` that matches, both in seconds of one clock on the wall since 1970; none within
    /// forty years.
    pub(super) fn next_local(&self, from: i64) -> Option<i64> {
        let (first, time) = (from.div_euclid(DAY), from.rem_euclid(DAY));
        if self.day_matches(day_of(first))
            && let Some(time) = self.next_time(time)
        {
            return Some(first * DAY + time);
        }
        let day = self.next_day(first + 1)?;
        Some(day * DAY + self.next_time(0)?)
    }

    fn next_day(&self, first: i64) -> Option<i64> {
        let mut number = first;
        while number - first <= FARTHEST_DAYS {
            let day = day_of(number);
            if !has(self.months, day.month) {
                number = next_month(day.year, day.month);
            } else if self.day_matches(day) {
                return Some(number);
            } else {
                number += 1;
            }
        }
        None
    }

    fn day_matches(&self, day: CalendarDay) -> bool {
        if !has(self.months, day.month) {
            return false;
        }
        let CalendarDay { year, month, day, weekday } = day;
        let nth = self.nth_weekdays[weekday as usize];
        let is_last = |days: u32| day + days > length_of(year, month);
        let of_month = has(self.days, day) || (self.last_day && is_last(1));
        let of_week = has(self.weekdays, weekday)
            || (nth != 0 && (nth & (1 << day.div_ceil(7)) != 0 || (nth & LAST != 0 && is_last(7))));
        if self.both_days { of_month && of_week } else { of_month || of_week }
    }

    /// The first time of a day at or after this one.
    fn next_time(&self, time: i64) -> Option<i64> {
        let part = |seconds: i64| u32::try_from(seconds).unwrap_or_default();
        let (hour, minute, second) = (part(time / 3_600), part(time / 60 % 60), part(time % 60));
        let mut from = (hour, minute, second);
        loop {
            let hour = next_bit(self.hours, from.0)?;
            if hour > from.0 {
                from = (hour, 0, 0);
            }
            let Some(minute) = next_bit(self.minutes, from.1) else {
                from = (hour + 1, 0, 0);
                continue;
            };
            if minute > from.1 {
                from.2 = 0;
            }
            match next_bit(self.seconds, from.2) {
                Some(second) => return Some(i64::from(hour * 3_600 + minute * 60 + second)),
                None => from = (hour, minute + 1, 0),
            }
        }
    }
}

const fn has(mask: u64, bit: u32) -> bool {
    mask & (1 << bit) != 0
}

fn next_bit(mask: u64, from: u32) -> Option<u32> {
    let rest = mask.checked_shr(from).unwrap_or(0);
    (rest != 0).then(|| from + rest.trailing_zeros())
}
