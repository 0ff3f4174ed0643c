//! A process that was seen to die: its runs end at once, with what killed it, and nobody waits for its lease.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use backstop::{Backstop, Cause, CrashEvidence, JobId, State, WORKERS_FILE, WorkerId};
use backstop_chaos::crash::KillPoint;
use backstop_chaos::crash::job::EffectJob;
use backstop_chaos::http;
use backstop_chaos::location::{StoreKind, StoreLocation};
use backstop_chaos::node::NodeStart;
use backstop_chaos::processes::{announced, serve_twice};
use backstop_core::job::Record;
use backstop_store::{PageRequest, Submit};
use serde_json::json;

const NODE: &str = env!("CARGO_BIN_EXE_chaos-node");

/// Far longer than the test: whatever ends in it was not ended by a lease.
const LEASE_MS: u64 = 3_600_000;

/// A job whose first run ends its process.
async fn submit_deadly(engine: &Backstop) -> JobId {
    let deadly = EffectJob { label: "deadly".to_owned(), point: Some(KillPoint::LeaseHeld) }.new_job(engine);
    let job = deadly.spec.id;
    engine.store().submit(Submit { jobs: vec![deadly], atomic: true }).await.expect("stored");
    job
}

async fn record(engine: &Backstop, job: JobId) -> Record {
    engine.job(job).await.expect("read").expect("stored").view.record
}

/// The job is back, and its run says what killed it.
async fn check_evidence(engine: &Backstop, job: JobId, kind: StoreKind) {
    let record = record(engine, job).await;
    assert_eq!((record.state, record.crashes, record.attempt), (State::Pending, 1, 0), "{kind}");
    let runs = engine.attempts(job, PageRequest::first(5)).await.expect("read").items;
    let failure = runs[0].failure.as_ref().expect("evidence");
    assert_eq!((runs[0].cause, &*failure.error_type), (Cause::Crash, "Crash::SIGABRT"), "{kind}");
    assert_eq!(
        failure.message, "its process was killed by SIGABRT (signal 6); its last line: its last word",
        "{kind}"
    );
}

async fn reach_success(engine: &Backstop, job: JobId, kind: StoreKind) {
    let began = std::time::Instant::now();
    while record(engine, job).await.state != State::Succeeded {
        assert!(began.elapsed() < Duration::from_secs(60), "{kind}: the next worker runs it");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn tell_of_a_death(kind: StoreKind) {
    let location = StoreLocation::new(kind, "deaths");
    let engine = location.open().await;
    let job = submit_deadly(&engine).await;
    let file = location.folder().join("workers");
    std::fs::write(&file, "").expect("its folder");
    let start = NodeStart { mode: "crash-work", ..location.node(NODE, LEASE_MS) };
    let mut node = start.go_with(&[(WORKERS_FILE, &file.display().to_string())]);
    let ended = tokio::task::spawn_blocking(move || node.child.wait()).await.expect("it ends");
    assert_eq!(record(&engine, job).await.state, State::Running, "{kind}: nobody else knows of it");

    let text = std::fs::read_to_string(&file).expect("its folder");
    let workers: Vec<WorkerId> = text.lines().map(|line| line.parse().expect("an id")).collect();
    assert_eq!(workers.len(), 1, "{kind}");
    let mut evidence = CrashEvidence::default();
    evidence.signal = ended.expect("it was waited for").signal();
    evidence.last_line = Some("its last word".to_owned());
    assert_eq!(engine.worker_died(workers[0], &evidence).await.expect("told"), 1, "{kind}");

    check_evidence(&engine, job, kind).await;
    assert!(engine.workers().await.expect("read").is_empty(), "{kind}: it is known to be gone");
    assert_eq!(engine.worker_died(workers[0], &evidence).await.expect("told again"), 0, "{kind}");

    let next = start.go();
    reach_success(&engine, job, kind).await;
    assert!(next.stop(), "{kind}");
}

/// The same of a remote worker: any server takes the news, once.
async fn tell_of_a_remote_death(kind: StoreKind) {
    let location = StoreLocation::new(kind, "remote-deaths");
    let engine = location.open().await;
    let job = submit_deadly(&engine).await;
    let _servers = serve_twice(NodeStart { mode: "serve", ..location.node(NODE, 1_000) }).await;
    let start = NodeStart { mode: "crash-remote", ..location.node(NODE, LEASE_MS) };
    let mut node = start.go();
    let name = format!("remote-{}", node.child.id());
    let ended = tokio::task::spawn_blocking(move || node.child.wait()).await.expect("it ends");
    let signal = ended.expect("it was waited for").signal();
    assert_eq!(record(&engine, job).await.state, State::Running, "{kind}: nobody else knows of it");

    let death = json!({ "worker": name, "instance": name, "signal": signal, "last_line": "its last word" });
    let told: Vec<_> = announced(location.folder())
        .into_iter()
        .map(|server| http::post(server, "/api/v1/work/died", &death).expect("a server takes it"))
        .collect();
    assert_eq!(told, [json!({ "runs": 1 }), json!({ "runs": 0 })], "{kind}");
    check_evidence(&engine, job, kind).await;

    let _next = start.go();
    reach_success(&engine, job, kind).await;
}

#[tokio::test]
async fn the_store_is_told_of_a_death_on_sqlite() {
    // C4, C1, L5
    tell_of_a_death(StoreKind::Sqlite).await;
}

#[tokio::test]
async fn the_store_is_told_of_a_death_on_postgres() {
    // C4, C1, L5
    tell_of_a_death(StoreKind::Postgres).await;
}

#[tokio::test]
async fn the_store_is_told_of_a_death_on_mariadb() {
    // C4, C1, L5
    tell_of_a_death(StoreKind::Mariadb).await;
}

#[tokio::test]
async fn a_server_is_told_of_the_death_of_a_remote_worker_on_sqlite() {
    // C4, C1, L5, E7
    tell_of_a_remote_death(StoreKind::Sqlite).await;
}

#[tokio::test]
async fn a_server_is_told_of_the_death_of_a_remote_worker_on_postgres() {
    // C4, C1, L5, E7
    tell_of_a_remote_death(StoreKind::Postgres).await;
}

#[tokio::test]
async fn a_server_is_told_of_the_death_of_a_remote_worker_on_mariadb() {
    // C4, C1, L5, E7
    tell_of_a_remote_death(StoreKind::Mariadb).await;
}
