//! Processes that fire schedules, killed and stopped at random, while the store's clock is stepped forth and back: each
//! fire time is submitted once, and none is missing.

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use backstop::Timestamp;
use backstop::prelude::*;
use backstop::query::PageRequest;
use backstop::schedules::{Misfire, ScheduleSettings, ScheduleView};
use backstop_chaos::location::{StoreKind, StoreLocation};
use backstop_chaos::node::{Node, NodeStart};
use backstop_chaos::stepped::machine_time;
use backstop_chaos::{rounds, seed};
use backstop_store::JobFilter;

const NODE: &str = env!("CARGO_BIN_EXE_chaos-node");
const LEASE_MS: u64 = 500;
/// The shortest that a remote worker may ask for.
const REMOTE_LEASE_MS: u64 = 1_000;

/// How long the last fires may take on a busy machine when the faults are over.
const PATIENCE: Duration = Duration::from_secs(120);

/// How far ahead of the machine the clock of a store is, in seconds: by turns at least this, and up to [`SPREAD_S`] more.
/// One that is put back by less than a minute is waited for; by more, the schedule goes on from where it is.
const OFFSETS_S: [i64; 2] = [70, 0];
const SPREAD_S: i64 = 30;

/// Where it is left: ahead of all that it ever was. Nothing is passed over up to there: what comes late by less than a
/// minute is on time, and a hundred fires before that are made up for.
const LAST_OFFSET_S: i64 = 105;

/// Which processes fire which schedules.
struct Shape {
    name: &'static str,
    modes: &'static [&'static str],
    /// How many schedules there are. All of them fire every second, by interval and by cron.
    schedules: usize,
    /// Whether the store's clock is stepped.
    stepped: bool,
}

/// Programs with a worker. A step of a minute is sixty fires at once of each of their schedules.
const WORKERS: Shape = Shape { name: "fires", modes: &["work", "work", "work"], schedules: 4, stepped: true };

/// Two servers without a worker, and remote workers. Nobody runs the jobs.
const SERVERS: Shape =
    Shape { name: "served-fires", modes: &["serve", "serve", "remote"], schedules: 12, stepped: false };

async fn set_schedules(engine: &Backstop, schedules: usize) {
    for number in 0..schedules {
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
    let (location, clock) = match shape.stepped {
        true => {
            let (location, clock) = StoreLocation::stepped(kind, shape.name);
            (location, Some(clock))
        }
        false => (StoreLocation::new(kind, shape.name), None),
    };
    let variables = clock.as_ref().map(|clock| location.variables(clock)).unwrap_or_default();
    let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, &**value)).collect();
    let began = Instant::now();
    let engine = match &clock {
        Some(clock) => location.open_by(clock).await,
        None => location.open().await,
    };
    set_schedules(&engine, shape.schedules).await;
    let start = |place: usize| {
        let slot = place.to_string();
        let variables = [&variables[..], &[("CHAOS_SLOT", &*slot)]].concat();
        let mode = shape.modes[place];
        let lease_ms = if mode == "remote" { REMOTE_LEASE_MS } else { LEASE_MS };
        NodeStart { mode, ..location.node(NODE, lease_ms) }.go_with(&variables)
    };
    let mut nodes: Vec<Node> = (0..shape.modes.len()).map(start).collect();
    let (mut steps, mut offset_s) = (0, 0);
    for fault in 0..faults {
        tokio::time::sleep(Duration::from_millis(dice.u64(50..400))).await;
        // Whoever leads finds the step in the middle of its term, or before or after it.
        if let Some(clock) = clock.as_ref().filter(|_| dice.bool()) {
            offset_s = OFFSETS_S[steps % OFFSETS_S.len()] + dice.i64(0..=SPREAD_S);
            clock.step(offset_s).expect("the clock can be set");
            steps += 1;
        }
        let victim = dice.usize(..nodes.len());
        if fault % 3 == 2 {
            // Longer than its term: others take over, and then it goes on.
            nodes[victim].signal("STOP");
            tokio::time::sleep(Duration::from_millis(dice.u64(LEASE_MS..3 * LEASE_MS))).await;
            nodes[victim].signal("CONT");
        } else {
            nodes[victim].kill();
            nodes[victim] = start(victim);
        }
    }
    if let Some(clock) = &clock {
        offset_s = LAST_OFFSET_S;
        clock.step(offset_s).expect("the clock can be set");
    }
    let until = machine_time(offset_s);
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
    let (fires, took) = (found.len(), began.elapsed());
    println!("{kind}: {faults} faults, {steps} steps of the clock, {fires} fires in {took:.0?}, each once");
}

#[tokio::test]
async fn workers_killed_and_stopped_under_a_stepped_clock_fire_each_time_once_on_sqlite() {
    // W11, L17
    fire_under_faults(StoreKind::Sqlite, WORKERS).await;
}

#[tokio::test]
async fn workers_killed_and_stopped_under_a_stepped_clock_fire_each_time_once_on_postgres() {
    // W11, L17
    fire_under_faults(StoreKind::Postgres, WORKERS).await;
}

#[tokio::test]
async fn workers_killed_and_stopped_under_a_stepped_clock_fire_each_time_once_on_mariadb() {
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
