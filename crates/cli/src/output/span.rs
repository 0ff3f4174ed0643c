//! Time for people: durations read and written, moments seen from now.

use std::time::Duration;

use backstop::Timestamp;

/// How long ago or ahead a moment is, seen from `now`: `in 4 s`, `3 min ago`, `now`.
pub(crate) fn relative(now: Timestamp, moment: Timestamp) -> String {
    if moment > now {
        let ahead = now.until(moment);
        if ahead < Duration::from_secs(1) { "now".to_owned() } else { format!("in {}", coarse(ahead)) }
    } else {
        let ago = now.since(moment);
        if ago < Duration::from_secs(1) { "now".to_owned() } else { format!("{} ago", coarse(ago)) }
    }
}

/// A moment in full with its distance, for pages that have the room.
pub(crate) fn both(now: Timestamp, moment: Timestamp) -> String {
    format!("{}  ({})", moment, relative(now, moment))
}

/// One unit, rounded down: what a table needs.
fn coarse(span: Duration) -> String {
    let secs = span.as_secs();
    match secs {
        0..60 => format!("{secs} s"),
        60..3_600 => format!("{} min", secs / 60),
        3_600..172_800 => format!("{} h", secs / 3_600),
        _ => format!("{} days", secs / 86_400),
    }
}

/// A duration with the precision that matters at its size.
pub(crate) fn length(span: Duration) -> String {
    let secs = span.as_secs();
    match secs {
        0 => format!("{} ms", span.as_millis()),
        1..60 if span.subsec_millis() == 0 => format!("{secs} s"),
        1..60 => format!("{:.1} s", span.as_secs_f64()),
        60..3_600 if secs.is_multiple_of(60) => format!("{} min", secs / 60),
        60..3_600 => format!("{} min {} s", secs / 60, secs % 60),
        3_600..172_800 => format!("{} h {} min", secs / 3_600, secs / 60 % 60),
        _ => format!("{} days", secs / 86_400),
    }
}

const UNITS: [(&str, u64); 18] = [
    ("ms", 1),
    ("millis", 1),
    ("s", 1_000),
    ("sec", 1_000),
    ("second", 1_000),
    ("seconds", 1_000),
    ("m", 60_000),
    ("min", 60_000),
    ("minute", 60_000),
    ("minutes", 60_000),
    ("h", 3_600_000),
    ("hour", 3_600_000),
    ("hours", 3_600_000),
    ("d", 86_400_000),
    ("day", 86_400_000),
    ("days", 86_400_000),
    ("week", 604_800_000),
    ("weeks", 604_800_000),
];

/// Reads a duration such as `30s`, `5 min`, `250ms` or `1h 30min`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!(
            "`{}` is not a duration: write a number and a unit, such as 250ms, 30s, 5 min or 2h",
            super::brief(text, 40)
        )
    };
    let mut rest = text.trim();
    let mut total: u64 = 0;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|ch: char| !ch.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = rest[digits..].trim_start();
        let letters = rest.find(|ch: char| !ch.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (_, millis) = UNITS.iter().find(|(name, _)| *name == &rest[..letters]).ok_or_else(wrong)?;
        total = number.checked_mul(*millis).and_then(|part| total.checked_add(part)).ok_or_else(wrong)?;
        rest = rest[letters..].trim_start();
    }
    Ok(Duration::from_millis(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_in_every_unit() {
        for (text, millis) in [
            ("250ms", 250),
            ("30s", 30_000),
            ("5 min", 300_000),
            ("1h 30min", 5_400_000),
            (" 2 days ", 172_800_000),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in
            ["", "30", "s", "-5s", "5 parsecs", "1.5s", "99999999999999999999s", "999999999999999999 weeks"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn moments_are_seen_from_now() {
        let now = Timestamp::EPOCH.after(Duration::from_secs(1_000_000));
        let cases =
            [(4, "4 s ago"), (200, "3 min ago"), (7_200, "2 h ago"), (400_000, "4 days ago"), (0, "now")];
        for (secs, expected) in cases {
            assert_eq!(relative(now, now.before(Duration::from_secs(secs))), expected);
        }
        assert_eq!(relative(now, now.after(Duration::from_millis(4_200))), "in 4 s");
        assert_eq!(length(Duration::from_millis(1_500)), "1.5 s");
        assert_eq!(length(Duration::from_secs(30)), "30 s");
    }
}
