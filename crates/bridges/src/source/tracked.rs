//! What is asked about the jobs that messages belong to, before they are read.
//!
//! Answers are kept for as long as whoever gave them allows; somebody who does not answer is not asked again for a
//! while. Nobody waits for more than one such answer: all questions of a batch are asked together.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::message::BrokerMessage;
use crate::profile::{MessageProfile, StatusAnswer, TrackedStatus};

/// For how long an answer holds that does not say so itself.
const USUAL_INTERVAL: Duration = Duration::from_secs(120);

/// For how long nobody is asked who did not answer.
const SILENCE: Duration = Duration::from_secs(10);

/// Answers that are kept at most; then all are forgotten.
const MOST_KEPT: usize = 10_000;

/// What was answered, and until when it counts.
#[derive(Debug, Default)]
pub(super) struct TrackedJobs {
    kept: HashMap<String, (TrackedStatus, i64, Instant)>,
}

/// This machine's clock: whoever wrote a message compared with its own.
pub(super) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

impl TrackedJobs {
    /// The answers for these messages, in their order; none where there was nothing to ask.
    pub(super) async fn ask(
        &mut self,
        profile: &MessageProfile,
        messages: &[BrokerMessage],
        at_ms: i64,
    ) -> Vec<Option<StatusAnswer>> {
        let questions: Vec<Option<String>> =
            messages.iter().map(|message| profile.question(message, at_ms)).collect();
        if questions.iter().all(Option::is_none) {
            return vec![None; messages.len()];
        }
        let mut answers = self.known(&questions);
        let mut asking = JoinSet::new();
        let mut asked = std::collections::HashSet::new();
        for url in questions.iter().flatten() {
            if !answers.contains_key(url) && profile.may_ask(url) && asked.insert(url.clone()) {
                let url = url.clone();
                asking.spawn(async move { (asked_once(&url).await, url) });
            }
        }
        while let Some(Ok(((status, interval, keep), url))) = asking.join_next().await {
            self.keep(&url, status, interval, keep);
            answers.insert(url, (status, interval));
        }
        let answer = |url: String| {
            let (status, interval_ms) =
                answers.get(&url).copied().unwrap_or((TrackedStatus::Active, millis(USUAL_INTERVAL)));
            StatusAnswer { status, at_ms, interval_ms }
        };
        questions.into_iter().map(|question| question.map(answer)).collect()
    }

    fn known(&self, questions: &[Option<String>]) -> HashMap<String, (TrackedStatus, i64)> {
        let now = Instant::now();
        let known = |url: &String| {
            let (status, interval, until) = self.kept.get(url)?;
            (*until > now).then(|| (url.clone(), (*status, *interval)))
        };
        questions.iter().flatten().filter_map(known).collect()
    }

    fn keep(&mut self, url: &str, status: TrackedStatus, interval: i64, keep: Duration) {
        if keep.is_zero() {
            return;
        }
        if self.kept.len() >= MOST_KEPT {
            self.kept.clear();
        }
        self.kept.insert(url.to_owned(), (status, interval, Instant::now() + keep));
    }
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(feature = "http")]
async fn asked_once(url: &str) -> (TrackedStatus, i64, Duration) {
    let answer = crate::http_get::get(url).await;
    match &answer {
        Ok(answer) => tracing::debug!(url, status = answer.status, "asked for the status of a job"),
        Err(problem) => {
            tracing::warn!(url, "the status of a job cannot be asked for, it counts as active: {problem}");
        }
    }
    let Ok(answer) = answer else { return (TrackedStatus::Active, millis(USUAL_INTERVAL), SILENCE) };
    let header =
        |name: &str| answer.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value);
    let age = header("cache-control").and_then(|value| max_age(value));
    let interval = age.unwrap_or(USUAL_INTERVAL);
    let keeps = header("cacheablejobstatus").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let keep = if keeps { interval } else { Duration::ZERO };
    (read(answer.status, &answer.body), millis(interval), keep)
}

#[cfg(not(feature = "http"))]
async fn asked_once(_: &str) -> (TrackedStatus, i64, Duration) {
    (TrackedStatus::Active, millis(USUAL_INTERVAL), SILENCE)
}

/// What an answer means. Whatever is not understood counts as active: work that nobody called off is done.
#[cfg(feature = "http")]
fn read(status: u16, body: &str) -> TrackedStatus {
    let word = body.lines().next().unwrap_or_default().replace('"', "");
    match (status, word.trim()) {
        (404, _) => TrackedStatus::Gone,
        (200..=299, "Paused") => TrackedStatus::Paused,
        (200..=299, "Cancelled" | "Canceled" | "Completed" | "Failed" | "Aborted") => TrackedStatus::Over,
        _ => TrackedStatus::Active,
    }
}

#[cfg(feature = "http")]
fn max_age(value: &str) -> Option<Duration> {
    let rest = value.split("max-age=").nth(1)?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().map(Duration::from_secs)
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_doubt_means_active() {
        for (status, body, expected) in [
            (200, "\"Active\"", TrackedStatus::Active),
            (200, "Waiting", TrackedStatus::Active),
            (200, "Paused\r\nmore", TrackedStatus::Paused),
            (200, "\"Cancelled\"", TrackedStatus::Over),
            (200, "Completed", TrackedStatus::Over),
            (200, "Failed", TrackedStatus::Over),
            (404, "", TrackedStatus::Gone),
            (404, "\"Active\"", TrackedStatus::Gone),
            (200, "", TrackedStatus::Active),
            (200, "{\"status\":\"Cancelled\"}", TrackedStatus::Active),
            (301, "Cancelled", TrackedStatus::Active),
            (500, "Cancelled", TrackedStatus::Active),
        ] {
            assert_eq!(read(status, body), expected, "{status} {body}");
        }
        for (value, age) in [("max-age=30", Some(30)), ("private, max-age=7, x", Some(7)), ("no-store", None)]
        {
            assert_eq!(max_age(value), age.map(Duration::from_secs), "{value}");
        }
    }
}
