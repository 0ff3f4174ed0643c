//! Runs in processes of their own: real crashes, each of which takes one run and nothing else.
//!
//! A child is this test again, up to the start of its worker: what is submitted and asserted is left out there.
#![cfg(target_os = "linux")]
#![allow(missing_docs, reason = "a test")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use backstop::figures::FigureValue;
use backstop::prelude::*;
use backstop::query::PageRequest;
use backstop::rejects::{RejectBatch, RejectSettings, RejectSink, RejectSinkAnswer, SinkFailure};
use backstop::{Cause, Config, Isolation, IsolationSettings, State, TerminalReason, WorkerHandle};
use backstop_core::job::{FailureRecord, NoteError};
use backstop_store::{Answer, Layer, ModelStore, Note, Store};

const MIB: u64 = 1024 * 1024;

/// What a handler does to its process.
#[job(max_retries = 0)]
async fn misbehave(cx: JobContext<()>, how: String) -> JobResult<u32> {
    cx.log(format!("about to {how}"));
    match how.as_str() {
        "succeed" => {}
        "segfault" => segfault(),
        "abort" => std::process::abort(),
        "exit" => std::process::exit(3),
        "overflow" => {
            std::hint::black_box(overflow(&[0; 64]));
        }
        "exhaust" => exhaust(),
        "spin" => loop {
            std::hint::spin_loop();
        },
        "fork" => {
            let script = "trap '' TERM; setsid sleep 300 & sleep 300";
            Command::new("sh").args(["-c", script]).stdin(Stdio::null()).spawn()?;
            std::future::pending::<()>().await;
        }
        "panic" => panic!("a plain panic"),
        "fail" => return Err("a plain error".into()),
        other => return Err(format!("no such misbehaviour: {other}").into()),
    }
    Ok(std::process::id())
}

#[allow(unsafe_code, reason = "nothing safe can do this")]
fn segfault() {
    // SAFETY: none; that is the point.
    unsafe { std::ptr::null_mut::<u8>().write_volatile(1) };
}

#[allow(unconditional_recursion, reason = "that is the point")]
fn overflow(frame: &[u8; 64]) -> u8 {
    let next = [frame[0]; 64];
    overflow(std::hint::black_box(&next)) + std::hint::black_box(next)[1]
}

fn exhaust() {
    let mut kept = Vec::new();
    loop {
        kept.push(vec![1_u8; 1 << 20]);
        std::hint::black_box(&kept);
    }
}

/// Answers whether its data is limited, and whether it is in a cgroup of its own.
#[job(isolate = "always", memory_limit = "512MB")]
async fn limited() -> JobResult<(bool, bool)> {
    let limits = std::fs::read_to_string("/proc/self/limits")?;
    let data = limits.lines().find(|line| line.starts_with("Max data size")).ok_or("no limits")?;
    let soft = data.split_whitespace().nth(3).ok_or("no limit of data")?;
    let cgroup = std::fs::read_to_string("/proc/self/cgroup")?;
    Ok((soft != "unlimited", cgroup.contains("/backstop-")))
}

/// Uses its processor time up.
#[job(isolate = "always", cpu_limit = "1s", max_crashes = 0)]
async fn burn() {
    loop {
        std::hint::spin_loop();
    }
}

/// Leaves so many megabytes behind in its process.
#[job(isolate = "always", memory_limit = "192MB", max_crashes = 0)]
async fn hoard(megabytes: usize) -> JobResult<u32> {
    std::hint::black_box(vec![1_u8; megabytes << 20].leak());
    Ok(std::process::id())
}

/// What a handler says and submits.
#[job]
async fn talkative(cx: JobContext<()>, word: String) -> JobResult<String> {
    // Not by `println!`, which a test's harness may keep to itself.
    writeln!(std::io::stdout(), "printed {word}")?;
    cx.log(format!("logged {word}"));
    cx.progress(40, "on the way").await?;
    cx.enqueue(Misbehave { how: "succeed".into() }).idempotency_key(&word).submit().await?;
    cx.submit_with_completion(cx.enqueue(Misbehave { how: "succeed".into() })).await?;
    let again = cx.enqueue(Misbehave { how: "succeed".into() }).idempotency_key(&word).submit().await?;
    assert!(again.deduplicated, "the same key is the same job");
    Ok(format!("{word} in {}", std::process::id()))
}

/// Rejects three rows.
#[job(isolate = "always", max_retries = 0)]
async fn reject_rows(cx: JobContext<()>) -> JobResult<u32> {
    cx.reject_many((0..3).map(|row| (row, "no name"))).await?;
    Ok(std::process::id())
}

/// Runs beside those that crash, in the worker's own process.
#[job]
async fn innocent() -> JobResult<u32> {
    Ok(std::process::id())
}

fn config() -> Config {
    let always = IsolationSettings::default().isolate(Isolation::Always);
    Config::default().isolation("misbehave", always.memory_limit(512 * MIB)).isolation("talkative", always)
}

async fn engine() -> Backstop {
    Backstop::open_with("memory:", config()).await.expect("an engine")
}

/// Starts the worker; in a child this is where it ends.
async fn worker(engine: &Backstop) -> WorkerHandle {
    let worker = engine.worker(()).register::<Misbehave>().register::<Talkative>().register::<Innocent>();
    worker.queue("default", 4).start().await.expect("a worker")
}

fn once(how: &str) -> Misbehave {
    Misbehave { how: how.to_owned() }
}

/// No process of a tree that was marked by this process is left.
fn processes_left() -> Vec<String> {
    let own = std::process::id().to_string();
    let mark = format!("BACKSTOP_CHILD={own}");
    let entries = std::fs::read_dir("/proc").expect("the list of processes");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let marked = pids.filter(|pid| {
        let environment = std::fs::read(Path::new("/proc").join(pid.to_string()).join("environ"));
        environment.is_ok_and(|bytes| bytes.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes()))
    });
    let name = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    marked.map(name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_takes_one_run_and_nothing_else() {
    // E2, C1, C4
    let engine = engine().await;
    let worker = worker(&engine).await;
    for (how, error_type, evidence) in [
        ("segfault", "Crash::SIGSEGV", "its process was killed by SIGSEGV (signal 11); peak memory"),
        ("abort", "Crash::SIGABRT", "its process was killed by SIGABRT (signal 6); peak memory"),
        ("exit", "Crash::Exit3", "its process exited with code 3; peak memory"),
        ("overflow", "Crash::SIGABRT", "its process was killed by SIGABRT (signal 6)"),
        ("exhaust", "Crash::OutOfMemory", "out of memory with a limit of 512 MiB; peak memory"),
    ] {
        let beside = engine.enqueue(Innocent {}).submit().await.expect("stored");
        let guilty = engine.enqueue(once(how)).max_crashes(0).submit().await.expect("stored");
        let failed = guilty.result().await.expect_err("it cannot succeed");
        assert_eq!(
            beside.result().await.expect("a neighbour"),
            std::process::id(),
            "{how}: the worker lives"
        );
        let detail = engine.job(guilty.id).await.expect("read").expect("a job");
        assert_eq!(detail.view.record.reason, Some(TerminalReason::Poisoned), "{how}: {failed}");
        let run =
            engine.attempts(guilty.id, backstop::query::PageRequest::first(5)).await.expect("read").items;
        assert_eq!((run.len(), run[0].cause), (1, Cause::Crash), "{how}");
        let failure = run[0].failure.as_ref().expect("evidence");
        assert_eq!(failure.error_type, error_type, "{how}: {}", failure.message);
        assert!(failure.message.contains(evidence), "{how}: {}", failure.message);
        let output = run[0].output.as_deref().unwrap_or_default();
        assert!(output.contains(&format!("about to {how}")), "{how} was said: {output}");
    }
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_limited_in_the_way_that_the_doctor_says() {
    // E2
    let engine = Backstop::open("memory:").await.expect("an engine");
    let worker = engine.worker(()).register::<Limited>().queue("default", 1);
    let worker = worker.start().await.expect("a worker");
    let job = engine.enqueue(Limited {}).submit().await.expect("stored");
    let (data, cgroup) = job.result().await.expect("it succeeds");
    let findings = engine.doctor().await.expect("memory is there");
    let found = findings.iter().find(|finding| finding.subject == "isolation").expect("it looks");
    let (_, how) = found.message.split_once("is limited by ").expect("it says how");
    if how == "a cgroup of each child" {
        assert_eq!((data, cgroup), (false, true), "{how}");
    } else {
        let why = how.strip_prefix("their address space: ").expect("one of the two");
        assert_eq!((data, cgroup, why.is_empty()), (true, false, false), "{how}");
    }
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_always_crashes_is_poisoned_after_eleven_starts() {
    // C1, C5
    let engine = engine().await;
    let worker = worker(&engine).await;
    let at_once = Backoff::fixed(Duration::from_millis(1));
    let job = engine.enqueue(once("abort")).backoff(at_once).submit().await.expect("stored");
    job.result().await.expect_err("it cannot succeed");
    let record = engine.job(job.id).await.expect("read").expect("a job").view.record;
    assert_eq!((record.state, record.reason), (State::Failed, Some(TerminalReason::Poisoned)));
    assert_eq!((record.runs, record.attempt), (11, 0), "eleven starts, and no attempt was charged");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_does_not_stop_is_killed_with_all_that_it_started() {
    // E3, F10
    let engine = engine().await;
    let worker = worker(&engine).await;
    for how in ["spin", "fork"] {
        let began = Instant::now();
        let timeout = Duration::from_millis(700);
        let job = engine.enqueue(once(how)).timeout(timeout).submit().await.expect("stored");
        job.result().await.expect_err("it cannot succeed");
        let run = engine.attempts(job.id, backstop::query::PageRequest::first(5)).await.expect("read").items;
        assert_eq!((run.len(), run[0].cause), (1, Cause::Timeout), "{how}");
        assert!(began.elapsed() >= timeout, "{how}");
        // A second to tidy up in, and one more.
        let took = run[0].finished_at.since(run[0].started_at);
        assert!(took < timeout + Duration::from_secs(2), "{how} took {took:?}");
    }
    worker.stop().await;
    drop(engine);
    // What was killed is gone once it is reaped, which another thread does.
    let patience = Instant::now() + Duration::from_secs(20);
    loop {
        let left = processes_left();
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < patience, "left behind: {left:?}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_isolated_handler_has_the_same_context_and_its_child_is_used_again() {
    // E2, F15, L23
    let engine = engine().await;
    let worker = engine.worker(()).register::<Misbehave>().register::<Talkative>().queue("default", 1);
    let worker = worker.start().await.expect("a worker");
    let mut children = std::collections::BTreeSet::new();
    for word in ["one", "two", "three"] {
        let job = engine.enqueue(Talkative { word: word.into() }).submit().await.expect("stored");
        let result = job.result().await.expect("it succeeds");
        let (said, child) = result.split_once(" in ").expect("both");
        assert_eq!(said, word);
        assert_ne!(child, std::process::id().to_string(), "in a process of its own");
        children.insert(child.to_owned());
        let detail = engine.job(job.id).await.expect("read").expect("a job");
        assert_eq!(detail.view.record.progress.as_ref().map(|progress| progress.percent), Some(40));
        let run = engine.attempts(job.id, backstop::query::PageRequest::first(1)).await.expect("read").items;
        let output = run[0].output.as_deref().unwrap_or_default();
        for line in ["logged", "printed"] {
            assert!(output.contains(&format!("{line} {word}")), "{output}");
        }
    }
    assert_eq!(children.len(), 1, "a child is used again: {children:?}");
    let queue =
        engine.queues().list().await.expect("queues").into_iter().find(|queue| queue.name == "default");
    let queue = queue.expect("a queue");
    // Each has submitted one job by itself and one with its completion.
    assert_eq!(queue.pending + queue.running + queue.succeeded, 9, "{queue:?}");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_and_a_panic_of_an_isolated_handler_are_what_they_are() {
    // E2, F2
    let engine = engine().await;
    let worker = worker(&engine).await;
    for (how, cause, message) in
        [("fail", Cause::Error, "a plain error"), ("panic", Cause::Panic, "a plain panic")]
    {
        let job = engine.enqueue(once(how)).submit().await.expect("stored");
        job.result().await.expect_err("it fails");
        let run = engine.attempts(job.id, backstop::query::PageRequest::first(5)).await.expect("read").items;
        let failure = run[0].failure.as_ref().expect("evidence");
        assert_eq!((run.len(), run[0].cause, &*failure.message), (1, cause, message));
    }
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_uses_up_its_processor_time_is_a_crash() {
    // E2, C4
    let engine = Backstop::open("memory:").await.expect("an engine");
    let worker = engine.worker(()).register::<Burn>().queue("default", 1).start().await.expect("a worker");
    let job = engine.enqueue(Burn {}).submit().await.expect("stored");
    job.result().await.expect_err("it cannot succeed");
    let run = engine.attempts(job.id, backstop::query::PageRequest::first(5)).await.expect("read").items;
    let failure = run[0].failure.as_ref().expect("evidence");
    assert_eq!((run.len(), run[0].cause, &*failure.error_type), (1, Cause::Crash, "Crash::SIGXCPU"));
    assert!(failure.message.contains("it had used up its processor time"), "{}", failure.message);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_run_leaves_in_memory_is_not_charged_to_the_next() {
    // E2, A2
    let engine = Backstop::open("memory:").await.expect("an engine");
    let worker = engine.worker(()).register::<Hoard>().queue("default", 1).start().await.expect("a worker");
    let mut children = Vec::new();
    for megabytes in [1, 1, 96, 96, 96, 1] {
        let job = engine.enqueue(Hoard { megabytes }).submit().await.expect("stored");
        children.push(job.result().await.expect("it has all the memory that it may have"));
    }
    assert_eq!(children[..2], [children[2]; 2], "one in which little is left goes on: {children:?}");
    for place in 2..5 {
        assert_ne!(children[place], children[place + 1], "one that is half full does not: {children:?}");
    }
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn isolation_after_a_crash_begins_with_the_second_run() {
    // E2
    #[job(max_crashes = 3)]
    async fn crash_reporter() -> JobResult<u32> {
        if !backstop::is_isolated_child() {
            // As if the process had died: the real thing would take this test along.
            Err(backstop::Outcome::crash("the first run fails in the worker's own process"))?;
        }
        Ok(std::process::id())
    }
    let after = IsolationSettings::default().isolate(Isolation::AfterCrash);
    let config = Config::default().isolation("crash_reporter", after);
    let engine = Backstop::open_with("memory:", config).await.expect("an engine");
    let worker = engine.worker(()).register::<CrashReporter>().queue("default", 1);
    let worker = worker.start().await.expect("a worker");
    let at_once = Backoff::fixed(Duration::from_millis(1));
    let job = engine.enqueue(CrashReporter {}).backoff(at_once).submit().await.expect("stored");
    assert_ne!(job.result().await.expect("the second run succeeds"), std::process::id());
    worker.stop().await;
}

#[tokio::test]
async fn a_worker_inline_runs_every_job_in_the_calling_task() {
    // E2
    let always = IsolationSettings::default().isolate(Isolation::Always);
    let config = Config::default().isolation("innocent", always);
    let engine = Backstop::open_with("memory:", config).await.expect("an engine");
    let job = engine.enqueue(Innocent {}).submit().await.expect("stored");
    let worker = engine.worker(()).register::<Innocent>().queue("default", 1).inline().expect("a worker");
    worker.drain(5).await.expect("it runs");
    assert_eq!(job.result().await.expect("a result"), std::process::id());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memory_limit_below_what_a_child_needs_is_refused_at_the_start() {
    // E2
    let tiny = IsolationSettings::default().isolate(Isolation::Always).memory_limit(64 * 1024);
    let config = Config::default().isolation("innocent", tiny);
    let engine = Backstop::open_with("memory:", config).await.expect("an engine");
    let started = engine.worker(()).register::<Innocent>().queue("default", 1).start().await;
    let problem = started.err().expect("no child can live in that").to_string();
    let limit = IsolationSettings::default().memory_limit(512 * MIB);
    let config = Config::default().isolation("innocent", limit);
    let engine = Backstop::open_with("memory:", config).await.expect("an engine");
    let started = engine.worker(()).register::<Innocent>().queue("default", 1).start().await;
    let without_effect = started.err().expect("nothing would be limited").to_string();
    assert!(without_effect.ends_with("set `isolate`, or remove the limits"), "{without_effect}");
    let says = "kind `innocent` cannot be isolated: its memory limit is 1 MiB, and the program itself needs ";
    assert!(problem.starts_with(says) && problem.ends_with(": raise the limit"), "{problem}");
}

/// A sink that counts what it is given in this process, or takes nothing.
#[derive(Clone, Default)]
struct CountingSink {
    taken: Arc<AtomicUsize>,
    is_away: bool,
}

impl RejectSink for CountingSink {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn put<'a>(&'a self, batch: &'a RejectBatch) -> RejectSinkAnswer<'a> {
        Box::pin(async move {
            if self.is_away {
                return Err("it is away".into());
            }
            self.taken.fetch_add(batch.rejects.len(), Ordering::SeqCst);
            Ok(())
        })
    }
}

/// A store that takes no rejects.
struct WithoutRejects(ModelStore);

impl Layer for WithoutRejects {
    fn below(&self) -> &dyn Store {
        &self.0
    }

    fn annotate(&self, _: Vec<Note>) -> Answer<'_, Vec<Result<(), NoteError>>> {
        let (location, problem) = ("here".to_owned(), "not now".to_owned());
        Box::pin(std::future::ready(Err(backstop_store::Error::Unavailable {
            location,
            problem,
            source: None,
        })))
    }
}

/// What a counter of this process says of rejects that were to go there.
fn counted(engine: &Backstop, name: &str, sink: &str) -> Option<FigureValue> {
    let families = engine.figures().families();
    let family = families.iter().find(|family| family.name == name).expect("it is kept");
    let labels: [(&str, Arc<str>); 2] = [("kind", "reject_rows".into()), ("sink", sink.into())];
    family.samples.iter().find(|sample| sample.labels == labels).map(|sample| sample.value.clone())
}

/// Lets a child reject three rows under these settings.
async fn rejected_in_a_child(
    store: Arc<dyn Store>,
    rejects: RejectSettings,
) -> (Backstop, Cause, Option<FailureRecord>) {
    let engine = Backstop::on(store, Config::default().rejects(rejects));
    let worker = engine.worker(()).register::<RejectRows>().queue("default", 1);
    let worker = worker.start().await.expect("a worker");
    let job = engine.enqueue(RejectRows {}).submit().await.expect("stored");
    if let Ok(process) = job.result().await {
        assert_ne!(process, std::process::id(), "in a process of its own");
    }
    let run = engine.attempts(job.id, PageRequest::first(5)).await.expect("read").items.remove(0);
    worker.stop().await;
    (engine, run.cause, run.failure)
}

const TAKEN: &str = "backstop_rejects_total";
const LOST: &str = "backstop_rejects_lost_total";

#[tokio::test(flavor = "multi_thread")]
async fn what_a_child_rejects_goes_to_the_sink_of_its_worker_and_is_counted_there() {
    // W9, E2
    let sink = CountingSink::default();
    let rejects = RejectSettings::default().sink(sink.clone());
    let (engine, cause, _) = rejected_in_a_child(Arc::new(ModelStore::default()), rejects).await;
    assert_eq!((cause, sink.taken.load(Ordering::SeqCst)), (Cause::Succeeded, 3));
    assert_eq!(counted(&engine, TAKEN, "counting"), Some(FigureValue::Number(3.0)));
    assert_eq!(counted(&engine, LOST, "counting"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_is_away_fails_the_run_of_a_child_as_any_other() {
    // W9, E2
    let sink = CountingSink { is_away: true, ..CountingSink::default() };
    let rejects = RejectSettings::default().sink(sink);
    let (engine, cause, failure) = rejected_in_a_child(Arc::new(ModelStore::default()), rejects).await;
    let failure = failure.expect("it failed");
    assert_eq!((cause, &*failure.error_type), (Cause::Error, "RejectSink"));
    assert_eq!(failure.message, "the reject sink `counting` does not take rejects: it is away");
    assert_eq!(counted(&engine, LOST, "counting"), Some(FigureValue::Number(3.0)));
    assert_eq!(counted(&engine, TAKEN, "counting"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_goes_on_without_a_sink_where_the_settings_say_so() {
    // W9, E2
    let sink = CountingSink { is_away: true, ..CountingSink::default() };
    let rejects = RejectSettings::default().sink(sink).on_failure(SinkFailure::Continue);
    let (engine, cause, _) = rejected_in_a_child(Arc::new(ModelStore::default()), rejects).await;
    assert_eq!(cause, Cause::Succeeded);
    assert_eq!(counted(&engine, LOST, "counting"), Some(FigureValue::Number(3.0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_child_loses_because_of_the_store_is_counted_by_its_worker() {
    // W9, E2
    let rejects = RejectSettings::default().on_failure(SinkFailure::Continue);
    let store = Arc::new(WithoutRejects(ModelStore::default()));
    let (engine, cause, _) = rejected_in_a_child(store, rejects).await;
    assert_eq!(cause, Cause::Succeeded);
    assert_eq!(counted(&engine, LOST, "store"), Some(FigureValue::Number(3.0)));
}
