//! `backstop work` under test: its lines as it prints them, its signals, and jobs that end when they are let go.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::Program;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Opens a pipe without waiting for somebody at its other end, as Linux writes it.
const O_NONBLOCK: i32 = 0o4000;

/// A supervisor that runs. What is left of it is killed at the end.
pub(crate) struct Supervised {
    child: Child,
    lines: Receiver<Value>,
    /// Every line so far.
    pub(crate) seen: Vec<Value>,
}

impl Supervised {
    /// Starts `backstop work --json` with these arguments.
    pub(crate) fn start(program: &Program, args: &[&str]) -> Self {
        let args = [&["work", "--json"], args].concat();
        let mut command = program.command(&args);
        Self::of(command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().expect("it starts"))
    }

    /// Reads the lines of one that was started otherwise.
    pub(crate) fn of(mut child: Child) -> Self {
        let (to, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"));
                if to.send(value).is_err() {
                    return;
                }
            }
        });
        Self { child, lines, seen: Vec::new() }
    }

    /// The next line of this event; others before it are kept in `seen`.
    pub(crate) fn next(&mut self, event: &str) -> Value {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|problem| panic!("no {event}: {problem} after {:?}", self.seen));
            self.seen.push(line.clone());
            if line["event"] == event {
                return line;
            }
        }
    }

    /// The number of the next process that is started.
    pub(crate) fn started(&mut self) -> i64 {
        self.next("started")["pid"].as_i64().expect("a number")
    }

    /// Its own number.
    pub(crate) fn pid(&self) -> i64 {
        i64::from(self.child.id())
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Waits for its end, and answers its exit code.
    pub(crate) fn exit(&mut self) -> Option<i32> {
        let code = self.child.wait().expect("it ends").code();
        self.seen.extend(self.lines.iter());
        code
    }

    /// Stops it well.
    pub(crate) fn stop(mut self) {
        self.signal("TERM");
        assert_eq!(self.exit(), Some(0), "{:?}", self.seen);
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        // Its processes are asked to end by the kernel then.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal: by the shell's own kill, because a small machine may have no program of that name.
pub(crate) fn signal(pid: i64, name: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status().expect("a shell");
    assert!(sent.success(), "no {name} to {pid}");
}

/// True while a process runs; one that has ended and that nobody has waited for does not.
pub(crate) fn runs(pid: i64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Looks until something holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::yield_now();
    }
}

/// A directory with settings for quick decisions, one run at a time in each process, and jobs of kind `command` that
/// end when the gate is opened.
pub(crate) fn prepared() -> Program {
    let program = Program::new();
    let cat = cat();
    program.write(
        "backstop.toml",
        &format!(
            "[workers]\npoll = '50ms'\nscale_up_after = '300ms'\nscale_down_after = '500ms'\n\
             [queues.default]\nconcurrency = 1\n\
             [handlers.command]\nallow = [{{ path = '{}', args = 'any' }}]\n",
            cat.display()
        ),
    );
    for name in ["gate", "boot"] {
        let made = Command::new("mkfifo").arg(program.path(name)).status().expect("mkfifo");
        assert!(made.success());
    }
    program.run(&["migrate"]).exits(0);
    program
}

fn cat() -> PathBuf {
    std::path::Path::new("/bin/cat").canonicalize().expect("a program")
}

/// A job that runs until the gate is opened.
pub(crate) fn hold(program: &Program) -> String {
    let gate = program.path("gate");
    let payload = serde_json::json!({ "argv": [cat(), gate] });
    program.enqueue(&["command", &payload.to_string()])
}

/// Lets go of all jobs that run, which are so many.
pub(crate) fn let_go(program: &Program, running: u64) {
    until("so many run", || {
        let queues = program.run(&["queue", "list", "--json"]).exits(0).json();
        queues["items"][0]["running"].as_u64() == Some(running)
    });
    // A program that was just started may not have opened it yet.
    until("all of them have ended", || {
        open(program, "gate");
        let queues = program.run(&["queue", "list", "--json"]).exits(0).json();
        queues["items"][0]["running"].as_u64() == Some(0)
    });
}

/// Lets go of all who read a pipe now; false when there was nobody.
pub(crate) fn open(program: &Program, name: &str) -> bool {
    OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(program.path(name)).is_ok()
}

/// The names of live workers.
pub(crate) fn workers(program: &Program) -> Vec<String> {
    let list = program.run(&["worker", "list", "--json"]).exits(0).json();
    let live = list["items"].as_array().expect("a list").iter().filter(|worker| worker["live"] == true);
    live.map(|worker| worker["name"].as_str().expect("a name").to_owned()).collect()
}

/// Looks until this process is a worker.
pub(crate) fn works(program: &Program, pid: i64) {
    until("it is a worker", || workers(program).contains(&format!("pid-{pid}")));
}

/// A program of the user's own that ends as this shell script says.
pub(crate) fn script(program: &Program, name: &str, text: &str) -> String {
    // A new file takes the place of the old one, which a shell may still be reading.
    program.write("new", &format!("#!/bin/sh\n{text}\n"));
    let new = program.path("new");
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).expect("its own file");
    std::fs::rename(new, program.path(name)).expect("the same folder");
    format!("./{name}")
}

/// A worker of the user's own.
pub(crate) fn worker(program: &Program) -> String {
    script(program, "my-worker", &format!("exec {} up --no-api", env!("CARGO_BIN_EXE_backstop")))
}
