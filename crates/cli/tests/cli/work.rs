//! `work`: as many processes as the backlog needs, real ones.

use std::process::Stdio;

use crate::both::Served;
use crate::program::Program;
use crate::supervised::{
    Supervised, hold, let_go, open, prepared, runs, script, signal, until, worker, workers, works,
};

#[test]
fn a_backlog_brings_more_processes_and_an_idle_time_fewer() {
    // H9
    let program = prepared();
    for _ in 0..3 {
        hold(&program);
    }
    let mut work = Supervised::start(&program, &["--processes", "1..3"]);
    work.started();
    for (from, to) in [(1, 2), (2, 3)] {
        let scaled = work.next("scaled");
        assert_eq!((&scaled["from"], &scaled["to"]), (&from.into(), &to.into()), "{scaled}");
        let message = scaled["message"].as_str().expect("a reason");
        let begin = format!("{from} -> {to} processes: ");
        assert!(
            message.starts_with(&begin) && message.contains("on queue `default`, the oldest for"),
            "{message}"
        );
        work.started();
    }
    let_go(&program, 3);
    for (from, to) in [(3, 2), (2, 1)] {
        let scaled = work.next("scaled");
        assert_eq!((&scaled["from"], &scaled["to"]), (&from.into(), &to.into()), "{scaled}");
        assert!(
            scaled["message"].as_str().expect("a reason").contains("fewer have been enough for"),
            "{scaled}"
        );
        assert_eq!(work.next("stopped")["code"], 0);
    }
    assert_eq!(workers(&program).len(), 1);
    work.stop();
    assert_eq!(workers(&program).len(), 0);
}

#[test]
fn no_more_processes_come_than_a_limit_leaves_work_for() {
    // H9, H5
    let program = prepared();
    let limit = |most: &str| {
        let set = ["limit", "set", "few", "--queue", "default", "--concurrency", most];
        program.run(&set).exits(0);
    };
    limit("2");
    for _ in 0..4 {
        hold(&program);
    }
    let mut work = Supervised::start(&program, &["--processes", "1..4"]);
    work.started();
    // Four jobs would have brought two processes, and then four.
    for (from, to) in [(1, 2), (2, 3), (3, 4)] {
        let scaled = work.next("scaled");
        assert_eq!((&scaled["from"], &scaled["to"]), (&from.into(), &to.into()), "{scaled}");
        work.started();
        limit(if to == 2 { "3" } else { "4" });
    }
    let_go(&program, 4);
    work.stop();
}

#[test]
fn a_dead_process_is_replaced() {
    // H9
    let program = prepared();
    let mut work = Supervised::start(&program, &["--processes", "2", "--", &worker(&program)]);
    let (first, second) = (work.started(), work.started());
    works(&program, first);
    signal(first, "KILL");
    let died = work.next("died");
    assert_eq!((&died["pid"], &died["signal"]), (&first.into(), &9.into()));
    let third = work.started();
    works(&program, third);
    assert!(runs(second), "nobody else was touched");
    work.stop();
    assert!(![first, second, third].into_iter().any(runs));
}

#[test]
fn the_runs_of_a_dead_process_end_at_once_with_what_killed_it() {
    // C4, H9
    let program = prepared();
    let job = hold(&program);
    let mut work = Supervised::start(&program, &["--processes", "1", "--", &worker(&program)]);
    let pid = work.started();
    until("it runs", || program.run(&["job", "show", &job, "--json"]).json()["status"] == "running");
    signal(pid, "ABRT");
    assert_eq!(work.next("died")["signal"], 6);
    assert_eq!(work.next("runs_ended")["runs"], 1);
    // Nobody but the supervisor knows what killed it.
    let shown = program.run(&["job", "show", &job, "--json"]).json().to_string();
    assert!(shown.contains("Crash::SIGABRT"), "{shown}");
    assert!(shown.contains("its process was killed by SIGABRT (signal 6); peak memory "), "{shown}");
    let_go(&program, 1);
    assert_eq!(program.run(&["job", "show", &job, "--json"]).json()["status"], "succeeded");
    work.stop();
}

#[test]
fn a_program_that_always_dies_is_waited_for_ever_longer() {
    // H9
    let program = prepared();
    let mut work = Supervised::start(&program, &["--processes", "1..8", "--", "sh", "-c", "exit 7"]);
    for early in 1..=3 {
        let died = work.next("died");
        assert_eq!((&died["code"], &died["early_ends"]), (&7.into(), &early.into()));
        assert_eq!(died["next_start_in_ms"], 500 << (early - 1));
    }
    assert_eq!(work.seen.iter().filter(|line| line["event"] == "started").count(), 3);
    work.stop();
    let mut work = Supervised::start(&program, &["--processes", "1", "--", "true"]);
    let died = work.next("died");
    let message = died["message"].as_str().expect("a message");
    assert!(
        message.contains("exited with code 0") && message.contains("runs until it is told to stop"),
        "{message}"
    );
    work.stop();
}

#[test]
fn a_stop_lets_running_jobs_finish() {
    // H9, L18
    let program = prepared();
    let job = hold(&program);
    let mut work = Supervised::start(&program, &["--processes", "1", "--", &worker(&program)]);
    let pid = work.started();
    until("it runs", || program.run(&["job", "show", &job, "--json"]).json()["status"] == "running");
    work.signal("TERM");
    assert_eq!(work.next("stopping")["processes"], 1);
    assert!(runs(pid));
    let_go(&program, 1);
    assert_eq!(work.next("stopped")["code"], 0);
    assert_eq!(work.exit(), Some(0));
    assert_eq!(program.run(&["job", "show", &job, "--json"]).json()["status"], "succeeded");
}

#[test]
fn a_second_stop_kills_a_process_and_all_that_it_started() {
    // H9
    let program = prepared();
    let stubborn = "trap '' TERM HUP INT\nsetsid sleep 1000 &\necho $! > child\nwait\nwait";
    let stubborn = script(&program, "stubborn", stubborn);
    let mut work = Supervised::start(&program, &["--processes", "1", "--", &stubborn]);
    let pid = work.started();
    let child = || std::fs::read_to_string(program.path("child")).ok()?.trim().parse::<i64>().ok();
    until("it has a child", || child().is_some());
    let child = child().expect("a number");
    work.signal("TERM");
    work.next("stopping");
    assert!(runs(pid) && runs(child));
    work.signal("TERM");
    assert_eq!(work.next("killed")["pid"], pid);
    assert_eq!(work.exit(), Some(1), "processes had to be killed");
    assert!(!runs(pid) && !runs(child));
}

#[test]
fn a_hangup_replaces_processes_and_somebody_always_works() {
    // H9
    let program = prepared();
    hold(&program);
    let mut work = Supervised::start(&program, &["--processes", "1", "--", &worker(&program)]);
    let old = work.started();
    until("it runs", || program.run(&["queue", "list", "--json"]).json()["items"][0]["running"] == 1);
    work.signal("HUP");
    work.next("rolling");
    let new = work.started();
    works(&program, new);
    // The old one still has its job, and who comes now is served by the new one.
    assert!(workers(&program).contains(&format!("pid-{old}")));
    let next = hold(&program);
    until("it runs", || program.run(&["job", "show", &next, "--json"]).json()["status"] == "running");
    assert!(work.seen.iter().all(|line| line["event"] != "stopped"), "{:?}", work.seen);
    let_go(&program, 2);
    assert_eq!(work.next("stopped")["pid"], old);
    work.next("rolled");
    assert_eq!(workers(&program), [format!("pid-{new}")]);
    work.stop();
}

#[test]
fn an_old_process_works_until_a_new_one_does() {
    // H9
    let program = prepared();
    let name = worker(&program);
    let mut work = Supervised::start(&program, &["--processes", "1", "--", &name]);
    let old = work.started();
    works(&program, old);
    // The new version takes its time to begin.
    let slow = format!("read line < boot\nexec {} up --no-api", env!("CARGO_BIN_EXE_backstop"));
    script(&program, "my-worker", &slow);
    work.signal("HUP");
    let new = work.started();
    // Many looks go by, and the old one takes all that comes.
    for _ in 0..5 {
        hold(&program);
        let_go(&program, 1);
    }
    assert_eq!(workers(&program), [format!("pid-{old}")]);
    until("it reads", || open(&program, "boot"));
    assert_eq!(work.next("stopped")["pid"], old);
    work.next("rolled");
    assert_eq!(workers(&program), [format!("pid-{new}")]);
    work.stop();
}

#[test]
fn a_roll_to_a_program_that_does_not_live_leaves_the_old_ones() {
    // H9
    let program = prepared();
    let name = worker(&program);
    let mut work = Supervised::start(&program, &["--processes", "2", "--", &name]);
    let old = [work.started(), work.started()];
    old.iter().for_each(|pid| works(&program, *pid));
    script(&program, "my-worker", "exit 3");
    work.signal("HUP");
    work.next("roll_given_up");
    assert!(old.into_iter().all(runs), "{:?}", work.seen);
    worker(&program);
    work.signal("HUP");
    work.next("rolled");
    until("both are gone", || !old.into_iter().any(runs));
    assert_eq!(workers(&program).len(), 2);
    work.stop();
}

/// A worker in another language, which knows nothing but a server.
const REMOTE: &str = "
import os
import sys
from backstop import Client, Worker

worker = Worker(Client(os.environ['BACKSTOP_SERVER']), ['default'], concurrency=1)

@worker.handler('hold')
def hold(job):
    print('holding', job.id, file=sys.stderr, flush=True)
    open('held', 'w').close()
    with open('gate') as gate:
        gate.read()

worker.run()
";

/// Supervises such workers.
fn supervise_remote(program: &Program, served: &Served, processes: &str) -> Supervised {
    program.write("remote.py", REMOTE);
    let clients = format!("{}/../../clients/python", env!("CARGO_MANIFEST_DIR"));
    let address = served.address();
    let line =
        ["work", "--json", "--processes", processes, "--server", &address, "--", "python3", "remote.py"];
    let mut command = program.command(&line);
    command.env("PYTHONPATH", clients).env("PYTHONDONTWRITEBYTECODE", "1");
    Supervised::of(command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().expect("it starts"))
}

#[test]
fn the_runs_of_a_dead_remote_process_end_at_once_with_what_killed_it() {
    // C4, E7, H9
    let program = prepared();
    let job = program.enqueue(&["hold"]);
    let served = Served::of(&program);
    let mut work = supervise_remote(&program, &served, "1");
    let pid = work.started();
    until("it runs", || program.path("held").exists());
    signal(pid, "ABRT");
    assert_eq!(work.next("died")["signal"], 6);
    assert_eq!(work.next("runs_ended")["runs"], 1);
    // Nobody but the supervisor knows what killed it.
    let shown = program.run(&["job", "show", &job, "--json"]).json().to_string();
    assert!(shown.contains("Crash::SIGABRT"), "{shown}");
    assert!(shown.contains("its process was killed by SIGABRT (signal 6); peak memory "), "{shown}");
    assert!(shown.contains(&format!("; its last line: holding {job}")), "{shown}");
    let_go(&program, 1);
    assert_eq!(program.run(&["job", "show", &job, "--json"]).json()["status"], "succeeded");
    work.stop();
}

#[test]
fn remote_workers_are_supervised_through_a_server() {
    // H9, E7
    let program = prepared();
    let jobs: Vec<String> = (0..2).map(|_| program.enqueue(&["hold"])).collect();
    let served = Served::of(&program);
    let mut work = supervise_remote(&program, &served, "1..2");
    let first = work.started();
    assert_eq!(work.next("scaled")["to"], 2);
    work.started();
    let_go(&program, 2);
    for job in jobs {
        assert_eq!(program.run(&["job", "show", &job, "--json"]).json()["status"], "succeeded");
    }
    // A server that cannot be reached costs nobody.
    drop(served);
    work.next("backlog_unreadable");
    assert!(runs(first));
    work.stop();
}

#[test]
fn no_worker_outlives_a_supervisor_that_was_killed() {
    // H9
    let program = prepared();
    let mut work = Supervised::start(&program, &["--processes", "2", "--", &worker(&program)]);
    let pids = [work.started(), work.started()];
    pids.iter().for_each(|pid| works(&program, *pid));
    work.signal("KILL");
    work.exit();
    until("they are gone", || !pids.into_iter().any(runs));
    assert_eq!(workers(&program).len(), 0, "they stopped as they do when they are told to");
}

#[test]
fn what_cannot_be_is_refused_at_the_start_in_one_sentence() {
    // H9
    let program = prepared();
    for (range, told) in [
        ("0", "`0` allows no process at all: the minimum is 1"),
        ("5..2", "`5..2` begins above its end"),
        ("1..1000", "`1..1000` is over the limit of 256 processes"),
        ("some", "`some` is not a number of processes"),
    ] {
        program.run(&["work", "--processes", range]).exits(2).tells(&[told]);
        let variable = [("BACKSTOP_WORKERS__PROCESSES", range)];
        program.run_with(&["work"], &variable).exits(2).tells(&[told, "BACKSTOP_WORKERS__PROCESSES: "]);
    }
    program.write("other.toml", "[workers]\nprocesses = 3\n");
    let check = program.run(&["config", "check", "--config", "other.toml", "--json"]).exits(0).json();
    let rows = check["settings"].as_array().expect("a list");
    assert!(rows.iter().any(|row| row["key"] == "workers.processes" && row["value"] == "3"), "{check}");
    program.write("other.toml", "[workers]\nprocesses = -3\n");
    let wrong = program.run(&["work", "--config", "other.toml"]).exits(2);
    wrong.tells(&["`workers.processes` must be a number, or a range in quotes"]);
    let missing = program.run(&["work", "--", "./no-such-worker"]).exits(1);
    missing.tells(&["cannot start `./no-such-worker`: there is no such program"]);
    program.run(&["work", "--", "./backstop.toml"]).exits(1).tells(&["it may not be executed"]);
    program
        .run(&["work", "--store", "memory:", "--", "true"])
        .exits(2)
        .tells(&["need a store that they share"]);
    let elsewhere = program.run(&["work", "--server", "http://127.0.0.1:9"]).exits(2);
    elsewhere.tells(&["works on a store itself"]);
    program.run(&["work", "--server", "http://127.0.0.1:9", "--", "true"]).exits(1);
}
