//! Limits on runs over all workers (H5), through the engine: at once and in a time, from settings and at run time.

use std::time::Duration;

use backstop::circuits::CircuitSettings;
use backstop::limits::{LimitProblem, RunLimit, RunRate};
use backstop::prelude::*;
use backstop::{Config, JobId, QueueConfig};
use backstop_core::job::{State, WaitReason};

use crate::fixture::*;

fn at_once(name: &str, jobs: u64) -> RunLimit {
    RunLimit { concurrency: Some(jobs), ..RunLimit::of_queue(name) }
}

async fn submit(engine: &Backstop, jobs: usize, script: &[&str]) -> Vec<JobId> {
    let mut ids = Vec::new();
    for _ in 0..jobs {
        ids.push(engine.enqueue(act(script)).submit().await.expect("admitted").id);
    }
    ids
}

async fn running(engine: &Backstop) -> u64 {
    engine.queues().list().await.expect("the model is there").remove(0).running
}

async fn succeeded(engine: &Backstop) -> u64 {
    engine.queues().list().await.expect("the model is there").remove(0).succeeded
}

#[tokio::test(start_paused = true)]
async fn no_more_run_at_once_than_a_limit_allows_on_all_workers() {
    // H5
    let engine = engine();
    engine.limits().set(at_once("default", 5)).await.expect("a limit");
    let jobs = submit(&engine, 12, &["hang"]).await;
    let crews = [
        worker(&engine).start().await.expect("started"),
        worker(&engine).start().await.expect("started"),
        worker(&engine).start().await.expect("started"),
    ];
    pass(5).await;
    assert_eq!(running(&engine).await, 5, "there are twelve slots");
    let seen = engine.limits().list().await.expect("the model is there");
    assert_eq!((seen[0].used.running, seen[0].pending, seen[0].is_full()), (5, 7, true));
    let mut waiting = Vec::new();
    for job in jobs {
        if detail(&engine, job).await.view.state() == State::Waiting {
            waiting.push(job);
        }
    }
    assert_eq!(waiting.len(), 7);
    let held = detail(&engine, waiting[0]).await.waiting_for().expect("it waits");
    assert_eq!((held.reason, held.key.as_str()), (WaitReason::Concurrency, "queue:default"));
    let (_, why) = engine.explain(waiting[0]).await.expect("the model is there").expect("the job is there");
    assert!(why.because.contains("the limit `queue:default` has no room: 5 of 5 run"), "{}", why.because);
    assert_eq!(detail(&engine, waiting[0]).await.view.record.deferrals, 0, "nobody is charged");
    engine.limits().delete("queue:default").await.expect("the model is there");
    pass(2).await;
    assert_eq!(running(&engine).await, 12, "within two seconds, without a restart");
    drop(crews);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_lets_the_next_one_start_at_once() {
    // H5
    let engine = engine();
    engine.limits().set(at_once("default", 1)).await.expect("a limit");
    submit(&engine, 5, &["ok"]).await;
    let crew = worker(&engine).poll(Duration::from_secs(3_600)).start().await.expect("started");
    for _ in 0..20 {
        settle().await;
    }
    assert_eq!(succeeded(&engine).await, 5, "long before the next poll");
    crew.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_is_set_while_workers_run_is_followed_within_two_seconds() {
    // H5
    let engine = engine();
    let crew = worker(&engine).start().await.expect("started");
    pass(10).await;
    engine.limits().set(at_once("default", 2)).await.expect("a limit");
    pass(2).await;
    submit(&engine, 9, &["hang"]).await;
    pass(5).await;
    assert_eq!(running(&engine).await, 2);
    engine.limits().set(at_once("default", 3)).await.expect("a limit");
    pass(2).await;
    assert_eq!(running(&engine).await, 3);
    drop(crew);
}

#[tokio::test(start_paused = true)]
async fn a_rate_of_the_settings_is_followed_to_the_moment() {
    // H5
    let queue = QueueConfig::default().rate(2, Duration::from_secs(10));
    let engine = engine_with(Config::default().queue("default", queue));
    let jobs = submit(&engine, 5, &["ok"]).await;
    let crew = worker(&engine).poll(Duration::from_secs(1)).start().await.expect("started");
    pass(1).await;
    assert_eq!(succeeded(&engine).await, 2, "the bucket holds two");
    let held = detail(&engine, jobs[4]).await.waiting_for().expect("it waits");
    assert_eq!((held.reason, held.until.is_some()), (WaitReason::Rate, true));
    let (_, why) = engine.explain(jobs[4]).await.expect("the model is there").expect("the job is there");
    assert_eq!(why.next_at, held.until);
    assert!(why.because.contains("0 of 2 starts are left"), "{}", why.because);
    pass(5).await;
    assert_eq!(succeeded(&engine).await, 3);
    pass(10).await;
    assert_eq!(succeeded(&engine).await, 5);
    crew.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_person_has_set_stands_over_settings() {
    // H5
    let store = model();
    let open = |count| {
        let queue = QueueConfig::default().rate(count, Duration::from_secs(60));
        Backstop::on(store.clone(), Config::default().queue("default", queue))
    };
    let named = async |engine: &Backstop| {
        let seen = engine.limits().get("queue:default").await.expect("the model is there").expect("one");
        (seen.limit.rate.map(|rate| rate.count), seen.limit.concurrency)
    };
    assert_eq!(named(&open(7)).await, (Some(7), None));
    let second = open(9);
    assert_eq!(named(&second).await, (Some(9), None), "settings follow settings");
    second.limits().set(at_once("default", 4)).await.expect("a limit");
    assert_eq!(named(&open(7)).await, (None, Some(4)));
    assert!(second.limits().delete("queue:default").await.expect("the model is there"));
    assert_eq!(named(&open(7)).await, (Some(7), None), "a start brings it back");
    assert!(!second.limits().delete("unheard").await.expect("the model is there"));
}

#[tokio::test(start_paused = true)]
async fn an_inline_worker_keeps_to_limits() {
    // H5
    let engine = engine();
    let rate = RunRate { count: 1, per: Duration::from_secs(30) };
    let limit = RunLimit { rate: Some(rate), ..RunLimit::new("all") };
    engine.limits().set(limit).await.expect("a limit");
    submit(&engine, 2, &["ok"]).await;
    let inline = worker(&engine).inline().expect("a worker");
    assert!(inline.run_next().await.expect("the model is there").is_some());
    assert!(inline.run_next().await.expect("the model is there").is_none());
    pass(30).await;
    assert!(inline.run_next().await.expect("the model is there").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_cannot_be_meant_is_refused() {
    // H5
    let engine = engine();
    let rate = |count, per_ms| Some(RunRate { count, per: Duration::from_millis(per_ms) });
    for (limit, problem) in [
        (RunLimit::new("none"), "it limits nothing"),
        (RunLimit { concurrency: Some(0), ..RunLimit::new("zero") }, "0 would let nothing run"),
        (RunLimit { rate: rate(0, 1_000), ..RunLimit::new("zero") }, "a count of 0 would let nothing start"),
        (RunLimit { rate: rate(1, 0), ..RunLimit::new("never") }, "between 1 ms and 366 days"),
        (RunLimit { concurrency: Some(1), ..RunLimit::new("") }, "empty"),
    ] {
        match engine.limits().set(limit).await {
            Err(LimitProblem::Invalid(refusal)) => {
                assert!(refusal.to_string().contains(problem), "{refusal}: {problem}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(engine.limits().list().await.expect("the model is there").is_empty());
}

#[tokio::test(start_paused = true)]
async fn settings_that_let_nothing_through_are_refused_when_a_worker_starts() {
    // H3, H5
    let mut never = CircuitSettings::default();
    never.probes = 0;
    let zero = RunLimit { concurrency: Some(0), ..RunLimit::new("zero") };
    let empty = QueueConfig::default().rate(0, Duration::from_secs(1));
    for (config, problem) in [
        (Config::default().run_limit(zero), "limit `zero` cannot be used: concurrency is invalid"),
        (Config::default().queue("default", empty), "limit `queue:default` cannot be used: rate is invalid"),
        (
            Config::default().circuit_settings("smtp", never),
            "circuit `smtp` cannot be used: probes is invalid",
        ),
    ] {
        let told = worker(&engine_with(config)).start().await.err().expect("refused").to_string();
        assert!(told.contains(problem), "{told}");
    }
}
