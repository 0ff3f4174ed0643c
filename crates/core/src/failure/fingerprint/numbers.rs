//! Recognises quantities at the start of a text: plain numbers, spans of time, sizes. Returns lengths.

use super::dates;

/// Digits, with a point, a comma or an underscore between digits.
pub(super) fn quantity(rest: &[u8]) -> usize {
    let mut length = dates::digits(rest);
    while let Some(b'.' | b',' | b'_') = rest.get(length) {
        match dates::digits(&rest[length + 1..]) {
            0 => break,
            more => length += 1 + more,
        }
    }
    length
}

/// `30s`, `1m30.5s`, `250 ms`, `30 seconds`.
pub(super) fn span_of_time(rest: &[u8]) -> Option<usize> {
    let mut end = 0;
    loop {
        let number = quantity(&rest[end..]);
        let unit = if number == 0 { None } else { dates::unit(&rest[end + number..]) };
        match unit {
            Some(unit) => end += number + unit,
            None => break,
        }
    }
    let is_whole = !rest.get(end).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    (end > 0 && is_whole).then_some(end)
}

/// `KB`, `MiB`, `k`, `st`, `nd`, `x`: what directly follows a number without making it a name.
pub(super) fn unit_of_size(rest: &[u8]) -> Option<usize> {
    const UNITS: [&str; 24] = [
        "b", "kb", "mb", "gb", "tb", "kib", "mib", "gib", "tib", "ki", "mi", "gi", "k", "g", "t", "x", "st",
        "nd", "rd", "th", "bytes", "px", "hz", "bit",
    ];
    let letters = rest.iter().take(6).take_while(|b| b.is_ascii_alphabetic()).count();
    let goes_on = rest.get(letters).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    let is_unit = UNITS.iter().any(|unit| unit.as_bytes().eq_ignore_ascii_case(&rest[..letters]));
    (is_unit && !goes_on).then_some(letters)
}
