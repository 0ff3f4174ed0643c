//! Why a command did not do what it was asked: one sentence, a way out, and the exit code that scripts switch on.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};

use backstop::{OperateError, Refusal, SubmitError};
use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode};
use serde_json::{Value, json};

use crate::output::{CliOutput, clean};

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// What was asked is done.
    Done = 0,
    /// It failed.
    Failed = 1,
    /// It was asked in a wrong way.
    Usage = 2,
    /// A guard refused it.
    Refused = 3,
    /// A job that was waited for was canceled.
    Canceled = 4,
    /// What was waited for did not happen in time.
    TimedOut = 5,
}

/// A command that ended badly.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) exit: Exit,
    code: Cow<'static, str>,
    message: String,
    hint: Option<String>,
    details: Value,
    /// The file that is at fault, with the places in it; boxed, because few problems have one.
    file: Option<Box<(NamedSource<String>, Vec<LabeledSpan>)>>,
    /// True when there is nobody left to tell.
    silent: bool,
}

impl Problem {
    fn new(exit: Exit, code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self {
            exit,
            code: code.into(),
            message: message.into(),
            hint: None,
            details: Value::Null,
            file: None,
            silent: false,
        }
    }

    /// Something failed that may well work another time.
    pub(crate) fn failed(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, code, message)
    }

    /// The command was given something that it can never work with.
    pub(crate) fn usage(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, code, message)
    }

    /// A guard stands in the way; nothing was changed.
    pub(crate) fn refused(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Exit::Refused, code, message)
    }

    /// What a server said.
    pub(crate) fn told(exit: Exit, code: String, message: String, hint: Option<String>) -> Self {
        let mut problem = Self::new(exit, code, message);
        problem.hint = hint;
        problem
    }

    /// The stable word that machines switch on.
    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    /// The facts for machines.
    pub(crate) const fn facts(&self) -> &Value {
        &self.details
    }

    /// The same with another exit code.
    pub(crate) fn exiting(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// The same with a way out.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same with facts for machines.
    pub(crate) fn details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }

    /// The same with the file at fault and the places in it.
    pub(crate) fn in_file(mut self, name: &str, text: String, labels: Vec<LabeledSpan>) -> Self {
        self.file = Some(Box::new((NamedSource::new(name, text), labels)));
        self
    }

    /// A write to stdout that failed: a reader that has gone away has seen enough.
    pub(crate) fn from_stdout(error: io::Error) -> Self {
        let mut problem = Self::failed("stdout", format!("cannot write to stdout: {error}"));
        if error.kind() == io::ErrorKind::BrokenPipe {
            problem.silent = true;
            problem.exit = Exit::Done;
        }
        problem
    }

    /// True when it carries this code.
    pub(crate) fn is(&self, code: &str) -> bool {
        self.code == code
    }

    /// As machines read it.
    pub(crate) fn to_json(&self) -> Value {
        let (code, message, hint, details) = (&self.code, &self.message, &self.hint, &self.details);
        json!({ "error": { "code": code, "message": message, "hint": hint, "details": details } })
    }

    /// Tells whoever asked, on stderr.
    pub(crate) fn tell(&self, output: &CliOutput) {
        if self.silent {
            return;
        }
        let text = if output.json { self.to_json().to_string() } else { self.drawn(output) };
        let _ = writeln!(io::stderr().lock(), "{}", text.trim_end());
    }

    fn drawn(&self, output: &CliOutput) -> String {
        let theme = if output.live { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let handler = GraphicalReportHandler::new_themed(theme).with_links(false).with_wrap_lines(false);
        let mut text = String::new();
        match handler.render_report(&mut text, self) {
            Ok(()) => text,
            Err(fmt::Error) => format!("error: {self}"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&clean(&self.message))
    }
}

impl std::error::Error for Problem {}

impl Diagnostic for Problem {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(&self.code))
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let hint = self.hint.as_deref()?;
        let lines: Vec<_> = hint.lines().map(clean).collect();
        Some(Box::new(lines.join("\n")))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.file.as_ref().map(|file| &file.0 as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.file.as_ref().map(|file| Box::new(file.1.iter().cloned()) as Box<_>)
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::new(Exit::Refused, refusal.code(), refusal.to_string())
            .hint(refusal.hint())
            .details(refusal.details())
    }
}

impl From<backstop_store::Error> for Problem {
    fn from(error: backstop_store::Error) -> Self {
        Self::failed(error.code(), error.to_string())
    }
}

impl From<backstop::Error> for Problem {
    fn from(error: backstop::Error) -> Self {
        match error {
            backstop::Error::Store(error) => error.into(),
            error @ backstop::Error::UnknownStore { .. } => Self::usage("unknown_store", error.to_string()),
            error => Self::failed("engine", error.to_string()),
        }
    }
}

impl From<SubmitError> for Problem {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Refused(refusal) => refusal.into(),
            SubmitError::Store(error) => error.into(),
            error => Self::failed("submit", error.to_string()),
        }
    }
}

impl From<OperateError> for Problem {
    fn from(error: OperateError) -> Self {
        match error {
            OperateError::Refused(refusal) => refusal.into(),
            OperateError::Store(error) => error.into(),
            error => Self::failed("operate", error.to_string()),
        }
    }
}
