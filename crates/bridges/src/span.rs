//! Spans of time as the configuration writes them: `250ms`, `10s`, `5m`, `2h`.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

/// Reads a span.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => {
            return Err(format!(
                "`{text}` is not a span of time: write it like \"10s\", \"5m\" or \"250ms\""
            ));
        }
    };
    let number: u64 =
        number.parse().map_err(|_| format!("`{text}` is not a span of time: the number is missing"))?;
    number.checked_mul(factor).map(Duration::from_millis).ok_or_else(|| format!("`{text}` is too long"))
}

/// For serde: a span that may be left out.
pub(crate) fn option<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_and_others_are_named() {
        for (text, millis) in [("250ms", 250), ("10s", 10_000), ("5m", 300_000), ("2h", 7_200_000), ("0s", 0)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in
            ["", "10", "s", "10 s", "-1s", "1.5s", "10d", "99999999999999999999s", "18446744073709551615h"]
        {
            assert!(parse(text).unwrap_err().contains(text), "{text}");
        }
    }
}
