//! Calls that do not belong where they stand: impurity in the core, printing in libraries, sleeping in tests.

use super::source::SourceFile;
use super::{Tree, Violation};

/// Paths that bring clock, randomness, files, network or a runtime into the core.
const IMPURE: [&[&str]; 15] = [
    &["SystemTime", "now"],
    &["Instant", "now"],
    &["Timestamp", "now"],
    &["Zoned", "now"],
    &["Uuid", "now_v7"],
    &["Uuid", "new_v4"],
    &["std", "env"],
    &["std", "fs"],
    &["TcpStream"],
    &["TcpListener"],
    &["UdpSocket"],
    &["ToSocketAddrs"],
    &["std", "process"],
    &["std", "thread"],
    &["fastrand"],
];

/// Crates that bring a runtime or randomness into the core, named as the first part of a path.
const IMPURE_CRATES: [&str; 2] = ["tokio", "rand"];

/// Real waiting: a test that sleeps is slow on a good day and wrong on a bad one.
const SLEEPS: [&[&str]; 2] = [&["thread", "sleep"], &["time", "sleep"]];

const PRINTS: [&str; 5] = ["println", "eprintln", "print", "eprint", "dbg"];

/// Calls that do not belong where they stand.
pub(crate) fn check(tree: &Tree<'_>) -> Vec<Violation> {
    tree.sources
        .iter()
        .flat_map(|source| [impure(source), sleeps(source), prints(source)].into_iter().flatten())
        .collect()
}

fn impure(source: &SourceFile<'_>) -> Vec<Violation> {
    if !source.path.starts_with("crates/core/src/") {
        return Vec::new();
    }
    let paths = source.paths();
    let bad = paths.iter().filter(|path| {
        let named = IMPURE.iter().any(|run| contains(&path.segments, run));
        let from_crate = path.segments.len() > 1 && IMPURE_CRATES.contains(&path.segments[0]);
        (named || from_crate) && !source.is_test(path.line)
    });
    bad.map(|path| {
        let text = format!("`{}` in the pure core; take what it gives as a value", path.segments.join("::"));
        Violation::new(source.path, path.line, text)
    })
    .collect()
}

fn sleeps(source: &SourceFile<'_>) -> Vec<Violation> {
    // The campaigns watch real processes, and those need real time; paused time passes without waiting.
    if source.path.starts_with("chaos/") || source.text.contains("start_paused = true") {
        return Vec::new();
    }
    let paths = source.paths();
    let bad = paths
        .iter()
        .filter(|path| source.is_test(path.line) && SLEEPS.iter().any(|run| contains(&path.segments, run)));
    bad.map(|path| {
        let text =
            format!("`{}` in a test; use the manual clock or an explicit signal", path.segments.join("::"));
        Violation::new(source.path, path.line, text)
    })
    .collect()
}

fn contains(segments: &[&str], run: &[&str]) -> bool {
    segments.windows(run.len()).any(|window| window == run)
}

fn prints(source: &SourceFile<'_>) -> Vec<Violation> {
    let calls = source.tokens.windows(3).filter(|three| three[1].is("!") && !three[2].is("="));
    let bad = calls.filter(|three| {
        let debug = three[0].is("dbg");
        let print = PRINTS.iter().any(|name| three[0].is(name));
        print && !source.is_test(three[0].line) && (debug || !may_print(source.path))
    });
    bad.map(|three| {
        let text = format!("`{}!` in a library; return the value or use tracing", three[0].text);
        Violation::new(source.path, three[0].line, text)
    })
    .collect()
}

/// Programs speak on their standard output: the command line, this tool, examples, campaigns and build scripts.
fn may_print(path: &str) -> bool {
    // `testing` runs inside tests, whose output is the terminal.
    let programs = ["crates/cli/", "crates/testing/", "xtask/", "examples/", "chaos/", "bench/"];
    let folders = ["/examples/", "/benches/"];
    programs.iter().any(|start| path.starts_with(start))
        || folders.iter().any(|folder| path.contains(folder))
        || path.ends_with("/build.rs")
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn the_core_may_not_look_at_the_world() {
        let bad = [
            "use std::{fmt, fs};",
            "let x = std::time::Instant::now();",
            "let x = SystemTime::now();",
            "use tokio::sync::Mutex;",
            "let x = rand::random();",
            "let x = std::env::var(y);",
            "use std::net::TcpStream;",
            "let x = Uuid::now_v7();",
            "fn a() { println!(\"x\") }",
        ];
        for text in bad {
            assert_eq!(found(check, &[("crates/core/src/a.rs", text)]).len(), 1, "{text}");
        }
    }

    #[test]
    fn values_strings_comments_and_tests_in_the_core_pass() {
        let text = "fn a(rand: u64, now: Instant) { b(rand); \"std::fs\"; } // std::env\n\
            #[cfg(test)]\nmod tests { use std::fs; }\n";
        assert!(found(check, &[("crates/core/src/a.rs", text)]).is_empty());
        assert!(found(check, &[("crates/core/tests/a.rs", "use std::fs;")]).is_empty());
        assert!(found(check, &[("crates/store/src/a.rs", "use std::fs;")]).is_empty());
    }

    #[test]
    fn only_programs_and_tests_print_and_nobody_debugs() {
        let text = "fn a() { eprintln!(\"x\"); if print != y {} }";
        assert!(found(check, &[("crates/store/src/a.rs", text)])[0].contains("`eprintln!` in a library"));
        for path in
            ["crates/cli/src/a.rs", "xtask/src/a.rs", "crates/x/tests/a.rs", "crates/core/examples/a.rs"]
        {
            assert!(found(check, &[(path, text)]).is_empty(), "{path}");
        }
        assert_eq!(found(check, &[("crates/cli/src/a.rs", "fn a() { dbg!(x); }")]).len(), 1);
    }

    #[test]
    fn tests_do_not_sleep() {
        for text in ["use tokio::time::{Duration, sleep};", "fn a() { std::thread::sleep(x) }"] {
            assert!(found(check, &[("crates/x/tests/a.rs", text)])[0].contains("in a test"), "{text}");
            assert!(found(check, &[("crates/x/src/a.rs", text)]).is_empty(), "{text}");
            assert!(found(check, &[("chaos/tests/a.rs", text)]).is_empty(), "{text}");
        }
        let inline = "#[cfg(test)]\nmod tests { fn a() { thread::sleep(x) } }";
        assert_eq!(found(check, &[("crates/x/src/a.rs", inline)]).len(), 1);
    }
}
