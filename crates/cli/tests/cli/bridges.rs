//! `[bridges.NAME]`: the program takes messages of a real broker, and tells it what became of them.

use std::process::Child;

use backstop_testbed::{DatabaseSettings, Folder, Redis};

use crate::program::Program;
use crate::supervised::{signal, until};

/// Settings of a bridge in both directions; the password is one that Redis does not ask for.
fn settings(redis: &Redis) -> String {
    let url = redis.url().replace("redis://", "redis://:hunter2@");
    format!(
        "[handlers.event]\nallow = ['order.*']\n[bridges.orders]\nbroker = '{url}'\n\
         [bridges.orders.source]\nqueue = 'orders'\nkind = 'event'\n\
         [bridges.orders.sink]\nqueue = 'paid'\nof = ['results', 'dead_letters']\n"
    )
}

fn length(redis: &Redis, stream: &str) -> u64 {
    redis.order(&format!("XLEN {stream}")).expect("the server is there").trim().parse().expect("a number")
}

fn order(redis: &Redis, number: u32) {
    let body = format!("{{\"name\":\"order.paid\",\"data\":{number}}}");
    redis.order(&format!("XADD orders * body '{body}'")).expect("the server is there");
}

fn started(program: &Program, args: &[&str]) -> Child {
    let mut command = program.command(args);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    command.spawn().expect("the program starts")
}

fn stop(mut child: Child) {
    signal(i64::from(child.id()), "TERM");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn messages_become_jobs_and_results_go_back() {
    // B1, B2, B5, D6: a server without a worker and a worker without a server have the same bridge.
    let folder = Folder::new("cli-bridges").expect("a folder");
    let place = DatabaseSettings::new(folder.join("redis")).durable();
    let mut redis = Redis::start(&place).expect("a server");
    let program = Program::new();
    program.write("backstop.toml", &settings(&redis).replace(":hunter2@", ""));
    for number in 0..20 {
        order(&redis, number);
    }
    let server = started(&program, &["up", "--no-worker", "--listen", "127.0.0.1:0"]);
    let worker = started(&program, &["up", "--no-api"]);
    until("a result for each message", || length(&redis, "paid") >= 20);
    let jobs = program.run(&["job", "list", "--json", "--limit", "100"]).exits(0).json();
    assert_eq!(jobs["items"].as_array().map(Vec::len), Some(20), "each message is one job");
    // A broker that is gone delays no job, and gets what it missed.
    redis.kill().expect("it ends");
    let id = program.enqueue(&["event", "{\"name\": \"order.shipped\"}"]);
    until("an end", || {
        let job = program.run(&["job", "show", &id, "--json"]).exits(0).json();
        job["status"] == "succeeded"
    });
    redis.start_again().expect("it starts");
    until("the result that it missed", || length(&redis, "paid") >= 21);
    stop(worker);
    stop(server);
    assert_eq!(length(&redis, "paid"), 21, "none was published twice");
    let first = redis.order("EVAL \"return redis.call('XRANGE','paid','-','+')[1][2][2]\" 0");
    let first: serde_json::Value = serde_json::from_str(&first.expect("an answer")).expect("JSON");
    assert_eq!((&first["type"], &first["status"]), (&"result".into(), &"RESULT_SUCCESS".into()), "{first}");
}

#[test]
fn credentials_are_not_shown_and_typing_errors_are_named() {
    // B1
    let folder = Folder::new("cli-bridge-settings").expect("a folder");
    let redis = Redis::start(&DatabaseSettings::new(folder.join("redis"))).expect("a server");
    let program = Program::new();
    program.write("backstop.toml", &settings(&redis));
    let shown = program.run(&["config", "check"]).exits(0);
    assert!(shown.stdout.contains("bridges.orders.broker"), "{}", shown.stdout);
    assert!(!shown.stdout.contains("hunter2") && !shown.stderr.contains("hunter2"), "{}", shown.stdout);
    program.write("backstop.toml", &settings(&redis).replace("queue = 'paid'", "queu = 'paid'"));
    let checked = program.run(&["config", "check"]).exits(2);
    assert!(checked.stderr.contains("did you mean `queue`?"), "{}", checked.stderr);
    assert!(!checked.stderr.contains("hunter2"), "{}", checked.stderr);
}
