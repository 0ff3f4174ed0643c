//! The program under test: the real binary in a directory of its own, and a store with something in it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use backstop::prelude::*;
use backstop::{JobId, Outcome};
use serde_json::Value;

/// A directory for one test, removed at its end.
pub(crate) struct Program {
    dir: PathBuf,
}

/// What one run of the program left.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// Its one JSON document.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|problem| panic!("{problem}: {}\n{}", self.stdout, self.stderr))
    }

    /// The error it left as JSON.
    pub(crate) fn error(&self) -> Value {
        let document: Value =
            serde_json::from_str(&self.stderr).unwrap_or_else(|p| panic!("{p}: {}", self.stderr));
        document["error"].clone()
    }

    /// The same, after checking its exit code.
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// The same, after checking that stdout holds these words.
    pub(crate) fn says(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.stdout.contains(word), "no `{word}` in: {}\n{}", self.stdout, self.stderr);
        }
        self
    }

    /// The same, after checking that stderr holds these words.
    pub(crate) fn tells(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.stderr.contains(word), "no `{word}` in: {}", self.stderr);
        }
        self
    }
}

impl Program {
    pub(crate) fn new() -> Self {
        let dir = std::env::temp_dir().join(format!("backstop-cli-{}", backstop::job_id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("a file");
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_backstop"));
        command.args(args).current_dir(&self.dir);
        for name in ["BACKSTOP_STORE", "BACKSTOP_SERVER", "BACKSTOP_TOKEN", "BACKSTOP_CONFIG", "BACKSTOP_LOG"]
        {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.finish(self.command(args).stdin(Stdio::null()))
    }

    pub(crate) fn run_with(&self, args: &[&str], env: &[(&str, &str)]) -> Ran {
        self.finish(self.command(args).envs(env.iter().copied()).stdin(Stdio::null()))
    }

    pub(crate) fn run_reading(&self, args: &[&str], input: &str) -> Ran {
        let mut child = self.spawn(self.command(args).stdin(Stdio::piped()));
        child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads");
        wait(child)
    }

    pub(crate) fn spawn(&self, command: &mut Command) -> Child {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
    }

    fn finish(&self, command: &mut Command) -> Ran {
        wait(self.spawn(command))
    }

    /// The id that `enqueue` prints.
    pub(crate) fn enqueue(&self, args: &[&str]) -> String {
        let args: Vec<&str> = std::iter::once("enqueue").chain(args.iter().copied()).collect();
        self.run(&args).exits(0).stdout.trim().to_owned()
    }

    /// The URL of the store that commands use by default here.
    pub(crate) fn store(&self) -> String {
        format!("sqlite:{}", self.path("backstop.db").display())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Waits for the end of a child.
pub(crate) fn wait(child: Child) -> Ran {
    let output = child.wait_with_output().expect("it ends");
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// Text that would take a terminal over: colours, a cleared screen, a new title, a bell, C1 codes, reordering.
pub(crate) const HOSTILE: &str =
    "boom \u{1b}[2J\u{1b}]0;owned\u{7} \u{9b}31m \u{7f}\u{8} a\r\nb \u{202e}txt.exe \u{85}";

/// A job that ends as its payload says.
#[derive(Serialize, Deserialize)]
pub(crate) struct Play {
    pub(crate) ends: String,
}

impl Job for Play {
    const KIND: &'static str = "play";
    type Context = ();
    type Output = JobResult;
    async fn run(self, cx: JobContext<()>) -> JobResult {
        cx.log("the first line");
        cx.log(HOSTILE);
        match self.ends.as_str() {
            "well" => Ok(()),
            "rejects" => Ok(cx.reject("an item", "it cannot be handled").await?),
            "permanent" => Err(Outcome::permanent("the card is stolen"))?,
            "hostile" => Err(Outcome::permanent(HOSTILE))?,
            other => Err(format!("it ended as {other}").into()),
        }
    }
}

/// Runs a job of kind `play` for each ending, and answers their ids.
pub(crate) fn played(program: &Program, endings: &[&str]) -> Vec<JobId> {
    on_engine(program, async |engine| {
        let mut ids = Vec::new();
        for ends in endings {
            let job = Play { ends: (*ends).to_owned() };
            ids.push(engine.enqueue(job).max_retries(0).tag("played").submit().await.expect("stored").id);
        }
        let worker = engine
            .worker(())
            .register::<Play>()
            .queue("default", 1)
            .name("tester")
            .inline()
            .expect("a worker");
        worker.drain(100).await.expect("all run");
        ids
    })
}

/// Does something with an engine on the program's store, in this process.
pub(crate) fn on_engine<T>(program: &Program, work: impl AsyncFnOnce(Backstop) -> T) -> T {
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    runtime.block_on(async {
        let engine = Backstop::open(&program.store()).await.expect("a store");
        work(engine).await
    })
}

/// Opens the store's file with plain SQLite.
pub(crate) fn sqlite(path: &Path) -> backstop::sqlite::rusqlite::Connection {
    backstop::sqlite::rusqlite::Connection::open(path).expect("a file")
}
