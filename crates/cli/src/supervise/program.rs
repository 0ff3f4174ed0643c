//! What is started as a worker: a program of the user's own, or this one with its built-in kinds.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};

use crate::app::App;
use crate::output::clean;
use crate::problem::Problem;

/// A program and its arguments, with what it finds in its environment.
#[derive(Debug)]
pub(crate) struct WorkerProgram {
    words: Vec<OsString>,
    /// Variables that say where the jobs are; those without a value are taken out.
    variables: [(&'static str, Option<OsString>); 3],
    /// True when stdout is for what this process says.
    keeps_stdout: bool,
}

impl WorkerProgram {
    /// The words behind `--`; without any, this program with its built-in kinds.
    pub(crate) fn new(words: Vec<OsString>, app: &App) -> Result<Self, Problem> {
        let settings = &app.settings;
        if settings.remote.is_none() && settings.store.starts_with("memory:") {
            let message = "worker processes need a store that they share, and each has a memory of its own";
            return Err(Problem::usage("store_not_shared", message)
                .hint("name a file or a database with --store URL"));
        }
        let words = if words.is_empty() { built_in(app)? } else { words };
        let store = settings.remote.is_none().then(|| settings.store.clone().into());
        Ok(Self {
            words,
            variables: [
                ("BACKSTOP_STORE", store),
                ("BACKSTOP_SERVER", settings.remote.clone().map(Into::into)),
                ("BACKSTOP_CONFIG", settings.file.clone().map(Into::into)),
            ],
            keeps_stdout: app.out.json,
        })
    }

    /// Its name, as a person may see it.
    pub(crate) fn name(&self) -> String {
        let name = self.words.first().map(|name| name.to_string_lossy()).unwrap_or_default();
        clean(&name).into_owned()
    }

    /// A command that starts it once.
    pub(crate) fn command(&self) -> io::Result<Command> {
        let mut words = self.words.iter();
        let mut command = Command::new(words.next().ok_or(io::ErrorKind::InvalidInput)?);
        // What it complains of is passed on, and the last of it kept (C4).
        command.args(words).stdin(Stdio::null()).stderr(Stdio::piped());
        for (name, value) in &self.variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if self.keeps_stdout {
            command.stdout(Stdio::from(io::stderr().as_fd().try_clone_to_owned()?));
        }
        Ok(command)
    }
}

/// This program as it was when it began: a new version in its place is started by the next roll.
fn built_in(app: &App) -> Result<Vec<OsString>, Problem> {
    app.no_server()?;
    let own = std::env::current_exe()
        .map_err(|error| Problem::failed("program", format!("cannot find this program itself: {error}")))?;
    let mut words: Vec<OsString> = vec![own.into(), "up".into(), "--no-api".into()];
    words.extend(app.out.json.then(|| "--json".into()));
    words.extend(app.verbose.then(|| "--verbose".into()));
    Ok(words)
}
