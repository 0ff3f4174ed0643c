//! `[bridges.NAME]`: the program takes messages of a real broker, and tells it what became of them.

use std::process::Child;

use backstop_testbed::{DatabaseSettings, Folder, Redis};
use serde_json::Value;

use crate::program::Program;
use crate::supervised::{signal, until};

/// Settings of a bridge in both directions; the password is one that Redis does not ask for.
fn settings(redis: &Redis) -> String {
    let url = redis.url().replace("redis://", "redis://:hunter2@");
    format!(
        "[handlers.event]\nallow = ['order.*']\n[bridges.orders]\nbroker = '{url}'\n\
         [bridges.orders.source]\nqueue = 'orders'\nkind = 'event'\nconcurrency = 2\n\
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

/// A bridge as a process sees that does not run it.
fn shown(elsewhere: &Program, store: &str, name: &str) -> Value {
    let ran = elsewhere.run(&["bridge", "show", name, "--json", "--store", store]);
    if ran.code == 0 { ran.json() } else { Value::Null }
}

#[test]
fn every_process_shows_pauses_and_tests_a_bridge() {
    // B1, B2, B4, B8: a worker elsewhere runs it, and nobody here has its settings.
    let folder = Folder::new("cli-bridge-operate").expect("a folder");
    let redis = Redis::start(&DatabaseSettings::new(folder.join("redis"))).expect("a server");
    let (program, elsewhere) = (Program::new(), Program::new());
    program.write("backstop.toml", &settings(&redis).replace(":hunter2@", ""));
    let store = program.store();
    let run = |args: &[&str]| elsewhere.run(&[args, &["--store", &store]].concat());
    let shown = || shown(&elsewhere, &store, "orders");
    program.run(&["migrate"]).exits(0);
    assert!(run(&["bridge", "list"]).exits(0).stdout.starts_with("no bridge: add [bridges.NAME]"));
    order(&redis, 0);
    let worker = started(&program, &["up", "--no-api"]);
    until("a job", || shown()["in"] == 1);
    assert_eq!((&shown()["state"], &shown()["last_error"]), (&"running".into(), &Value::Null));
    until("its consumers", || shown()["source"]["consuming"] == 2);
    assert_eq!(
        (&shown()["source"]["concurrency"], &shown()["processes"][0]["consuming"]),
        (&2.into(), &2.into())
    );
    let page = run(&["bridge", "show", "orders"]).exits(0).stdout;
    assert!(page.contains("2 in each process, 2 take messages now"), "{page}");
    let paused = run(&["bridge", "pause", "orders"]).exits(0).stdout;
    assert!(paused.starts_with("bridge `orders` is paused within 5 seconds"), "{paused}");
    until("the pause", || shown()["processes"][0]["state"] == "paused");
    order(&redis, 1);
    let told = shown()["processes"][0]["seen_at"].clone();
    until("another word of it", || shown()["processes"][0]["seen_at"] != told);
    assert_eq!((&shown()["in"], &shown()["state"]), (&1.into(), &"paused".into()), "it takes no messages");
    run(&["bridge", "resume", "orders"]).exits(0);
    until("the second job", || shown()["in"] == 2);
    let test = run(&["bridge", "test", "orders", "--json"]).exits(0).json();
    assert_eq!((&test["source"]["ok"], &test["sink"]["ok"]), (&true.into(), &true.into()), "{test}");
    redis.order("XADD orders * body 'no JSON'").expect("the server is there");
    until("the invalid message", || shown()["invalid"] == 1);
    let listed = run(&["bridge", "invalid", "orders"]).exits(0).stdout;
    assert!(listed.contains("JSON"), "{listed}");
    let exported = run(&["bridge", "invalid", "orders", "--export"]).exits(0).json();
    assert_eq!(exported["body"], "bm8gSlNPTg==", "raw bytes");
    let error = run(&["bridge", "remove", "orders", "--yes", "--json"]).error();
    assert_eq!(error["code"], "bridge_running", "{error}");
    run(&["bridge", "invalid", "orders", "--purge-all", "--yes"]).exits(0);
    let listed = run(&["bridge", "invalid", "orders"]).exits(0).stdout;
    assert!(listed.starts_with("no invalid message"), "{listed}");
    stop(worker);
    let listed = run(&["bridge", "list"]).exits(0).stdout;
    assert!(listed.contains("not running since"), "{listed}");
    let error = run(&["bridge", "test", "orders", "--json"]).error();
    assert_eq!(error["code"], "bridge_not_running", "{error}");
    assert_eq!(shown()["in"], 2, "what it has done is kept");
    let removed = run(&["bridge", "remove", "orders", "--yes"]).exits(0).stdout;
    assert!(removed.starts_with("the bridge `orders` is removed, and "), "{removed}");
    assert_eq!(shown(), Value::Null);
}

#[test]
fn a_job_of_kind_publish_sends_a_message_with_confirm() {
    // B2, B5
    let folder = Folder::new("cli-publish").expect("a folder");
    let mut redis = Redis::start(&DatabaseSettings::new(folder.join("redis")).durable()).expect("a server");
    let program = Program::new();
    let settings = settings(&redis).replace(":hunter2@", "");
    program.write(
        "backstop.toml",
        &format!("{settings}[handlers.publish]\nallow = ['orders', 'orders/audit']\n"),
    );
    program.run(&["migrate"]).exits(0);
    let worker = started(&program, &["up", "--no-api"]);
    let ended = |id: &str, status: &str| {
        until(status, || program.run(&["job", "show", id, "--json"]).exits(0).json()["status"] == status);
    };
    let send = |payload: &str| program.enqueue(&["publish", payload]);
    ended(&send("{\"bridge\": \"orders\", \"queue\": \"audit\", \"body\": \"by hand\"}"), "succeeded");
    let body = redis.order("EVAL \"return redis.call('XRANGE','audit','-','+')[1][2][2]\" 0");
    assert_eq!(body.expect("an answer").trim(), "by hand");
    for (payload, code) in [
        ("{\"bridge\": \"ordres\", \"body\": 1}", "publish_bridge_unknown"),
        ("{\"bridge\": \"orders\", \"queue\": \"secret\", \"body\": 1}", "publish_not_allowed"),
    ] {
        let id = send(payload);
        ended(&id, "failed");
        let runs = program.run(&["job", "attempts", &id, "--json"]).exits(0).stdout;
        assert!(runs.contains(code), "{runs}");
    }
    redis.kill().expect("it ends");
    let id = send("{\"bridge\": \"orders\", \"queue\": \"audit\", \"body\": \"late\"}");
    until("a run", || program.run(&["job", "attempts", &id, "--json"]).exits(0).stdout.contains("rejected"));
    redis.start_again().expect("it starts");
    ended(&id, "succeeded");
    assert_eq!(length(&redis, "audit"), 2);
    stop(worker);
}

#[test]
fn bad_bridges_are_named_and_the_engine_goes_on() {
    // B1, B5: a kind that nobody knows, a queue that does not exist, a refused connection, refused credentials, and two
    // bridges on one consumer.
    let folder = Folder::new("cli-bridge-bad").expect("a folder");
    let redis = Redis::start(&DatabaseSettings::new(folder.join("redis"))).expect("a server");
    order(&redis, 0);
    let program = Program::new();
    let url = redis.url();
    let secret = url.replace("redis://", "redis://:hunter2@");
    let bridge = |name: &str, url: &str, queue: &str, kind: &str, consumer: &str| {
        format!(
            "[bridges.{name}]\nbroker = '{url}'\n\
             source = {{ queue = '{queue}', kind = '{kind}', consumer = '{consumer}' }}\n"
        )
    };
    let all = [
        "[handlers.event]\nallow = ['order.*']\n".to_owned(),
        bridge("typo", &url, "orders", "evnet", "typo"),
        bridge("lost", &url, "nowhere", "event", "lost"),
        bridge("away", "redis://127.0.0.1:1", "orders", "event", "away"),
        bridge("denied", &secret, "orders", "event", "denied"),
        bridge("one", &url, "orders", "event", "same"),
        bridge("other", &url, "orders", "event", "same"),
    ];
    program.write("backstop.toml", &all.concat());
    let checked = program.run(&["config", "check"]).exits(0);
    assert!(checked.stderr.contains("both take `orders` as consumer `same`"), "{}", checked.stderr);
    program.run(&["migrate"]).exits(0);
    let worker = started(&program, &["up", "--no-api"]);
    let codes = || {
        let list = program.run(&["bridge", "list", "--json"]).exits(0).json();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let code = |one: &Value| {
            let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
            (text("name"), text("state"), text("error_code"))
        };
        items.iter().map(code).collect::<Vec<_>>()
    };
    let expected = [
        ("away", "disconnected", "broker_unavailable"),
        ("denied", "disconnected", "broker_refused"),
        ("lost", "disconnected", "no_such_queue"),
        ("one", "failed", "same_consumer"),
        ("other", "failed", "same_consumer"),
        ("typo", "running", "unknown_kind"),
    ];
    let expected = expected.map(|(name, state, code)| (name.to_owned(), state.to_owned(), code.to_owned()));
    until(&format!("{expected:?}"), || codes() == expected);
    let id = program.enqueue(&["event", "{\"name\": \"order.shipped\"}"]);
    until("an end", || program.run(&["job", "show", &id, "--json"]).exits(0).json()["status"] == "succeeded");
    for args in [&["bridge", "list"][..], &["bridge", "show", "denied"], &["bridge", "test", "denied"]] {
        let ran = program.run(args);
        assert!(
            !ran.stdout.contains("hunter2") && !ran.stderr.contains("hunter2"),
            "{args:?}: {}",
            ran.stdout
        );
    }
    let test = program.run(&["bridge", "test", "lost", "--json"]).exits(1).json();
    assert_eq!(test["source"]["error_code"], "no_such_queue", "{test}");
    stop(worker);
}
