//! `bench`: its figures are measured, and shown for people and machines.

use backstop_testbed::{Beanstalkd, DatabaseSettings, Folder, Moto, Nats, Rabbitmq, Redis};

use crate::program::Program;

/// Measures messages of brokers, and checks that each direction stands beside a bare loop.
fn measured(brokers: &[&str], names: &[&str], env: &[(&str, &str)]) {
    let program = Program::new();
    let mut args = vec!["bench", "--quick", "--dir", ".", "--json"];
    args.extend(brokers.iter().flat_map(|broker| ["--broker", *broker]));
    let bench = program.run_with(&args, env).exits(0).json();
    let items = bench["items"].as_array().expect("items");
    let found: Vec<_> = items.iter().filter_map(|item| item["name"].as_str()).collect();
    assert_eq!(found, names);
    for item in items {
        let figures = [&item["floor"], &item["backstop"], &item["ratio"]].map(|figure| figure.as_f64());
        assert!(figures.iter().all(|figure| figure.is_some_and(|figure| figure > 0.0)), "{item}");
        assert_eq!((&item["unit"], &item["ratio_goal"]), (&"messages_per_second".into(), &0.5.into()));
        assert_eq!(item["runs"].as_array().map(Vec::len), Some(3));
    }
    assert_eq!(std::fs::read_dir(program.path(".")).expect("the directory").count(), 0, "no file is left");
}

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

#[test]
fn messages_of_small_brokers_are_measured_beside_their_clients() {
    // B1, B2
    let folder = Folder::new("cli-bench-brokers").expect("a folder");
    let redis = Redis::start(&DatabaseSettings::new(folder.join("redis"))).expect("a server");
    let nats = Nats::start(folder.join("nats")).expect("a server");
    let beanstalkd = Beanstalkd::start(folder.join("beanstalkd")).expect("a server");
    measured(
        &[&redis.url(), &nats.url(), &beanstalkd.url()],
        &["redis_in", "redis_out", "nats_in", "nats_out", "beanstalkd_in", "beanstalkd_out"],
        &[],
    );
    assert_eq!(redis.order("DBSIZE").expect("an answer").trim(), "0", "no queue is left");
}

#[test]
fn messages_of_rabbitmq_are_measured_beside_its_client() {
    // B1, B2
    let folder = Folder::new("cli-bench-rabbitmq").expect("a folder");
    let rabbitmq = Rabbitmq::start(folder.join("rabbitmq")).expect("a server");
    measured(&[&rabbitmq.url()], &["rabbitmq_in", "rabbitmq_out"], &[]);
}

#[test]
fn messages_of_sqs_are_measured_beside_its_client() {
    // B1, B2
    let folder = Folder::new("cli-bench-sqs").expect("a folder");
    let moto = Moto::start(folder.join("moto")).expect("a server");
    let keys =
        [("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test"), ("AWS_REGION", "us-east-1")];
    measured(&[&format!("sqs+{}", moto.url())], &["sqs_in", "sqs_out"], &keys);
}

#[test]
fn a_broker_that_cannot_be_measured_is_named_without_its_password() {
    // B1
    let program = Program::new();
    let run = |broker: &str| program.run(&["bench", "--quick", "--dir", ".", "--broker", broker]);
    let away = run("redis://:hunter2@127.0.0.1:1").exits(1).tells(&["redis://127.0.0.1:1", "unavailable"]);
    assert!(!away.stderr.contains("hunter2"), "{}", away.stderr);
    let unknown = run("kafka://:hunter2@127.0.0.1").exits(2).tells(&["names no broker that is known"]);
    assert!(!unknown.stderr.contains("hunter2"), "{}", unknown.stderr);
    program.run(&["bench", "--broker", "redis://127.0.0.1", "--only", "drain"]).exits(2);
}
