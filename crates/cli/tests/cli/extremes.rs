//! Values at their extremes in every flag that takes a moment, a span or a number: each is taken, or refused with a
//! sentence and an exit code. None makes the program panic (L20).

use crate::program::{Program, Ran, played};

const MOMENTS: [&str; 10] = [
    "10000-01-01T00:00:00Z",
    "+010000-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59-23:59",
    "0001-01-01T00:00:00Z",
    "0000-00-00T00:00:00Z",
    "-009999-01-01T00:00:00Z",
    "2026-06-30T23:59:60Z",
    "9223372036854775807",
    "",
];

const SPANS: [&str; 6] = [
    "18446744073709551615ms",
    "18446744073709551616ms",
    "30500568904 weeks",
    "99999999999999999999s",
    "0s",
    "-1s",
];

const NUMBERS: [&str; 7] =
    ["0", "-1", "4294967295", "4294967296", "18446744073709551615", "18446744073709551616", "1e400"];

/// A command up to the flag that gets the value, and what the flag takes.
const FLAGS: [(&str, &[&str]); 36] = [
    ("enqueue mail --run-at", &MOMENTS),
    ("enqueue mail --expires-at", &MOMENTS),
    ("enqueue mail --delay", &SPANS),
    ("enqueue mail --priority", &NUMBERS),
    ("enqueue mail --max-retries", &NUMBERS),
    ("enqueue mail --base-ms", &NUMBERS),
    ("enqueue mail --cap-ms", &NUMBERS),
    ("enqueue mail --timeout-ms", &NUMBERS),
    ("enqueue mail --max-wait-ms", &NUMBERS),
    ("enqueue mail", &NUMBERS),
    ("job list --created-after", &MOMENTS),
    ("job list --created-before", &MOMENTS),
    ("job list --limit", &NUMBERS),
    ("job list --cursor", &NUMBERS),
    ("job attempts DEAD --limit", &NUMBERS),
    ("job attempts DEAD --cursor", &NUMBERS),
    ("job logs DEAD --cursor", &NUMBERS),
    ("job wait DEAD --timeout", &SPANS),
    ("dead list --created-after", &MOMENTS),
    ("dead list --limit", &NUMBERS),
    ("dead purge --dry-run --older-than", &SPANS),
    ("dead purge --dry-run --created-before", &MOMENTS),
    ("archive list --limit", &NUMBERS),
    ("archive list --created-before", &MOMENTS),
    ("archive prune --dry-run --older-than", &SPANS),
    ("alert list --limit", &NUMBERS),
    ("incident list --limit", &NUMBERS),
    ("audit --limit", &NUMBERS),
    ("redrive plan --dry-run --older-than", &SPANS),
    ("redrive plan --dry-run --younger-than", &SPANS),
    ("redrive plan --dry-run --all --rate", &NUMBERS),
    ("redrive plan --dry-run --all --canary", &NUMBERS),
    ("rule add r --text x --then retry --delay", &SPANS),
    ("rule add q --text x --then retry --base", &SPANS),
    ("rule test r --most", &NUMBERS),
    ("token new --scope read --for-config --name t --expires", &SPANS),
];

/// It did what was asked, or says in the one shape why it did not.
fn judged(what: &str, ran: &Ran) {
    let told = || format!("`{what}` exits with {}\n{}\n{}", ran.code, ran.stdout, ran.stderr);
    assert!((0..=5).contains(&ran.code) && !ran.stderr.contains("panicked"), "{}", told());
    if ran.code == 1 && what.starts_with("job wait") {
        return;
    }
    if ran.code != 0 {
        let error = ran.error();
        assert!(error["code"].is_string() && error["message"].is_string(), "{}", told());
        let fault = ["backend", "corrupt", "internal", "unavailable", "unusable"];
        assert!(!fault.contains(&error["code"].as_str().unwrap_or_default()), "{}", told());
    }
}

#[test]
fn no_flag_panics_whatever_it_is_given() {
    // L20
    let program = Program::new();
    let dead = played(&program, &["permanent"])[0].to_string();
    let mut fine = 0;
    for (line, values) in FLAGS {
        for value in values {
            let line = line.replace("DEAD", &dead);
            // What stands last is a flag, or the kind before a payload.
            let (begin, last) = line.rsplit_once(' ').expect("several words");
            let flag = format!("{last}={value}");
            let rest = if last.starts_with("--") { vec![&*flag] } else { vec![last, value] };
            let args: Vec<&str> = begin.split(' ').chain(rest).chain(["--json"]).collect();
            let ran = program.run(&args);
            judged(&format!("{line} {value}"), &ran);
            fine += usize::from(ran.code == 0);
        }
    }
    assert!(fine > 50, "hardly any was taken: {fine}");
    // What was taken can be looked at, by people and by machines.
    for args in
        [&["job", "list", "--limit", "1000"][..], &["dead", "list"], &["queue", "list"], &["rule", "list"]]
    {
        program.run(args).exits(0);
        program.run(&[args, &["--json"]].concat()).exits(0).json();
    }
}

#[test]
fn data_that_no_reader_follows_is_stored_and_hidden() {
    // L20, F11
    let program = Program::new();
    let deep = |levels: usize| format!("{}\"hunter2\"{}", "[".repeat(levels), "]".repeat(levels));
    for payload in [deep(90), deep(126), deep(200), deep(20_000), r#"{"a":"hunter2","n":1e400}"#.to_owned()] {
        let ran = program.run_reading(&["enqueue", "mail", "-", "--json"], &payload).exits(0);
        let id = ran.json()["id"].as_str().expect("an id").to_owned();
        for args in [&["job", "show", &id][..], &["job", "list"]] {
            let shown = program.run(args).exits(0);
            assert!(!shown.stdout.contains("hunter2"), "{payload:.40}: {}", shown.stdout);
            program.run(&[args, &["--json"]].concat()).exits(0).json();
        }
        let revealed = program.run(&["job", "show", &id, "--reveal", "--json"]).exits(0);
        assert!(revealed.stdout.contains("hunter2"), "{payload:.40}");
    }
    for payload in [&deep(90)[..95], "[1e400", ""] {
        program.run_reading(&["enqueue", "mail", "-"], payload).exits(3).tells(&["payload"]);
    }
}
