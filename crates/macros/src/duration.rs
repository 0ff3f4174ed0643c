//! Durations as users write them in attributes: a whole number and a unit.

use std::time::Duration;

use proc_macro2::TokenStream;
use quote::quote;

/// Units with their length in milliseconds. `ms` goes first, because `5ms` ends with `s` too.
const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60 * 1_000), ("h", 60 * 60 * 1_000), ("d", 24 * 60 * 60 * 1_000)];

/// The duration that `text` means, or what is wrong with it.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!(
            "`{text}` is not a duration: write a whole number and a unit (ms, s, m, h or d), such as \"30s\" or \"5m\""
        )
    };
    let (digits, millis) = UNITS
        .iter()
        .find_map(|(unit, millis)| Some((text.strip_suffix(unit)?, *millis)))
        .ok_or_else(wrong)?;
    // `u64::from_str` takes a plus sign, which has no place here.
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let total = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(millis));
    total.map(Duration::from_millis).ok_or_else(|| format!("`{text}` is too long for a duration"))
}

/// The expression that makes `duration` again.
pub(crate) fn expression(duration: Duration) -> TokenStream {
    let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
    quote!(::core::time::Duration::new(#seconds, #nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read() {
        for (text, millis) in [
            ("250ms", 250),
            ("30s", 30_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_an_example() {
        for text in ["", "s", "30", "30 s", " 30s", "+3s", "-3s", "1.5h", "1h30m", "30sec", "٣s", "3S"] {
            let message = parse(text).expect_err(text);
            assert!(message.contains("\"30s\""), "{text}: {message}");
        }
    }

    #[test]
    fn numbers_too_large_are_refused() {
        for text in ["99999999999999999999s", "18446744073709551615d"] {
            assert_eq!(parse(text), Err(format!("`{text}` is too long for a duration")));
        }
    }
}
