//! The crash matrix: processes killed at named points on every store. Nothing is lost, every transition happened once,
//! every effect at least once under one key, and what was found is what docs/guarantees.md says.

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

use std::time::Instant;

use backstop_chaos::crash::KillPoint;
use backstop_chaos::crash::campaign::{CrashCampaign, CrashReport, kill_migration, kill_upgrade};
use backstop_chaos::crash::figures::{self, CrashFigures, FULL_KILLS};
use backstop_chaos::crash::servers::ServerCampaign;
use backstop_chaos::location::StoreKind;
use backstop_chaos::rounds;
use backstop_chaos::sabotage::Bug;

const NODE: &str = env!("CARGO_BIN_EXE_chaos-node");
/// Who is killed: a worker with the store, or a server or a remote worker.
const WORKER: &str = "worker";
const SERVERS: &str = "servers";

/// Compares what was found with what must be, and keeps it when this was the full form.
fn compare(who: &str, kind: StoreKind, found: &CrashReport, remote: bool) {
    println!("{kind}: {}", found.report);
    assert!(found.report.violations.is_empty(), "{:#?}", found.report.violations);
    compare_figures(who, kind, &found.figures, remote);
}

fn compare_figures(who: &str, kind: StoreKind, found: &[(KillPoint, CrashFigures)], remote: bool) {
    let store = kind.to_string();
    for (point, figures) in found {
        println!("  {}: {figures:?}", point.name());
        let expected = CrashFigures::expected(*point, figures.kills, remote);
        assert_eq!(*figures, expected, "{kind}, {who}, {}", point.name());
        if figures.kills == FULL_KILLS {
            figures::keep(who, &store, &[(*point, *figures)]);
        }
        figures::compare(who, &store, *point, remote);
    }
}

async fn kill_everywhere(kind: StoreKind) {
    let (kills, began) = (rounds(2, FULL_KILLS), Instant::now());
    let mut campaign = CrashCampaign::new(NODE, kind, None).await;
    for _ in 0..kills {
        for point in KillPoint::OF_JOBS {
            campaign.kill(point).await;
        }
    }
    compare(WORKER, kind, &campaign.settle().await, false);
    println!("{kind}: {} kills in {:.1?}", kills * KillPoint::OF_JOBS.len(), began.elapsed());
}

#[tokio::test]
async fn processes_killed_at_every_point_on_sqlite() {
    // C6, C1, C5, L5, L10, L15
    kill_everywhere(StoreKind::Sqlite).await;
}

#[tokio::test]
async fn processes_killed_at_every_point_on_postgres() {
    // C6, C1, C5, L5, L10, L15
    kill_everywhere(StoreKind::Postgres).await;
}

#[tokio::test]
async fn processes_killed_at_every_point_on_mariadb() {
    // C6, C1, C5, L5, L10, L15
    kill_everywhere(StoreKind::Mariadb).await;
}

/// The same with two servers that run no worker, and a remote worker.
async fn kill_servers_everywhere(kind: StoreKind) {
    let (kills, began) = (rounds(1, FULL_KILLS), Instant::now());
    let mut campaign = ServerCampaign::new(NODE, kind).await;
    for _ in 0..kills {
        for point in KillPoint::OF_JOBS {
            campaign.kill(point).await;
        }
    }
    compare(SERVERS, kind, &campaign.settle().await, true);
    println!("{kind}: {} kills in {:.1?}", kills * KillPoint::OF_JOBS.len(), began.elapsed());
}

#[tokio::test]
async fn servers_and_remote_workers_killed_at_every_point_on_sqlite() {
    // C6, E7, L5
    kill_servers_everywhere(StoreKind::Sqlite).await;
}

#[tokio::test]
async fn servers_and_remote_workers_killed_at_every_point_on_postgres() {
    // C6, E7, L5
    kill_servers_everywhere(StoreKind::Postgres).await;
}

#[tokio::test]
async fn servers_and_remote_workers_killed_at_every_point_on_mariadb() {
    // C6, E7, L5
    kill_servers_everywhere(StoreKind::Mariadb).await;
}

/// Kills at one statement after the other, each on a store of its own.
async fn kill_in_migrations(kind: StoreKind) {
    let (kills, mut all) = (rounds(4, FULL_KILLS), CrashFigures::default());
    for turn in 0..kills {
        // In the short form the same statements, further apart.
        let found = kill_migration(NODE, kind, 1 + turn * FULL_KILLS / kills).await;
        assert!(found.report.violations.is_empty(), "{:#?}", found.report.violations);
        found.figures.iter().for_each(|(_, figures)| all.add(*figures));
    }
    compare_figures(WORKER, kind, &[(KillPoint::MidMigration, all)], false);
}

#[tokio::test]
async fn processes_killed_in_migrations_on_sqlite() {
    // C6, L17
    kill_in_migrations(StoreKind::Sqlite).await;
}

#[tokio::test]
async fn processes_killed_in_migrations_on_postgres() {
    // C6, L17
    kill_in_migrations(StoreKind::Postgres).await;
}

#[tokio::test]
async fn processes_killed_in_migrations_on_mariadb() {
    // C6, L17
    kill_in_migrations(StoreKind::Mariadb).await;
}

/// Statements about tables that every store has in the migrations behind its first one.
const UPGRADE_STATEMENTS: usize = 14;

/// Kills at one statement after the other while a store of the first version is migrated that has jobs in it.
async fn kill_in_upgrades(kind: StoreKind) {
    let (kills, mut all) = (rounds(4, FULL_KILLS), CrashFigures::default());
    for turn in 0..kills {
        // In the short form the same statements, further apart.
        let number = if kills < UPGRADE_STATEMENTS { turn * UPGRADE_STATEMENTS / kills } else { turn };
        let found = kill_upgrade(NODE, kind, 1 + number % UPGRADE_STATEMENTS).await;
        assert!(found.report.violations.is_empty(), "{kind}, {number}: {:#?}", found.report.violations);
        found.figures.iter().for_each(|(_, figures)| all.add(*figures));
    }
    compare_figures(WORKER, kind, &[(KillPoint::MidUpgrade, all)], false);
}

#[tokio::test]
async fn processes_killed_in_upgrades_on_sqlite() {
    // C6, L17
    kill_in_upgrades(StoreKind::Sqlite).await;
}

#[tokio::test]
async fn processes_killed_in_upgrades_on_postgres() {
    // C6, L17
    kill_in_upgrades(StoreKind::Postgres).await;
}

#[tokio::test]
async fn processes_killed_in_upgrades_on_mariadb() {
    // C6, L17
    kill_in_upgrades(StoreKind::Mariadb).await;
}

#[tokio::test]
async fn a_store_that_ends_runs_too_early_is_found_by_a_kill() {
    // C6: without a kill everything looks right, so it is the point that finds it.
    let bug = Some(Bug::AckEarly);
    for (point, wrong) in [(KillPoint::AfterEffect, false), (KillPoint::LeaseHeld, true)] {
        let mut campaign = CrashCampaign::new(NODE, StoreKind::Sqlite, bug).await;
        campaign.kill(point).await;
        let violations = campaign.settle().await.report.violations;
        let lost = violations.iter().any(|what| what.contains("its effect never happened"));
        assert_eq!(lost, wrong, "{}: {violations:#?}", point.name());
        assert!(!violations.is_empty(), "{}", point.name());
    }
}
