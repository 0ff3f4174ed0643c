//! What a handler can answer besides Ok and a plain error (F16), and how any answer becomes a run's end.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use backstop_core::failure::{CallResult, Cause, Failure};
use backstop_core::job::SignalWait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::marks::{self, Mark, MarkKind};

/// Any error, as handlers return it.
///
/// ```
/// use backstop::BoxError;
///
/// let error: BoxError = "the till is jammed".into();
/// assert_eq!(error.to_string(), "the till is jammed");
/// ```
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// What most handlers return: `?` on any error means "try again by the job's backoff".
///
/// ```
/// use backstop::JobResult;
///
/// fn parse(text: &str) -> JobResult<u32> {
///     Ok(text.trim().parse()?)
/// }
/// # assert!(parse(" 7").is_ok() && parse("x").is_err());
/// ```
pub type JobResult<T = ()> = Result<T, BoxError>;

/// An answer that is more than "done" or "try again". It is an error type, so it travels by `?` and `Err(..)`.
///
/// ```
/// use std::time::Duration;
/// use backstop::{JobResult, Outcome};
///
/// fn check(stock: u32) -> JobResult {
///     if stock == 0 {
///         Err(Outcome::snooze(Duration::from_secs(60)))?;
///     }
///     Ok(())
/// }
/// # assert!(check(1).is_ok() && check(0).is_err());
/// ```
#[derive(Debug)]
pub struct Outcome {
    answer: Answer,
    error_type: Option<Cow<'static, str>>,
    call_result: Option<CallResult>,
}

#[derive(Debug)]
enum Answer {
    Snooze(Duration),
    RetryIn(Duration, BoxError),
    Permanent(String),
    Invalid(String),
    Transient { dependency: String, source: Option<BoxError> },
    RateLimited { dependency: String, delay: Duration },
    Timeout(Duration),
    Crash(String),
    Cancel(String),
    Failure(Value),
}

impl Outcome {
    const fn new(answer: Answer) -> Self {
        Self { answer, error_type: None, call_result: None }
    }

    /// The same with a type of error of its own, which groups failures and which rules can name (E10, F18).
    #[must_use]
    pub fn of_type(mut self, error_type: impl Into<Cow<'static, str>>) -> Self {
        self.error_type = Some(error_type.into());
        self
    }

    /// The same, counted so by the circuit of the dependency that was called (H4), whatever it is otherwise.
    #[must_use]
    pub const fn counted_as(mut self, result: CallResult) -> Self {
        self.call_result = Some(result);
        self
    }

    /// Run again after `delay`; costs no attempt.
    #[must_use]
    pub const fn snooze(delay: Duration) -> Self {
        Self::new(Answer::Snooze(delay))
    }

    /// A failure that says itself when to try again, such as one with a Retry-After (F9). Costs an attempt.
    pub fn retry_in(delay: Duration, error: impl Into<BoxError>) -> Self {
        Self::new(Answer::RetryIn(delay, error.into()))
    }

    /// No retry can mend this: a dead letter at once, reason `non_retryable` (F6).
    pub fn permanent(reason: impl Into<String>) -> Self {
        Self::new(Answer::Permanent(reason.into()))
    }

    /// The input can never be handled: a dead letter at once, reason `invalid` (E11).
    pub fn invalid(reason: impl Into<String>) -> Self {
        Self::new(Answer::Invalid(reason.into()))
    }

    /// A dependency is away for the moment: the job goes back, and nobody is to blame.
    pub fn transient(dependency: impl Into<String>) -> Self {
        Self::new(Answer::Transient { dependency: dependency.into(), source: None })
    }

    /// The same, with the error that showed it.
    pub fn transient_from(dependency: impl Into<String>, error: impl Into<BoxError>) -> Self {
        Self::new(Answer::Transient { dependency: dependency.into(), source: Some(error.into()) })
    }

    /// A dependency asks to wait and says how long: run again after `delay`; costs no attempt.
    pub fn rate_limited(dependency: impl Into<String>, delay: Duration) -> Self {
        Self::new(Answer::RateLimited { dependency: dependency.into(), delay })
    }

    /// The work took longer than `limit` and was stopped by the handler itself (F10). Costs an attempt.
    #[must_use]
    pub const fn timeout(limit: Duration) -> Self {
        Self::new(Answer::Timeout(limit))
    }

    /// A process that worked for this run died. Costs one of the job's crashes, as the worker's own death would (C1).
    pub fn crash(reason: impl Into<String>) -> Self {
        Self::new(Answer::Crash(reason.into()))
    }

    /// Call the job off from inside.
    pub fn cancel(reason: impl Into<String>) -> Self {
        Self::new(Answer::Cancel(reason.into()))
    }

    /// A failure that is the job's result: kept, never retried, no incident, reason `reported_failure`.
    pub fn failure(value: impl Serialize) -> Self {
        let value = serde_json::to_value(value).unwrap_or_else(|problem| {
            Value::String(format!("a failure value that is not valid JSON: {problem}"))
        });
        Self::new(Answer::Failure(value))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.answer {
            Answer::Snooze(delay) => write!(f, "snoozed for {delay:?}"),
            Answer::RetryIn(_, error) => error.fmt(f),
            Answer::Permanent(reason)
            | Answer::Invalid(reason)
            | Answer::Crash(reason)
            | Answer::Cancel(reason) => f.write_str(reason),
            Answer::RateLimited { dependency, delay } => {
                write!(f, "dependency `{dependency}` asks to wait for {delay:?}")
            }
            Answer::Timeout(limit) => write!(f, "the run took longer than {limit:?}"),
            Answer::Transient { dependency, source: None } => {
                write!(f, "dependency `{dependency}` is unavailable")
            }
            Answer::Transient { dependency, source: Some(error) } => {
                write!(f, "dependency `{dependency}` is unavailable: {error}")
            }
            Answer::Failure(value) => write!(f, "reported failure: {value}"),
        }
    }
}

impl std::error::Error for Outcome {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.answer {
            Answer::RetryIn(_, error) | Answer::Transient { source: Some(error), .. } => Some(&**error),
            _ => None,
        }
    }
}

/// What a handler's return value comes to.
#[derive(Debug)]
pub struct Reply(pub(crate) Result<Option<Value>, Box<Failed>>);

/// A run that did not end well, with the value of a reported failure.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Failed {
    pub(crate) failure: Failure,
    pub(crate) value: Option<Value>,
    /// A result that was lost although the run went well (L6).
    pub(crate) unserializable: Option<String>,
    /// What the run waits for: then it has not failed (W10).
    #[serde(default)]
    pub(crate) wait: Option<SignalWait>,
    /// The index of the step that it came from, of a run that has called steps (W7).
    #[serde(default)]
    pub(crate) step: Option<u32>,
}

impl Failed {
    /// A failure without a value.
    pub(crate) fn plain(failure: Failure) -> Box<Self> {
        Box::new(Self { failure, value: None, unserializable: None, wait: None, step: None })
    }
}

impl Failed {
    /// A run that waits for a signal.
    pub(crate) fn waiting(wait: SignalWait) -> Box<Self> {
        let SignalWait { signal, until, .. } = &wait;
        let message = format!("waits for signal `{signal}` until {until}");
        let mut failed = Self::plain(Failure::new(Cause::Waiting, "Waiting", message));
        failed.wait = Some(wait);
        failed
    }
}

/// What a handler may return: a `Result` of anything that serializes and any error.
pub trait IntoReply: Send {
    /// What a run that went well leaves as its result.
    type Value;

    /// The reply it comes to.
    fn into_reply(self) -> Reply;
}

impl<T: Serialize + Send, E: Into<BoxError> + Send> IntoReply for Result<T, E> {
    type Value = T;

    fn into_reply(self) -> Reply {
        match self {
            Ok(value) => Reply::of_value(&value),
            Err(error) => Reply(Err(classify(&*error.into(), std::any::type_name::<E>()))),
        }
    }
}

impl IntoReply for () {
    type Value = ();

    fn into_reply(self) -> Reply {
        Reply(Ok(None))
    }
}

impl Reply {
    pub(crate) fn of_value(value: &impl Serialize) -> Self {
        match serde_json::to_value(value) {
            Ok(Value::Null) => Self(Ok(None)),
            Ok(value) => Self(Ok(Some(value))),
            // The work is done; only its result cannot be kept. The caller turns this into a warning (L6).
            Err(problem) => {
                let mut lost = Failed::plain(Failure::new(Cause::Succeeded, "", ""));
                lost.unserializable =
                    Some(format!("the result could not be stored: it is not valid JSON ({problem})"));
                Self(Err(lost))
            }
        }
    }
}

/// Reads an error: an [`Outcome`] or a mark anywhere in its source chain decides, otherwise it is a plain error.
pub(crate) fn classify(
    error: &(dyn std::error::Error + Send + Sync + 'static),
    declared: &str,
) -> Box<Failed> {
    let error: &(dyn std::error::Error + 'static) = error;
    let mut failed = by_first_mark(error, declared);
    failed.failure.call_result = call_result(error);
    failed
}

fn by_first_mark(error: &(dyn std::error::Error + 'static), declared: &str) -> Box<Failed> {
    let message = chain_text(error);
    let mut link = Some(error);
    while let Some(current) = link {
        if let Some(outcome) = current.downcast_ref::<Outcome>() {
            return of_outcome(outcome, message);
        }
        if let Some((type_name, mark)) = marks::find(current) {
            return Failed::plain(of_mark(type_name, mark, message));
        }
        link = marks::behind(current).or_else(|| current.source());
    }
    Failed::plain(Failure::new(Cause::Error, error_type(error, declared), message))
}

/// What a chain of errors says of the dependency that was called: the first that says something, unless one of them is
/// to be ignored, which wins (H4).
fn call_result(error: &(dyn std::error::Error + 'static)) -> Option<CallResult> {
    let (mut link, mut first) = (Some(error), None);
    while let Some(current) = link {
        let said = match current.downcast_ref::<Outcome>() {
            Some(outcome) => outcome.call_result,
            None => marks::call_result(current),
        };
        if said == Some(CallResult::Ignored) {
            return said;
        }
        first = first.or(said);
        link = marks::behind(current).or_else(|| current.source());
    }
    first
}

fn of_outcome(outcome: &Outcome, message: String) -> Box<Failed> {
    let mut failed = of_answer(&outcome.answer, message);
    if let Some(error_type) = &outcome.error_type {
        failed.failure.error_type = error_type.clone().into_owned();
    }
    failed
}

fn of_answer(answer: &Answer, message: String) -> Box<Failed> {
    let plain = Failed::plain;
    match answer {
        Answer::Snooze(delay) => plain(Failure::new(Cause::Snoozed, "Snoozed", message).retry_in(*delay)),
        Answer::RetryIn(delay, error) => {
            // The inner error may carry a mark of its own; only the wait is ours.
            let mut inner = classify(&**error, "dyn Error");
            inner.failure.retry_in = Some(*delay);
            inner
        }
        Answer::Permanent(reason) => {
            plain(Failure::new(Cause::Permanent, "Permanent", message).because(reason))
        }
        Answer::Invalid(reason) => plain(Failure::new(Cause::Invalid, "Invalid", message).because(reason)),
        Answer::Transient { dependency, .. } => {
            let mut failure = Failure::new(Cause::Rejected, "Transient", message);
            failure.dependency = Some(dependency.clone());
            plain(failure)
        }
        Answer::RateLimited { dependency, delay } => {
            let mut failure = Failure::new(Cause::RateLimited, "RateLimited", message).retry_in(*delay);
            failure.dependency = Some(dependency.clone());
            plain(failure)
        }
        Answer::Timeout(_) => plain(Failure::new(Cause::Timeout, "Timeout", message)),
        Answer::Crash(_) => plain(Failure::new(Cause::Crash, "Crash", message)),
        Answer::Cancel(reason) => plain(Failure::new(Cause::Canceled, "Canceled", reason.clone())),
        Answer::Failure(value) => {
            let mut failure = Failure::new(Cause::Permanent, "ReportedFailure", message)
                .because("the handler reported a failure as its result");
            failure.reported = true;
            let mut failed = plain(failure);
            failed.value = Some(value.clone());
            failed
        }
    }
}

fn of_mark(type_name: &'static str, mark: Mark, message: String) -> Failure {
    let type_name =
        if mark.variant.is_empty() { type_name.to_owned() } else { format!("{type_name}::{}", mark.variant) };
    match mark.kind {
        MarkKind::Plain => Failure::new(Cause::Error, type_name, message),
        MarkKind::Permanent { reason } => Failure::new(Cause::Permanent, type_name, message).because(reason),
        MarkKind::Invalid { reason } => Failure::new(Cause::Invalid, type_name, message).because(reason),
        MarkKind::Transient { dependency } => {
            let mut failure = Failure::new(Cause::Rejected, type_name, message);
            failure.dependency = Some(dependency.to_owned());
            failure
        }
        MarkKind::RetryIn { delay } => Failure::new(Cause::Error, type_name, message).retry_in(delay),
    }
}

/// The error's text followed by those of its sources, as far as they add something.
fn chain_text(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut link = error.source();
    while let Some(source) = link {
        let further = source.to_string();
        if !text.contains(&further) {
            text.push_str(": ");
            text.push_str(&further);
        }
        link = source.source();
    }
    text
}

/// The short name of the declared error type; a boxed error hides its own, so its `Debug` head stands in.
fn error_type(error: &(dyn std::error::Error + 'static), declared: &str) -> String {
    if !declared.contains("dyn ") {
        return short(declared).to_owned();
    }
    let debug = format!("{error:?}");
    let head: String =
        debug.chars().take_while(|c| c.is_alphanumeric() || *c == '_' || *c == ':').take(80).collect();
    if head.is_empty() || !head.starts_with(|c: char| c.is_ascii_uppercase()) {
        "Error".to_owned()
    } else {
        head
    }
}

fn short(path: &str) -> &str {
    let plain = path.split('<').next().unwrap_or(path);
    plain.rsplit("::").next().unwrap_or(plain)
}
