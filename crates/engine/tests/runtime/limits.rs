//! Limits on runs over all workers (H5), through the engine: at once and in a time, from settings and at run time.

use std::time::Duration;

use backstop::circuits::CircuitSettings;
use backstop::limits::{CountBy, LimitProblem, RunLimit, RunRate};
use backstop::prelude::*;
use backstop::{Config, JobId, QueueConfig};
use backstop_core::failure::TerminalReason;
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

#[tokio::test(start_paused = true)]
async fn keys_share_a_queue_by_turns_and_each_has_its_own_room() {
    // H5, F20
    let engine = engine();
    let two = RunLimit { by: CountBy::Key, concurrency: Some(2), ..RunLimit::new("customer") };
    engine.limits().set(two).await.expect("a limit");
    let mut large = Vec::new();
    for _ in 0..20 {
        large.push(engine.enqueue(act(&["hang"])).limit_key("large").submit().await.expect("admitted").id);
    }
    let small = engine.enqueue(act(&["hang"])).limit_key("small").submit().await.expect("admitted").id;
    let crew = worker(&engine).start().await.expect("started");
    pass(2).await;
    assert_eq!(running(&engine).await, 3, "two of one, and the only one of the other");
    assert_eq!(detail(&engine, small).await.view.state(), State::Running, "it was submitted last");
    let held = detail(&engine, large[5]).await;
    assert_eq!(held.view.state(), State::Waiting);
    let waiting = held.waiting_for().expect("it waits");
    assert_eq!((waiting.reason, waiting.key.as_str()), (WaitReason::Concurrency, "customer"));
    assert!(waiting.holder.is_some_and(|job| large.contains(&job)), "{waiting:?}");
    let (_, why) = engine.explain(large[5]).await.expect("the model is there").expect("the job is there");
    assert!(why.because.contains("the limit `customer` has no room for its key `large`"), "{}", why.because);
    assert_eq!(held.view.record.deferrals, 0, "nobody is charged");
    drop(crew);
}

#[tokio::test(start_paused = true)]
async fn one_run_of_a_name_and_the_next_one_starts_when_it_has_ended() {
    // H6, F20
    let engine = engine();
    let job = |script: &[&str]| engine.enqueue(act(script)).single_instance("nightly").max_retries(0);
    let first = job(&["hang"]).timeout(Duration::from_secs(10)).submit().await.expect("admitted");
    let second = job(&["ok"]).submit().await.expect("admitted");
    let crew = worker(&engine).start().await.expect("started");
    pass(2).await;
    let waiting = detail(&engine, second.id).await.waiting_for().expect("it waits");
    assert_eq!((waiting.reason, waiting.key.as_str()), (WaitReason::SingleInstance, "nightly"));
    assert_eq!(waiting.holder, Some(first.id));
    let (_, why) = engine.explain(second.id).await.expect("the model is there").expect("the job is there");
    assert!(why.because.contains("runs as the single instance of `nightly`"), "{}", why.because);
    pass(20).await;
    assert_eq!(detail(&engine, first.id).await.view.state(), State::Failed, "it took too long");
    assert_eq!(detail(&engine, second.id).await.view.state(), State::Succeeded);
    drop(crew);
}

#[tokio::test(start_paused = true)]
async fn runs_hold_the_permits_of_a_pool_and_a_job_waits_no_longer_than_it_may() {
    // H5, H7
    let engine = engine();
    let cards = RunLimit { permits: Some(3), ..RunLimit::new("cards") };
    engine.limits().set(cards).await.expect("a pool");
    let job = |permits| engine.enqueue(act(&["hang"])).permits("cards", permits);
    job(2).submit().await.expect("admitted");
    let crew = worker(&engine).start().await.expect("started");
    pass(2).await;
    let large = job(2).max_deferral(Duration::from_secs(30)).submit().await.expect("admitted").id;
    let small = job(1).submit().await.expect("admitted").id;
    pass(2).await;
    assert_eq!(detail(&engine, small).await.view.state(), State::Running, "one permit was left");
    let waiting = detail(&engine, large).await.waiting_for().expect("it waits");
    assert_eq!((waiting.reason, waiting.key.as_str()), (WaitReason::Permits, "cards"));
    let pool = engine.limits().get("cards").await.expect("the model is there").expect("a pool");
    assert_eq!((pool.used.permits, pool.is_full()), (3, true));
    assert_eq!(pool.describe(), "3 of 3 permits are held");
    pass(60).await;
    let record = detail(&engine, large).await.view.record;
    assert_eq!(record.reason, Some(TerminalReason::DeferralExhausted), "{record:?}");
    drop(crew);
}

#[tokio::test]
async fn what_cannot_wait_for_two_things_is_refused() {
    // H5, L21
    let engine = engine();
    let both = engine.enqueue(act(&["ok"])).ordering_key("a").limit_key("b").submit().await;
    assert!(both.expect_err("refused").to_string().contains("ordering_key"), "one or the other");
    for (wrong, said) in [
        (RunLimit { permits: Some(0), ..RunLimit::new("none") }, "permits"),
        (RunLimit { permits: Some(1), queue: Some("mail".into()), ..RunLimit::new("pool") }, "permits"),
        (RunLimit { by: CountBy::Key, ..RunLimit::new("idle") }, "limit"),
        (
            RunLimit { concurrency: Some(1), weights: [("a".into(), 2)].into(), ..RunLimit::new("w") },
            "weights",
        ),
    ] {
        let refused = engine.limits().set(wrong).await.expect_err("refused");
        assert!(refused.to_string().contains(said), "{refused}");
    }
}
