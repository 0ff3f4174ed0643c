//! So many starts in a time, as people write it: `100/1m`, or `{ count = 100, per = "1m" }` (H5).

use std::time::Duration;

use backstop::limits::RunRate;
use serde_json::Value;

use crate::output::span;

/// What a rate must be.
pub(crate) const EXPECTED: &str = "so many in a time, such as \"100/1m\" or \"5/s\"";

/// Reads `100/1m`, `5/s`.
pub(crate) fn parse(text: &str) -> Result<RunRate, String> {
    let wrong = || EXPECTED.to_owned();
    let (count, per) = text.split_once('/').ok_or_else(wrong)?;
    let per = per.trim();
    // `5/s` is five in one second.
    let one = if per.starts_with(|c: char| c.is_ascii_digit()) { "" } else { "1" };
    let per = span::parse(&format!("{one}{per}")).map_err(|_| wrong())?;
    Ok(RunRate { count: count.trim().parse().map_err(|_| wrong())?, per })
}

/// Reads `{ count, per }` or `{ count, per_ms }`.
pub(super) fn of_table(table: &Value) -> Result<RunRate, String> {
    let wrong = || EXPECTED.to_owned();
    let count = table.get("count").and_then(Value::as_u64).ok_or_else(wrong)?;
    let per = match (table.get("per").and_then(Value::as_str), table.get("per_ms").and_then(Value::as_u64)) {
        (Some(per), None) => span::parse(per).map_err(|_| wrong())?,
        (None, Some(millis)) => Duration::from_millis(millis),
        _ => return Err(wrong()),
    };
    Ok(RunRate { count, per })
}

/// A rate as people write it.
pub(crate) fn shown(rate: RunRate) -> String {
    format!("{}/{}", rate.count, span::length(rate.per))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rates_are_read_as_people_write_them() {
        // H5
        for (text, count, per_ms) in
            [("100/1m", 100, 60_000), ("5/s", 5, 1_000), (" 7 / 250ms ", 7, 250), ("1/1d", 1, 86_400_000)]
        {
            let read = parse(text.trim()).expect(text);
            assert_eq!((read.count, read.per), (count, Duration::from_millis(per_ms)), "{text}");
        }
        for text in ["", "100", "/s", "x/s", "-1/s", "5/", "5/fortnight"] {
            assert_eq!(parse(text), Err(EXPECTED.to_owned()), "{text}");
        }
        let read = RunRate { count: 3, per: Duration::from_secs(2) };
        assert_eq!(of_table(&json!({"count": 3, "per": "2s"})), Ok(read));
        assert_eq!(of_table(&json!({"count": 3, "per_ms": 2_000})), Ok(read));
        assert!(of_table(&json!({"count": 3})).is_err());
        assert_eq!(shown(read), "3/2 s");
    }
}
