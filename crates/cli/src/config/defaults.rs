//! What `[kinds.NAME]` and `[queues.NAME]` say of their jobs: retries, backoff and times, each by itself (L19).

use backstop::JobDefaults;
use backstop_core::failure::{BackoffError, Growth};

use super::read::PlainValue;

/// Takes one value of a `retry` table, a timeout, a wait, a delay or an expiry over.
pub(super) fn take(defaults: &mut JobDefaults, rest: &[&str], value: &PlainValue) -> Result<(), String> {
    let small = |count: u64| u32::try_from(count).map_err(|_| format!("{count} is too many"));
    match (rest, value) {
        (["timeout"], PlainValue::Span(span)) if span.is_zero() => {
            return Err("a timeout of zero lets nothing run: leave it out for no limit".to_owned());
        }
        (["timeout"], PlainValue::Span(span)) => defaults.timeout = Some(*span),
        (["max_wait"], PlainValue::Span(span)) => defaults.max_wait = Some(*span),
        (["max_deferral"], PlainValue::Span(span)) => defaults.max_deferral = Some(*span),
        (["delay"], PlainValue::Span(span)) => defaults.delay = Some(*span),
        (["expires_in"], PlainValue::Span(span)) if span.is_zero() => {
            return Err("an expiry of zero lets nothing start: leave it out for none".to_owned());
        }
        (["expires_in"], PlainValue::Span(span)) => defaults.expires_in = Some(*span),
        (["retry", "max_retries"], PlainValue::Count(count)) => defaults.max_retries = Some(small(*count)?),
        (["retry", "max_crashes"], PlainValue::Count(count)) => defaults.max_crashes = Some(small(*count)?),
        (["retry", "base"], PlainValue::Span(span)) => defaults.base = Some(*span),
        (["retry", "cap"], PlainValue::Span(span)) => defaults.cap = Some(*span),
        (["retry", "backoff"], PlainValue::Text(word)) => {
            defaults.growth = Some(word.parse::<Growth>().map_err(|problem| problem.to_string())?);
        }
        (["retry", "jitter"], PlainValue::Text(word)) => {
            defaults.jitter = Some(word.parse().map_err(|problem: BackoffError| problem.to_string())?);
        }
        _ => {}
    }
    Ok(())
}
