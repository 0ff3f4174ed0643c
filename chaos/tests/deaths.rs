//! A process that was seen to die: its runs end at once, with what killed it, and nobody waits for its lease.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use backstop::{Cause, CrashEvidence, State, WORKERS_FILE, WorkerId};
use backstop_chaos::crash::KillPoint;
use backstop_chaos::crash::job::EffectJob;
use backstop_chaos::location::{StoreKind, StoreLocation};
use backstop_chaos::node::NodeStart;
use backstop_store::{PageRequest, Submit};

const NODE: &str = env!("CARGO_BIN_EXE_chaos-node");

/// Far longer than the test: whatever ends in it was not ended by a lease.
const LEASE_MS: u64 = 3_600_000;

async fn tell_of_a_death(kind: StoreKind) {
    let location = StoreLocation::new(kind, "deaths");
    let engine = location.open().await;
    let deadly = EffectJob { label: "deadly".to_owned(), point: Some(KillPoint::LeaseHeld) }.new_job(&engine);
    let job = deadly.spec.id;
    engine.store().submit(Submit { jobs: vec![deadly], atomic: true }).await.expect("stored");
    let file = location.folder().join("workers");
    std::fs::write(&file, "").expect("its folder");
    let start = NodeStart { mode: "crash-work", ..location.node(NODE, LEASE_MS) };
    let mut node = start.go_with(&[(WORKERS_FILE, &file.display().to_string())]);
    let ended = tokio::task::spawn_blocking(move || node.child.wait()).await.expect("it ends");
    let state = async || engine.job(job).await.expect("read").expect("stored").view.record;
    assert_eq!(state().await.state, State::Running, "{kind}: nobody else knows of it");

    let text = std::fs::read_to_string(&file).expect("its folder");
    let workers: Vec<WorkerId> = text.lines().map(|line| line.parse().expect("an id")).collect();
    assert_eq!(workers.len(), 1, "{kind}");
    let mut evidence = CrashEvidence::default();
    evidence.signal = ended.expect("it was waited for").signal();
    evidence.last_line = Some("its last word".to_owned());
    assert_eq!(engine.worker_died(workers[0], &evidence).await.expect("told"), 1, "{kind}");

    let record = state().await;
    assert_eq!((record.state, record.crashes, record.attempt), (State::Pending, 1, 0), "{kind}");
    let runs = engine.attempts(job, PageRequest::first(5)).await.expect("read").items;
    let failure = runs[0].failure.as_ref().expect("evidence");
    assert_eq!((runs[0].cause, &*failure.error_type), (Cause::Crash, "Crash::SIGABRT"), "{kind}");
    assert_eq!(
        failure.message, "its process was killed by SIGABRT (signal 6); its last line: its last word",
        "{kind}"
    );
    assert!(engine.workers().await.expect("read").is_empty(), "{kind}: it is known to be gone");
    assert_eq!(engine.worker_died(workers[0], &evidence).await.expect("told again"), 0, "{kind}");

    let next = start.go();
    let began = std::time::Instant::now();
    while state().await.state != State::Succeeded {
        assert!(began.elapsed() < Duration::from_secs(60), "{kind}: the next worker runs it");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(next.stop(), "{kind}");
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
