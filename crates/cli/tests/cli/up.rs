//! `up`: the demo, and a worker that stops when it is told to.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command};

use crate::program::Program;
use serde_json::Value;

type Ending = (&'static str, &'static str, Option<&'static str>, Option<&'static str>, u64);

/// What each job shows, where it must be in the end, the cause of its latest run, why it is dead, and its runs.
const ENDINGS: [Ending; 13] = [
    ("success", "succeeded", Some("succeeded"), None, 1),
    ("retry, then success", "succeeded", Some("succeeded"), None, 3),
    ("attempts exhausted", "failed", Some("error"), Some("retry_exhausted"), 3),
    ("permanent error", "failed", Some("permanent"), Some("non_retryable"), 1),
    ("invalid input", "failed", Some("invalid"), Some("invalid"), 1),
    ("timeout", "failed", Some("timeout"), Some("retry_exhausted"), 1),
    ("panic", "failed", Some("panic"), Some("retry_exhausted"), 2),
    ("snooze, then success", "succeeded", Some("succeeded"), None, 3),
    ("dependency away, then success", "succeeded", Some("succeeded"), None, 2),
    ("canceled while running", "canceled", Some("canceled"), None, 1),
    ("reported failure", "failed", Some("permanent"), Some("reported_failure"), 1),
    ("expired before it could start", "failed", None, Some("expired"), 0),
    ("waits for code", "waiting", None, None, 0),
];

#[test]
fn the_demo_shows_machines_every_way_a_job_can_end() {
    // F2, F3, F13
    let program = Program::new();
    let demo = program.run(&["up", "--demo", "--once", "--json"]).exits(0).json();
    assert_eq!(demo["as_expected"], true);
    let items = demo["items"].as_array().expect("items");
    assert_eq!(items.len(), ENDINGS.len());
    for (item, (shows, status, cause, reason, runs)) in items.iter().zip(ENDINGS) {
        assert_eq!((item["shows"].as_str(), item["status"].as_str()), (Some(shows), Some(status)));
        assert_eq!((item["cause"].as_str(), item["terminal_reason"].as_str()), (cause, reason), "{shows}");
        assert_eq!(item["runs"].as_u64(), Some(runs), "{shows}");
        let next: Vec<&str> = item["next"].as_str().expect("a command").split(' ').skip(1).collect();
        program.run(&next).exits(0);
    }
    let tag = demo["demo"].as_str().expect("a tag");
    let jobs = program.run(&["job", "list", "--tag", tag, "--json"]).exits(0).json();
    assert_eq!(jobs["items"].as_array().map(Vec::len), Some(ENDINGS.len()));
    secrets_are_gone(&program, items);
}

/// F11: the password in the error of one job is stored nowhere.
fn secrets_are_gone(program: &Program, items: &[Value]) {
    let exhausted = items[2]["id"].as_str().expect("an id");
    program
        .run(&["job", "show", exhausted])
        .exits(0)
        .says(&["postgres://[redacted]@db.example.com:5432/stock"]);
    for name in ["backstop.db", "backstop.db-wal"] {
        let bytes = std::fs::read(program.path(name)).unwrap_or_default();
        assert!(!bytes.windows(7).any(|window| window == b"hunter2"), "{name} holds the password");
    }
}

#[test]
fn the_demo_tells_people_what_happens_and_sums_it_up() {
    let program = Program::new();
    let ran = program.run(&["up", "--demo", "--once"]).exits(0);
    for (shows, status, ..) in ENDINGS {
        let row = ran.stdout.lines().find(|line| line.trim_start().starts_with(shows)).expect(shows);
        assert!(row.contains(status) && row.contains("backstop "), "{row}");
    }
    ran.tells(&[
        "run 1 started",
        "not charged; again in",
        "the demo canceled it",
        "dead, invalid",
        "backstop job list --tag demo-",
    ]);
}

fn serving(child: &mut Child) -> BufReader<std::process::ChildStderr> {
    let mut lines = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("serving: press Ctrl-C to stop") {
        line.clear();
        assert!(lines.read_line(&mut line).expect("a line") > 0, "it ended before it served");
    }
    lines
}

fn stopped_by(signal: &str, args: &[&str]) {
    let program = Program::new();
    let mut child = program.spawn(&mut program.command(args));
    let lines = serving(&mut child);
    // The shell's own kill: a small machine may have no program of that name.
    let line = format!("kill {signal} {}", child.id());
    let sent = Command::new("sh").args(["-c", &line]).status().expect("a shell");
    assert!(sent.success());
    let status = child.wait().expect("it ends");
    drop(lines);
    assert_eq!(status.code(), Some(0), "{args:?} by {signal}");
    program.run(&["worker", "list"]).exits(0).says(&["no workers"]);
}

#[test]
fn a_signal_stops_it_and_leaves_no_worker_behind() {
    // L18
    stopped_by("-TERM", &["up", "--listen", "127.0.0.1:0"]);
    stopped_by("-INT", &["up", "--listen", "127.0.0.1:0"]);
    stopped_by("-TERM", &["up", "--no-worker", "--listen", "127.0.0.1:0"]);
}

#[test]
fn without_kinds_it_says_so_and_jobs_wait_for_code() {
    // H10
    let program = Program::new();
    let id = program.enqueue(&["mail"]);
    let mut child = program.spawn(&mut program.command(&["up", "--listen", "127.0.0.1:0"]));
    let lines = serving(&mut child);
    program.run(&["job", "explain", &id]).exits(0).says(&["waiting on queue `default`", "it waits for code"]);
    program.run(&["queue", "list"]).exits(0).says(&["default"]);
    child.kill().expect("it was running");
    child.wait().expect("it ends");
    drop(lines);
}

/// Looks until the job has ended, and answers how.
fn ended(program: &Program, id: &str) -> Value {
    for _ in 0..500 {
        let job = program.run(&["job", "show", id, "--json"]).exits(0).json();
        if matches!(job["status"].as_str(), Some("succeeded" | "failed")) {
            return job;
        }
    }
    panic!("job {id} never ended");
}

#[test]
fn the_built_in_kinds_run_as_far_as_the_file_opens_them() {
    // E4, E5, E6
    let program = Program::new();
    let id = std::path::Path::new("/usr/bin/id").canonicalize().expect("a program");
    let allow = format!("allow = [{{ path = '{}', args = 'any' }}]", id.display());
    program
        .write("backstop.toml", &format!("[handlers.command]\n{allow}\n[handlers.event]\nallow = ['a.*']\n"));
    let runs = |path: &str| format!("{{\"argv\": [\"{path}\", \"-u\"]}}");
    let listed = program.enqueue(&["command", &runs(&id.display().to_string())]);
    let other = program.enqueue(&["command", &runs("/bin/sh")]);
    let inside = program.enqueue(&["http", r#"{"method": "GET", "url": "http://127.0.0.1/"}"#]);
    let event = program.enqueue(&["event", r#"{"name": "a.b", "data": 1}"#]);
    let closed = program.enqueue(&["event", r#"{"name": "b", "data": 1}"#]);
    let mut child = program.spawn(&mut program.command(&["up"]));
    let lines = serving(&mut child);
    assert_eq!(ended(&program, &listed)["status"], "succeeded");
    assert_eq!(ended(&program, &event)["status"], "succeeded");
    for refused in [other, inside, closed] {
        let job = ended(&program, &refused);
        assert_eq!(job["terminal_reason"], "non_retryable", "{job}");
    }
    child.kill().expect("it was running");
    child.wait().expect("it ends");
    drop(lines);
}

#[test]
fn a_red_dependency_holds_back_its_kind_and_is_shown() {
    // H1, H2
    let program = Program::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("its address");
    let answer = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_up = answer.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = std::io::Read::read(&mut stream, &mut [0; 1_024]);
            let status = if is_up.load(std::sync::atomic::Ordering::SeqCst) { 200 } else { 503 };
            let _ = std::io::Write::write_all(&mut stream, format!("HTTP/1.1 {status} X\r\n\r\n").as_bytes());
        }
    });
    program.write(
        "backstop.toml",
        &format!(
            "[handlers.event]\nallow = ['a.*']\n[kinds.event]\ndependency = 'bank'\n\
             [dependencies.bank]\ncheck = 'http://{at}/health'\nevery = '100ms'\n"
        ),
    );
    let waits = program.enqueue(&["event", r#"{"name": "a.b", "data": 1}"#]);
    let mut child = program.spawn(&mut program.command(&["up", "--listen", "127.0.0.1:0"]));
    let lines = serving(&mut child);
    let shows = |words: &[&str]| {
        for _ in 0..500 {
            let shown = program.run(&["worker", "list"]).exits(0).stdout;
            if words.iter().all(|word| shown.contains(word)) {
                return;
            }
        }
        panic!("worker list never showed {words:?}");
    };
    shows(&["bank", "red", "it answered 503", "event"]);
    program.run(&["job", "explain", &waits]).exits(0).says(&["it waits for its dependency `bank`"]);
    answer.store(true, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(ended(&program, &waits)["status"], "succeeded");
    shows(&["bank", "green", "passed"]);
    child.kill().expect("it was running");
    child.wait().expect("it ends");
    drop(lines);
}

#[test]
fn a_dependency_that_nothing_needs_is_refused() {
    // H1
    let program = Program::new();
    program.write("backstop.toml", "[dependencies.bank]\ncheck = 'tcp://bank:1'\n");
    program.run(&["up", "--no-worker"]).exits(2).tells(&["no kind needs dependency `bank`"]);
    program.write("backstop.toml", "[kinds.pay]\ndependency = 'bank'\n[dependencies.bank]\ncheck = 'bank'\n");
    program.run(&["up", "--no-worker"]).exits(2).tells(&["a check is http://HOST/PATH or tcp://HOST:PORT"]);
}
