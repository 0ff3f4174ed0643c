//! What makes the program pleasant to use: short ids, waiting, following, a first configuration, and warnings in time.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::both::{Served, archive};
use crate::program::{Program, Ran, on_engine, played};

/// Jobs whose ids begin alike.
const ALIKE: [&str; 2] = ["0190b8a2-7c1e-7d3a-9f00-5c1b2a3d4e5f", "0190b8a2-7c1f-7d3a-9f00-5c1b2a3d4e5f"];

fn store_alike(program: &Program) {
    on_engine(program, async |engine| {
        for id in ALIKE {
            let mut job = engine.enqueue_raw("mail", "{}").into_new_job().expect("a job");
            job.spec.id = id.parse().expect("an id");
            let submit = backstop_store::Submit { jobs: vec![job], atomic: true };
            engine.store().submit(submit).await.expect("it is there").remove(0).expect("stored");
        }
    });
}

/// Runs the program in one of its ways.
type Way<'w> = &'w dyn Fn(&[&str]) -> Ran;

#[test]
fn a_unique_prefix_is_enough_wherever_an_id_is() {
    let program = Program::new();
    store_alike(&program);
    let served = Served::of(&program);
    let table = program.run(&["job", "list"]).exits(0).says(&["0190b8a2-7c1e ", "0190b8a2-7c1f "]);
    assert!(!table.stdout.contains(ALIKE[0]), "tables show short ids: {}", table.stdout);
    let here = |args: &[&str]| program.run(args);
    let there = |args: &[&str]| served.run(&program, args);
    let ways: [Way<'_>; 2] = [&here, &there];
    for run in ways {
        assert_eq!(run(&["job", "show", "0190b8a2-7c1e", "--json"]).exits(0).json()["id"], ALIKE[0]);
        run(&["job", "explain", "0190b8a27c1f"]).exits(0).says(&[ALIKE[1]]);
        run(&["job", "attempts", "0190b8a2-7c1f"]).exits(0);
        run(&["job", "pause", "0190b8a2-7c1e", "0190b8a2-7c1f"]).exits(0).says(&ALIKE);
        run(&["job", "resume", "0190b8a2-7c1e", "0190b8a2-7c1f"]).exits(0);
        let refused = run(&["job", "cancel", "0190b8a2-7c1e", "0190b8"]).exits(2);
        refused.tells(&["0190b8 is ambiguous: 2 jobs begin with it", ALIKE[0], ALIKE[1]]);
        let error = run(&["job", "show", "0190b8a2", "--json"]).exits(2).error();
        assert_eq!(error["code"], "ambiguous_id");
        assert_eq!(error["details"]["candidates"][0]["id"], ALIKE[1], "full ids for machines");
        run(&["job", "show", "0190b9"]).exits(3).tells(&["no job whose id begins with 0190b9"]);
        run(&["job", "show", "0190b"]).exits(2).tells(&["first 6 or more characters"]);
    }
    let both = program.run(&["job", "list", "--json"]).exits(0).json();
    let pending = both["items"].as_array().expect("items").iter().all(|job| job["status"] == "pending");
    assert!(pending, "nothing is done when one of the names is not clear: {both}");
    let next = program.enqueue(&["mail", "--replaces", "0190b8a2-7c1e"]);
    let replaced = program.run(&["job", "show", ALIKE[0], "--json"]).exits(0).json();
    assert_eq!(replaced["superseded_by"], json!(next));
}

#[test]
fn an_archived_job_is_found_by_its_prefix() {
    // L16
    let program = Program::new();
    let id = played(&program, &["well"])[0].to_string();
    archive(&program);
    program.run(&["archive", "list"]).exits(0).says(&[&id[..8]]);
    for args in [&["archive", "show", &id[..35]][..], &["job", "show", &id[..35]]] {
        program.run(args).exits(0).says(&[&id]);
    }
}

#[test]
fn waiting_for_jobs_says_how_they_ended() {
    let program = Program::new();
    let ids = played(&program, &["well", "permanent"]);
    let (well, dead) = (ids[0].to_string(), ids[1].to_string());
    let canceled = program.enqueue(&["mail"]);
    program.run(&["job", "cancel", &canceled]).exits(0);
    let pending = program.enqueue(&["mail"]);
    program.run(&["job", "wait", &well]).exits(0).says(&["succeeded"]);
    program.run(&["job", "wait", &well, &dead]).exits(1).says(&["succeeded", "failed"]);
    program.run(&["job", "wait", &well, &canceled]).exits(4).says(&["canceled"]);
    program.run(&["job", "wait", &pending, "--timeout", "20ms"]).exits(5).says(&["is still pending"]);
    let answer = program.run(&["job", "wait", &well, &pending, "--timeout", "0s", "--json"]).exits(5).json();
    assert_eq!(answer["items"][1], json!({ "id": pending, "status": "pending", "ended": false }));
    // A job that ends while somebody waits.
    let mut waiter = program.spawn(&mut program.command(&["job", "wait", &pending]));
    program.run(&["job", "cancel", &pending]).exits(0);
    assert_eq!(waiter.wait().expect("it ends").code(), Some(4));
    archive(&program);
    program.run(&["job", "wait", &dead]).exits(1);
}

#[test]
fn events_are_followed_on_a_server() {
    let program = Program::new();
    let first = program.enqueue(&["mail"]);
    let served = Served::of(&program);
    program.run(&["events", "--follow"]).exits(2).tells(&["events come from a running server"]);
    let address = served.address();
    let args = ["events", "--follow", "--limit", "2", "--json", "--server", &address, "--job", &first[..35]];
    let mut command = program.command(&args);
    let mut follower = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(follower.stdout.take().expect("piped")).lines();
    // Nothing says when it listens, so something happens until it is told.
    let told = std::thread::spawn(move || {
        [lines.next(), lines.next()].map(|line| line.expect("a line").expect("text"))
    });
    let mut verbs = ["pause", "resume"].into_iter().cycle();
    while !told.is_finished() {
        served.run(&program, &["job", verbs.next().expect("it cycles"), &first]).exits(0);
    }
    for line in told.join().expect("two lines") {
        let event: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(event["job_id"], json!(first));
        assert!(["paused", "resumed"].contains(&event["event"].as_str().expect("a name")), "{event}");
    }
    assert_eq!(follower.wait().expect("it ends").code(), Some(0));
}

#[test]
fn the_audit_log_says_who_changed_what() {
    let program = Program::new();
    let id = program.enqueue(&["mail"]);
    let served = Served::of(&program);
    served.run(&program, &["job", "cancel", &id[..35]]).exits(0);
    served.run(&program, &["audit"]).exits(0).says(&["WHEN", "POST", "200"]);
    let lines = served.run(&program, &["audit", "--limit", "1", "--json"]).exits(0).json();
    assert_eq!(lines["items"][0]["path"], json!(format!("/api/v1/jobs/{id}/cancel")), "the whole id");
}

#[test]
fn a_first_configuration_is_written_once() {
    let program = Program::new();
    program.run(&["config", "init"]).exits(0).says(&["wrote backstop.toml"]);
    program.run(&["config", "check"]).exits(0).tells(&["backstop.toml is valid"]);
    program.write("backstop.toml", "# mine\n");
    program.run(&["config", "init"]).exits(3).tells(&["backstop.toml already exists"]);
    assert_eq!(std::fs::read_to_string(program.path("backstop.toml")).expect("it is there"), "# mine\n");
    program.run(&["config", "init", "--config", "other.toml", "--json"]).exits(0);
    assert!(program.has("other.toml"));
}

#[test]
fn queues_that_nobody_serves_are_warned_of() {
    let program = Program::new();
    program.write("backstop.toml", "[queues.mail]\nconcurrency = 2\n[queues.print]\nconcurrency = 0\n");
    program.enqueue(&["letter", "--queue", "post"]);
    program.enqueue(&["letter", "--queue", "mail"]);
    let check = program.run(&["config", "check", "--json"]).exits(0).json();
    let served = |queue: &str| {
        let key = format!("queues.{queue}.concurrency");
        check["settings"].as_array().expect("settings").iter().any(|row| row["key"] == key)
    };
    assert!(served("default"), "a section for one queue does not drop `default`");
    let warnings = check["warnings"].to_string();
    assert!(warnings.contains("queue `print` has concurrency 0"), "{warnings}");
    assert!(warnings.contains("queue `post` has 1 job to run and no worker serves it"), "{warnings}");
    assert!(!warnings.contains("`mail`"), "{warnings}");
    program.write("backstop.toml", "[queues.default]\nconcurrency = 0\n");
    program.run(&["config", "check"]).exits(0).tells(&["jobs that name no queue wait for another worker"]);
    program.run(&["up", "--listen", "127.0.0.1:0"]).exits(2).tells(&["the worker has nothing to serve"]);
}

#[test]
fn up_warns_of_queues_that_nobody_serves() {
    let program = Program::new();
    program.enqueue(&["letter", "--queue", "post"]);
    let mut command = program.command(&["up", "--listen", "127.0.0.1:0"]);
    let mut up = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(up.stderr.take().expect("piped")).lines();
    let told: Vec<String> =
        lines.map_while(Result::ok).take_while(|line| !line.contains("press Ctrl-C")).collect();
    up.kill().expect("it runs");
    up.wait().expect("it ends");
    let told = told.join("\n");
    assert!(told.contains("queue `post` has 1 job to run and no worker serves it"), "{told}");
    assert!(told.contains("default (16)"), "{told}");
}
