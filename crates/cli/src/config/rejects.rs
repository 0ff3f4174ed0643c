//! `[rejects]`, and what `[kinds.NAME]` says of rejects (W9).

use backstop::rejects::{RejectLimit, RejectLog, RejectSettings, SinkFailure};
use serde_json::Value;

use super::read::PlainValue;

/// Takes one key of `[rejects]` over.
pub(super) fn take(settings: &mut RejectSettings, word: &str, value: &PlainValue) -> Result<(), String> {
    match (word, value) {
        ("sink", PlainValue::Text(sink)) => {
            let own = std::mem::take(settings);
            *settings = if sink == "log" { own.sink(RejectLog) } else { own };
        }
        ("on_sink_failure", PlainValue::Text(word)) => {
            settings.on_failure = if word == "continue" { SinkFailure::Continue } else { SinkFailure::Fail };
        }
        ("keep_items", PlainValue::Other(Value::Bool(keep))) => settings.keep_items = *keep,
        (word, value) => return take_limit(&mut settings.limit, word, value),
    }
    Ok(())
}

/// Takes one key of `[kinds.NAME]` over.
pub(super) fn take_of_kind(
    settings: &mut RejectSettings,
    kind: &str,
    word: &str,
    value: &PlainValue,
) -> Result<(), String> {
    take_limit(settings.limits.entry(kind.to_owned()).or_default(), word, value)
}

/// Takes a limit over.
fn take_limit(limit: &mut RejectLimit, word: &str, value: &PlainValue) -> Result<(), String> {
    match (word, value) {
        ("max_rejects", PlainValue::Count(count)) => limit.most = Some(*count),
        ("max_reject_percent", PlainValue::Count(count)) => {
            limit.percent = Some(f64::from(u32::try_from(*count).unwrap_or(u32::MAX)));
        }
        _ => {}
    }
    limit.check()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_numbers_and_percentages() {
        // W9
        let mut settings = RejectSettings::default();
        take(&mut settings, "max_rejects", &PlainValue::Count(10)).expect("a number");
        take(&mut settings, "max_reject_percent", &PlainValue::Count(5)).expect("a percentage");
        assert_eq!(settings.limit, RejectLimit::NONE.most(10).percent(5.0));
        let over = take(&mut settings, "max_reject_percent", &PlainValue::Count(101)).expect_err("too much");
        assert_eq!(over, "101 is not a percentage: it is between 0 and 100");
    }
}
