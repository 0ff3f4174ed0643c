//! The same commands with `--store` and with `--server`: the same answers, the same exit codes.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use backstop::bridges::{BridgeReport, BridgeTest, BridgeTestAnswer, BridgeTester};
use backstop::{Backstop, Config, Retention, worker_id};
use backstop_server::{Api, ServerSettings, serve};
use backstop_store::Duty;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::program::{Program, Ran, on_engine, played};

/// A server on a program's store, in a thread of this process, until it is dropped.
pub(crate) struct Served {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    /// Serves the store that the program uses by default.
    pub(crate) fn of(program: &Program) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let store = program.store();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().expect("threads");
            runtime.block_on(async {
                let engine = Backstop::open(&store).await.expect("a store");
                let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
                tell.send(listener.local_addr().expect("an address")).expect("the test waits");
                let bridge = Bridge::start(&engine).await;
                let api = Api::new(engine, ServerSettings::default());
                let until = async {
                    let _ = stopped.await;
                };
                serve(listener, api, until).await.expect("it serves");
                drop(bridge);
            });
        });
        Self { address: told.recv().expect("it listens"), stop: Some(stop), thread: Some(thread) }
    }

    /// Its URL.
    pub(crate) fn address(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Runs a command through the server.
    pub(crate) fn run(&self, program: &Program, args: &[&str]) -> Ran {
        self.run_with(program, args, &[])
    }

    /// The same with variables of the environment.
    pub(crate) fn run_with(&self, program: &Program, args: &[&str], env: &[(&str, &str)]) -> Ran {
        let server = self.address();
        program.run_with(&[args, &["--server", &server]].concat(), env)
    }
}

/// A bridge that the server runs, without a broker.
struct Bridge {
    _tester: Arc<dyn BridgeTester>,
}

impl Bridge {
    async fn start(engine: &Backstop) -> Self {
        let report = BridgeReport::new("orders", "redis://127.0.0.1");
        engine.bridges().reporter().tell(&[report]).await.expect("told");
        let tester: Arc<dyn BridgeTester> = Arc::new(WellTester);
        engine.bridges().attach(&tester);
        Self { _tester: tester }
    }
}

/// Finds nothing wrong.
struct WellTester;

impl BridgeTester for WellTester {
    fn test<'a>(&'a self, bridge: &'a str) -> BridgeTestAnswer<'a> {
        let test = BridgeTest { node: "here".into(), source: None, sink: None, problem: None };
        Box::pin(async move { (bridge == "orders").then_some(test) })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the server failed");
        }
    }
}

/// What a command answered, for machines: its exit code, what it printed, and its error.
fn answer(ran: &Ran) -> (i32, Vec<Value>, Value) {
    let lines = ran.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    (ran.code, lines, serde_json::from_str(&ran.stderr).unwrap_or(Value::Null))
}

/// Runs a command that changes nothing both ways.
fn alike(program: &Program, served: &Served, args: &[&str]) {
    let machine = [args, &["--json"]].concat();
    let (here, there) = (program.run(&machine), served.run(program, &machine));
    assert_eq!(answer(&here), answer(&there), "{args:?}\n{}\n{}", here.stderr, there.stderr);
    let (here, there) = (program.run(args), served.run(program, args));
    assert_eq!(here.code, there.code, "{args:?}\n{}\n{}", here.stderr, there.stderr);
    assert_eq!(here.stdout.lines().count(), there.stdout.lines().count(), "{args:?}");
}

/// Archives all that has ended, at once.
pub(crate) fn archive(program: &Program) {
    on_engine(program, async |_| {
        let at_once = Some(Duration::ZERO);
        let retention = Retention::default().succeeded(at_once).canceled(at_once).failed(at_once);
        let config = Config::default().retention(retention);
        let engine = Backstop::open_with(&program.store(), config).await.expect("the same store");
        let lead = |duty| engine.store().lead(worker_id(), vec![duty], Duration::ZERO);
        // A server on this store leads for some seconds after its start.
        while lead(Duty::Archive).await.expect("the store is there")[0].is_none() {
            tokio::task::yield_now().await;
        }
        engine.maintain(worker_id(), Duration::from_millis(500)).await.expect("it archives");
        // Its leadership ends, as that of a worker that has stopped long ago.
        while lead(Duty::Prune).await.expect("the store is there")[0].is_none() {
            tokio::task::yield_now().await;
        }
    });
}

const ABSENT: &str = "0190b8a2-7c1e-7d3a-9f00-5c1b2a3d4e5f";

#[test]
fn looking_at_jobs_is_alike() {
    let program = Program::new();
    let ids = played(&program, &["permanent", "well", "hostile"]);
    let (dead, well) = (ids[0].to_string(), ids[1].to_string());
    let payload = r#"{"password":"hunter2"}"#;
    let waiting = program.enqueue(&["mail", payload, "--delay", "1h", "--tag", "t t", "--business-key", "b"]);
    let served = Served::of(&program);
    for args in [
        &["job", "list"][..],
        &["job", "list", "--limit", "2"],
        &["job", "list", "--status", "failed", "--queue", "default", "--reason", "non_retryable"],
        &["job", "list", "--tag", "t t", "--business-key", "b", "--kind", "mail"],
        &["job", "list", "--limit", "0"],
        &["job", "list", "--limit", "5000"],
        &["job", "show", &waiting],
        &["job", "show", &waiting, "--reveal"],
        &["job", "show", &dead],
        &["job", "explain", &dead],
        &["job", "explain", &waiting],
        &["job", "attempts", &dead],
        &["job", "attempts", &well, "--limit", "1", "--cursor", "1"],
        &["job", "logs", &well],
        &["dead", "list"],
        &["dead", "list", "--limit", "1"],
        &["dead", "show", &dead],
        &["dead", "show", &well],
        &["dead", "export", "--kind", "play"],
        &["dead", "purge"],
        &["dead", "purge", "--all"],
        &["dead", "purge", "--kind", "play", "--dry-run"],
        &["dead", "purge", "--older-than", "1h"],
        &["archive", "list"],
        &["archive", "show", &dead],
        &["archive", "export"],
        &["archive", "prune", "--dry-run"],
    ] {
        alike(&program, &served, args);
    }
    for command in ["show", "explain", "attempts", "logs", "cancel", "pause", "resume", "retry"] {
        alike(&program, &served, &["job", command, ABSENT]);
    }
    alike(&program, &served, &["dead", "show", ABSENT]);
    alike(&program, &served, &["archive", "show", ABSENT]);
}

#[test]
fn looking_at_archived_jobs_is_alike() {
    // L16
    let program = Program::new();
    let ids = played(&program, &["permanent", "well"]);
    archive(&program);
    let served = Served::of(&program);
    let dead = ids[0].to_string();
    for args in [
        &["archive", "list"][..],
        &["archive", "list", "--limit", "1"],
        &["archive", "show", &dead],
        &["archive", "show", &dead, "--reveal"],
        &["archive", "export"],
        &["archive", "prune", "--older-than", "0s", "--dry-run"],
        &["archive", "prune", "--older-than", "0s"],
        &["job", "show", &dead],
        &["job", "attempts", &dead],
        &["dead", "show", &dead],
    ] {
        alike(&program, &served, args);
    }
}

/// Runs one command here and its twin there, with the ids of their jobs taken out of the answers.
fn twins(program: &Program, served: &Served, verb: &[&str], ids: (&str, &str), more: &[&str]) {
    let here = program.run(&[verb, &[ids.0], more, &["--json"]].concat());
    let there = served.run(program, &[verb, &[ids.1], more, &["--json"]].concat());
    let without =
        |ran: &Ran, id: &str| (ran.code, ran.stdout.replace(id, "ID"), ran.stderr.replace(id, "ID"));
    assert_eq!(without(&here, ids.0), without(&there, ids.1), "{verb:?}");
}

#[test]
fn moving_jobs_is_alike() {
    // L7, L8, L9
    let program = Program::new();
    let dead = played(&program, &["permanent", "permanent"]);
    let served = Served::of(&program);
    let (here, there) = (program.enqueue(&["mail"]), program.enqueue(&["mail"]));
    let ids = (&*here, &*there);
    for verb in ["pause", "resume", "retry", "resume"] {
        twins(&program, &served, &["job", verb], ids, &[]);
    }
    twins(&program, &served, &["job", "cancel"], ids, &["--reason", "not needed"]);
    twins(&program, &served, &["job", "cancel"], ids, &[]);
    let (here, there) = (dead[0].to_string(), dead[1].to_string());
    twins(&program, &served, &["job", "retry"], (&here, &there), &[]);
    let both = served.run(&program, &["job", "pause", &here, ABSENT, "--json"]).exits(3).json();
    assert_eq!(both["items"][1]["error"]["code"], "no_such_job");
}

/// Runs the same commands on two stores that are alike, on one of them through a server.
fn on_two(prepare: impl Fn(&Program), commands: &[&[&str]]) {
    let (here, there) = (Program::new(), Program::new());
    prepare(&here);
    prepare(&there);
    let served = Served::of(&there);
    for args in commands {
        let args = [args, &["--json"][..]].concat();
        let (ran, through) = (here.run(&args), served.run(&there, &args));
        let shape = |ran: &Ran| {
            let (code, mut lines, mut error) = answer(ran);
            lines.iter_mut().for_each(forget_ids);
            forget_ids(&mut error);
            (code, lines, error)
        };
        assert_eq!(shape(&ran), shape(&through), "{args:?}\n{}\n{}", ran.stderr, through.stderr);
    }
}

/// Takes what two stores cannot have in common out of an answer.
fn forget_ids(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(forget_ids),
        Value::Array(items) => items.iter_mut().for_each(forget_ids),
        Value::String(text) => {
            *text =
                text.split(' ').map(|word| word.parse::<backstop::JobId>().map_or(word, |_| "ID")).collect();
        }
        _ => {}
    }
}

#[test]
fn storing_jobs_is_alike() {
    // L10, L11, E11
    on_two(
        |_| {},
        &[
            &["enqueue", "mail", r#"{"to":"ada"}"#, "--queue", "letters", "--idempotency-key", "k"],
            &["enqueue", "mail", "--idempotency-key", "k"],
            &["enqueue", "mail", "--business-key", "b", "--delay", "1h", "--tag", "t", "--param", "n=3"],
            &["enqueue", "mail", "--business-key", "b"],
            &["enqueue", "mail", "--business-key", "b", "--on-conflict", "replace"],
            &["enqueue", "mail", "--replaces", ABSENT],
            &[
                "enqueue",
                "mail",
                "--backoff",
                "linear",
                "--base-ms",
                "250",
                "--jitter",
                "20%",
                "--priority",
                "high",
            ],
            &["enqueue", "mail", "{not json"],
            &["enqueue", ""],
            &["enqueue", "bulk", "--count", "3"],
            &["enqueue", "", "--count", "3"],
            &["enqueue", "mail", "--timeout-ms", "0"],
        ],
    );
}

#[test]
fn removing_jobs_is_alike() {
    // D5
    on_two(
        |program| drop(played(program, &["permanent", "error", "well"])),
        &[
            &["dead", "purge", "--reason", "non_retryable", "--yes"],
            &["dead", "purge", "--all", "--yes", "--export", "gone.jsonl"],
            &["dead", "purge", "--all", "--yes", "--export", "gone.jsonl"],
            &["dead", "purge", "--all"],
        ],
    );
    on_two(
        |program| {
            played(program, &["permanent", "well"]);
            archive(program);
        },
        &[
            &["archive", "prune", "--yes"],
            &["archive", "prune", "--older-than", "0s", "--yes"],
            &["archive", "list"],
        ],
    );
}
