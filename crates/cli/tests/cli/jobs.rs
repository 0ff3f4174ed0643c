//! `enqueue` and `job …`, for people and for machines.

use crate::program::{Program, played};
use serde_json::json;

#[test]
fn enqueue_prints_the_id_and_show_tells_everything() {
    let program = Program::new();
    let id = program.enqueue(&[
        "mail",
        r#"{"to":"ada"}"#,
        "--queue",
        "letters",
        "--priority",
        "high",
        "--max-retries",
        "7",
        "--backoff",
        "linear",
        "--base-ms",
        "250",
        "--cap-ms",
        "2000",
        "--jitter",
        "20%",
        "--timeout-ms",
        "1500",
        "--max-wait-ms",
        "60000",
        "--idempotency-key",
        "k1",
        "--business-key",
        "b1",
        "--tag",
        "a",
        "--tag",
        "b",
        "--param",
        "n=3",
        "--param",
        "s=text",
        "--correlation-id",
        "c1",
        "--delay",
        "1h",
    ]);
    let job = program.run(&["job", "show", &id, "--json"]).exits(0).json();
    let expected = json!({
        "id": id, "kind": "mail", "queue": "letters", "status": "pending", "priority": 3, "payload": {"to": "ada"},
        "max_retries": 7, "idempotency_key": "k1", "business_key": "b1", "tags": ["a", "b"],
        "params": {"n": 3, "s": "text"}, "correlation_id": "c1",
    });
    for (field, value) in expected.as_object().expect("an object") {
        assert_eq!(&job[field], value, "{field}");
    }
    let backoff = json!({ "policy": "linear", "base_ms": 250, "cap_ms": 2000, "jitter": "20%" });
    assert_eq!(job["policy"]["backoff"], backoff);
    assert_eq!((&job["policy"]["timeout_ms"], &job["policy"]["max_wait_ms"]), (&json!(1500), &json!(60000)));
    program.run(&["job", "show", &id]).exits(0).says(&[
        "mail",
        &id,
        "pending",
        "letters",
        "high",
        "in 59 min",
        "linear from 250 ms to 2 s",
        "1.5 s",
    ]);
}

#[test]
fn enqueue_answers_machines_and_reads_stdin() {
    let program = Program::new();
    let first =
        program.run_reading(&["enqueue", "mail", "-", "--idempotency-key", "k", "--json"], r#"{"n": 1}"#);
    let first = first.exits(0).json();
    assert_eq!((&first["status"], &first["deduplicated"]), (&json!("pending"), &json!(false)));
    // L10
    let again = program.run(&["enqueue", "mail", "--idempotency-key", "k", "--json"]).exits(0).json();
    assert_eq!((&again["id"], &again["deduplicated"]), (&first["id"], &json!(true)));
    let shown = program.run(&["job", "show", first["id"].as_str().expect("an id"), "--json"]).json();
    assert_eq!(shown["payload"], json!({ "n": 1 }));
}

#[test]
fn many_jobs_are_stored_and_listed_by_page() {
    let program = Program::new();
    program.run(&["enqueue", "bulk", "--count", "2500"]).exits(0).says(&["enqueued 2,500 jobs"]);
    let page = program.run(&["job", "list", "--limit", "1000", "--json"]).exits(0).json();
    assert_eq!(page["items"].as_array().map(Vec::len), Some(1000));
    let cursor = page["next_cursor"].as_str().expect("more rows");
    let rest = program.run(&["job", "list", "--limit", "1000", "--cursor", cursor, "--json"]).exits(0).json();
    assert!(rest["items"][0]["id"].as_str() < Some(cursor), "newest first");
    program
        .run(&["job", "list", "--limit", "3"])
        .exits(0)
        .says(&["bulk", "pending"])
        .tells(&["add --cursor"]);
    let stored = program.run(&["enqueue", "bulk", "--count", "2", "--json"]).exits(0).json();
    assert_eq!(stored["items"].as_array().map(Vec::len), Some(2));
}

#[test]
fn refusals_exit_with_3_and_say_the_way_out() {
    let program = Program::new();
    let holder = program.enqueue(&["mail", "--business-key", "b"]);
    // L11
    let refused = program.run(&["enqueue", "mail", "--business-key", "b", "--json"]).exits(3);
    let error = refused.error();
    assert_eq!(error["code"], "business_key_conflict");
    assert_eq!(error["details"], json!({ "business_key": "b", "holder": holder, "status": "pending" }));
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("on_conflict")));
    program.run(&["enqueue", "mail", "--business-key", "b"]).exits(3).tells(&[
        "business_key_conflict",
        &holder,
        "help: wait for the holder",
    ]);
    program
        .run(&["enqueue", "mail", "--business-key", "b", "--on-conflict", "skip"])
        .exits(0)
        .says(&[&holder]);
    // L22
    program.run(&["enqueue", "mail", "--replaces", &holder]).exits(0);
    program.run(&["enqueue", "mail", "--replaces", &holder]).exits(3).tells(&["not_replaceable"]);
    // E11
    program
        .run(&["enqueue", "mail", "{not json"])
        .exits(3)
        .tells(&["payload is invalid", "it is not valid JSON"]);
    let absent = "0190b8a2-7c1e-7d3a-9f00-5c1b2a3d4e5f";
    for command in ["show", "explain", "attempts", "logs", "cancel", "pause", "resume", "retry"] {
        program.run(&["job", command, absent]).exits(3).tells(&["no_such_job", absent, "backstop job list"]);
        assert_eq!(program.run(&["job", command, absent, "--json"]).exits(3).error()["code"], "no_such_job");
    }
}

#[test]
fn jobs_are_moved_one_by_one_and_together() {
    let program = Program::new();
    let (one, two) = (program.enqueue(&["a"]), program.enqueue(&["b"]));
    program.run(&["job", "pause", &one]).exits(0).says(&["is now paused"]);
    // L8
    let again = program.run(&["job", "pause", &one, "--json"]).exits(0).json();
    assert_eq!((&again["changed"], &again["status"]), (&json!(true), &json!("paused")));
    program.run(&["job", "resume", &one]).exits(0).says(&["is now pending"]);
    // L7
    program.run(&["job", "cancel", &one, "--reason", "not needed"]).exits(0).says(&["is now canceled"]);
    program.run(&["job", "cancel", &one]).exits(0).says(&["was already canceled: nothing changed"]);
    program.run(&["job", "explain", &one]).exits(0).says(&["not needed"]);
    // L9: only a dead letter can be driven again; the refused one does not stop the other.
    let both = program.run(&["job", "pause", &one, &two, "--json"]).exits(3).json();
    assert_eq!(both["items"][0]["error"]["code"], "wrong_state");
    assert_eq!(both["items"][1], json!({ "id": two, "changed": true, "status": "paused" }));
    program.run(&["job", "resume", &two, &one]).exits(3).says(&["is now pending"]).tells(&["wrong_state"]);
    program.run(&["job", "retry", &two]).exits(3).tells(&["wrong_state", "cannot be"]);
}

#[test]
fn a_dead_letter_is_driven_again() {
    // L9
    let program = Program::new();
    let id = played(&program, &["permanent"])[0].to_string();
    program.run(&["job", "retry", &id]).exits(0).says(&["is now pending"]);
    let job = program.run(&["job", "show", &id, "--json"]).json();
    assert_eq!((&job["redrives"], &job["attempt"], &job["runs"]), (&json!(1), &json!(0), &json!(1)));
}

#[test]
fn explain_says_where_why_and_what_next() {
    // F20
    let program = Program::new();
    let waiting = program.enqueue(&["mail", "--delay", "1h"]);
    let page = program.run(&["job", "explain", &waiting]).exits(0);
    page.says(&[
        "where",
        "why",
        "its time has not come",
        "next",
        "(in 59 min)",
        "checks, in order",
        "run_at",
    ]);
    let document = program.run(&["job", "explain", &waiting, "--json"]).exits(0).json();
    assert_eq!(document["status"], "pending");
    assert!(document["checks"].as_array().is_some_and(|checks| checks.len() > 5));
    let dead = played(&program, &["permanent"])[0].to_string();
    program.run(&["job", "explain", &dead]).exits(0).says(&[
        "failed on queue `default`",
        "non_retryable",
        "how its latest run was decided",
        "permanent",
        "→ dead: non_retryable",
    ]);
}

#[test]
fn attempts_and_logs_tell_of_every_run() {
    // F2, F15
    let program = Program::new();
    let ids = played(&program, &["error", "well"]);
    let (failed, well) = (ids[0].to_string(), ids[1].to_string());
    program.run(&["job", "attempts", &failed]).exits(0).says(&[
        "error",
        "yes",
        "dead: retry_exhausted",
        "it ended as",
    ]);
    let runs = program.run(&["job", "attempts", &failed, "--json"]).exits(0).json();
    let run = &runs["items"][0];
    assert_eq!((&run["number"], &run["cause"], &run["charged"]), (&json!(1), &json!("error"), &json!(true)));
    program.run(&["job", "logs", &well]).exits(0).says(&["run 1 succeeded", "  the first line"]);
    let logs = program.run(&["job", "logs", &well, "--json"]).exits(0).json();
    assert!(logs["items"][0]["output"].as_str().is_some_and(|output| output.starts_with("the first line\n")));
    let fresh = program.enqueue(&["mail"]);
    program.run(&["job", "attempts", &fresh]).exits(0).says(&["no run has ended yet"]);
    program.run(&["job", "logs", &fresh]).exits(0).says(&["nothing was logged"]);
}

#[test]
fn lists_are_filtered_and_empty_ones_say_what_to_type() {
    let program = Program::new();
    let ids = played(&program, &["permanent", "well"]);
    let (dead, well) = (ids[0].to_string(), ids[1].to_string());
    let other = program.enqueue(&["mail", "--queue", "letters", "--business-key", "b"]);
    let dead_view = program.run(&["job", "show", &dead, "--json"]).json();
    let fingerprint = dead_view["fingerprint"].as_str().expect("it failed").to_owned();
    let created = dead_view["created_at"].as_str().expect("a moment").to_owned();
    for (filter, expected) in [
        (["--status", "failed"], vec![&dead]),
        (["--status", "succeeded"], vec![&well]),
        (["--queue", "letters"], vec![&other]),
        (["--kind", "mail"], vec![&other]),
        (["--tag", "played"], vec![&well, &dead]),
        (["--business-key", "b"], vec![&other]),
        (["--reason", "non_retryable"], vec![&dead]),
        (["--fingerprint", &fingerprint], vec![&dead]),
        (["--created-after", &created], vec![&other, &well, &dead]),
        (["--created-before", &created], vec![]),
    ] {
        let args = ["job", "list", filter[0], filter[1]];
        let page = program.run(&[&args[..], &["--json"]].concat()).exits(0).json();
        let found: Vec<&str> =
            page["items"].as_array().expect("items").iter().filter_map(|job| job["id"].as_str()).collect();
        assert_eq!(found, expected.iter().map(|id| id.as_str()).collect::<Vec<_>>(), "{filter:?}");
        let shown = program.run(&args).exits(0);
        assert_eq!(shown.stdout.contains("no job matches"), expected.is_empty(), "{filter:?}");
    }
    let empty = Program::new();
    empty.run(&["migrate"]).exits(0);
    empty.run(&["job", "list"]).exits(0).says(&["no jobs yet", "backstop enqueue"]);
}
