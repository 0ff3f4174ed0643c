//! Several processes on one store: started, killed at random, and drained when the faults are over.

use std::time::{Duration, Instant};

use backstop::workflows::{WorkflowFilter, WorkflowStatus};
use backstop::{Backstop, JobId, State};
use backstop_store::{JobFilter, PageRequest};

use crate::checker::{self, CampaignReport};
use crate::node::{Node, NodeStart};
use crate::stall::StallGuard;

/// How long nothing may change before the store has come to rest after the faults.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How many jobs the workers of a campaign claim ahead: they take turns, and the first does what is the default.
const PREFETCH: [&str; 2] = ["0", "4"];

/// The processes of one campaign.
#[derive(Debug)]
pub struct NodeGroup<'a> {
    start: NodeStart<'a>,
    nodes: Vec<Node>,
    started: usize,
}

impl<'a> NodeGroup<'a> {
    /// Starts processes that all do the same.
    #[must_use]
    pub fn start(start: NodeStart<'a>, size: usize) -> Self {
        let mut group = Self { start, nodes: Vec::with_capacity(size), started: 0 };
        group.fill(size);
        group
    }

    fn fill(&mut self, size: usize) {
        while self.nodes.len() < size {
            let node = self.next();
            self.nodes.push(node);
        }
    }

    /// Starts one more process; each one behaves otherwise than the one before it.
    fn next(&mut self) -> Node {
        let prefetch = PREFETCH[self.started % PREFETCH.len()];
        self.started += 1;
        self.start.go_with(&[("CHAOS_PREFETCH", prefetch)])
    }

    /// Kills one of them and starts another in its place.
    pub fn replace_one(&mut self, dice: &mut fastrand::Rng) {
        let victim = dice.usize(..self.nodes.len());
        self.nodes[victim].kill();
        self.nodes[victim] = self.next();
    }

    /// True while every process runs.
    pub fn all_alive(&mut self) -> bool {
        self.nodes.iter_mut().all(Node::is_alive)
    }

    /// The processes.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Kills all, and lets fresh workers finish what is left; then reads the journals and the store.
    ///
    /// # Panics
    /// When jobs of dead workers are stuck after two leases, or the store cannot be read.
    pub async fn settle(mut self) -> CampaignReport {
        self.nodes.iter_mut().for_each(Node::kill);
        self.start.mode = "work";
        let size = std::mem::take(&mut self.nodes).len();
        self.fill(size);
        let engine = Backstop::open(self.start.url).await.expect("the store opens");
        for node in &self.nodes {
            at_work(&engine, node).await;
        }
        let began = Instant::now();
        // Two leases, and a few seconds for a busy machine.
        let bound = Duration::from_millis(2 * self.start.lease_ms) + Duration::from_secs(8);
        while !engine.store().orphans(1).await.expect("readable").is_empty() {
            assert!(began.elapsed() < bound, "jobs of dead workers are stuck after two leases");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        drained(&engine).await;
        for node in self.nodes {
            assert!(node.stop(), "a node stops cleanly when it is asked to");
        }
        checker::check(&engine, self.start.folder).await.expect("the store can be read")
    }
}

/// Returns when a process has made itself known: before that a signal would end it by its default action.
pub(crate) async fn at_work(engine: &Backstop, node: &Node) {
    let (began, name) = (Instant::now(), format!("pid-{}", node.child.id()));
    while !engine.workers().await.expect("readable").iter().any(|worker| worker.name == name) {
        assert!(began.elapsed() < PATIENCE, "{name} never made itself known");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns when nothing is left to do, or nothing ends any more: then the checker says what is stuck.
///
/// # Panics
/// When the store cannot be read.
pub async fn drained(engine: &Backstop) {
    let mut stall = StallGuard::new(PATIENCE);
    loop {
        let left = left(engine).await;
        if left == 0 || stall.is_over(left) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Returns when more jobs have succeeded than before; answers how many. A fault that meets nobody at work proves
/// nothing, and how long it takes to get there is the machine's affair.
///
/// # Panics
/// When that takes longer than a minute.
pub async fn progressed(engine: &Backstop, before: u64) -> u64 {
    let began = Instant::now();
    loop {
        // The store may still be away: that is what is waited for.
        let queues = engine.queues().list().await.unwrap_or_default();
        let succeeded = queues.iter().map(|queue| queue.succeeded).sum();
        if succeeded > before {
            return succeeded;
        }
        if began.elapsed() > PATIENCE {
            panic!("nothing succeeds any more: {before} jobs had; {:#?}", live_ones(engine).await);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Open workflows, fires without their jobs, and live jobs, in this order: what follows at the end of a workflow is
/// submitted with its end, and a fire is decided before its job is submitted.
pub(crate) async fn left(engine: &Backstop) -> u64 {
    open_workflows(engine).await + unsubmitted_fires(engine).await + live_jobs(engine).await
}

/// Workflows and batches that have not ended, as far as one page goes.
async fn open_workflows(engine: &Backstop) -> u64 {
    let open = WorkflowFilter { status: Some(WorkflowStatus::Running), ..WorkflowFilter::default() };
    engine.workflows().list(&open, PageRequest::first(500)).await.expect("readable").items.len() as u64
}

/// Fires that were decided last by their schedules, and whose jobs are not stored: whoever decided may have died.
async fn unsubmitted_fires(engine: &Backstop) -> u64 {
    let schedules = engine.schedules().list().await.expect("readable");
    let fires = schedules.iter().flat_map(|view| &view.state.fires);
    let jobs: Vec<JobId> = fires.map(|fire| fire.job).collect();
    if jobs.is_empty() {
        return 0;
    }
    let found = engine.store().job_summaries(jobs).await.expect("readable");
    found.iter().filter(|summary| summary.is_none()).count() as u64
}

/// Jobs that have not ended.
///
/// # Panics
/// When the store cannot be read.
pub async fn live_jobs(engine: &Backstop) -> u64 {
    let queues = engine.queues().list().await.expect("the store can be read");
    queues.iter().map(|queue| queue.pending + queue.running + queue.waiting).sum()
}

/// Returns when every job has ended, as [`drained`] waits for it.
///
/// # Panics
/// When jobs are left, with the state of each and what the engine says about it.
pub async fn all_ended(engine: &Backstop) {
    drained(engine).await;
    let left = live_jobs(engine).await;
    if left == 0 {
        return;
    }
    panic!("{left} jobs have not ended, and nobody takes them back: {:#?}", live_ones(engine).await);
}

/// A few jobs of each state that has not ended, with what the engine says about them.
async fn live_ones(engine: &Backstop) -> Vec<String> {
    let mut told = Vec::new();
    for state in [State::Pending, State::Running, State::Waiting] {
        let filter = JobFilter { state: Some(state), ..JobFilter::default() };
        let page = engine.jobs(filter, PageRequest::first(5)).await.expect("the store can be read");
        for view in page.items {
            let why = engine.explain(view.job.spec.id).await.expect("the store can be read");
            told.push(format!("{view:?}: {why:#?}"));
        }
    }
    told
}
