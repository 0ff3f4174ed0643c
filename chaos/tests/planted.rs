//! Bugs planted in a store are found by the same checker that finds nothing in an honest one.

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

use std::time::Instant;

use backstop_chaos::planted::{campaign, workflows};
use backstop_chaos::sabotage::Bug;
use backstop_chaos::{CampaignFolder, rounds};
use tokio::task::JoinHandle;

/// A bug that shows only when two things meet gets so many campaigns.
const MOST_ROUNDS: usize = 6;
/// Campaigns that run at once.
const TOGETHER: usize = 4;

/// A bug, the campaign in which it was found, and the first thing that was said of it; nothing when it was missed.
type Found = (Bug, usize, String);

async fn found(bug: Bug) -> Found {
    for round in 1..=MOST_ROUNDS {
        let folder = CampaignFolder::new("planted");
        let report = campaign(folder.path(), Some(bug)).await.expect("the store can be read");
        if let Some(first) = report.violations.first() {
            return (bug, round, format!("{} violations, the first: {first}", report.violations.len()));
        }
    }
    (bug, MOST_ROUNDS, String::new())
}

/// The same of a bug about workflows, which the checker has to call by its name.
async fn found_by_name(bug: Bug, name: &str) -> Found {
    for round in 1..=MOST_ROUNDS {
        let folder = CampaignFolder::new("planted-workflows");
        let report = workflows::campaign(folder.path(), Some(bug)).await.expect("the store can be read");
        if let Some(first) = report.violations.iter().find(|violation| violation.contains(name)) {
            return (bug, round, format!("{} violations, such as: {first}", report.violations.len()));
        }
    }
    (bug, MOST_ROUNDS, String::new())
}

/// Those that are missed.
async fn missed(hunts: Vec<JoinHandle<Found>>) -> Vec<Bug> {
    let mut missed = Vec::new();
    for hunt in hunts {
        let (bug, round, what) = hunt.await.expect("the campaign ends");
        println!("{bug:?} in campaign {round}: {what}");
        if what.is_empty() {
            missed.push(bug);
        }
    }
    missed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_planted_bug_is_found() {
    // R41
    let began = Instant::now();
    let mut all_missed = Vec::new();
    for bugs in Bug::ALL.chunks(TOGETHER) {
        all_missed.extend(missed(bugs.iter().map(|bug| tokio::spawn(found(*bug))).collect()).await);
    }
    println!(
        "{} of {} planted bugs found in {:.0?}",
        Bug::ALL.len() - all_missed.len(),
        Bug::ALL.len(),
        began.elapsed()
    );
    assert!(all_missed.is_empty(), "the checker misses {all_missed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_planted_bug_about_workflows_is_found() {
    // R41
    let hunts = Bug::OF_WORKFLOWS.map(|(bug, name)| tokio::spawn(found_by_name(bug, name)));
    let missed = missed(hunts.into()).await;
    assert!(missed.is_empty(), "the checker misses {missed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_found_in_an_honest_store() {
    // R41
    let times = rounds(5, 100);
    let (mut jobs, mut runs, mut refused) = (0, 0, 0);
    for _ in 0..times {
        let folder = CampaignFolder::new("honest");
        let report = campaign(folder.path(), None).await.expect("the store can be read");
        assert!(report.violations.is_empty(), "{:#?}", report.violations);
        (jobs, runs, refused) = (jobs + report.jobs, runs + report.runs, refused + report.refused);
    }
    println!(
        "{times} campaigns without a bug: {jobs} jobs, {runs} runs, {refused} stale ends refused, 0 violations"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_found_in_workflows_of_an_honest_store() {
    // R41
    for _ in 0..rounds(2, 40) {
        let folder = CampaignFolder::new("honest-workflows");
        let report = workflows::campaign(folder.path(), None).await.expect("the store can be read");
        assert!(report.violations.is_empty(), "{:#?}", report.violations);
        println!("a campaign without a bug: {report}");
    }
}
