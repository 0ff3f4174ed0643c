//! Retry budgets: an outage is not followed by a storm, and no job is lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use backstop::prelude::*;
use backstop::{Config, Timestamp};
use backstop_core::failure::BudgetSettings;
use backstop_core::job::{PausedFrom, State};
use backstop_store::{ManualClock, ModelStore};

use crate::fixture::*;

const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// Due times of retries that wait, by second.
async fn planned(engine: &Backstop, jobs: &[backstop::JobId]) -> BTreeMap<i64, u32> {
    let mut seconds = BTreeMap::new();
    for id in jobs {
        let record = detail(engine, *id).await.view.record;
        assert_eq!((record.state, record.paused_from), (State::Pending, None::<PausedFrom>));
        *seconds.entry(record.run_at.as_micros() / 1_000_000).or_default() += 1;
    }
    seconds
}

async fn failing(engine: &Backstop, count: usize) -> Vec<backstop::JobId> {
    let mut ids = Vec::new();
    for _ in 0..count {
        let job = engine.enqueue(act(&["error", "ok"])).policy(quick());
        ids.push(job.submit().await.expect("admitted").id);
    }
    ids
}

fn engine_at(clock: &ManualClock, config: Config) -> Backstop {
    Backstop::on(Arc::new(ModelStore::new(Arc::new(clock.clone()))), config)
}

#[tokio::test]
async fn retries_over_the_budget_are_smeared_forward() {
    // F19
    let settings = BudgetSettings { share: 0.0, floor: 5 };
    let engine = engine_at(&ManualClock::at(START), Config::default().retry_budget(Some(settings)));
    let ids = failing(&engine, 23).await;
    worker(&engine).inline().expect("a worker").drain(23).await.expect("the model is there");
    let seconds = planned(&engine, &ids).await;
    assert_eq!(seconds.values().copied().collect::<Vec<_>>(), [5, 5, 5, 5, 3], "five a second, none lost");
    let last = ids.last().expect("one");
    let decision = ledger(&engine, *last).await.remove(0).decision.expect("decided");
    let check = decision.trace.iter().find(|check| check.check == "retry_budget").expect("it says why");
    assert!(check.answer.contains("moved from 1.0 s to"), "{}", check.answer);
}

#[tokio::test]
async fn the_budget_is_shared_by_all_nodes() {
    // F19: two processes, each with half of the failures, and one calendar.
    let settings = BudgetSettings { share: 0.0, floor: 4 };
    let config = || Config::default().retry_budget(Some(settings));
    let one = engine_at(&ManualClock::at(START), config());
    let two = Backstop::on(one.store().clone(), config());
    let ids = failing(&one, 16).await;
    let (first, second) = (worker(&one).inline().expect("one"), worker(&two).inline().expect("two"));
    for _ in 0..8 {
        first.run_next().await.expect("the model is there").expect("a job is due");
        second.run_next().await.expect("the model is there").expect("a job is due");
    }
    assert_eq!(planned(&one, &ids).await.into_values().collect::<Vec<_>>(), [4, 4, 4, 4]);
}

#[tokio::test]
async fn without_a_budget_every_retry_keeps_its_time() {
    // F19
    let engine = engine_at(&ManualClock::at(START), Config::default().retry_budget(None));
    let ids = failing(&engine, 300).await;
    worker(&engine).inline().expect("a worker").drain(300).await.expect("the model is there");
    assert_eq!(planned(&engine, &ids).await.len(), 1);
}

#[tokio::test]
async fn first_runs_raise_the_budget() {
    // F19: a share of first runs, over the last five minutes.
    let settings = BudgetSettings { share: 1.0, floor: 1 };
    let engine = engine_at(&ManualClock::at(START), Config::default().retry_budget(Some(settings)));
    for _ in 0..1_200 {
        engine.enqueue(act(&["ok"])).submit().await.expect("admitted");
    }
    let running = worker(&engine).inline().expect("a worker");
    running.drain(1_200).await.expect("the model is there");
    let ids = failing(&engine, 20).await;
    running.drain(20).await.expect("the model is there");
    // 1,200 first runs in five minutes are four a second, and the floor is one; the failing ones are first runs too.
    let most = planned(&engine, &ids).await.into_values().max().expect("some");
    assert!((5..=6).contains(&most), "{most} retries in one second");
}

#[tokio::test(start_paused = true)]
async fn jobs_that_fail_together_come_back_one_after_another() {
    // F19: through the whole worker, in paused time: 2,000 jobs, ten a second.
    let settings = BudgetSettings { share: 0.0, floor: 10 };
    let engine = engine_with(Config::default().retry_budget(Some(settings)));
    let ids = failing(&engine, 2_000).await;
    let running = worker(&engine).start().await.expect("the model is there");
    pass(3).await;
    let mut seconds: BTreeMap<i64, u32> = BTreeMap::new();
    for _ in 0..400 {
        pass(1).await;
    }
    for id in &ids {
        let rows = ledger(&engine, *id).await;
        assert_eq!(state(&engine, *id).await, State::Succeeded, "no job is lost");
        assert_eq!(rows.len(), 2);
        *seconds.entry(rows[1].due_at.as_micros() / 1_000_000).or_default() += 1;
    }
    let (peak, span) = (seconds.values().copied().max().unwrap_or(0), seconds.len());
    let mean = 2_000.0 / f64::from(u32::try_from(span).expect("small"));
    println!("{span} seconds, peak {peak}, mean {mean:.2}");
    assert!(peak <= 10, "within the budget in every second: {peak}");
    assert!(f64::from(peak) / mean <= 2.0, "peak {peak} to mean {mean}");
    running.stop().await;
}
