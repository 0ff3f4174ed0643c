//! `[limits.NAME]`: how many runs there may be at once, and start in a time, over all workers (H5).

use backstop::Limits;
use backstop::limits::{CountBy, RunLimit, RunRate};

use super::read::{ConfigFault, FileValue, PlainValue};

/// Takes one key of a limit over.
pub(super) fn take(
    limits: &mut Vec<RunLimit>,
    name: &str,
    word: &str,
    value: &PlainValue,
) -> Result<(), String> {
    let place = limits.iter().position(|limit| *limit.name == *name).unwrap_or_else(|| {
        limits.push(RunLimit::new(name));
        limits.len() - 1
    });
    let limit = &mut limits[place];
    match (word, value) {
        ("queue", PlainValue::Text(queue)) => limit.queue = Some(queue.as_str().into()),
        ("kind", PlainValue::Text(kind)) => limit.kind = Some(kind.as_str().into()),
        ("by", PlainValue::Text(by)) => limit.by = if by == "key" { CountBy::Key } else { CountBy::All },
        ("permits", PlainValue::Count(count)) => {
            limit.permits = Some(u32::try_from(*count).unwrap_or(u32::MAX));
        }
        ("concurrency", PlainValue::Count(count)) => limit.concurrency = Some(*count),
        ("rate", value) => limit.rate = rate(value),
        _ => {}
    }
    // What limits nothing yet may still be told what to limit.
    let whole = is_whole(limit);
    let checked = if whole { limit.clone() } else { RunLimit { concurrency: Some(1), ..limit.clone() } };
    checked.check(&Limits::default()).map_err(|problem| problem.to_string())
}

/// True when it limits something.
const fn is_whole(limit: &RunLimit) -> bool {
    limit.concurrency.is_some() || limit.rate.is_some() || limit.permits.is_some()
}

/// What to say of a limit that limits nothing, if there is one.
pub(super) fn idle(found: &[FileValue], limits: &[RunLimit]) -> Option<ConfigFault> {
    let idle = limits.iter().find(|limit| !is_whole(limit))?;
    let key = format!("limits.{}", idle.name);
    let place =
        found.iter().find(|one| one.path.starts_with(&["limits".to_owned(), idle.name.to_string()]))?;
    let message = format!("`{key}` limits nothing; give it `concurrency`, `rate` or `permits`");
    Some(ConfigFault { place: place.place.clone(), key, message })
}

/// The rate that was read.
pub(super) fn rate(value: &PlainValue) -> Option<RunRate> {
    let PlainValue::Other(rate) = value else { return None };
    serde_json::from_value(rate.clone()).ok()
}
