//! Recognises points in time and spans of time at the start of a text.
//!
//! Every function returns the length of what it recognised. None of them looks further than a line of a
//! calendar.

/// `2024-05-01`, `2024/05/01 10:00:00`, `2024-05-01T10:00:00.123+02:00`, `20240501T100000Z`, `01.05.2024
/// 10:00`.
pub(super) fn date_time(rest: &[u8]) -> Option<usize> {
    let date = numeric_date(rest)?;
    let mut end = date;
    if let Some(b'T' | b't' | b' ' | b':' | b'_') = rest.get(end)
        && let Some(clock) = clock(&rest[end + 1..])
    {
        end += 1 + clock;
        end += zone(&rest[end..]);
    }
    (!is_word(rest.get(end))).then_some(end)
}

fn numeric_date(rest: &[u8]) -> Option<usize> {
    let run = digits(rest);
    match run {
        8 if matches!(rest.get(8), Some(b'T')) && digits(&rest[9..]) == 6 => return Some(8),
        1 | 2 | 4 => {}
        _ => return None,
    }
    let separator = *rest.get(run).filter(|b| matches!(b, b'-' | b'/' | b'.'))?;
    let second = digits(&rest[run + 1..]);
    let at = run + 1 + second;
    if !(1..=2).contains(&second) || rest.get(at) != Some(&separator) {
        return None;
    }
    let third = digits(&rest[at + 1..]);
    // One of the outer parts is the year. A dotted date starts with a day; 2024.5.1 is a version.
    let is_date = match (run, third) {
        (4, 1 | 2) => separator != b'.',
        (1 | 2, 4) => true,
        _ => false,
    };
    is_date.then_some(at + 1 + third)
}

/// `10:00`, `10:00:00`, `10:00:00.123456`, `100000`, with `AM` or `PM`.
fn clock(rest: &[u8]) -> Option<usize> {
    if digits(rest) == 6 {
        return Some(6 + fraction(&rest[6..]));
    }
    let mut end = clock_with_seconds(rest).or_else(|| hours_and_minutes(rest))?;
    if let [b' ', b'A' | b'P' | b'a' | b'p', b'M' | b'm', ..] = rest[end..] {
        end += 3;
    }
    Some(end)
}

fn hours_and_minutes(rest: &[u8]) -> Option<usize> {
    let hours = digits(rest);
    let is_clock =
        (1..=2).contains(&hours) && rest.get(hours) == Some(&b':') && digits(&rest[hours + 1..]) == 2;
    is_clock.then_some(hours + 3)
}

/// `10:00:00` with an optional fraction: the only time of day that stands without a date.
pub(super) fn clock_with_seconds(rest: &[u8]) -> Option<usize> {
    let end = hours_and_minutes(rest)?;
    let has_seconds = rest.get(end) == Some(&b':') && digits(&rest[end + 1..]) == 2;
    has_seconds.then(|| end + 3 + fraction(&rest[end + 3..]))
}

fn fraction(rest: &[u8]) -> usize {
    match rest.first() {
        Some(b'.' | b',') if digits(&rest[1..]) > 0 => 1 + digits(&rest[1..]),
        _ => 0,
    }
}

/// `Z`, `+02:00`, ` +0200`, ` UTC`; 0 when there is none.
fn zone(rest: &[u8]) -> usize {
    let blank = usize::from(rest.first() == Some(&b' '));
    let name = &rest[blank..];
    let length = match name {
        [b'Z' | b'z', ..] => 1,
        [b'+' | b'-', tail @ ..] => match (digits(tail), tail.get(2)) {
            (4, _) => 5,
            (2, Some(b':')) if digits(&tail[3..]) == 2 => 6,
            (2, _) => 3,
            _ => 0,
        },
        [b'U', b'T', b'C', ..] | [b'G', b'M', b'T', ..] => 3,
        _ => 0,
    };
    if length == 0 || is_word(name.get(length)) { 0 } else { blank + length }
}

/// A date with the month's name: `Mon, 02 Jan 2006 15:04:05 GMT`, `Jan 2 15:04:05`, `02/Jan/2006:15:04:05
/// +0000`.
pub(super) fn written_date(rest: &[u8]) -> Option<usize> {
    let (mut has_month, mut numbers, mut has_clock) = (false, 0, false);
    let mut end = 0;
    let mut at = 0;
    for _ in 0..8 {
        let token = &rest[at..];
        let run = digits(token);
        let length = if let Some(clock) = (!has_clock).then(|| clock_with_seconds(token)).flatten() {
            has_clock = true;
            clock
        } else if run > 0 {
            numbers += 1;
            if !matches!(run, 1 | 2 | 4) || numbers > 2 || is_word(token.get(run)) {
                break;
            }
            run
        } else if let Some(length) = calendar_word(token, &WEEKDAYS) {
            length
        } else if let Some(length) = calendar_word(token, &MONTHS).filter(|_| !has_month) {
            has_month = true;
            length
        } else {
            break;
        };
        end = at + length;
        let gap = token[length..]
            .iter()
            .take(2)
            .take_while(|b| matches!(**b, b' ' | b',' | b'/' | b'-' | b':'))
            .count();
        if gap == 0 {
            break;
        }
        at = end + gap;
    }
    let is_date = has_month && (1..=3).contains(&numbers) && end > 0;
    is_date.then(|| end + if has_clock { zone(&rest[end..]) } else { 0 })
}

const WEEKDAYS: [&[u8]; 7] =
    [b"Monday", b"Tuesday", b"Wednesday", b"Thursday", b"Friday", b"Saturday", b"Sunday"];
const MONTHS: [&[u8]; 12] = [
    b"January",
    b"February",
    b"March",
    b"April",
    b"May",
    b"June",
    b"July",
    b"August",
    b"September",
    b"October",
    b"November",
    b"December",
];

/// A name of the calendar, whole or as its first three letters.
fn calendar_word(rest: &[u8], names: &[&[u8]]) -> Option<usize> {
    let letters = rest.iter().take(10).take_while(|b| b.is_ascii_alphabetic()).count();
    let word = &rest[..letters];
    let is_name = names.iter().any(|name| *name == word || name[..3] == *word);
    (is_name && !is_word(rest.get(letters))).then_some(letters)
}

/// Whether a text may start with a date that names its month; cheap enough to ask for every word.
pub(super) fn may_start_written_date(rest: &[u8]) -> bool {
    match rest {
        [first, second, third, ..] if first.is_ascii_uppercase() => {
            let start = [*first, *second, *third];
            WEEKDAYS.iter().chain(&MONTHS).any(|name| name[..3] == start)
        }
        [first, ..] => first.is_ascii_digit(),
        [] => false,
    }
}

/// The unit of time at the start of `rest`: `ms`, `s`, `min`, ` seconds`, ... For spans such as `1m30.5s`.
pub(super) fn unit(rest: &[u8]) -> Option<usize> {
    const UNITS: [&str; 20] = [
        "ns", "us", "µs", "μs", "ms", "s", "sec", "secs", "second", "seconds", "m", "min", "mins", "minute",
        "minutes", "h", "hour", "hours", "day", "days",
    ];
    const WRITTEN: [&str; 16] = [
        "ms",
        "s",
        "sec",
        "secs",
        "seconds",
        "second",
        "minutes",
        "minute",
        "min",
        "hours",
        "hour",
        "days",
        "day",
        "milliseconds",
        "millisecond",
        "microseconds",
    ];
    let (blank, units): (usize, &[&str]) =
        if rest.first() == Some(&b' ') { (1, &WRITTEN) } else { (0, &UNITS) };
    let is_letter = |b: &&u8| b.is_ascii_alphabetic() || **b >= 0x80;
    let letters = rest[blank..].iter().take(14).take_while(is_letter).count();
    let word = &rest[blank..blank + letters];
    let is_whole = blank == 0 || !is_word(rest.get(blank + letters));
    (is_whole && units.iter().any(|unit| unit.as_bytes() == word)).then_some(blank + letters)
}

/// Number of ASCII digits at the start of `rest`.
pub(super) fn digits(rest: &[u8]) -> usize {
    rest.iter().take_while(|b| b.is_ascii_digit()).count()
}

fn is_word(byte: Option<&u8>) -> bool {
    byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
}
