//! Bugs planted in a store are found by the same checker that finds nothing in an honest one.

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

use std::time::Instant;

use backstop_chaos::planted::campaign;
use backstop_chaos::sabotage::Bug;
use backstop_chaos::{CampaignFolder, rounds};

/// A bug that shows only when two things meet gets so many campaigns.
const MOST_ROUNDS: usize = 6;
/// Campaigns that run at once.
const TOGETHER: usize = 4;

async fn found(bug: Bug) -> (Bug, usize, String) {
    for round in 1..=MOST_ROUNDS {
        let folder = CampaignFolder::new("planted");
        let report = campaign(folder.path(), Some(bug)).await.expect("the store can be read");
        if let Some(first) = report.violations.first() {
            return (bug, round, format!("{} violations, the first: {first}", report.violations.len()));
        }
    }
    (bug, MOST_ROUNDS, String::new())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_planted_bug_is_found() {
    // R41
    let began = Instant::now();
    let mut missed = Vec::new();
    for bugs in Bug::ALL.chunks(TOGETHER) {
        let hunts: Vec<_> = bugs.iter().map(|bug| tokio::spawn(found(*bug))).collect();
        for hunt in hunts {
            let (bug, round, what) = hunt.await.expect("the campaign ends");
            println!("{bug:?} in campaign {round}: {what}");
            if what.is_empty() {
                missed.push(bug);
            }
        }
    }
    println!(
        "{} of {} planted bugs found in {:.0?}",
        Bug::ALL.len() - missed.len(),
        Bug::ALL.len(),
        began.elapsed()
    );
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
