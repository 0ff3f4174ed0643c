//! The examples in examples/deploy, run as they stand but for the folders of this test.

use std::process::{Child, Command, Stdio};

use backstop_testbed::find;

use crate::program::Program;
use crate::supervised::{prepared, runs, signal, until, worker, workers};

const BACKSTOP: &str = env!("CARGO_BIN_EXE_backstop");

/// An example with the paths of a test.
fn example(program: &Program, name: &str) -> String {
    let path = format!("{}/../../examples/deploy/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|problem| panic!("{path}: {problem}"));
    let place = |name: &str| program.path(name).display().to_string();
    worker(program);
    text.replace("/usr/local/bin/backstop", BACKSTOP)
        .replace("/opt/shop/worker", &place("my-worker"))
        .replace("/var/lib/shop", place("").trim_end_matches('/'))
        .replace("/var/log/shop", place("").trim_end_matches('/'))
        .replace("1..8", "2..8")
}

fn needed(name: &str, package: &str) -> std::path::PathBuf {
    find::program(name).unwrap_or_else(|| panic!("`{name}` is missing: install the Debian package {package}"))
}

/// Looks until two workers are live that are none of these, and answers their names.
fn two(program: &Program, others: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    until("two new workers", || {
        found = workers(program);
        found.len() == 2 && found.iter().all(|name| !others.contains(name))
    });
    found
}

/// True while the process behind the name of a worker runs.
fn still(name: &str) -> bool {
    name.strip_prefix("pid-").and_then(|pid| pid.parse().ok()).is_some_and(runs)
}

/// A child that is stopped at the end of a test that fails.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            signal(i64::from(self.0.id()), "TERM");
            let _ = self.0.wait();
        }
    }
}

/// The values of a key in a unit.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
}

/// A line of a unit as systemd runs it: without a shell and with nothing of our own environment.
fn as_unit(unit: &str, key: &str, main: u32) -> Command {
    let [line] = values(unit, key)[..] else { panic!("one {key} in {unit}") };
    let words: Vec<String> =
        line.split(' ').map(|word| word.replace("$MAINPID", &main.to_string())).collect();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
    command.current_dir(values(unit, "WorkingDirectory")[0]);
    command
}

#[test]
fn the_unit_for_systemd_starts_rolls_and_stops_workers() {
    // H9
    let program = prepared();
    let unit = example(&program, "systemd/shop-workers.service");
    program.write("shop-workers.service", &unit);
    let mut verify = Command::new(needed("systemd-analyze", "systemd"));
    verify.args(["verify", "--man=no"]).arg(program.path("shop-workers.service"));
    let verified = verify.output().expect("it runs");
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success() && !said.contains("shop-workers"), "{said}");
    // What systemd does with it, where it is not the first process of the machine.
    let mut main = Guarded(as_unit(&unit, "ExecStart", 0).spawn().expect("it starts"));
    let first = two(&program, &[]);
    let reload = as_unit(&unit, "ExecReload", main.0.id()).status().expect("it runs");
    assert!(reload.success());
    let second = two(&program, &first);
    until("the old ones are gone", || !first.iter().any(|name| still(name)));
    assert_eq!((values(&unit, "KillMode"), values(&unit, "KillSignal")), (vec!["mixed"], vec![]));
    signal(i64::from(main.0.id()), "TERM");
    assert_eq!(main.0.wait().expect("it ends").code(), Some(0));
    assert!(!second.iter().any(|name| still(name)));
    assert_eq!(workers(&program).len(), 0);
}

#[test]
fn the_program_for_supervisord_starts_rolls_and_stops_workers() {
    // H9
    let program = prepared();
    let example = example(&program, "supervisord/shop-workers.conf").replace("user=shop\n", "");
    let place = |name: &str| program.path(name).display().to_string();
    program.write("shop-workers.conf", &example);
    program.write(
        "supervisord.conf",
        &format!(
            "[supervisord]\nnodaemon=true\nlogfile={}\npidfile={}\n\
             [unix_http_server]\nfile={socket}\n[supervisorctl]\nserverurl=unix://{socket}\n\
             [rpcinterface:supervisor]\n\
             supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface\n\
             [include]\nfiles={}\n",
            place("supervisord.log"),
            place("supervisord.pid"),
            place("shop-workers.conf"),
            socket = place("supervisord.sock"),
        ),
    );
    let settings = place("supervisord.conf");
    let mut daemon = Command::new(needed("supervisord", "supervisor"));
    daemon.args(["-n", "-c", &settings]).stdout(Stdio::null()).stdin(Stdio::null());
    let mut daemon = Guarded(daemon.spawn().expect("it starts"));
    let control = |args: &[&str]| {
        let mut command = Command::new(needed("supervisorctl", "supervisor"));
        let said = command.args(["-c", &settings]).args(args).output().expect("it runs");
        String::from_utf8_lossy(&said.stdout).into_owned()
    };
    let first = two(&program, &[]);
    control(&["signal", "HUP", "shop-workers"]);
    let second = two(&program, &first);
    until("the old ones are gone", || !first.iter().any(|name| still(name)));
    let stopped = control(&["stop", "shop-workers"]);
    assert!(stopped.contains("stopped"), "{stopped}");
    assert!(!second.iter().any(|name| still(name)));
    assert_eq!(workers(&program).len(), 0);
    let status = control(&["status"]);
    assert!(status.contains("STOPPED"), "{status}");
    control(&["shutdown"]);
    daemon.0.wait().expect("it ends");
}
