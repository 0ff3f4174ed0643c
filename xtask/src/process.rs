//! Starts other programs from the root of the repository.
//!
//! Owns how a command line is shown and run: output flows live, standard input is closed, and what people read is
//! exactly what they can type. Must not know which steps exist.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use crate::error::TaskError;

/// A command line with the environment variables that it adds.
#[derive(Clone, Debug)]
pub(crate) struct CommandLine {
    program: String,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
}

impl CommandLine {
    /// A command line from its words: `CommandLine::new("git ls-files")`.
    pub(crate) fn new(words: &str) -> Self {
        let mut words = words.split_whitespace().map(str::to_owned);
        Self { program: words.next().unwrap_or_default(), arguments: words.collect(), variables: Vec::new() }
    }

    /// A command line from words that may contain anything.
    pub(crate) fn of(words: &[String]) -> Self {
        let (program, arguments) = words
            .split_first()
            .map_or((String::new(), Vec::new()), |(first, rest)| (first.clone(), rest.to_vec()));
        Self { program, arguments, variables: Vec::new() }
    }

    /// The same command line behind another one that runs it, such as `cargo xtask servers --`.
    pub(crate) fn behind(&self, words: &str) -> Self {
        let mut line = Self::new(words);
        line.arguments.push(self.program.clone());
        line.arguments.extend_from_slice(&self.arguments);
        line.variables.clone_from(&self.variables);
        line
    }

    /// Adds arguments as they are, whatever they contain.
    pub(crate) fn with(mut self, arguments: &[String]) -> Self {
        self.arguments.extend_from_slice(arguments);
        self
    }

    /// Sets an environment variable for the program.
    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets several environment variables for the program.
    pub(crate) fn variables(self, all: &[(&str, String)]) -> Self {
        all.iter().fold(self, |line, (name, value)| line.variable(name, value))
    }

    /// Runs the program as the user's own shell would: in the folder and with the standard input of this process, and
    /// its exit code becomes ours.
    pub(crate) fn run_here(&self) -> Result<(), TaskError> {
        let here = std::env::current_dir().unwrap_or_else(|_| repository_root());
        let mut command = self.command();
        let status = command.current_dir(here).stdin(Stdio::inherit()).status();
        let status = status.map_err(|error| self.not_started(&error))?;
        if status.success() {
            return Ok(());
        }
        let text = format!("`{}` ended with {status}", self.program);
        Err(TaskError::Ended { code: exit_code(status), text })
    }

    /// Runs the program with live output; a non-zero exit is a failure that names the command line.
    pub(crate) fn run(&self) -> Result<(), TaskError> {
        let status = self.command().status().map_err(|error| self.not_started(&error))?;
        if status.success() {
            Ok(())
        } else {
            Err(TaskError::Failed(format!("`{self}` ended with {status}")))
        }
    }

    /// Runs the program and returns what it wrote to standard output; its standard error flows live.
    pub(crate) fn output(&self) -> Result<String, TaskError> {
        let output =
            self.command().stderr(Stdio::inherit()).output().map_err(|error| self.not_started(&error))?;
        if !output.status.success() {
            return Err(TaskError::Failed(format!("`{self}` ended with {}", output.status)));
        }
        String::from_utf8(output.stdout)
            .map_err(|_| TaskError::Failed(format!("`{self}` wrote text that is not UTF-8")))
    }

    /// Whether the program starts and succeeds; its output is discarded.
    pub(crate) fn succeeds(&self) -> bool {
        let status = self.command().stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }

    fn command(&self) -> Command {
        // Cargo names itself in CARGO: the same toolchain must run the nested calls.
        let cargo = std::env::var("CARGO").ok().filter(|_| self.program == "cargo");
        let mut command = Command::new(cargo.as_deref().unwrap_or(&self.program));
        command.args(&self.arguments).current_dir(repository_root()).stdin(Stdio::null());
        // What `cargo run` says of this package would have build scripts run again that look at it, and all that stands
        // on them built again: here, and once more by whoever calls Cargo by hand.
        let is_ours = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        for name in names.filter(|name| is_ours(name)) {
            command.env_remove(name);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    fn not_started(&self, error: &std::io::Error) -> TaskError {
        TaskError::Failed(format!("cannot start `{}`: {error}; is it installed and in PATH?", self.program))
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.variables {
            write!(out, "{name}={} ", quoted(value))?;
        }
        out.write_str(&self.program)?;
        self.arguments.iter().try_for_each(|argument| write!(out, " {}", quoted(argument)))
    }
}

/// The exit code as a shell reports it: 128 and the signal's number for a program that a signal ended.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Quotes a word for a POSIX shell where that is needed.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The folder that cargo builds into.
pub(crate) fn build_folder() -> PathBuf {
    let build = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    repository_root().join(build)
}

/// The folder that holds the workspace's Cargo.toml.
pub(crate) fn repository_root() -> PathBuf {
    let manifest =
        std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    Path::new(&manifest).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_shown_as_it_can_be_typed() {
        let line =
            CommandLine::new("cargo test --").with(&["it's two words".to_owned()]).variable("FLAGS", "-D x");
        assert_eq!(line.to_string(), r"FLAGS='-D x' cargo test -- 'it'\''s two words'");
    }

    #[test]
    fn a_command_line_behind_another_keeps_its_variables() {
        let line = CommandLine::new("cargo test").variable("LONG", "1").behind("cargo xtask servers --");
        assert_eq!(line.to_string(), "LONG=1 cargo xtask servers -- cargo test");
    }

    #[test]
    fn the_exit_code_of_a_passed_command_is_kept() {
        for (script, expected) in [("exit 3", 3), ("kill -9 $$", 137)] {
            let failure = CommandLine::new("sh -c").with(&[script.to_owned()]).run_here().unwrap_err();
            assert!(matches!(failure, TaskError::Ended { code, .. } if code == expected), "{failure:?}");
        }
    }

    #[test]
    fn a_failing_program_is_named() {
        let error = CommandLine::new("sh -c").with(&["exit 3".to_owned()]).run().unwrap_err().to_string();
        assert!(error.contains("sh -c 'exit 3'") && error.contains('3'), "{error}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = CommandLine::new("no-such-program-here").run().unwrap_err().to_string();
        assert!(error.contains("cannot start `no-such-program-here`"), "{error}");
    }
}
