//! What the end of a program means for its job (E4): the table of exit codes, after the conventions of sysexits.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use backstop::{BoxError, Outcome};
use serde_json::Value;

use super::output::CapturedOutput;

/// A program that has ended, with what it printed.
#[derive(Debug)]
pub(super) struct EndedProgram {
    pub(super) status: ExitStatus,
    pub(super) stdout: CapturedOutput,
    pub(super) stderr: CapturedOutput,
}

/// A failure without a mark: it is tried again by the job's backoff.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct CommandFailed(String);

/// The result of a program that succeeded, or what its end means.
pub(super) fn of(name: &str, ended: &EndedProgram) -> Result<Option<Value>, BoxError> {
    if let Some(signal) = ended.status.signal() {
        let told = with_words(format!("`{name}` was killed by signal {signal}"), ended);
        return Err(Outcome::crash(told).into());
    }
    let code = ended.status.code().unwrap_or(-1);
    let told = || with_words(format!("`{name}` ended with code {code}"), ended);
    match code {
        0 => Ok(result(&ended.stdout)),
        64 | 65 => Err(Outcome::invalid(told()).into()),
        69 | 75 => Err(Outcome::transient_from(name, CommandFailed(told())).into()),
        77 | 78 => Err(Outcome::permanent(told()).into()),
        _ => Err(CommandFailed(told()).into()),
    }
}

/// A program that could not be started, or could not be waited for.
pub(super) fn not_started(name: &str, problem: &io::Error) -> BoxError {
    let told = format!("`{name}` could not be run: {problem}");
    match problem.kind() {
        io::ErrorKind::ArgumentListTooLong => Outcome::invalid(told).into(),
        _ => CommandFailed(told).into(),
    }
}

fn with_words(mut told: String, ended: &EndedProgram) -> String {
    if let Some(line) = ended.stderr.last_line() {
        told.push_str(": ");
        told.push_str(&line);
    }
    told
}

/// What was printed, when it is JSON and all of it was kept.
fn result(stdout: &CapturedOutput) -> Option<Value> {
    if stdout.dropped > 0 { None } else { serde_json::from_slice(&stdout.kept).ok() }
}
