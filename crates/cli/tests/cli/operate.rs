//! `queue`, `dead`, `incident`, `worker`, `migrate`, `doctor`.

use crate::program::{Program, on_engine, played};
use serde_json::json;

#[test]
fn queues_are_listed_paused_and_resumed() {
    let program = Program::new();
    program.enqueue(&["mail"]);
    program.run(&["queue", "list"]).exits(0).says(&["default", "open", "PENDING"]);
    program
        .run(&["queue", "pause", "default"])
        .exits(0)
        .says(&["is now paused", "backstop queue resume default"]);
    let again = program.run(&["queue", "pause", "default", "--json"]).exits(0).json();
    assert_eq!(again, json!({ "queue": "default", "changed": false, "paused": true }));
    let queues = program.run(&["queue", "list", "--json"]).exits(0).json();
    assert_eq!((&queues["items"][0]["paused"], &queues["items"][0]["pending"]), (&json!(true), &json!(1)));
    assert_eq!(queues["next_cursor"], json!(null));
    program.run(&["queue", "resume", "default"]).exits(0).says(&["is now open"]);
    program.run(&["queue", "pause", "defualt"]).exits(0).tells(&["has had no job and no worker yet"]);
    let empty = Program::new();
    empty.run(&["migrate"]).exits(0);
    empty.run(&["queue", "list"]).exits(0).says(&["no queues yet", "backstop enqueue"]);
}

#[test]
fn limits_are_set_listed_and_deleted() {
    // H5
    let program = Program::new();
    program.write("backstop.toml", "[limits.mail]\nqueue = 'mail'\nconcurrency = 2\n");
    program.enqueue(&["mail"]);
    program
        .run(&["limit", "set", "partner", "--kind", "call", "--rate", "100/1m"])
        .exits(0)
        .says(&["limit `partner` set", "100/1 min for kind `call`"]);
    program.run(&["limit", "list"]).exits(0).says(&[
        "2 at once",
        "queue `mail`",
        "100/1 min",
        "GOES ON",
        "now",
    ]);
    let listed = program.run(&["limit", "list", "--json"]).exits(0).json();
    assert_eq!(listed["items"][1]["rate"], json!({ "count": 100, "per_ms": 60_000 }));
    program.run(&["limit", "set", "idle", "--kind", "call"]).exits(3).tells(&["it limits nothing"]);
    program.run(&["limit", "set", "zero", "--concurrency", "0"]).exits(3).tells(&["0 would let nothing run"]);
    program.run(&["limit", "set", "odd", "--rate", "often"]).exits(2).tells(&["such as \"100/1m\""]);
    program.run(&["limit", "delete", "partner"]).exits(0).says(&["limit `partner` deleted"]);
    program.run(&["limit", "delete", "partner"]).exits(1).tells(&["there is no limit `partner`"]);
}

#[test]
fn keys_names_and_pools_are_said_on_the_command_line() {
    // H5, H6, H7
    let program = Program::new();
    program.enqueue(&["mail"]);
    program
        .run(&["limit", "set", "customer", "--by-key", "--concurrency", "2", "--weight", "acme=3"])
        .exits(0)
        .says(&["limit `customer` set", "2 at once, weights of 1 key for each key of all jobs"]);
    program.run(&["limit", "set", "cards", "--permits", "3"]).exits(0).says(&["3 permits"]);
    program.run(&["limit", "list"]).exits(0).says(&[
        "each key of all jobs",
        "jobs that ask for permits",
        "3 permits",
    ]);
    let id = program.enqueue(&[
        "mail",
        "--limit-key",
        "acme",
        "--permits",
        "lost=2",
        "--max-deferral-ms",
        "60000",
    ]);
    program.run(&["job", "show", &id]).exits(0).says(&["limit key", "acme", "2 of lost", "longest deferral"]);
    program.run(&["job", "list"]).exits(0).says(&["waiting", "lost"]);
    program.run(&["limit", "set", "odd", "--permits", "3", "--queue", "mail"]).exits(2).tells(&["--queue"]);
    program.run(&["limit", "set", "odd", "--weight", "acme=3"]).exits(2).tells(&["--by-key"]);
    program.run(&["enqueue", "mail", "--permits", "gpu"]).exits(2).tells(&["POOL=N"]);
}

#[test]
fn a_key_is_listed_with_its_head_and_a_blocked_one_is_skipped() {
    // L21
    let program = Program::new();
    let enqueue = || program.enqueue(&["mail", "--ordering-key", "account 7"]);
    let (first, second) = (enqueue(), enqueue());
    program.run(&["key", "list"]).exits(0).says(&["account 7", "pending"]);
    program.run(&["key", "list", "--blocked"]).exits(0).says(&["no ordering key is blocked"]);
    program.run(&["job", "explain", &second]).exits(0).says(&["account 7", &first]);
    program.run(&["job", "pause", &first]).exits(0);
    program.run(&["key", "list", "--blocked"]).exits(0).says(&["account 7", "blocked: paused"]);
    let line = json!({ "key": "account 7", "head": first, "status": "paused", "blocked": true, "waiting": 1,
        "queue": "default", "kind": "mail" });
    assert_eq!(program.run(&["key", "list", "--json"]).exits(0).json()["items"], json!([line]));
    let skip = ["key", "skip", "account 7", "--reason", "no use"];
    program.run(&skip).exits(0).says(&["was paused and is now canceled", "`account 7`"]);
    let given_up = program.run(&["job", "show", &first, "--json"]).exits(0).json();
    assert_eq!((&given_up["status"], &given_up["cancel_reason"]), (&json!("canceled"), &json!("no use")));
    assert_eq!(program.run(&["job", "show", &second, "--json"]).exits(0).json()["status"], "pending");
    program.run(&["key", "skip", "none"]).tells(&["no job with the ordering key `none` waits or runs"]);
}

#[test]
fn schedules_are_set_listed_and_fired_and_those_of_the_file_are_its_own() {
    // W11
    let program = Program::new();
    program.enqueue(&["mail"]);
    program.run(&["schedule", "list"]).exits(0).says(&["no schedule"]);
    let set = ["schedule", "set", "night", "--cron", "30 2 * * *", "--time-zone", "Europe/Berlin"];
    let set = [&set[..], &["--kind", "mail", "--misfire", "catch_up:3", "--overlap", "skip"]].concat();
    program.run(&set).exits(0).says(&["schedule `night` set: 30 2 * * * Europe/Berlin, next at 20"]);
    program.run(&["schedule", "list"]).exits(0).says(&["NEXT", "night", "mail", "API"]);
    program.run(&["schedule", "show", "night"]).exits(0).says(&["catch_up:3", "skip", "next"]);
    let id = program.run(&["schedule", "run", "night"]).exits(0).stdout.trim().to_owned();
    program.run(&["job", "show", &id]).exits(0).says(&["schedule", "night, to fire at"]);
    program.run(&["schedule", "pause", "night"]).exits(0).says(&["paused"]);
    let seen = program.run(&["schedule", "show", "night", "--json"]).exits(0).json();
    assert_eq!((&seen["paused"], &seen["owner"]), (&json!(true), &json!("api")));
    program.run(&["schedule", "resume", "night"]).exits(0).says(&["resumed"]);
    let range = ["--from", "2026-01-01T00:00:00Z", "--to", "2026-01-03T00:00:00Z"];
    let backfill = [&["schedule", "backfill", "night"], &range[..]].concat();
    program.run(&backfill).exits(0).says(&["2 jobs submitted"]);
    program.run(&backfill).exits(0).says(&["0 jobs submitted, 2 were there"]);
    // What a set does not name stays as it is.
    let more =
        ["schedule", "set", "night", "--limit-key", "acme", "--payload", r#"{"to":"ann"}"#, "--delay", "1h"];
    let more = [&more[..], &["--param", "region=eu", "--business-key", "one", "--expires-in", "2h"]].concat();
    program.run(&more).exits(0).says(&["schedule `night` set: 30 2 * * * Europe/Berlin"]);
    let urgent = ["schedule", "set", "night", "--priority", "high", "--on-conflict", "skip"];
    program.run(&urgent).exits(0).says(&["schedule `night` set: 30 2 * * * Europe/Berlin"]);
    program.run(&["schedule", "show", "night"]).exits(0).says(&["catch_up:3", "mail", "high"]);
    let id = program.run(&["schedule", "run", "night"]).exits(0).stdout.trim().to_owned();
    let job = program.run(&["job", "show", &id, "--json"]).exits(0).json();
    assert_eq!((&job["limit_key"], &job["business_key"]), (&json!("acme"), &json!("one")), "{job}");
    assert_eq!((&job["params"], &job["priority"]), (&json!({ "region": "eu" }), &json!(3)), "{job}");
    assert!(job["expires_at"].is_string(), "{job}");
    let skipped = "0 jobs submitted, 3 skipped, because another job holds the business key";
    let range = ["--from", "2026-01-05T00:00:00Z", "--to", "2026-01-08T00:00:00Z"];
    program.run(&[&["schedule", "backfill", "night"], &range[..]].concat()).exits(0).says(&[skipped]);
    let often = ["schedule", "set", "night", "--every", "1h"];
    program.run(&often).exits(0).says(&["schedule `night` set: every 1 h"]);
    program.run(&["schedule", "set", "night", "--replace", "--every", "1h"]).exits(3).tells(&["kind"]);
    let anew = ["schedule", "set", "night", "--replace", "--every", "1h", "--kind", "mail"];
    program.run(&anew).exits(0).says(&["schedule `night` set: every 1 h"]);
    program.run(&["schedule", "show", "night"]).exits(0).says(&["fire_once", "normal"]);
    let never = ["schedule", "set", "never", "--cron", "0 0 30 2 *", "--kind", "mail"];
    program.run(&never).exits(3).tells(&["it never fires"]);
    program.run(&["schedule", "delete", "night"]).exits(0).says(&["deleted"]);
    program.run(&["schedule", "show", "night"]).exits(1).tells(&["there is no schedule `night`"]);
    let declared = |text: &str| {
        program.write("backstop.toml", text);
        // A demo logs nothing by itself; every other program shows its warnings.
        program.run_with(&["up", "--demo", "--once"], &[("BACKSTOP_LOG", "warn")]).exits(0)
    };
    let sweep = "[schedules.sweep]\nevery = '90s'\nkind = 'mail'\npayload = { to = 'ann' }\n";
    declared(&format!("{sweep}[schedules.old]\ncron = '@daily'\nkind = 'mail'\n"));
    program.run(&["schedule", "list"]).exits(0).says(&["sweep", "every 1 min 30 s", "old", "backstop.toml"]);
    let over = ["schedule", "set", "sweep", "--every", "5s", "--kind", "mail"];
    program.run(&over).exits(3).tells(&["schedule `sweep` belongs to backstop.toml: change it there"]);
    program.run(&["schedule", "delete", "sweep"]).exits(3).tells(&["belongs to backstop.toml"]);
    let removed = ["does not declare any more were removed", "schedules=\"old\"", "in one file"];
    declared(sweep).tells(&removed);
    program.run(&["schedule", "show", "old"]).exits(1).tells(&["there is no schedule `old`"]);
    program.run(&["schedule", "delete", "sweep", "--force"]).exits(0).says(&["deleted"]);
}

#[test]
fn circuits_are_opened_listed_and_closed_and_jobs_say_what_they_wait_for() {
    // H3
    let program = Program::new();
    program.write("backstop.toml", "[kinds.mail]\ndependency = 'smtp'\n");
    let id = program.enqueue(&["mail"]);
    program.run(&["circuit", "list"]).exits(0).says(&["no circuit"]);
    program.run(&["circuit", "open", "smtp", "--for", "10min"]).exits(0).says(&["smtp", "open"]);
    program.run(&["circuit", "show", "smtp"]).exits(0).says(&["TRIED AGAIN", "open"]);
    program.run(&["job", "list"]).exits(0).says(&["waiting", "circuit `smtp` is open"]);
    let job = program.run(&["job", "show", &id, "--json"]).exits(0).json();
    assert_eq!(job["waiting_for"]["reason"], "circuit", "{job}");
    let closed = program.run(&["circuit", "close", "smtp", "--json"]).exits(0).json();
    assert_eq!((&closed["state"], &closed["generation"]), (&json!("closed"), &json!(2)));
    program.run(&["circuit", "show", "other"]).exits(1).tells(&["nothing is known of a circuit `other`"]);
}

#[test]
fn a_dead_letter_is_a_job_with_its_runs_and_what_to_do() {
    // D1
    let program = Program::new();
    let ids = played(&program, &["permanent", "well"]);
    let (dead, well) = (ids[0].to_string(), ids[1].to_string());
    program.run(&["dead", "list"]).exits(0).says(&[&dead[..8], "non_retryable", "the card is stolen"]);
    let list = program.run(&["dead", "list", "--json"]).exits(0).json();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    let jobs = program.run(&["job", "list", "--status", "failed", "--json"]).exits(0).json();
    assert_eq!(list, jobs, "one dialect");
    let envelopes = program.run(&["dead", "list", "--envelope", "--json"]).exits(0).json();
    assert_eq!(envelopes["items"][0]["executionId"], json!(dead));
    let exported = program.run(&["dead", "export", "--envelope"]).exits(0).json();
    assert_eq!(exported, envelopes["items"][0]);
    let retry = format!("backstop job retry {dead}");
    program.run(&["dead", "show", &dead, "--envelope"]).exits(0).says(&[
        "envelope",
        "transitionKey",
        &format!("{dead}:0:1"),
        "terminalReason",
    ]);
    program.run(&["dead", "show", &dead[..35]]).exits(0).says(&[
        &dead,
        "dead because",
        "latest runs",
        "permanent",
        "what to do",
        &retry,
    ]);
    let with = program.run(&["dead", "show", &dead, "--envelope", "--json"]).exits(0).json();
    assert_eq!(with["envelope"]["terminalReason"], "non_retryable");
    let shown = program.run(&["dead", "show", &dead, "--json"]).exits(0).json();
    assert_eq!((&shown["job"]["terminal_reason"], shown.get("envelope")), (&json!("non_retryable"), None));
    assert_eq!(shown["attempts"][0]["cause"], "permanent");
    assert!(shown["next"].as_str().is_some_and(|next| next.contains(&retry)));
    program
        .run(&["dead", "show", &well])
        .exits(3)
        .tells(&["is succeeded and cannot be shown as a dead letter"]);
    program
        .run(&["dead", "list", "--kind", "other"])
        .exits(0)
        .says(&["no dead letters", "`backstop dead list` shows all"]);
}

#[test]
fn incidents_count_failures_that_are_alike() {
    // D2
    let program = Program::new();
    played(&program, &["permanent", "permanent", "error"]);
    program.run(&["incident", "list"]).exits(0).says(&["play", "Permanent: the card is stolen"]);
    let list = program.run(&["incident", "list", "--json"]).exits(0).json();
    let mut counts: Vec<_> =
        list["items"].as_array().expect("items").iter().map(|one| one["failures"].as_u64()).collect();
    counts.sort_unstable();
    assert_eq!(counts, [Some(1), Some(2)]);
    let empty = Program::new();
    empty.run(&["migrate"]).exits(0);
    empty.run(&["incident", "list"]).exits(0).says(&["no failure has been seen"]);
}

#[test]
fn workers_are_listed_while_they_are_up() {
    let program = Program::new();
    on_engine(&program, async |engine| {
        let worker = engine
            .worker(())
            .register::<crate::program::Play>()
            .queue("letters", 4)
            .name("the-worker")
            .start()
            .await;
        let worker = worker.expect("it starts");
        program.run(&["worker", "list"]).exits(0).says(&["the-worker", "live", "letters", "play v1"]);
        let list = program.run(&["worker", "list", "--json"]).exits(0).json();
        assert_eq!(
            (&list["items"][0]["name"], &list["items"][0]["live"]),
            (&json!("the-worker"), &json!(true))
        );
        worker.stop().await;
    });
    program.run(&["worker", "list"]).exits(0).says(&["no workers", "backstop up"]);
}

#[test]
fn migrate_creates_and_doctor_looks() {
    let program = Program::new();
    program.run(&["migrate"]).exits(0).says(&["sqlite store", "was created"]);
    program.run(&["migrate"]).exits(0).says(&["is up to date"]);
    let told = program.run(&["migrate", "--json"]).exits(0).json();
    assert_eq!((&told["backend"], &told["created"]), (&json!("sqlite"), &json!(false)));
    program.run(&["doctor"]).exits(0).says(&["✓ good", "synchronous", "schema"]).tells(&["all is well"]);
    let findings = program.run(&["doctor", "--json"]).exits(0).json();
    let items = findings["items"].as_array().expect("items");
    assert!(
        items.iter().all(|finding| finding["level"] == "good" || finding["level"] == "warning"),
        "{items:?}"
    );
}
