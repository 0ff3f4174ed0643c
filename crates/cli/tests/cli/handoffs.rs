//! `[handoff.NAME]`: what one program has finished, another goes on with.

use std::process::Child;

use crate::both::Served;
use crate::program::Program;
use crate::supervised::{signal, until};

fn started(program: &Program, args: &[&str]) -> Child {
    let mut command = program.command(args);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    command.spawn().expect("the program starts")
}

fn stop(mut child: Child) {
    signal(i64::from(child.id()), "TERM");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

fn settings(to: &str) -> String {
    format!(
        "[handlers.event]\nallow = ['order.*']\n[handoff.paid]\nto = '{to}'\ntoken = 'hunter2'\nkinds = ['event']\n\
         kind = 'ship'\n"
    )
}

fn shown(program: &Program) -> serde_json::Value {
    program.run(&["handoff", "show", "paid", "--json"]).exits(0).json()
}

#[test]
fn what_is_finished_here_is_a_job_there() {
    // B7: a server without a worker and a worker without a server have the same hand-off, and one of them publishes.
    let (sender, receiver) = (Program::new(), Program::new());
    receiver.run(&["enqueue", "warm_up", "--delay", "1h"]).exits(0);
    let there = Served::of(&receiver);
    sender.write("backstop.toml", &settings(&there.address()).replace("token = 'hunter2'\n", ""));
    let server = started(&sender, &["up", "--no-worker", "--listen", "127.0.0.1:0"]);
    until("the hand-off is known", || sender.run(&["handoff", "show", "paid"]).code == 0);
    let worker = started(&sender, &["up", "--no-api"]);
    for number in 0..5 {
        sender.enqueue(&["event", &format!("{{\"name\": \"order.paid\", \"data\": {number}}}")]);
    }
    until("all are there", || shown(&sender)["admitted"] == 5);
    let made = receiver.run(&["job", "list", "--kind", "ship", "--json"]).exits(0).json();
    assert_eq!(made["items"].as_array().map(Vec::len), Some(5), "{made}");
    drop(there);
    sender.enqueue(&["event", "{\"name\": \"order.paid\"}"]);
    until("it waits", || shown(&sender)["state"] == "unreachable");
    let waits = shown(&sender);
    assert_eq!((&waits["backlog"], &waits["refused"]), (&1.into(), &0.into()), "{waits}");
    let dead = sender.run(&["dead", "list", "--json"]).exits(0).json();
    assert_eq!(dead["items"], serde_json::json!([]), "no dead letter");
    let listed = sender.run(&["handoff", "list"]).exits(0).stdout;
    assert!(listed.contains("paid") && listed.contains("unreachable"), "{listed}");
    let error = sender.run(&["handoff", "remove", "paid", "--yes", "--json"]).error();
    assert_eq!(error["code"], "handoff_running", "{error}");
    stop(worker);
    stop(server);
    let removed = sender.run(&["handoff", "remove", "paid", "--yes"]).exits(0).stdout;
    assert_eq!(removed.trim_end(), "the hand-off `paid` is removed, and 1 job that waited for it");
    let gone = sender.run(&["handoff", "show", "paid", "--json"]).error();
    assert_eq!(gone["code"], "no_such_handoff", "{gone}");
}

#[test]
fn a_token_is_not_shown_and_typing_errors_are_named() {
    // B7
    let program = Program::new();
    program.write("backstop.toml", &settings("https://warehouse.example"));
    let checked = program.run(&["config", "check"]).exits(0);
    assert!(checked.stdout.contains("handoff.paid.token"), "{}", checked.stdout);
    assert!(!checked.stdout.contains("hunter2") && !checked.stderr.contains("hunter2"), "{}", checked.stdout);
    program.write("backstop.toml", &settings("https://warehouse.example").replace("kinds", "kindes"));
    let checked = program.run(&["config", "check"]).exits(2);
    assert!(checked.stderr.contains("did you mean `kinds`?"), "{}", checked.stderr);
    program.write("backstop.toml", &settings("warehouse.example"));
    let checked = program.run(&["config", "check"]).exits(2);
    assert!(checked.stderr.contains("is not the address of a Backstop"), "{}", checked.stderr);
    assert!(!checked.stderr.contains("hunter2"), "{}", checked.stderr);
    program.write("backstop.toml", "");
    assert_eq!(program.run(&["handoff", "show", "paid"]).code, 1, "there is none");
}
