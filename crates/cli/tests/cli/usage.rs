//! Wrong usage, wrong stores, and what is never created by a look.

use crate::program::{Program, sqlite};

#[test]
fn wrong_usage_exits_with_2() {
    let program = Program::new();
    for args in [
        &["no-such-command"][..],
        &["job"],
        &["job", "list", "--status", "asleep"],
        &["job", "show", "not-an-id"],
        &["job", "cancel"],
        &["enqueue"],
        &["enqueue", "x", "--delay", "5 parsecs"],
        &["enqueue", "x", "--param", "novalue"],
        &["enqueue", "x", "--count", "2", "--idempotency-key", "k"],
        &["up", "--once"],
        &["up", "--demo", "--no-worker"],
        &["completions", "cmd.exe"],
    ] {
        let ran = program.run(args).exits(2);
        assert!(ran.stdout.is_empty() && !ran.stderr.is_empty(), "{args:?}: {}", ran.stderr);
    }
    let error = program.run(&["job", "list", "--status", "asleep", "--json"]).exits(2).error();
    assert_eq!(error["code"], "usage");
    program.run(&["job", "list", "--status", "asleep"]).tells(&["use pending, running, succeeded"]);
    assert!(!program.has("backstop.db"));
}

#[test]
fn help_versions_and_completions_are_answers() {
    let program = Program::new();
    let help = [
        "Watch and operate:",
        "List, inspect, cancel and retry jobs",
        "Global options:",
        "Exit codes: 0 done",
    ];
    for asked in [&["--help"][..], &["-h"], &["help"]] {
        program.run(asked).exits(0).says(&help);
    }
    program.run(&["help", "enqueue"]).exits(0).says(&["Enqueue a job", "--delay"]);
    program.run(&["help", "job", "wait"]).exits(0).says(&["--timeout", "Exit codes: 0 all succeeded"]);
    program.run(&["--version"]).exits(0).says(&["backstop 0."]);
    program.run(&["job", "--help"]).exits(0).says(&["explain", "retry"]);
    program.write("backstop.toml", "nonsense = 1\n");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        program.run(&["completions", shell]).exits(0).says(&["backstop"]);
    }
}

#[test]
fn a_misspelt_flag_is_never_a_payload() {
    let program = Program::new();
    for (args, meant) in [
        (&["enqueue", "mail", "--dleay", "5"][..], "--delay"),
        (&["enqueue", "mail", "--dleay=5s"], "--delay"),
        (&["enqueue", "mail", "{}", "--idempotencykey", "k"], "--idempotency-key"),
        (&["job", "list", "--stauts", "failed"], "--status"),
        (&["job", "lst"], "list"),
    ] {
        program.run(args).exits(2).tells(&[meant]);
    }
    assert!(!program.has("backstop.db"), "nothing was enqueued");
    // Numbers are payloads, and `--` ends the flags.
    let id = program.enqueue(&["mail", "-5"]);
    assert_eq!(program.run(&["job", "show", &id, "--json"]).json()["payload"], -5);
}

#[test]
fn a_look_creates_nothing() {
    let program = Program::new();
    let id = "0190b8a2-7c1e-7d3a-9f00-5c1b2a3d4e5f";
    for args in [
        &["job", "list"][..],
        &["job", "show", id],
        &["job", "cancel", id],
        &["queue", "list"],
        &["queue", "pause", "default"],
        &["dead", "list"],
        &["incident", "list"],
        &["worker", "list"],
        &["doctor"],
    ] {
        let told =
            "there is no store at sqlite:backstop.db yet: `backstop up` or `backstop enqueue` creates it";
        program.run(args).exits(1).tells(&[told]);
        assert_eq!(program.run(&[args, &["--json"]].concat()).exits(1).error()["code"], "no_store");
    }
    let left = std::fs::read_dir(program.path(".")).expect("the directory").count();
    assert_eq!(left, 0, "no file was created");
}

#[test]
fn a_store_that_cannot_be_opened_is_one_clear_sentence() {
    let program = Program::new();
    program.write(
        "text.db",
        "this is a text and no database, and long enough to be looked at\n".repeat(20).as_str(),
    );
    program.write("file", "x");
    sqlite(&program.path("foreign.db"))
        .execute_batch("CREATE TABLE theirs (x)")
        .expect("another program's file");
    program.run(&["migrate", "--store", "sqlite:newer.db"]).exits(0);
    let newer = "UPDATE backstop_meta SET value = 9999 WHERE key = 'schema'";
    assert_eq!(sqlite(&program.path("newer.db")).execute(newer, []).expect("a newer version"), 1);
    program.write("empty.db", "");
    for (url, words) in [
        ("sqlite:text.db", "it is not an SQLite database"),
        ("sqlite:newer.db", "newer Backstop"),
        ("sqlite:file/below.db", "its directory does not exist"),
        ("sqlite:.", "it is a directory"),
    ] {
        let ran = program.run(&["enqueue", "x", "--store", url]).exits(1).tells(&[words]);
        let sentences = ran.stderr.lines().filter(|line| line.contains('×')).count();
        assert_eq!(sentences, 1, "{url}: {}", ran.stderr);
        assert!(
            program.run(&["enqueue", "x", "--store", url, "--json"]).exits(1).error()["message"].is_string()
        );
    }
    program.run(&["job", "list", "--store", "sqlite:newer.db"]).exits(1).tells(&["newer Backstop"]);
    // A look changes nothing, not even a file that waits to become a store.
    for url in ["sqlite:empty.db", "sqlite:foreign.db"] {
        program.run(&["job", "list", "--store", url]).exits(1).tells(&["backstop migrate"]);
    }
    let tables = "SELECT count(*) FROM sqlite_schema";
    let count: i64 =
        sqlite(&program.path("foreign.db")).query_row(tables, [], |row| row.get(0)).expect("a count");
    assert_eq!(count, 1, "another program's file is as it was");
    assert_eq!(std::fs::metadata(program.path("empty.db")).expect("it is there").len(), 0);
}

#[test]
fn a_url_that_names_no_store_is_wrong_usage() {
    let program = Program::new();
    for url in ["redis://user:secret@localhost", "backstop.db", "sqlite:", ""] {
        let ran = program.run(&["enqueue", "x", "--store", url]).exits(2).tells(&["unknown_store"]);
        assert!(!ran.stderr.contains("secret"), "{}", ran.stderr);
    }
}
