//! Process trees: whatever ends a run, nothing that it started is left, wherever it went.

use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, Instant};

use backstop::{Backstop, Cause, JobId, State};
use backstop_kinds::{CommandSettings, Kinds};
use serde_json::json;

use crate::stage::{Ran, Scripts, engine, ran_of, worker};

/// Long enough for the family to be there on a slow machine.
const LIMIT: Duration = Duration::from_secs(5);
const GRACE: Duration = Duration::from_millis(600);
/// What a slot may take beyond its timeout and the grace period (E3).
const MARGIN: Duration = Duration::from_secs(1);

/// Starts a child, a grandchild, one in a session of its own, one below that, a daemon whose parents are gone, and one
/// that ignores SIGTERM; tells their numbers through a pipe, and waits.
const FAMILY: &str = r#"
tell=$(mktemp -d)
sleep 1000 & echo $! > $tell/child
sh -c 'sleep 1000 & echo $! > "$0/grandchild"; wait' $tell & echo $! > $tell/parent
setsid sh -c 'echo $$ > "$0/session"; sleep 1000 & echo $! > "$0/session_child"; wait' $tell &
(setsid sh -c 'echo $$ > "$0/daemon"; exec sleep 1000' $tell < /dev/null > /dev/null 2>&1 &)
sh -c 'trap "" TERM; echo $$ > "$0/stubborn"; while :; do sleep 1000; done' $tell &
echo $$ > $tell/self
while [ "$(cat $tell/* 2> /dev/null | wc -l)" -lt 8 ]; do :; done
numbers=$(cat $tell/*); rm -r $tell
echo $numbers > "$0.pipe"
[ "$1" = leave ] && exit 0
wait
while :; do wait; sleep 1000; done
"#;

struct Family {
    scripts: Scripts,
    path: String,
    settings: CommandSettings,
}

impl Family {
    fn new() -> Self {
        let scripts = Scripts::new();
        let (path, settings) = scripts.allowed("family", FAMILY);
        let made = process::Command::new("mkfifo").arg(format!("{path}.pipe")).status().expect("mkfifo");
        assert!(made.success());
        let settings = settings.grace(GRACE).expect("short enough").keep_env("PATH");
        Self { scripts, path, settings }
    }

    fn kinds(&self) -> Kinds {
        Kinds { command: self.settings.clone(), ..Kinds::default() }
    }

    async fn submit(
        &self,
        engine: &Backstop,
        payload: serde_json::Value,
        timeout: Option<Duration>,
    ) -> JobId {
        let job = engine.enqueue_raw("command", payload.to_string()).max_retries(0).max_crashes(0);
        let job = if let Some(timeout) = timeout { job.timeout(timeout) } else { job };
        job.submit().await.expect("admitted").id
    }

    /// The numbers of its processes, as soon as all of them run.
    async fn numbers(&self) -> Vec<u32> {
        let pipe = PathBuf::from(format!("{}.pipe", self.path));
        let told = tokio::task::spawn_blocking(move || std::fs::read_to_string(pipe).expect("a pipe"));
        let told = told.await.expect("no panic");
        let numbers: Vec<u32> = told.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        assert_eq!(numbers.len(), 8, "{told}");
        assert!(numbers.iter().all(|number| alive(*number)), "all of them run: {told}");
        numbers
    }
}

/// A zombie has ended; that nobody has read its exit is its parent's affair.
fn alive(number: u32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(number.to_string()).join("stat"));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with(['Z', 'X']))
}

fn assert_gone(numbers: &[u32]) {
    let left: Vec<&u32> = numbers.iter().filter(|number| alive(**number)).collect();
    assert!(left.is_empty(), "still there: {left:?} of {numbers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_of_the_payload_ends_the_tree_and_frees_the_slot_in_time() {
    // E3
    let family = Family::new();
    let engine = engine().await;
    let running = worker(&engine, family.kinds()).start().await.expect("memory is there");
    let payload = json!({ "argv": [family.path], "timeout_ms": LIMIT.as_millis() });
    let job = family.submit(&engine, payload, None).await;
    let numbers = family.numbers().await;
    engine.wait(job).await.expect("memory is there").expect("the job is there");
    assert_gone(&numbers);
    ended_in_time(&ran_of(&engine, job).await);
    running.stop().await;
}

/// The stubborn one had its grace, and the slot was free in time (E3).
fn ended_in_time(ran: &Ran) {
    assert_eq!(ran.cause(), Cause::Timeout);
    let took = ran.run.finished_at.since(ran.run.started_at);
    assert!(took >= LIMIT + GRACE && took <= LIMIT + GRACE + MARGIN, "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_of_the_job_ends_the_tree_and_frees_the_slot_in_time() {
    // E3, F10
    let family = Family::new();
    let engine = engine().await;
    let running = worker(&engine, family.kinds()).start().await.expect("memory is there");
    let job = family.submit(&engine, json!({ "argv": [family.path] }), Some(LIMIT)).await;
    let numbers = family.numbers().await;
    engine.wait(job).await.expect("memory is there").expect("the job is there");
    assert_gone(&numbers);
    ended_in_time(&ran_of(&engine, job).await);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_ends_the_tree() {
    // E3, L7
    let family = Family::new();
    let engine = engine().await;
    let running = worker(&engine, family.kinds()).start().await.expect("memory is there");
    let job = family.submit(&engine, json!({ "argv": [family.path] }), None).await;
    let numbers = family.numbers().await;
    engine.cancel(job, "not needed").await.expect("it runs");
    assert_eq!(engine.job(job).await.expect("memory").expect("there").view.record.state, State::Canceled);
    // The worker goes when its runs are gone.
    running.stop().await;
    assert_gone(&numbers);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_stops_takes_its_trees_along() {
    // E3, L18
    let family = Family::new();
    let engine = engine().await;
    let running =
        worker(&engine, family.kinds()).grace(Duration::ZERO).start().await.expect("memory is there");
    let job = family.submit(&engine, json!({ "argv": [family.path] }), None).await;
    let numbers = family.numbers().await;
    let stopped = running.stop().await;
    assert_gone(&numbers);
    assert!(stopped.clean && stopped.interrupted == 1, "{stopped:?}");
    assert_eq!(ran_of(&engine, job).await.cause(), Cause::Interrupted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_ends_well_leaves_nobody_behind() {
    // E3
    let family = Family::new();
    let engine = engine().await;
    let running = worker(&engine, family.kinds()).start().await.expect("memory is there");
    let job = family.submit(&engine, json!({ "argv": [family.path, "leave"] }), None).await;
    let pipe = PathBuf::from(format!("{}.pipe", family.path));
    let told = tokio::task::spawn_blocking(move || std::fs::read_to_string(pipe).expect("a pipe"));
    let told = told.await.expect("no panic");
    let numbers: Vec<u32> = told.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    engine.wait(job).await.expect("memory is there").expect("the job is there");
    assert_eq!(numbers.len(), 8);
    assert_gone(&numbers);
    assert_eq!(ran_of(&engine, job).await.cause(), Cause::Succeeded);
    running.stop().await;
}

#[test]
fn a_run_that_is_dropped_is_killed_all_the_same() {
    // E3
    let family = Family::new();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("one");
    let numbers = runtime.block_on(async {
        let engine = engine().await;
        let running = worker(&engine, family.kinds()).start().await.expect("memory is there");
        family.submit(&engine, json!({ "argv": [family.path] }), None).await;
        let numbers = family.numbers().await;
        // Nothing is stopped in order: the runtime goes, and every future with it.
        std::mem::forget(running);
        numbers
    });
    drop(runtime);
    let deadline = Instant::now() + Duration::from_secs(5);
    while numbers.iter().any(|number| alive(*number)) && Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert_gone(&numbers);
    assert!(family.scripts.path("family").exists());
}
