//! Runs every example as a user does, and holds it to what it says.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use backstop_examples::Scratch;

/// Far more than the few seconds that an example takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program that cargo has built beside this test.
fn program(name: &str) -> PathBuf {
    let this = std::env::current_exe().expect("a running program has a path");
    let built = this.parent().and_then(Path::parent).expect("tests are in target/<profile>/deps");
    let program = built.join("examples").join(name).with_extension(std::env::consts::EXE_EXTENSION);
    assert!(
        program.exists(),
        "{} was not built: run `cargo test -p backstop-examples`, which builds examples too",
        program.display()
    );
    program
}

/// Runs an example in a directory of its own and answers with what it printed. It must succeed, and soon.
fn run(name: &str) -> String {
    let directory = Scratch::new(&format!("test-{name}")).expect("a temporary directory");
    let mut child = Command::new(program(name))
        .current_dir(directory.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the example starts");
    let mut printed = child.stdout.take().expect("its output was asked for");
    let (ended, end) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = printed.read_to_string(&mut text);
        // The test may have given up already.
        let _ = ended.send(read.map(|_| text));
    });
    let Ok(text) = end.recv_timeout(PATIENCE) else {
        child.kill().expect("a child can be killed");
        panic!("the example {name} did not end within {PATIENCE:?}");
    };
    let status = child.wait().expect("it has ended");
    let text = text.expect("it prints text");
    assert!(status.success(), "the example {name} ended with {status} after saying:\n{text}");
    text
}

/// Asserts that the example prints these lines, in this order, among others.
fn says(name: &str, lines: &[&str]) {
    let text = run(name);
    let mut rest = text.lines();
    for line in lines {
        assert!(rest.any(|printed| printed == *line), "`{line}` is missing or out of order in:\n{text}");
    }
}

#[test]
fn hello() {
    says("hello", &["hello world"]);
}

#[test]
fn the_smallest_program_has_fifteen_lines_or_fewer() {
    let source = include_str!("../examples/hello.rs");
    assert!(source.lines().count() <= 15, "{} lines", source.lines().count());
}

#[test]
fn the_readme_shows_the_smallest_program_as_it_is() {
    let (readme, source) = (include_str!("../../README.md"), include_str!("../examples/hello.rs"));
    assert!(readme.contains(&format!("```rust\n{source}```")), "copy examples/hello.rs into README.md again");
}

/// It runs until it is told to stop, as it does in production.
#[test]
fn service() {
    // L18
    let directory = Scratch::new("test-service").expect("a temporary directory");
    let mut child = Command::new(program("service"))
        .current_dir(directory.path())
        .env_remove("STORE")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the example starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output was asked for")).lines();
    assert_eq!(lines.next().expect("it prints").expect("text"), "order 17: booked 4200 cents");
    let id = child.id().to_string();
    let told = Command::new("kill").args(["-TERM", &id]).status().expect("there is a kill");
    assert!(told.success(), "it can be told to stop");
    let rest: Vec<String> = lines.map(|line| line.expect("text")).collect();
    assert_eq!(rest, ["stopped, 0 runs handed back"]);
    assert!(child.wait().expect("it has ended").success(), "it succeeds");
}

#[test]
fn the_readme_shows_the_service_as_it_is() {
    let (readme, source) = (include_str!("../../README.md"), include_str!("../examples/service.rs"));
    let shown = source.split("\n/// Stands for the client").next().expect("the part that is about jobs");
    assert!(
        readme.contains(&format!("```rust\n{shown}```")),
        "copy examples/service.rs into README.md again"
    );
}

/// It is built without serde among its dependencies: the prelude is enough.
#[test]
fn typed() {
    // F6
    says("typed", &["the shop writes to ann@example.com and 1 more", "dead letters: 1"]);
}

#[test]
fn schedules() {
    // W11
    says(
        "schedules",
        &[
            "swept for `often`",
            "swept for `often`",
            "`nightly` fires by 30 2 * * MON-FRI Europe/Berlin, the next 5 times are known",
            "`often` fires by every 1 s, the next 5 times are known",
            "`nightly` was run by hand: a job of kind report",
        ],
    );
}

#[test]
fn chain() {
    // W1, W4
    says(
        "chain",
        &[
            "reserve order 7",
            "write to the customer",
            "failed: 1 dead, 1 canceled",
            "charge 990 cents for place 42",
            "ship: 990 cents are paid",
            "succeeded",
        ],
    );
}

#[test]
fn ratchet() {
    // F6, L8, L10, L11, W1, W3, W11
    says(
        "ratchet",
        &[
            "request-1 again: the same job, true",
            "payment-7 again: refused, true",
            "payment 7: paused, then succeeded",
            "write to the customer",
            "payment 13: failed after 1 run, non_retryable",
            "receipt over 1300 cents",
            "payment 13: succeeded",
            "batch: succeeded, 3 of 3",
            "the report of the night",
        ],
    );
}

#[test]
fn graph() {
    // W2, W6
    says(
        "graph",
        &[
            "print it on the fast machine",
            "bind it",
            "pack it, bound: true",
            "send parcel 7",
            "the branch `fast` was taken",
            "succeeded: 4 steps ran, 1 did not",
        ],
    );
}

#[test]
fn batch() {
    // W3
    says("batch", &["succeeded: 19 of 20 resized", "the album is published; left out: 1"]);
}

#[test]
fn approval() {
    // W10
    says(
        "approval",
        &[
            "compute what order 7 is worth",
            "waiting: it waits for the signal `refund-7`",
            "delivered to 1",
            "delivered to 1",
            "990 cents paid back, approved by ann",
        ],
    );
}

#[test]
fn rejects() {
    // W9
    says(
        "rejects",
        &[
            "the sum is 45",
            r#""n/a": invalid digit found in string"#,
            r#""8 or 9": invalid digit found in string"#,
        ],
    );
}

#[test]
fn bulk() {
    // W12
    says(
        "bulk",
        &["8 rows: refused", "4 rows: refused", "2 rows: refused", "1 rows: refused", "7 of 8 stored"],
    );
}

#[test]
fn steps() {
    // W7, W8
    says(
        "steps",
        &[
            "run 1: receipt `paid order-7`",
            "run 2: receipt `paid order-7`",
            "run 3: receipt `paid order-7`",
            "3 runs, steps [(\"charge\", 1), (\"mail\", 3)]",
        ],
    );
}

#[test]
fn retry() {
    // F4, F5, F8
    says(
        "retry",
        &[
            "attempt 1 at index.html",
            "  index.html answered 503: tried again in 100ms",
            "attempt 2 at index.html",
            "  index.html answered 503: tried again in 200ms",
            "attempt 3 at index.html",
            "  done",
            "attempt 3 at lost.html",
            "  given up after 3 attempts: retry_exhausted",
            "the dead letter keeps its error: lost.html answered 503",
        ],
    );
}

#[test]
fn permanent() {
    // F3, F6
    says(
        "permanent",
        &[
            "to nobody: failed after 1 of 6 runs",
            "  check permanent: yes: a bad address cannot be fixed by retrying",
            "to ada: pending, 0 attempts used",
        ],
    );
}

#[test]
fn idempotency() {
    // L10
    says(
        "idempotency",
        &[
            "64 clients submitted order 17: 1 job was stored, and all know its id",
            "charging order 17",
            "a late client submits again: deduplicated is true, the job is succeeded",
            "the customer was charged 1 time",
        ],
    );
}

#[test]
fn business_key() {
    // L11
    says(
        "business_key",
        &[
            "skip: the job that is there will do, deduplicated is true",
            "replace: the first job is canceled",
            "indexing corner, because all has changed",
            "after the end: the key is free, a third job is pending",
        ],
    );
}

#[test]
fn children() {
    // L23
    says(
        "children",
        &[
            "order 7, run 1",
            "order 7, run 2",
            "order 7, run 3",
            "  packing the parcel of order 7",
            "2 jobs succeeded, 0 failed",
        ],
    );
}

#[test]
fn timeout() {
    // F3, F10
    says(
        "timeout",
        &[
            "attempt 1: asking for 3600 s of patience",
            "  run 1 has used most of its time",
            "  stopped after 300 ms",
            "the ledger of the slow one: [Timeout, Timeout]",
        ],
    );
}

#[test]
fn snooze() {
    // F3, F16
    says(
        "snooze",
        &[
            "invoice 7 is not paid yet: look again in 200 ms",
            "invoice 7 is not paid yet: look again in 200 ms",
            "invoice 7 is paid",
            "3 runs [Snoozed, Snoozed, Succeeded], 0 attempts charged",
        ],
    );
}

#[test]
fn shutdown() {
    // L18
    says(
        "shutdown",
        &[
            "  short: done",
            "stopped: 1 handed back, clean is true",
            "  long: run 2 begins",
            "long: succeeded after [Interrupted, Succeeded], 0 attempts charged",
        ],
    );
}

#[test]
fn transaction() {
    // L14
    says(
        "transaction",
        &[
            "ada's account is rolled back:",
            "  0 account, 0 job",
            "bob's account is committed:",
            "  1 account, 1 job",
            "  mail: welcome, bob",
        ],
    );
}

#[test]
fn transaction_postgres() {
    // L14
    says(
        "transaction_postgres",
        &[
            "  ada's account and her job are written, and the process dies before the commit",
            "  accounts: 0, coins: 0, jobs: []",
            "  accounts: 1, coins: 0, jobs: [\"pending\"]",
            "  the coin is booked and the job completed, and the process dies before the commit",
            "  accounts: 1, coins: 0, jobs: [\"running\"]",
            "  accounts: 1, coins: 1, jobs: [\"succeeded\"]",
        ],
    );
}

#[test]
fn testing() {
    // C6
    says(
        "testing",
        &[
            "a wrong amount is never retried",
            "an invoice plans its reminder",
            "the reminder comes after two weeks, and this took no time",
            "the process died at 14 places, and the reminder came each time",
        ],
    );
}

#[test]
fn every_example_has_a_test() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let tests = include_str!("run_all.rs");
    for entry in std::fs::read_dir(folder).expect("the examples are there") {
        let path = entry.expect("readable").path();
        let name = path.file_stem().expect("a file name").to_string_lossy().into_owned();
        assert!(tests.contains(&format!("fn {name}()")), "{name} has no test here");
    }
}
