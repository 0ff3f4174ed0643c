//! `[rejects]`, and what `[kinds.NAME]` says of rejects (W9).

use backstop::rejects::{RejectLimit, RejectLog, RejectPercent, RejectSettings, SinkFailure};
use serde_json::Value;

use super::read::PlainValue;

/// Takes one key of `[rejects]` over.
pub(super) fn take(settings: &mut RejectSettings, word: &str, value: &PlainValue) {
    match (word, value) {
        ("sink", PlainValue::Text(sink)) => {
            let own = std::mem::take(settings);
            *settings = if sink == "log" { own.sink(RejectLog) } else { own };
        }
        ("on_sink_failure", PlainValue::Text(word)) => {
            settings.on_failure = if word == "continue" { SinkFailure::Continue } else { SinkFailure::Fail };
        }
        ("keep_items", PlainValue::Other(Value::Bool(keep))) => settings.keep_items = *keep,
        (word, value) => take_limit(&mut settings.limit, word, value),
    }
}

/// Takes one key of `[kinds.NAME]` over.
pub(super) fn take_of_kind(settings: &mut RejectSettings, kind: &str, word: &str, value: &PlainValue) {
    take_limit(settings.limits.entry(kind.to_owned()).or_default(), word, value);
}

/// A percentage as `config check` shows it: the number that was given.
pub(super) fn shown(percent: RejectPercent) -> Value {
    serde_json::from_str(&percent.to_string()).unwrap_or_default()
}

/// Takes a limit over.
fn take_limit(limit: &mut RejectLimit, word: &str, value: &PlainValue) {
    match (word, value) {
        ("max_rejects", PlainValue::Count(count)) => limit.most = Some(*count),
        ("max_reject_percent", PlainValue::Percent(percent)) => limit.percent = Some(*percent),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::read::{ConfigFault, read};
    use super::super::{GivenSettings, Settings};
    use super::*;
    use serde_json::json;

    fn built(text: &str) -> Result<Settings, Vec<String>> {
        let told = |faults: Vec<ConfigFault>| faults.into_iter().map(|fault| fault.message).collect();
        Settings::build(&GivenSettings::default(), read(text).map_err(told)?, None).map_err(told)
    }

    #[test]
    fn where_rejects_go_is_as_the_file_says() {
        // W9
        for (text, sink, on_failure, keep) in [
            ("", "store", SinkFailure::Fail, false),
            ("rejects.sink = 'store'\nrejects.keep_items = true", "store", SinkFailure::Fail, true),
            ("rejects.sink = 'log'", "log", SinkFailure::Fail, false),
            (
                "rejects.on_sink_failure = 'continue'\nrejects.sink = 'log'",
                "log",
                SinkFailure::Continue,
                false,
            ),
            ("rejects.sink = 'log'\nrejects.on_sink_failure = 'fail'", "log", SinkFailure::Fail, false),
        ] {
            let rejects = built(text).expect("good settings").engine.rejects;
            assert_eq!(
                (rejects.sink_name(), rejects.on_failure, rejects.keep_items),
                (sink, on_failure, keep)
            );
        }
        let faults = built("rejects.sink = 'broker'").expect_err("there is none");
        assert!(faults[0].contains("`rejects.sink` must be one of \"store\", \"log\""), "{faults:?}");
    }

    #[test]
    fn limits_are_numbers_and_percentages_with_fractions() {
        // W9
        let text = "rejects.max_rejects = 10\nrejects.max_reject_percent = 5\n\
                    kinds.import.max_reject_percent = 0.5\nkinds.load.max_reject_percent = 2.5e-1";
        let rejects = built(text).expect("good settings").engine.rejects;
        let percent = |percent: f64| RejectLimit::NONE.percent(percent).expect("a percentage");
        assert_eq!(rejects.limit, percent(5.0).most(10));
        assert_eq!(
            [5.0, 0.5].map(|given| shown(given.try_into().expect("a percentage"))),
            [json!(5), json!(0.5)]
        );
        assert_eq!(rejects.limit_for("import"), percent(0.5).most(10));
        assert_eq!(rejects.limit_for("load"), percent(0.25).most(10));
        for wrong in ["101", "100.1", "-1", "-0.5", "nan", "inf", "0.00001", "'5'", "true"] {
            for key in ["rejects.max_reject_percent", "kinds.import.max_reject_percent"] {
                let faults = built(&format!("{key} = {wrong}")).expect_err(wrong);
                let told = format!("`{key}` must be a number from 0 to 100 with at most four decimals");
                assert!(faults.len() == 1 && faults[0].starts_with(&told), "{wrong}: {faults:?}");
            }
        }
    }
}
