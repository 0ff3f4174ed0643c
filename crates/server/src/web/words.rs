//! How figures, moments and states read.

use std::time::Duration;

use backstop::{State, Timestamp};
use maud::{Markup, html};

/// A number with its thousands apart.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with what it counts: `1 job`, `2 jobs`.
pub(super) fn counted(count: u64, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        _ => format!("{} {thing}s", number(count)),
    }
}

/// A length of time, as precise as a person needs it.
pub(super) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0 if span.is_zero() => "0 s".to_owned(),
        0 if span.as_millis() < 1 => "under 1 ms".to_owned(),
        0 => format!("{} ms", span.as_millis()),
        1..10 => format!("{}.{} s", seconds, span.subsec_millis() / 100),
        10..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => match seconds % 3_600 / 60 {
            0 => format!("{} h", seconds / 3_600),
            minutes => format!("{} h {minutes} min", seconds / 3_600),
        },
        _ => format!("{} d", seconds / 86_400),
    }
}

/// The same from milliseconds.
pub(super) fn span_ms(milliseconds: u64) -> String {
    span(Duration::from_millis(milliseconds))
}

/// How far a moment is from now, with the moment itself beside it.
pub(super) fn when(now: Timestamp, at: Timestamp) -> Markup {
    let text = match at > now {
        true => format!("in {}", distance(at.since(now))),
        false if now.since(at) < Duration::from_secs(1) => "just now".to_owned(),
        false => format!("{} ago", distance(now.since(at))),
    };
    html! { time datetime=(at) title=(at) { (text) } }
}

/// A distance in time, in whole seconds: nobody needs tenths of them here.
fn distance(far: Duration) -> String {
    if far < Duration::from_secs(10) { format!("{} s", far.as_secs().max(1)) } else { span(far) }
}

/// The same for a moment that may not have come.
pub(super) fn when_if(now: Timestamp, at: Option<Timestamp>) -> Markup {
    html! { @if let Some(at) = at { (when(now, at)) } @else { (none()) } }
}

/// Where there is nothing to say.
pub(super) fn none() -> Markup {
    html! { span.none aria-label="none" { "–" } }
}

/// A rate per second.
pub(super) fn rate(per_second: f64) -> String {
    match per_second {
        rate if rate <= 0.0 => "0".to_owned(),
        rate if rate < 0.095 => format!("{:.1} a minute", rate * 60.0),
        rate if rate < 10.0 => format!("{rate:.1}/s"),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is positive, and for people"
        )]
        rate => format!("{}/s", number(rate.round() as u64)),
    }
}

/// The state of a job as a mark: a shape and a word, and a colour only for what needs a person.
pub(super) fn state(state: State) -> Markup {
    html! { span.state.(state.to_string()) { (state) } }
}

/// A word that somebody has to look at, or not.
pub(super) fn mark(word: &str, sort: &str) -> Markup {
    html! { span.state.(sort) { (word.replace('_', " ")) } }
}

/// The first characters of a text, with a sign that there were more. What only turns the direction of writing around is
/// shown as such: what is read is what is stored.
pub(super) fn short(text: &str, most: usize) -> String {
    let text = match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    };
    if !text.contains(turns_around) {
        return text;
    }
    let shown =
        |one: char| if turns_around(one) { format!("[U+{:04X}]", u32::from(one)) } else { one.to_string() };
    text.chars().map(shown).collect()
}

/// True for the characters that embed, override or isolate a direction of writing.
const fn turns_around(one: char) -> bool {
    matches!(one, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// An id as lists show it: its beginning, by which it can be looked up, and its end, which tells it from its
/// neighbours.
pub(super) fn short_id(id: &str) -> String {
    let chars: Vec<char> = id.chars().collect();
    if chars.len() <= BEGINNING + END {
        return short(id, usize::MAX);
    }
    let (beginning, end) = (&chars[..BEGINNING], &chars[chars.len() - END..]);
    format!("{}…{}", beginning.iter().collect::<String>(), end.iter().collect::<String>())
}

/// Characters of an id that a list shows: the moment it was made, to the millisecond, and what differs most.
const BEGINNING: usize = 13;
const END: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_spans_read_as_people_write_them() {
        for (count, text) in [(0, "0"), (999, "999"), (1_204, "1,204"), (10_000_000, "10,000,000")] {
            assert_eq!(number(count), text);
        }
        assert_eq!((counted(1, "job"), counted(412, "job")), ("1 job".to_owned(), "412 jobs".to_owned()));
        for (milliseconds, text) in [
            (0, "0 s"),
            (400, "400 ms"),
            (1_400, "1.4 s"),
            (59_000, "59 s"),
            (180_000, "3 min"),
            (7_500_000, "2 h 5 min"),
            (259_200_000, "3 d"),
        ] {
            assert_eq!(span_ms(milliseconds), text);
        }
        assert_eq!(
            (rate(0.0), rate(0.05), rate(3.24), rate(1_204.4)),
            ("0".to_owned(), "3.0 a minute".to_owned(), "3.2/s".to_owned(), "1,204/s".to_owned())
        );
        assert_eq!(short("äöü", 2), "äö…");
        assert_eq!(short("invoice\u{202e}fdp.exe", 50), "invoice[U+202E]fdp.exe");
        assert_eq!(short("שלום 12", 50), "שלום 12");
        assert_eq!(short_id("0192f3a4-5b6c-7d8e-9f01-23456789abcd"), "0192f3a4-5b6c…abcd");
    }
}
