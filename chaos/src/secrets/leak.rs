//! Jobs that give secrets away in every way a job can: errors, panics, reasons, logs, notes, hooks, payloads.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use backstop::prelude::*;
use backstop::{Hook, HookFuture, RunEnd, RunInfo};
use serde::ser::Error as _;
use serde_json::json;

use super::PlantedSecret;

/// How a secret gets into what an engine keeps and tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeakPath {
    /// The text of a plain error.
    Text,
    /// What a boxed error prints as its type.
    Type,
    /// The text of a panic.
    Panic,
    /// The text of an error's source.
    Chain,
    /// The reason of a permanent failure.
    Permanent,
    /// The reason why the input can never be handled.
    Invalid,
    /// An error that says when to try again.
    RetryIn,
    /// The name of a dependency that is unavailable, and the error that showed it.
    Transient,
    /// The reason of a handler that calls its job off.
    CancelInside,
    /// The reason of a person who calls a job off.
    CancelOutside,
    /// A line of the handler's log.
    Log,
    /// A note on how far the run is.
    Progress,
    /// Why the result could not be written.
    Unserializable,
    /// The error of a hook before the run.
    BeforeHook,
    /// The error of a hook after the run.
    AfterHook,
    /// A payload that does not fit, quoted by the decoder.
    Decode,
    /// A payload that is refused in words of its own.
    Validate,
    /// A failure that is the job's result.
    Reported,
}

/// The ways that leave payload and result clean.
pub const CLEAN: &[LeakPath] = &[
    LeakPath::Text,
    LeakPath::Type,
    LeakPath::Panic,
    LeakPath::Chain,
    LeakPath::Permanent,
    LeakPath::Invalid,
    LeakPath::RetryIn,
    LeakPath::Transient,
    LeakPath::CancelInside,
    LeakPath::CancelOutside,
    LeakPath::Log,
    LeakPath::Progress,
    LeakPath::Unserializable,
    LeakPath::BeforeHook,
    LeakPath::AfterHook,
];

/// The ways in which payload or result hold the secret, as they must.
pub const IN_PAYLOAD: &[LeakPath] = &[LeakPath::Decode, LeakPath::Validate, LeakPath::Reported];

/// A job that gives a secret away; which one it knows from the application, not from its payload.
#[derive(Debug, Serialize, Deserialize)]
pub struct LeakJob {
    /// Which secret.
    pub number: usize,
    /// How.
    pub way: LeakPath,
}

impl Job for LeakJob {
    const KIND: &'static str = "spill";
    type Context = Vec<PlantedSecret>;
    type Output = JobResult<LeakResult>;

    async fn run(self, cx: JobContext<Vec<PlantedSecret>>) -> JobResult<LeakResult> {
        let text = cx.app()[self.number].text.clone();
        match self.way {
            LeakPath::Text => Err(text.into()),
            LeakPath::Type => {
                Err(Telling { summary: "it failed".to_owned(), shows: text, source: None }.into())
            }
            // As `panic!` does, without its lines on the terminal of the test.
            LeakPath::Panic => std::panic::resume_unwind(Box::new(text)),
            LeakPath::Chain => {
                let inner = Telling { summary: text, shows: "Inner".to_owned(), source: None };
                let summary = "the order could not be sent".to_owned();
                Err(Telling { summary, shows: "Outer".to_owned(), source: Some(Box::new(inner)) }.into())
            }
            LeakPath::Permanent => Err(Outcome::permanent(text).into()),
            LeakPath::Invalid => Err(Outcome::invalid(text).into()),
            LeakPath::RetryIn => Err(Outcome::retry_in(Duration::ZERO, text).into()),
            LeakPath::Transient if cx.run_number() == 1 => {
                Err(Outcome::transient_from(format!("bank {text}"), text).into())
            }
            LeakPath::CancelInside => Err(Outcome::cancel(text).into()),
            LeakPath::Log => {
                cx.log(&text);
                Ok(LeakResult(None))
            }
            LeakPath::Progress => {
                cx.progress(50, text).await?;
                Ok(LeakResult(None))
            }
            LeakPath::Unserializable => Ok(LeakResult(Some(text))),
            _ => Ok(LeakResult(None)),
        }
    }
}

/// A result that cannot be written when it holds a text, and says the text then.
#[derive(Debug)]
pub struct LeakResult(Option<String>);

impl Serialize for LeakResult {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(text) => Err(S::Error::custom(text)),
            None => serializer.serialize_unit(),
        }
    }
}

/// An error that chooses what it prints as `Display` and as `Debug`.
struct Telling {
    summary: String,
    shows: String,
    source: Option<Box<Telling>>,
}

impl fmt::Display for Telling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary)
    }
}

impl fmt::Debug for Telling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shows)
    }
}

impl std::error::Error for Telling {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// A job whose payload never fits: the decoder quotes it.
#[derive(Debug, Serialize, Deserialize)]
pub struct StrictJob {
    /// Never a number in these payloads.
    pub count: u64,
}

impl Job for StrictJob {
    const KIND: &'static str = "strict";
    type Context = Vec<PlantedSecret>;
    type Output = JobResult;

    async fn run(self, _: JobContext<Vec<PlantedSecret>>) -> JobResult {
        Ok(())
    }
}

/// A job that is told a text, and refuses it or answers it.
#[derive(Debug, Serialize, Deserialize)]
pub struct EchoJob {
    /// The text.
    pub text: String,
    /// False when it is to be refused.
    pub is_valid: bool,
}

impl Job for EchoJob {
    const KIND: &'static str = "told";
    type Context = Vec<PlantedSecret>;
    type Output = JobResult;

    async fn run(self, _: JobContext<Vec<PlantedSecret>>) -> JobResult {
        Err(Outcome::failure(json!({ "said": self.text })).into())
    }

    fn validate(&self) -> Result<(), String> {
        if self.is_valid { Ok(()) } else { Err(format!("this is not wanted: {}", self.text)) }
    }
}

/// Fails before or after the runs whose way it is.
#[derive(Debug)]
pub struct LeakHook(pub Arc<Vec<PlantedSecret>>);

impl LeakHook {
    fn fail(&self, run: &RunInfo, way: LeakPath) -> HookFuture<'static> {
        let leak: Option<LeakJob> = serde_json::from_str(&run.job.spec.payload).ok();
        let text = leak.filter(|leak| leak.way == way).map(|leak| self.0[leak.number].text.clone());
        Box::pin(std::future::ready(text.map_or(Ok(()), |text| Err(text.into()))))
    }
}

impl Hook for LeakHook {
    fn before_run<'a>(&'a self, run: &'a RunInfo) -> HookFuture<'a> {
        self.fail(run, LeakPath::BeforeHook)
    }

    fn after_run<'a>(&'a self, run: &'a RunInfo, _: &'a RunEnd) -> HookFuture<'a> {
        self.fail(run, LeakPath::AfterHook)
    }
}
