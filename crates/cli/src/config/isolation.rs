//! What `[kinds.NAME]` says of the processes of its runs (E2).

use backstop::{Isolation, IsolationSettings};

use super::read::PlainValue;

const MIB: u64 = 1024 * 1024;

/// What follows a number of bytes.
const UNITS: [(&str, u64); 4] = [("GB", 1024 * MIB), ("MB", MIB), ("KB", 1024), ("B", 1)];

/// Takes one value over.
pub(super) fn take(settings: &mut IsolationSettings, word: &str, value: &PlainValue) -> Result<(), String> {
    match (word, value) {
        ("isolate", PlainValue::Text(when)) => {
            settings.isolate = Some(match when.as_str() {
                "always" => Isolation::Always,
                "after_crash" => Isolation::AfterCrash,
                _ => Isolation::Never,
            });
        }
        ("memory_limit", PlainValue::Text(size)) => settings.memory_limit = Some(bytes(size)?),
        ("cpu_limit", PlainValue::Span(span)) if span.as_secs() == 0 => {
            return Err("processor time is counted in whole seconds: the minimum is 1s".to_owned());
        }
        ("cpu_limit", PlainValue::Span(span)) => settings.cpu_limit = Some(*span),
        _ => {}
    }
    Ok(())
}

/// A number of bytes, such as `256MB`.
fn bytes(text: &str) -> Result<u64, String> {
    let problem = || format!("`{text}` is not a size: write a whole number with KB, MB or GB, such as 256MB");
    let split = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (number, factor) = split.ok_or_else(problem)?;
    let number: u64 = number.trim_end().parse().map_err(|_| problem())?;
    match number.checked_mul(factor) {
        Some(0) => Err("a memory limit of zero lets nothing run: leave it out for no limit".to_owned()),
        Some(bytes) => Ok(bytes),
        None => Err(problem()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_limit_is_a_size() {
        // E2
        for (text, found) in [
            ("256MB", Some(256 * MIB)),
            ("1 GB", Some(1024 * MIB)),
            ("64KB", Some(64 * 1024)),
            ("7B", Some(7)),
            ("0MB", None),
            ("256", None),
            ("MB", None),
            ("1.5GB", None),
            ("-1MB", None),
            ("99999999999999999999GB", None),
        ] {
            assert_eq!(bytes(text).ok(), found, "{text}");
        }
    }
}
