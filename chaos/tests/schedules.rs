//! Processes that fire schedules, killed and stopped at random: each fire time is submitted once, and none is missing.

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use backstop::Timestamp;
use backstop::prelude::*;
use backstop::query::PageRequest;
use backstop::schedules::{Misfire, ScheduleSettings, ScheduleView};
use backstop_chaos::location::{StoreKind, StoreLocation};
use backstop_chaos::node::{Node, NodeStart};
use backstop_chaos::{rounds, seed};
use backstop_store::JobFilter;

const NODE: &str = env!("CARGO_BIN_EXE_chaos-node");
const LEASE_MS: u64 = 500;

/// Schedules that fire every second, by interval and by cron.
const SCHEDULES: usize = 12;

/// How long the last fires may take on a busy machine when the faults are over.
const PATIENCE: Duration = Duration::from_secs(120);

/// How many processes do what.
struct Shape {
    name: &'static str,
    modes: &'static [&'static str],
}

/// Programs with a worker.
const WORKERS: Shape = Shape { name: "fires", modes: &["work", "work", "work"] };

/// Servers without a worker, and a program with one. Nobody runs the jobs.
const SERVERS: Shape = Shape { name: "served-fires", modes: &["serve", "serve", "work"] };

async fn set_schedules(engine: &Backstop) {
    for number in 0..SCHEDULES {
        let settings = match number % 2 {
            0 => ScheduleSettings::every(Duration::from_secs(1)),
            _ => ScheduleSettings::cron("* * * * * *"),
        };
        // A machine may be busy for longer than a minute: what is missed then is made up for.
        let settings = settings.misfire(Misfire::CatchUp(100));
        let job = engine.enqueue_raw("nobody_runs_it", "{}").queue("scheduled");
        engine.schedules().set(&format!("schedule {number}"), settings, job).await.expect("it is set");
    }
}

/// How many jobs there are of each fire time of each schedule.
async fn submitted(engine: &Backstop) -> BTreeMap<(String, Timestamp), usize> {
    let (mut found, mut page) = (BTreeMap::new(), PageRequest::first(1_000));
    loop {
        let jobs = engine.jobs(JobFilter::default(), page).await.expect("the store can be read");
        for view in &jobs.items {
            let fired = view.job.spec.schedule().expect("all jobs are of schedules");
            *found.entry((fired.name.to_string(), fired.fire_time)).or_default() += 1;
        }
        let Some(next) = jobs.next else { return found };
        page = PageRequest { limit: 1_000, after: Some(next) };
    }
}

/// The fire times of a schedule from when it was set up to a moment.
fn expected(view: &ScheduleView, until: Timestamp) -> Vec<(String, Timestamp)> {
    let times = view.schedule.timing.fire_times(view.state.anchor).expect("it was checked");
    times.between(view.state.anchor, until).map(|fire| (view.name.clone(), fire)).collect()
}

async fn fire_under_faults(kind: StoreKind, shape: Shape) {
    let faults = rounds(30, 2_000);
    let mut dice = fastrand::Rng::with_seed(seed());
    let location = StoreLocation::new(kind, shape.name);
    let (engine, began) = (location.open().await, Instant::now());
    set_schedules(&engine).await;
    let start = |mode| NodeStart { mode, ..location.node(NODE, LEASE_MS) }.go();
    let mut nodes: Vec<Node> = shape.modes.iter().map(|mode| start(mode)).collect();
    for fault in 0..faults {
        tokio::time::sleep(Duration::from_millis(dice.u64(50..400))).await;
        let victim = dice.usize(..nodes.len());
        if fault % 3 == 2 {
            // Longer than its term: others take over, and then it goes on.
            nodes[victim].signal("STOP");
            tokio::time::sleep(Duration::from_millis(dice.u64(LEASE_MS..3 * LEASE_MS))).await;
            nodes[victim].signal("CONT");
        } else {
            nodes[victim].kill();
            nodes[victim] = start(shape.modes[victim]);
        }
    }
    let until = engine.store().now().await.expect("the store is there");
    let views = engine.schedules().list().await.expect("the store can be read");
    let expected: Vec<_> = views.iter().flat_map(|view| expected(view, until)).collect();
    let over = Instant::now();
    let found = loop {
        let found = submitted(&engine).await;
        if expected.iter().all(|fire| found.contains_key(fire)) {
            break found;
        }
        let missing: Vec<_> = expected.iter().filter(|fire| !found.contains_key(*fire)).collect();
        assert!(over.elapsed() < PATIENCE, "{} fires are missing, such as {:?}", missing.len(), missing[0]);
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    nodes.iter_mut().for_each(Node::kill);
    let twice: Vec<_> = found.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "fired more than once: {twice:?}");
    println!("{kind}: {faults} faults, {} fires in {:.0?}, each once", found.len(), began.elapsed());
}

#[tokio::test]
async fn workers_killed_and_stopped_fire_each_time_once_on_sqlite() {
    // W11, L17
    fire_under_faults(StoreKind::Sqlite, WORKERS).await;
}

#[tokio::test]
async fn workers_killed_and_stopped_fire_each_time_once_on_postgres() {
    // W11, L17
    fire_under_faults(StoreKind::Postgres, WORKERS).await;
}

#[tokio::test]
async fn workers_killed_and_stopped_fire_each_time_once_on_mariadb() {
    // W11, L17
    fire_under_faults(StoreKind::Mariadb, WORKERS).await;
}

#[tokio::test]
async fn servers_without_workers_killed_and_stopped_fire_each_time_once_on_sqlite() {
    // W11, L17
    fire_under_faults(StoreKind::Sqlite, SERVERS).await;
}

#[tokio::test]
async fn servers_without_workers_killed_and_stopped_fire_each_time_once_on_postgres() {
    // W11, L17
    fire_under_faults(StoreKind::Postgres, SERVERS).await;
}

#[tokio::test]
async fn servers_without_workers_killed_and_stopped_fire_each_time_once_on_mariadb() {
    // W11, L17
    fire_under_faults(StoreKind::Mariadb, SERVERS).await;
}
