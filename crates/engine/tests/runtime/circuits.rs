//! Circuits of dependencies (H3, H4), shared by several processes through one store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use backstop::circuits::{CallResult, CircuitSettings, CircuitState, CircuitView};
use backstop::prelude::*;
use backstop::{Backoff, Config, EventKind, Events, JobId, WorkerHandle};
use backstop_core::job::{NewJob, State, WaitReason};
use backstop_store::{Store, Submit};

use crate::fixture::{detail, model, pass, settle};

/// What the jobs here call.
#[derive(Default)]
struct Partner {
    is_up: AtomicBool,
    calls: AtomicU64,
}

#[derive(Debug, thiserror::Error, JobError)]
enum PartnerError {
    #[error("no answer")]
    Away,
    #[error("the order is not known")]
    #[job(circuit = "ignored")]
    Unknown,
    #[error("the order is odd")]
    #[job(circuit = "neutral")]
    Odd,
    #[error("wrapped")]
    #[job(circuit = "counts")]
    Wrapped(#[source] Box<PartnerError>),
}

#[job(dependency = "partner")]
async fn order(cx: JobContext<Partner>) -> Result<(), PartnerError> {
    cx.app().calls.fetch_add(1, Ordering::SeqCst);
    if cx.app().is_up.load(Ordering::SeqCst) { Ok(()) } else { Err(PartnerError::Away) }
}

/// Fails, and says what that means for the partner.
#[job(dependency = "partner")]
async fn judge(word: String, cx: JobContext<Partner>) -> JobResult {
    cx.app().calls.fetch_add(1, Ordering::SeqCst);
    Err(match word.as_str() {
        "ignored" => PartnerError::Unknown.into(),
        "neutral" => PartnerError::Odd.into(),
        "ignored_inside" => PartnerError::Wrapped(Box::new(PartnerError::Unknown)).into(),
        "ignored_outcome" => Outcome::transient("partner").counted_as(CallResult::Ignored).into(),
        "permanent" => Outcome::permanent("it cannot work").into(),
        _ => PartnerError::Away.into(),
    })
}

/// Has much to complain of, and nothing of its partner.
#[job(dependency = "partner")]
async fn sift(cx: JobContext<Partner>) -> JobResult {
    cx.app().calls.fetch_add(1, Ordering::SeqCst);
    cx.reject_many((0..50).map(|item| (item, PartnerError::Away))).await?;
    Ok(())
}

fn settings() -> CircuitSettings {
    let mut settings = CircuitSettings::default();
    (settings.min_calls, settings.probes) = (10, 2);
    (settings.open, settings.slow_start) = (Duration::from_secs(30), Duration::from_secs(10));
    settings
}

struct Process {
    engine: Backstop,
    worker: WorkerHandle,
    events: Events,
}

/// A process of its own, as far as a store can tell.
async fn process(store: &Arc<dyn Store>, partner: &Arc<Partner>) -> Process {
    let config = Config::default().circuit_settings("partner", settings());
    let config = config.kind_dependency("order", "partner");
    let engine = Backstop::on(store.clone(), config);
    let events = engine.events();
    let worker = engine.worker_sharing(partner.clone()).register::<Order>().register::<Judge>();
    let worker = worker.queue("default", 4).start().await.expect("the model is there");
    Process { engine, worker, events }
}

async fn circuit(engine: &Backstop) -> CircuitView {
    engine.circuits().get("partner").await.expect("the model is there").expect("it is known")
}

fn patient() -> Policy {
    Policy::default().retries(50).backoff(Backoff::fixed(Duration::from_secs(1)))
}

/// The changes of the circuit that were told since the last look, over all processes.
fn told(processes: &mut [Process]) -> Vec<(u64, CircuitState)> {
    let mut told = Vec::new();
    for process in processes {
        while let Some(event) = process.events.try_next() {
            if let EventKind::Circuit { generation, state, .. } = event.what {
                told.push((generation, state));
            }
        }
    }
    told.sort_by_key(|(generation, _)| *generation);
    told
}

async fn charged(engine: &Backstop, jobs: &[JobId]) -> u64 {
    let mut sum = 0;
    for job in jobs {
        sum += u64::from(detail(engine, *job).await.view.record.attempt);
    }
    sum
}

#[tokio::test(start_paused = true)]
async fn three_processes_leave_a_failing_dependency_alone_and_come_back_slowly() {
    // H3
    let (store, partner) = (model(), Arc::new(Partner::default()));
    let mut processes = Vec::new();
    for _ in 0..3 {
        processes.push(process(&store, &partner).await);
    }
    let engine = processes[0].engine.clone();
    let mut jobs = Vec::new();
    for _ in 0..300 {
        jobs.push(engine.enqueue(Order {}).policy(patient()).submit().await.expect("admitted").id);
    }
    let calls = || partner.calls.load(Ordering::SeqCst);
    pass(5).await;
    assert_eq!(circuit(&engine).await.circuit.state, CircuitState::Open);
    assert_eq!(told(&mut processes), [(1, CircuitState::Open)], "opened once");
    let before = calls();
    // Each process tells what it counted once that is enough, and has as many under way as it has slots.
    assert!((10..=3 * (10 + 2 * 4)).contains(&before), "{before} calls");
    assert_eq!(charged(&engine, &jobs).await, before, "a call costs an attempt, and nothing else does");
    pass(20).await;
    assert_eq!(calls(), before, "nobody calls it while it is open");
    let seen = circuit(&engine).await;
    assert_eq!(seen.waiting, 300);
    let waits = detail(&engine, jobs[299]).await;
    assert_eq!(waits.view.state(), State::Waiting);
    let waiting = waits.waiting_for().expect("it waits");
    assert_eq!((waiting.reason, waiting.key.as_str()), (WaitReason::Circuit, "partner"));
    assert_eq!(waiting.until, seen.circuit.until);
    let (_, why) = engine.explain(jobs[299]).await.expect("the model is there").expect("the job is there");
    assert!(why.because.contains("circuit of its dependency `partner` is open"), "{}", why.because);

    pass(12).await;
    let tried = calls() - before;
    assert!((1..=2).contains(&tried), "{tried} runs tried it, two may");
    assert_eq!(told(&mut processes), [(2, CircuitState::HalfOpen), (3, CircuitState::Open)]);
    partner.is_up.store(true, Ordering::SeqCst);
    let before = calls();
    pass(25).await;
    for second in 0..10 {
        pass(1).await;
        if circuit(&engine).await.circuit.state == CircuitState::Closed {
            break;
        }
        assert!(calls() - before <= 2, "{} runs in second {second}, two may", calls() - before);
    }
    assert_eq!(told(&mut processes), [(4, CircuitState::HalfOpen), (5, CircuitState::Closed)]);
    pass(2).await;
    let early = calls() - before;
    assert!((10..250).contains(&early), "a part of them after two of ten seconds: {early}");
    pass(20).await;
    for job in &jobs {
        assert_eq!(detail(&engine, *job).await.view.state(), State::Succeeded);
    }
    for Process { worker, .. } in processes {
        worker.stop().await;
    }
}

/// Stores so many orders, some hundred at a time.
async fn submit_many(engine: &Backstop, count: usize) -> Vec<JobId> {
    let order = || engine.enqueue(Order {}).policy(patient()).into_new_job().expect("admitted");
    let jobs: Vec<NewJob> = (0..count).map(|_| order()).collect();
    for some in jobs.chunks(500) {
        let batch = Submit { jobs: some.to_vec(), atomic: true };
        let answers = engine.store().submit(batch).await.expect("the model is there");
        assert!(answers.iter().all(Result::is_ok));
    }
    jobs.into_iter().map(|job| job.spec.id).collect()
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_jobs_wait_behind_an_open_circuit_and_none_of_them_is_charged() {
    // H3
    const MANY: u64 = 10_000;
    let (store, partner) = (model(), Arc::new(Partner::default()));
    let mut processes = Vec::new();
    for _ in 0..3 {
        processes.push(process(&store, &partner).await);
    }
    let engine = processes[0].engine.clone();
    let calls = || partner.calls.load(Ordering::SeqCst);
    let first = submit_many(&engine, 100).await;
    pass(5).await;
    assert_eq!(circuit(&engine).await.circuit.state, CircuitState::Open);
    let parked = submit_many(&engine, usize::try_from(MANY).expect("a few")).await;
    let before = calls();
    pass(20).await;
    assert_eq!(calls(), before, "nobody calls it while it is open");
    assert_eq!(circuit(&engine).await.waiting, MANY + 100);
    // Those that were there when it opened have run, and were charged for that.
    for job in &parked {
        let view = detail(&engine, *job).await.view;
        assert_eq!((view.state(), view.record.attempt, view.record.runs), (State::Waiting, 0, 0));
    }
    assert_eq!(charged(&engine, &first).await, before, "a call that failed costs an attempt");
    assert_eq!(told(&mut processes), [(1, CircuitState::Open)], "opened once");
    for Process { worker, .. } in processes {
        worker.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_error_says_of_its_dependency_decides_whether_it_counts() {
    // H4
    for (word, opens) in [
        ("away", true),
        ("ignored", false),
        ("neutral", false),
        ("ignored_inside", false),
        ("ignored_outcome", false),
        ("permanent", false),
    ] {
        let (store, partner) = (model(), Arc::new(Partner::default()));
        let Process { engine, worker, .. } = process(&store, &partner).await;
        for _ in 0..25 {
            engine.enqueue(Judge { word: word.to_owned() }).max_retries(0).submit().await.expect("admitted");
        }
        pass(10).await;
        let seen = engine.circuits().get("partner").await.expect("the model is there");
        let open = seen.is_some_and(|seen| seen.circuit.state == CircuitState::Open);
        assert_eq!(open, opens, "{word}");
        worker.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_person_opens_and_closes_a_circuit() {
    // H3
    let (store, partner) = (model(), Arc::new(Partner::default()));
    partner.is_up.store(true, Ordering::SeqCst);
    let Process { engine, worker, .. } = process(&store, &partner).await;
    let other = Backstop::on(store.clone(), Config::default());
    other.circuits().open("partner", "ann", Some(Duration::from_secs(3_600))).await.expect("opened");
    pass(2).await;
    let job = engine.enqueue(Order {}).submit().await.expect("admitted").id;
    pass(60).await;
    assert_eq!(detail(&engine, job).await.view.state(), State::Waiting);
    assert_eq!(partner.calls.load(Ordering::SeqCst), 0);
    assert_eq!(circuit(&engine).await.circuit.by.as_deref(), Some("ann"));
    other.circuits().close("partner", "bob").await.expect("closed");
    pass(3).await;
    settle().await;
    assert_eq!(detail(&engine, job).await.view.state(), State::Succeeded, "within seconds, and not slowly");
    let zero = other.circuits().open("partner", "ann", Some(Duration::ZERO)).await;
    assert!(zero.is_err_and(|problem| problem.to_string().contains("between 1 ms and 30 days")));
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn settings_of_a_circuit_that_nobody_needs_are_refused_at_the_start() {
    // H3
    let engine = Backstop::on(model(), Config::default().circuit_settings("partnr", settings()));
    let worker = engine.worker_sharing(Arc::new(Partner::default())).register::<Order>().queue("default", 1);
    let problem = worker.start().await.err().expect("refused").to_string();
    assert!(problem.contains("no kind needs dependency `partnr`"), "{problem}");
}

#[tokio::test(start_paused = true)]
async fn items_that_are_rejected_count_for_no_circuit_and_against_no_worker() {
    // W9, H3, H8
    let (store, partner) = (model(), Arc::new(Partner::default()));
    let engine = Backstop::on(store, Config::default().circuit_settings("partner", settings()));
    let worker = engine.worker_sharing(partner.clone()).register::<Sift>().queue("default", 4);
    let worker = worker.start().await.expect("the model is there");
    for _ in 0..40 {
        engine.enqueue(Sift {}).submit().await.expect("stored");
    }
    while partner.calls.load(Ordering::SeqCst) < 40 {
        settle().await;
    }
    pass(5).await;
    settle().await;
    let seen = circuit(&engine).await;
    assert_eq!((seen.circuit.state, seen.counts.calls, seen.counts.failures), (CircuitState::Closed, 40, 0));
    let health = worker.health();
    assert!(health.paused.is_none(), "{health:?}");
    assert!(engine.incidents().list(10).await.expect("the model is there").is_empty());
    worker.stop().await;
}
