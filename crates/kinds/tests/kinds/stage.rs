//! A worker with the built-in kinds, scripts for it to run, and what became of a job.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use backstop::query::PageRequest;
use backstop::query::{Attempt, JobDetail};
use backstop::{Backstop, Cause, InlineWorker, JobId, WorkerBuilder};
use backstop_kinds::{CommandSettings, HttpSettings, Kinds, Program};
use backstop_testbed::Folder;
use serde_json::Value;

/// An engine in memory and the settings of its workers.
pub(crate) struct Stage {
    pub(crate) engine: Backstop,
    inline: InlineWorker,
}

impl Stage {
    pub(crate) async fn new(kinds: Kinds) -> Self {
        let engine = engine().await;
        let inline = worker(&engine, kinds).inline().expect("it has a queue");
        Self { engine, inline }
    }

    pub(crate) async fn commands(command: CommandSettings) -> Self {
        Self::new(Kinds { command, ..Kinds::default() }).await
    }

    pub(crate) async fn requests(http: HttpSettings) -> Self {
        Self::new(Kinds { http, ..Kinds::default() }).await
    }

    /// Runs one job once, and answers what its run left.
    pub(crate) async fn run(&self, job: impl backstop::Job) -> Ran {
        let payload = serde_json::to_string(&job).expect("a payload");
        let kind = kind_of(&job);
        self.run_raw(kind, payload).await
    }

    /// The same with a payload as it is.
    pub(crate) async fn run_raw(&self, kind: &str, payload: String) -> Ran {
        let job = self.engine.enqueue_raw(kind, payload).max_crashes(0).max_retries(0);
        let id = job.submit().await.expect("admitted").id;
        let ran = self.inline.run_next().await.expect("memory is there").expect("it is due");
        assert_eq!(ran.job, id, "only this job waits");
        ran_of(&self.engine, id).await
    }
}

const fn kind_of<J: backstop::Job>(_: &J) -> &'static str {
    J::KIND
}

/// The latest run of a job, and where it left the job.
pub(crate) struct Ran {
    pub(crate) run: Attempt,
    pub(crate) detail: JobDetail,
}

impl Ran {
    /// What went wrong, in words.
    pub(crate) fn message(&self) -> &str {
        self.run.failure.as_ref().map_or("", |failure| &failure.message)
    }

    /// The type of what went wrong.
    pub(crate) fn error_type(&self) -> &str {
        self.run.failure.as_ref().map_or("", |failure| &failure.error_type)
    }

    pub(crate) fn result(&self) -> Value {
        self.run.result.as_deref().map_or(Value::Null, |text| serde_json::from_str(text).expect("JSON"))
    }

    pub(crate) fn output(&self) -> &str {
        self.run.output.as_deref().unwrap_or_default()
    }

    pub(crate) fn cause(&self) -> Cause {
        self.run.cause
    }
}

pub(crate) async fn engine() -> Backstop {
    Backstop::open("memory:").await.expect("memory is there")
}

pub(crate) fn worker(engine: &Backstop, kinds: Kinds) -> WorkerBuilder<Kinds> {
    backstop_kinds::register(engine.worker(kinds)).queue("default", 8)
}

pub(crate) async fn ran_of(engine: &Backstop, job: JobId) -> Ran {
    let mut runs = engine.attempts(job, PageRequest::first(1)).await.expect("memory is there").items;
    let detail = engine.job(job).await.expect("memory is there").expect("the job is there");
    Ran { run: runs.pop().expect("a run"), detail }
}

/// A folder with scripts in it, gone with this value.
pub(crate) struct Scripts(Folder);

impl Scripts {
    pub(crate) fn new() -> Self {
        Self(Folder::new("kinds").expect("a folder"))
    }

    /// A path in the folder, without detours.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().expect("a folder").join(name)
    }

    /// Writes a program for the shell that stands at `/bin/sh`; payloads never name that.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
        path.to_str().expect("a plain path").to_owned()
    }

    /// The same, and settings that allow it.
    pub(crate) fn allowed(&self, name: &str, text: &str) -> (String, CommandSettings) {
        let path = self.write(name, text);
        let settings = CommandSettings::default().allow(Program::new(&path).expect("a program"));
        (path, settings)
    }
}
