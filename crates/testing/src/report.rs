//! What one run came to, in one piece.

use std::fmt;
use std::time::Duration;

use backstop::{Cause, JobId, State, TerminalReason, Timestamp};
use backstop_core::failure::Check;
use backstop_core::job::{Attempt, JobView};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// One run as a test looks at it. Its `Display` tells the whole story, for messages.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RunReport {
    /// The job.
    pub job: JobId,
    /// Its kind.
    pub kind: String,
    /// Which run of the job this was, from 1.
    pub run: u32,
    /// The cause the run ended by (F2).
    pub cause: Cause,
    /// Where the job is now.
    pub state: State,
    /// Why it is a dead letter, if it is one.
    pub reason: Option<TerminalReason>,
    /// What the handler returned; for a reported failure, the value it reported.
    pub result: Option<Value>,
    /// The error's text, as it was stored: sanitized and cut to its limit (F11).
    pub error: Option<String>,
    /// The error's type.
    pub error_type: Option<String>,
    /// A warning on the run, such as a result that was too large to keep (L6).
    pub warning: Option<String>,
    /// What the handler logged.
    pub output: String,
    /// How long until the job runs again, if it does.
    pub due_in: Option<Duration>,
    /// The checks that decided what becomes of the job, in order; none for a success.
    pub checks: Vec<Check>,
}

impl RunReport {
    /// The report of `run`, the latest one of `job`.
    pub(crate) fn of(job: &JobView, run: &Attempt, now: Timestamp) -> Self {
        let (spec, record, failure) = (&job.job.spec, &job.record, run.failure.as_ref());
        Self {
            job: spec.id,
            kind: spec.kind.to_string(),
            run: run.number,
            cause: run.cause,
            state: job.state(),
            reason: record.reason,
            result: run.result.as_deref().and_then(|text| serde_json::from_str(text).ok()),
            error: failure.map(|failure| failure.message.clone()),
            error_type: failure.map(|failure| failure.error_type.clone()),
            warning: run.warning.clone(),
            output: run.output.clone().unwrap_or_default(),
            due_in: (record.state == State::Pending).then(|| now.until(record.run_at)),
            checks: run.decision.as_ref().map(|decision| decision.trace.clone()).unwrap_or_default(),
        }
    }

    /// Fails the test unless the run ended well.
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// # #[job]
    /// # async fn greet(name: String) -> JobResult { let _ = name; Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// backstop_testing::run_job((), Greet { name: "ada".into() }).await.assert_succeeded();
    /// # }
    /// ```
    ///
    /// # Panics
    /// When it ended otherwise, with all that is known of it.
    #[track_caller]
    pub fn assert_succeeded(&self) -> &Self {
        self.assert_cause(Cause::Succeeded)
    }

    /// Fails the test unless the run ended by `cause`.
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// use backstop::{Cause, State};
    ///
    /// #[job]
    /// async fn refund(cents: i64) -> JobResult {
    ///     if cents < 0 {
    ///         Err(Outcome::permanent("a refund is never negative"))?;
    ///     }
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let run = backstop_testing::run_job((), Refund { cents: -5 }).await;
    /// run.assert_cause(Cause::Permanent);
    /// assert_eq!((run.state, run.error.as_deref()), (State::Failed, Some("a refund is never negative")));
    /// # }
    /// ```
    ///
    /// # Panics
    /// When it ended otherwise, with all that is known of it.
    #[track_caller]
    pub fn assert_cause(&self, cause: Cause) -> &Self {
        assert!(self.cause == cause, "expected a run that ended as {cause}, but\n{self}");
        self
    }

    /// The result, decoded.
    ///
    /// # Panics
    /// When there is none, or it has another shape.
    #[track_caller]
    #[must_use]
    pub fn result_as<T: DeserializeOwned>(&self) -> T {
        let Some(result) = &self.result else { panic!("expected a result, but there is none:\n{self}") };
        match serde_json::from_value(result.clone()) {
            Ok(value) => value,
            Err(problem) => {
                panic!("the result does not decode as {}: {problem}\n{self}", std::any::type_name::<T>())
            }
        }
    }
}

impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {} of `{}` ended as {}; the job is {}", self.run, self.kind, self.cause, self.state)?;
        if let Some(reason) = self.reason {
            write!(f, " ({reason})")?;
        }
        if let Some(due_in) = self.due_in {
            write!(f, " and runs again in {due_in:?}")?;
        }
        if let Some(error) = &self.error {
            write!(f, "\n  error: {}: {error}", self.error_type.as_deref().unwrap_or("Error"))?;
        }
        if let Some(result) = &self.result {
            write!(f, "\n  result: {result}")?;
        }
        if let Some(warning) = &self.warning {
            write!(f, "\n  warning: {warning}")?;
        }
        for check in &self.checks {
            write!(f, "\n  check {}: {}", check.check, check.answer)?;
        }
        for line in self.output.lines() {
            write!(f, "\n  logged: {line}")?;
        }
        Ok(())
    }
}
