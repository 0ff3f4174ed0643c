//! What is asked about the jobs that messages belong to, before they are read and before the jobs made of them run.
//!
//! Answers are kept for as long as whoever gave them allows; somebody who does not answer is not asked again for a
//! while. Nobody waits for more than one such answer: all questions of a batch are asked together.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::message::BrokerMessage;
use crate::profile::{MessageProfile, StatusAnswer, TrackedStatus};

/// For how long an answer holds that does not say so itself.
const USUAL_INTERVAL: Duration = Duration::from_secs(120);

/// For how long an answer holds at most, whatever it says itself.
#[cfg(feature = "http")]
const LONGEST_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// For how long nobody is asked who did not answer.
const SILENCE: Duration = Duration::from_secs(10);

/// Answers that are kept at most; then all are forgotten.
const MOST_KEPT: usize = 10_000;

/// Servers that are told of at most: who sends messages could name any number.
const MOST_UNNAMED: usize = 100;

/// What was answered: known to all consumers of a source, and to the runs of its jobs.
#[derive(Debug, Default)]
pub(super) struct TrackedJobs(Mutex<KnownAnswers>);

/// What was answered, and until when it counts.
#[derive(Debug, Default)]
struct KnownAnswers {
    kept: HashMap<String, KeptAnswer>,
    /// Servers that did not answer, and until when they are left alone.
    silent: HashMap<String, Instant>,
    /// Servers that messages name and settings do not: each is told of once.
    unnamed: BTreeSet<String>,
}

#[derive(Debug, Clone, Copy)]
struct KeptAnswer {
    status: TrackedStatus,
    interval_ms: i64,
    until: Instant,
}

/// An answer as it came, and for how long it may be kept.
struct FreshAnswer {
    status: TrackedStatus,
    interval: Duration,
    keep: Duration,
}

/// This machine's clock: whoever wrote a message compared with its own.
pub(super) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The server of an address: what follows may be secret, and is not shown.
fn server_of(url: &str) -> String {
    let url = url::Url::parse(url).ok();
    let host = url.as_ref().and_then(url::Url::host_str).unwrap_or_default();
    format!("{host}:{}", url.as_ref().and_then(url::Url::port_or_known_default).unwrap_or_default())
}

impl TrackedJobs {
    /// The answers for these messages, in their order; none where there was nothing to ask.
    pub(super) async fn ask(
        &self,
        profile: &MessageProfile,
        messages: &[BrokerMessage],
        at_ms: i64,
    ) -> Vec<Option<StatusAnswer>> {
        let questions = messages.iter().map(|message| profile.question(message, at_ms)).collect();
        self.answers(profile, questions, at_ms).await
    }

    /// The answers to these questions, in their order.
    pub(super) async fn answers(
        &self,
        profile: &MessageProfile,
        questions: Vec<Option<String>>,
        at_ms: i64,
    ) -> Vec<Option<StatusAnswer>> {
        let mut asking = JoinSet::new();
        for url in questions.iter().flatten().collect::<BTreeSet<_>>() {
            if !profile.may_ask(url) {
                self.known().note_unnamed(url);
                continue;
            }
            let is_open = self.known().is_open(url);
            if is_open {
                let url = url.clone();
                asking.spawn(async move { (asked_once(&url).await, url) });
            }
        }
        let mut answers = HashMap::new();
        while let Some(asked) = asking.join_next().await {
            let Ok((answer, url)) = asked else { continue };
            match answer {
                Ok(answer) => {
                    self.known().keep(&url, &answer);
                    answers.insert(url, (answer.status, millis(answer.interval)));
                }
                Err(problem) => {
                    self.known().leave_alone(server_of(&url), &problem);
                }
            }
        }
        let known = self.known();
        let answer = |url: String| {
            let kept = || known.of(&url).map(|kept| (kept.status, kept.interval_ms));
            let found = answers.get(&url).copied().or_else(kept);
            // Whoever cannot tell has called nothing off.
            let (status, interval_ms) = found.unwrap_or((TrackedStatus::Active, millis(USUAL_INTERVAL)));
            StatusAnswer { status, at_ms, interval_ms }
        };
        questions.into_iter().map(|question| question.map(answer)).collect()
    }

    fn known(&self) -> MutexGuard<'_, KnownAnswers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownAnswers {
    fn note_unnamed(&mut self, url: &str) {
        let server = server_of(url);
        if self.unnamed.len() < MOST_UNNAMED && self.unnamed.insert(server.clone()) {
            tracing::warn!(
                server,
                "messages name this server for the status of their jobs and `caf.status_hosts` does not: they count as \
                 active"
            );
        }
    }

    fn of(&self, url: &str) -> Option<KeptAnswer> {
        self.kept.get(url).copied().filter(|kept| kept.until > Instant::now())
    }

    /// Whether there is something to ask, and somebody.
    fn is_open(&self, url: &str) -> bool {
        let is_silent = || self.silent.get(&server_of(url)).is_some_and(|until| *until > Instant::now());
        self.of(url).is_none() && !is_silent()
    }

    fn keep(&mut self, url: &str, answer: &FreshAnswer) {
        if answer.keep.is_zero() {
            return;
        }
        if self.kept.len() >= MOST_KEPT {
            self.kept.clear();
        }
        let (status, interval_ms) = (answer.status, millis(answer.interval));
        let kept = KeptAnswer { status, interval_ms, until: Instant::now() + answer.keep };
        self.kept.insert(url.to_owned(), kept);
    }

    /// Asks a server no more for a while. It is told once, and not for every job that it was asked about.
    fn leave_alone(&mut self, server: String, problem: &str) {
        let now = Instant::now();
        if self.silent.get(&server).is_none_or(|until| *until <= now) {
            tracing::warn!(server, "the status of jobs cannot be asked for, they count as active: {problem}");
        }
        if self.silent.len() >= MOST_KEPT {
            self.silent.clear();
        }
        self.silent.insert(server, now + SILENCE);
    }
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(feature = "http")]
async fn asked_once(url: &str) -> Result<FreshAnswer, String> {
    let answer = crate::http_get::get(url).await?;
    let header =
        |name: &str| answer.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value);
    let interval = header("cache-control").and_then(|value| max_age(value)).unwrap_or(USUAL_INTERVAL);
    let keeps = header("cacheablejobstatus").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let keep = if keeps { interval } else { Duration::ZERO };
    Ok(FreshAnswer { status: read(answer.status, &answer.body), interval, keep })
}

#[cfg(not(feature = "http"))]
async fn asked_once(_: &str) -> Result<FreshAnswer, String> {
    Err("this program was built without HTTP".to_owned())
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
    if digits.is_empty() {
        return None;
    }
    // Digits that are no number here are a long time.
    let secs = digits.parse().unwrap_or(u64::MAX);
    Some(Duration::from_secs(secs).min(LONGEST_INTERVAL))
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_answer_is_left_alone_and_shown_without_secrets() {
        assert_eq!(server_of("http://ann:hunter2@jobs:8080/J1?token=hunter2"), "jobs:8080");
        assert_eq!(server_of("https://jobs/x"), "jobs:443");
        let mut jobs = KnownAnswers::default();
        assert!(jobs.is_open("http://jobs:8080/J1"));
        jobs.leave_alone(server_of("http://jobs:8080/J1"), "no answer in time");
        assert!(!jobs.is_open("http://jobs:8080/J2") && jobs.is_open("http://jobs:8081/J1"));
        let answer =
            FreshAnswer { status: TrackedStatus::Over, interval: USUAL_INTERVAL, keep: USUAL_INTERVAL };
        jobs.keep("http://other/J1", &answer);
        assert!(!jobs.is_open("http://other/J1") && jobs.is_open("http://other/J2"));
        assert_eq!(jobs.of("http://other/J1").map(|kept| kept.status), Some(TrackedStatus::Over));
    }

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
        let most = LONGEST_INTERVAL.as_secs();
        for (value, age) in [
            ("max-age=30", Some(30)),
            ("private, max-age=7, x", Some(7)),
            ("no-store", None),
            ("max-age=never", None),
            ("max-age=18446744073709551615", Some(most)),
            ("max-age=99999999999999999999999", Some(most)),
        ] {
            assert_eq!(max_age(value), age.map(Duration::from_secs), "{value}");
            let interval = max_age(value).unwrap_or(USUAL_INTERVAL);
            let answer = FreshAnswer { status: TrackedStatus::Over, interval, keep: interval };
            KnownAnswers::default().keep("http://jobs/J1", &answer);
        }
    }
}
