//! Limits on runs while workers are killed at random: never more at once than allowed, never more starts than the rate
//! gives, and the room of the dead comes back (H5).

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use backstop::limits::{CountBy, RunLimit, RunRate};
use backstop::{Backstop, Timestamp};
use backstop_chaos::journal::Journal;
use backstop_chaos::location::{StoreKind, StoreLocation};
use backstop_chaos::shape::CampaignShape::{self, RemoteWorkers, Workers};
use backstop_chaos::shape::{CampaignNodes, meet_runs};
use backstop_chaos::work::{CampaignJob, SLOW, policy};
use backstop_chaos::{journal_layer, rounds, seed};
use backstop_core::job::{SharedResource, SharingNeeds};
use backstop_store::{JobFilter, PageRequest, Submit};

const NODE: &str = env!("CARGO_BIN_EXE_chaos-node");

/// Runs at once. Three processes have slots for many more.
const AT_ONCE: u64 = 7;
/// Keys that few jobs have.
const KEYS: u64 = 6;
/// Runs of one key at once, and permits of the pool.
const OF_A_KEY: u64 = 3;
const PERMITS: u32 = 4;
/// Starts in a time, by another limit that is about the same jobs: it is hardly ever the tighter one.
const RATE: RunRate = RunRate { count: 60, per: Duration::from_millis(200) };

async fn fill(engine: &Backstop, jobs: u64, shares: bool) {
    let job = |number: u64| {
        let needs = share(number);
        // Some fail or snooze first, none is a dead letter; some take so long that kills meet them.
        let number = if number % 10 == 2 { 3 } else { number };
        let number = if number.is_multiple_of(4) { SLOW + number } else { number };
        let job = engine.enqueue(CampaignJob { number }).policy(policy());
        let mut job = job.into_new_job().expect("admitted");
        job.spec.needs = shares.then(|| Box::new(needs));
        job
    };
    let jobs: Vec<_> = (0..jobs).map(job).collect();
    for batch in jobs.chunks(500) {
        let batch = Submit { jobs: batch.to_vec(), atomic: true };
        let answers = engine.store().submit(batch).await.expect("stored");
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    }
}

/// Most jobs are of one key, a few of others; some run alone by name, some hold permits.
fn share(number: u64) -> SharingNeeds {
    let key =
        if number.is_multiple_of(5) { format!("key {}", number / 5 % KEYS) } else { "large".to_owned() };
    SharingNeeds {
        limit_key: Some(key.into()),
        single_instance: number.is_multiple_of(11).then(|| "alone".into()),
        permits: number
            .is_multiple_of(7)
            .then(|| ("pool".into(), 1 + u32::from(number.is_multiple_of(2))))
            .into_iter()
            .collect(),
    }
}

/// When each run of every job began and ended, by the store's clock.
async fn runs(engine: &Backstop) -> Vec<(Timestamp, Timestamp)> {
    runs_by_job(engine).await.into_iter().map(|(_, run)| run).collect()
}

/// The same, with what each job shares.
async fn runs_by_job(engine: &Backstop) -> Vec<(SharingNeeds, (Timestamp, Timestamp))> {
    let (mut runs, mut after) = (Vec::new(), None);
    loop {
        let page =
            engine.jobs(JobFilter::default(), PageRequest { limit: 500, after }).await.expect("readable");
        for view in &page.items {
            let rows = engine.attempts(view.job.spec.id, PageRequest::first(500)).await.expect("readable");
            let needs = view.job.spec.needs.as_deref().cloned().unwrap_or_default();
            runs.extend(rows.items.iter().map(|row| (needs.clone(), (row.started_at, row.finished_at))));
        }
        after = page.next;
        if after.is_none() {
            return runs;
        }
    }
}

/// The most runs at one moment. One that ends and one that starts at the same moment do not meet.
fn most_at_once(runs: &[(Timestamp, Timestamp)]) -> u64 {
    let ends = runs.iter().map(|(_, end)| (*end, false));
    let mut moments: Vec<(Timestamp, bool)> =
        runs.iter().map(|(start, _)| (*start, true)).chain(ends).collect();
    moments.sort_unstable();
    let (mut now, mut most) = (0_i64, 0_i64);
    for (_, starts) in moments {
        now += if starts { 1 } else { -1 };
        most = most.max(now);
    }
    u64::try_from(most).unwrap_or_default()
}

/// The most starts in any time as long as the rate's: the bucket, and what flows into it meanwhile.
fn most_started(runs: &[(Timestamp, Timestamp)]) -> usize {
    let mut starts: Vec<Timestamp> = runs.iter().map(|(start, _)| *start).collect();
    starts.sort_unstable();
    let within = |from: usize| starts.partition_point(|start| *start < starts[from].after(RATE.per)) - from;
    (0..starts.len()).map(within).max().unwrap_or_default()
}

/// Runs jobs under limits while processes are killed at random, and answers with the store when every job has
/// succeeded. What differs between campaigns is what the jobs share and what their ledgers must show.
async fn kill_under(
    (kind, shape): (StoreKind, CampaignShape),
    limits: impl IntoIterator<Item = RunLimit>,
    jobs: u64,
    shares: bool,
) -> (StoreLocation, Backstop) {
    let mut dice = fastrand::Rng::with_seed(seed());
    let location = StoreLocation::new(kind, if shares { "sharing" } else { "limits" });
    let began = Instant::now();
    let engine = location.open().await;
    for limit in limits {
        engine.limits().set(limit).await.expect("a limit");
    }
    let journal = std::sync::Arc::new(Journal::create_in(location.folder()));
    let submitter = journal_layer::open(location.url(), journal).await.expect("the store opens");
    let mut nodes = CampaignNodes::start(shape, &location, NODE);
    fill(&submitter, jobs, shares).await;
    // Now and then, so that not all the room is held by the dead; remote ones hold it for longer, and start slower.
    let pause_ms = if shape == Workers { 200..700 } else { 700..2_000 };
    let kills = nodes.kill_until(&engine, jobs * 2 / 3, pause_ms, &mut dice).await;
    let jobs = jobs + meet_runs(&submitter).await;
    let report = nodes.settle().await;
    println!("{kind}, {shape}: {jobs} jobs, {kills} kills in {:.0?}; {report}", began.elapsed());
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    let queue = engine.queues().list().await.expect("readable").remove(0);
    assert_eq!(queue.succeeded, jobs, "every job has had its turn: {queue:?}");
    assert!(report.crashes > 0, "the campaign did something");
    (location, engine)
}

async fn kill_limited(kind: StoreKind, shape: CampaignShape) {
    let jobs = u64::try_from(rounds(400, 4_000)).unwrap_or(400);
    let limit = RunLimit { concurrency: Some(AT_ONCE), ..RunLimit::of_queue("default") };
    let rate = RunLimit { rate: Some(RATE), ..RunLimit::new("all") };
    let (_location, engine) = kill_under((kind, shape), [limit, rate], jobs, false).await;
    let runs = runs(&engine).await;
    let (at_once, started) = (most_at_once(&runs), most_started(&runs));
    println!("{kind}, {shape}: {at_once} of {AT_ONCE} at once, {started} starts in {:?}", RATE.per);
    assert!(at_once <= AT_ONCE, "{at_once} ran at once, {AT_ONCE} may");
    assert!(at_once >= AT_ONCE / 2, "the room is used: {at_once} ran at once, {AT_ONCE} may");
    let most = usize::try_from(2 * RATE.count).unwrap_or(usize::MAX);
    assert!(started <= most, "{started} started within {:?}, {most} may", RATE.per);
}

/// The most that runs held at one moment of everything that they share.
fn most_held(runs: &[(SharingNeeds, (Timestamp, Timestamp))]) -> BTreeMap<SharedResource, u64> {
    let mut by_thing: BTreeMap<SharedResource, Vec<(Timestamp, Timestamp)>> = BTreeMap::new();
    for (needs, run) in runs {
        for (thing, amount) in needs.shared() {
            by_thing.entry(thing).or_default().extend((0..amount).map(|_| *run));
        }
    }
    by_thing.into_iter().map(|(thing, runs)| (thing, most_at_once(&runs))).collect()
}

async fn kill_sharing(kind: StoreKind, shape: CampaignShape) {
    let jobs = u64::try_from(rounds(300, 3_000)).unwrap_or(300);
    let of_a_key = RunLimit { by: CountBy::Key, concurrency: Some(OF_A_KEY), ..RunLimit::new("key") };
    let pool = RunLimit { permits: Some(PERMITS), ..RunLimit::new("pool") };
    let (_location, engine) = kill_under((kind, shape), [of_a_key, pool], jobs, true).await;
    let held = most_held(&runs_by_job(&engine).await);
    println!("{kind}, {shape}: {held:?}");
    for (thing, most) in &held {
        let may = match thing {
            SharedResource::Key(_) => OF_A_KEY,
            SharedResource::Instance(_) => 1,
            SharedResource::Pool(_) => u64::from(PERMITS),
        };
        assert!(*most <= may, "{most} of {thing:?} at once, {may} may");
    }
    let limits = engine.limits().list().await.expect("readable");
    assert!(limits.iter().all(|limit| limit.used.running == 0 && limit.used.permits == 0), "{limits:?}");
}

#[test]
fn what_overlaps_is_counted() {
    // H5: the count that the campaigns rest on.
    let at = |from: i64, to: i64| (Timestamp::from_micros(from), Timestamp::from_micros(to));
    assert_eq!(most_at_once(&[at(0, 10), at(10, 20), at(20, 30)]), 1);
    assert_eq!(most_at_once(&[at(0, 10), at(9, 20), at(9, 12), at(11, 30)]), 3);
    assert_eq!(most_started(&[at(0, 1), at(1, 2), at(199_999, 300_000), at(200_000, 300_000)]), 3);
}

#[tokio::test]
async fn limits_hold_while_workers_are_killed_on_sqlite() {
    // H5, L15, C1
    kill_limited(StoreKind::Sqlite, Workers).await;
}

#[tokio::test]
async fn limits_hold_while_workers_are_killed_on_postgres() {
    // H5, L15, C1
    kill_limited(StoreKind::Postgres, Workers).await;
}

#[tokio::test]
async fn limits_hold_while_workers_are_killed_on_mariadb() {
    // H5, L15, C1
    kill_limited(StoreKind::Mariadb, Workers).await;
}

#[tokio::test]
async fn limits_hold_while_remote_workers_are_killed_on_sqlite() {
    // H5, L15, C1, E7
    kill_limited(StoreKind::Sqlite, RemoteWorkers).await;
}

#[tokio::test]
async fn limits_hold_while_remote_workers_are_killed_on_postgres() {
    // H5, L15, C1, E7
    kill_limited(StoreKind::Postgres, RemoteWorkers).await;
}

#[tokio::test]
async fn limits_hold_while_remote_workers_are_killed_on_mariadb() {
    // H5, L15, C1, E7
    kill_limited(StoreKind::Mariadb, RemoteWorkers).await;
}

#[tokio::test]
async fn what_is_shared_is_held_by_no_more_than_may_while_workers_are_killed_on_sqlite() {
    // H5, H6, L15
    kill_sharing(StoreKind::Sqlite, Workers).await;
}

#[tokio::test]
async fn what_is_shared_is_held_by_no_more_than_may_while_workers_are_killed_on_postgres() {
    // H5, H6, L15
    kill_sharing(StoreKind::Postgres, Workers).await;
}

#[tokio::test]
async fn what_is_shared_is_held_by_no_more_than_may_while_workers_are_killed_on_mariadb() {
    // H5, H6, L15
    kill_sharing(StoreKind::Mariadb, Workers).await;
}

#[tokio::test]
async fn what_is_shared_is_held_by_no_more_than_may_while_remote_workers_are_killed_on_sqlite() {
    // H5, H6, L15, E7
    kill_sharing(StoreKind::Sqlite, RemoteWorkers).await;
}

#[tokio::test]
async fn what_is_shared_is_held_by_no_more_than_may_while_remote_workers_are_killed_on_postgres() {
    // H5, H6, L15, E7
    kill_sharing(StoreKind::Postgres, RemoteWorkers).await;
}

#[tokio::test]
async fn what_is_shared_is_held_by_no_more_than_may_while_remote_workers_are_killed_on_mariadb() {
    // H5, H6, L15, E7
    kill_sharing(StoreKind::Mariadb, RemoteWorkers).await;
}
