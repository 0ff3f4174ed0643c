//! `bench`: its figures are measured, and shown for people and machines.

use crate::program::Program;

#[test]
fn latency_is_measured() {
    let program = Program::new();
    let bench =
        program.run(&["bench", "--quick", "--only", "latency", "--dir", ".", "--json"]).exits(0).json();
    let items = bench["items"].as_array().expect("items");
    let names: Vec<_> = items.iter().filter_map(|item| item["name"].as_str()).collect();
    assert_eq!(names, ["latency_p50", "latency_p99", "latency_p999"]);
    let values: Vec<f64> = items.iter().filter_map(|item| item["backstop"].as_f64()).collect();
    assert!(values[0] > 0.0 && values[0] <= values[1] && values[1] <= values[2], "{values:?}");
    assert_eq!(items[1]["goal"]["below"], 10.0);
    assert_eq!(
        std::fs::read_dir(program.path(".")).expect("the directory").count(),
        0,
        "it leaves no file behind"
    );
}

#[test]
fn what_a_process_of_its_own_costs_is_measured() {
    // E2
    let program = Program::new();
    let bench =
        program.run(&["bench", "--quick", "--only", "isolated", "--dir", ".", "--json"]).exits(0).json();
    let items = bench["items"].as_array().expect("items");
    let names: Vec<_> = items.iter().filter_map(|item| item["name"].as_str()).collect();
    assert_eq!(names, ["run_inside", "run_isolated", "isolation_cost"]);
    assert!(items.iter().take(2).all(|item| item["backstop"].as_f64().is_some_and(|ms| ms > 0.0)), "{bench}");
    assert_eq!(items[2]["goal"]["below"], 2.0);
    assert_eq!(std::fs::read_dir(program.path(".")).expect("the directory").count(), 0);
}

#[test]
fn single_submits_are_measured_against_the_floor() {
    let program = Program::new();
    program.run(&["bench", "--quick", "--only", "single", "--dir", "."]).exits(0).says(&[
        "MEASURE",
        "FLOOR",
        "BACKSTOP",
        "RATIO",
        "GOAL",
        "single submits from 64 tasks",
        "jobs/s",
    ]);
}

#[test]
fn a_backlog_is_drained_in_a_process_of_its_own() {
    let program = Program::new();
    let args = ["bench", "--child-backlog", "2000", "--dir", "child.db", "--json"];
    let drained = program.run(&args).exits(0).json();
    assert!(drained["rate"].as_f64().is_some_and(|rate| rate > 0.0));
    if cfg!(target_os = "linux") {
        assert!(drained["peak_bytes"].as_u64().is_some_and(|bytes| bytes > 1_000_000));
    }
    program.run(&["bench", "--only", "nothing"]).exits(2);
}

#[test]
fn a_server_is_for_workflows_alone() {
    let program = Program::new();
    let url = "postgres://nobody:secret@127.0.0.1:1/none";
    let refused = program.run(&["bench", "--on", url, "--only", "drain"]).exits(2);
    let refused = refused.tells(&["`--on` measures workflows and nothing else"]);
    assert!(!refused.stderr.contains("secret"), "{}", refused.stderr);
    program.run(&["bench", "--processes", "4"]).exits(2).tells(&["--on"]);
    program.run(&["bench", "--on", url, "--processes", "0"]).exits(2);
    program.run(&["bench", "--on", url, "--dir", "."]).exits(2);
}
