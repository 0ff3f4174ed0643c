//! Days of the calendar as numbers, counted from 1970-01-01.

/// Seconds of a day.
pub(super) const DAY: i64 = 86_400;

/// A day, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CalendarDay {
    pub(super) year: i64,
    /// 1 to 12.
    pub(super) month: u32,
    /// 1 to 31.
    pub(super) day: u32,
    /// 0 is Sunday.
    pub(super) weekday: u32,
}

/// The day of this number. The year is taken to begin in March, so that the day of a leap year comes last.
pub(super) fn day_of(number: i64) -> CalendarDay {
    let shifted = number + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let weekday = (number + 4).rem_euclid(7);
    CalendarDay { year, month: small(month), day: small(day), weekday: small(weekday) }
}

/// The number of the first day of a month.
pub(super) fn first_of(year: i64, month: u32) -> i64 {
    let year = year - i64::from(month <= 2);
    let from_march = i64::from((month + 9) % 12);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * from_march + 2) / 5;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    era * 146_097 + of_era - 719_468
}

/// The number of the first day of the month after.
pub(super) fn next_month(year: i64, month: u32) -> i64 {
    if month == 12 { first_of(year + 1, 1) } else { first_of(year, month + 1) }
}

/// How many days a month has.
pub(super) fn length_of(year: i64, month: u32) -> u32 {
    small(next_month(year, month) - first_of(year, month))
}

fn small(number: i64) -> u32 {
    u32::try_from(number).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan as _;
    use jiff::civil::date;

    use super::*;

    #[test]
    fn days_are_those_of_another_calendar() {
        let first = date(1970, 1, 1);
        let part = |number: i8| u32::try_from(number).expect("no part of a date is negative");
        for number in (-200_000..400_000).step_by(97).chain(-800..800) {
            let other = first.checked_add(number.days()).expect("within the years 1 to 9999");
            let day = day_of(number);
            let weekday = part(other.weekday().to_sunday_zero_offset());
            let expected = (i64::from(other.year()), part(other.month()), part(other.day()), weekday);
            assert_eq!((day.year, day.month, day.day, day.weekday), expected);
            assert_eq!(length_of(day.year, day.month), part(other.days_in_month()));
            assert_eq!(first_of(day.year, day.month), number - i64::from(day.day) + 1);
        }
    }
}
