//! The two shapes of a campaign: programs that work on the store themselves, and servers without a worker that hand
//! jobs out to remote ones. A campaign is written once and run in both.

use std::ops::Range;
use std::time::{Duration, Instant};

use backstop::{Backstop, State};

use crate::checker::CampaignReport;
use crate::group::{NodeGroup, PATIENCE, progressed};
use crate::location::StoreLocation;
use crate::node::NodeStart;
use crate::processes::ServersAndWorkers;
use crate::work::{CampaignJob, SLOW, policy};

/// Who works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CampaignShape {
    /// Three programs, each with a worker.
    Workers,
    /// Two servers that run no worker, and four remote workers (E7).
    RemoteWorkers,
}

impl std::fmt::Display for CampaignShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Workers => "workers",
            Self::RemoteWorkers => "remote workers",
        })
    }
}

/// Submits jobs that take their time until one of them is seen to run, and answers how many: kills at random may all
/// have met workers with nothing to do, and those of [`CampaignNodes::settle`] then do not.
///
/// # Panics
/// When nobody takes one within a minute.
pub async fn meet_runs(submitter: &Backstop) -> u64 {
    let (began, mut submitted) = (Instant::now(), 0);
    loop {
        let job = submitter.enqueue(CampaignJob { number: SLOW + 3 }).policy(policy());
        let id = job.submit().await.expect("admitted").id;
        submitted += 1;
        loop {
            match submitter.job(id).await.expect("readable").expect("it was submitted").view.state() {
                State::Running => return submitted,
                State::Succeeded => break,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
            assert!(began.elapsed() < PATIENCE, "nobody takes a job");
        }
    }
}

/// Remote workers that are killed for each server.
const PER_SERVER: usize = 4;

/// The lease of programs, where the campaign says nothing else.
const LEASE_MS: u64 = 500;

/// The shortest lease that a remote worker may ask for.
const REMOTE_LEASE_MS: u64 = 1_000;

/// The processes of a campaign that has submitted its jobs itself.
#[derive(Debug)]
pub enum CampaignNodes<'a> {
    /// Of [`CampaignShape::Workers`].
    Workers(NodeGroup<'a>),
    /// Of [`CampaignShape::RemoteWorkers`].
    RemoteWorkers(ServersAndWorkers<'a>),
}

impl<'a> CampaignNodes<'a> {
    /// Starts them.
    #[must_use]
    pub fn start(shape: CampaignShape, location: &'a StoreLocation, program: &'a str) -> Self {
        Self::start_with(shape, location.node(program, LEASE_MS))
    }

    /// Starts them as this says, save for what they do.
    #[must_use]
    pub fn start_with(shape: CampaignShape, start: NodeStart<'a>) -> Self {
        Self::start_as(shape, start, ["work", "serve"])
    }

    /// Starts processes with clients that submit all the time.
    #[must_use]
    pub fn submitting(shape: CampaignShape, start: NodeStart<'a>) -> Self {
        Self::start_as(shape, start, ["work-and-submit", "serve-and-submit"])
    }

    /// Starts processes whose clients submit more than the queue has room for.
    #[must_use]
    pub fn crowd(shape: CampaignShape, location: &'a StoreLocation, program: &'a str) -> Self {
        Self::start_as(shape, location.node(program, LEASE_MS), ["work-and-crowd", "serve-and-crowd"])
    }

    fn start_as(shape: CampaignShape, start: NodeStart<'a>, [work, serve]: [&'a str; 2]) -> Self {
        match shape {
            CampaignShape::Workers => Self::Workers(NodeGroup::start(NodeStart { mode: work, ..start }, 3)),
            CampaignShape::RemoteWorkers => {
                let lease_ms = start.lease_ms.max(REMOTE_LEASE_MS);
                let start = NodeStart { mode: serve, lease_ms, ..start };
                Self::RemoteWorkers(ServersAndWorkers::open(start, 2, 4, PER_SERVER))
            }
        }
    }

    /// True while every process runs.
    pub fn all_alive(&mut self) -> bool {
        match self {
            Self::Workers(group) => group.all_alive(),
            Self::RemoteWorkers(processes) => processes.all_alive(),
        }
    }

    /// Kills one of them and starts another in its place.
    pub fn replace_one(&mut self, dice: &mut fastrand::Rng) {
        match self {
            Self::Workers(group) => group.replace_one(dice),
            Self::RemoteWorkers(processes) => processes.replace_one(dice),
        }
    }

    /// Kills one process after another until so many jobs have succeeded, some of them after each kill; answers how
    /// many kills that were. Before each one it waits for a random time.
    ///
    /// # Panics
    /// When nothing succeeds any more.
    pub async fn kill_until(
        &mut self,
        engine: &Backstop,
        wanted: u64,
        pause_ms: Range<u64>,
        dice: &mut fastrand::Rng,
    ) -> usize {
        let (mut succeeded, mut kills) = (0, 0);
        while succeeded < wanted {
            tokio::time::sleep(Duration::from_millis(dice.u64(pause_ms.clone()))).await;
            succeeded = progressed(engine, succeeded).await;
            self.replace_one(dice);
            kills += 1;
        }
        kills
    }

    /// Kills all; fresh processes of the same shape finish what is left. Then reads the journals and the store.
    ///
    /// # Panics
    /// When jobs are left that nobody ends, or the store cannot be read.
    pub async fn settle(self) -> CampaignReport {
        match self {
            Self::Workers(group) => group.settle().await,
            Self::RemoteWorkers(processes) => processes.settle().await,
        }
    }
}
