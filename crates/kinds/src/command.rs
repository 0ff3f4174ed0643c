//! The kind `command`: runs an allowed program with arguments, never a shell line (E4), and leaves no process behind
//! (E3).
//!
//! - `settings`: what is allowed. `program`: which programs, with which arguments. `danger`: those that need a second
//!   look. `account`: who they run as. `admit`: from a payload to what is started, or a refusal.
//! - `process`: the start. `tree`: all processes of a run, and their end. `output`: what they print.
//! - `ending`: what an exit means.

mod account;
mod admit;
mod danger;
mod ending;
mod output;
mod process;
mod program;
mod settings;

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use backstop::{BoxError, Job, JobContext, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

pub use self::account::hide_process;
pub use self::program::{Arguments, Patterns, Program};
pub use self::settings::CommandSettings;
pub use backstop_process::ProcessLimits;

use self::admit::{AdmittedCommand, admit};
use self::output::Log;
use self::process::Process;
use crate::kinds::Kinds;
use crate::refusal::refused;

/// What the killing of a tree may take after its grace period: the slot must be free within a second of that (E3).
const KILLING: Duration = Duration::from_millis(900);

/// A job that runs a program. `C` is the worker's context.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound = "", deny_unknown_fields)]
pub struct Command<C = Kinds> {
    /// The program's path and its arguments, as they are: there is no shell.
    pub argv: Vec<String>,
    /// JSON that the program reads from its standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<Box<RawValue>>,
    /// The same under another name; `stdin` wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Box<RawValue>>,
    /// Variables for the program, of those that payloads may set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The directory to run in, within those that payloads may name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    /// How long it may run, in milliseconds; at most what the worker allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(skip)]
    context: PhantomData<fn() -> C>,
}

impl<C> Command<C> {
    /// A job that runs `argv`.
    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            stdin: None,
            input: None,
            env: BTreeMap::new(),
            dir: None,
            timeout_ms: None,
            context: PhantomData,
        }
    }

    /// The same with JSON to read.
    ///
    /// # Errors
    /// When `value` is no JSON.
    pub fn stdin(mut self, value: &impl Serialize) -> Result<Self, serde_json::Error> {
        self.stdin = Some(serde_json::value::to_raw_value(value)?);
        Ok(self)
    }

    /// The same with a variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// The same in another directory.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<String>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// The same with less time.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout_ms = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        self
    }
}

impl<C: AsRef<Kinds> + Send + Sync + 'static> Job for Command<C> {
    const KIND: &'static str = "command";
    type Context = C;
    type Output = Result<Option<Value>, BoxError>;

    async fn run(self, cx: JobContext<C>) -> Result<Option<Value>, BoxError> {
        admit::shape(&self.argv, &self.env, self.dir.as_deref(), self.timeout_ms).map_err(refused)?;
        let settings = &cx.app().as_ref().command;
        let asked = self.timeout_ms.map_or(settings.timeout, Duration::from_millis);
        let mut admitted = admit(&self, settings).map_err(refused)?;
        admitted.env.push(("BACKSTOP_JOB".into(), cx.effect_key().into()));
        cx.tidies_up_within(settings.grace + KILLING);
        let told = cx.clone();
        let log: Log = Arc::new(move |line| told.log(line));
        let run = Run { admitted, limit: asked.min(settings.timeout), log, stop: cx.cancellation() };
        run.finish(settings).await
    }
}

/// One run of a program, whatever the worker's context is.
struct Run {
    admitted: AdmittedCommand,
    limit: Duration,
    log: Log,
    stop: CancellationToken,
}

impl Run {
    async fn finish(self, settings: &CommandSettings) -> Result<Option<Value>, BoxError> {
        let name = self.admitted.name.clone();
        let mut process = Process::start(self.admitted, settings, &self.log)
            .await
            .map_err(|problem| ending::not_started(&name, &problem))?;
        let left = tokio::select! {
            biased;
            () = process.exited() => None,
            () = self.stop.cancelled() => Some(Outcome::cancel("the run was told to stop")),
            () = tokio::time::sleep(self.limit) => Some(Outcome::timeout(self.limit)),
        };
        if let Some(outcome) = left {
            process.stop(settings.grace).await;
            return Err(outcome.into());
        }
        let ended = process.leave().await.map_err(|problem| ending::not_started(&name, &problem))?;
        ending::of(&name, &ended)
    }
}
