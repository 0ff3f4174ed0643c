//! Why a command of `cargo xtask` did not succeed, and the exit code that says so.

use std::fmt;
use std::process::ExitCode;

/// The failure of one command.
#[derive(Debug)]
pub(crate) enum TaskError {
    /// The command line was wrong; nothing was done.
    Usage(String),
    /// A check, a tool or a test failed; the text says what to do.
    Failed(String),
    /// A command that was run on behalf of the user ended with this code, which becomes ours.
    Ended {
        /// The exit code.
        code: u8,
        /// Which command it was.
        text: String,
    },
}

impl TaskError {
    /// 2 for wrong usage, the code of a command that was only passed through, 1 for everything else.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Failed(_) => ExitCode::FAILURE,
            Self::Ended { code, .. } => ExitCode::from(*code),
        }
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Failed(text) | Self::Ended { text, .. } => out.write_str(text),
        }
    }
}

/// Refuses arguments where none are left to take.
pub(crate) fn no_arguments(command: &str, arguments: &[String]) -> Result<(), TaskError> {
    match arguments.first() {
        None => Ok(()),
        Some(word) => {
            Err(TaskError::Usage(format!("`{command}` does not take `{word}`; see `cargo xtask help`")))
        }
    }
}

/// Refuses options of a command that takes only names.
pub(crate) fn only_names(command: &str, arguments: &[String]) -> Result<(), TaskError> {
    match arguments.iter().find(|word| word.starts_with('-')) {
        None => Ok(()),
        Some(word) => Err(TaskError::Usage(format!(
            "`{command}` has no option `{word}`; `cargo xtask {command} --help` shows its arguments"
        ))),
    }
}
