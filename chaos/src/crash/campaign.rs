//! Kills processes at the points of the matrix, lets others finish what is left, and looks at what they find.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop::prelude::*;
use backstop::{JobId, State};
use backstop_core::job::JobView;
use backstop_store::{Finding, Level, Submit};
use backstop_testbed::Proxy;

use super::KillPoint;
use super::figures::CrashFigures;
use super::job::{self, BATCH, EffectJob};
use super::older;
use super::trap::{self, CrashTrap};
use crate::checker::{self, CampaignReport, JournalSummary};
use crate::client::state_of;
use crate::group::{at_work, drained};
use crate::journal::Journal;
use crate::journal_layer;
use crate::location::{StoreKind, StoreLocation};
use crate::node::{Node, NodeStart};
use crate::sabotage::Bug;

/// Long enough for a process that a busy machine neglects: only the killed lose their runs.
pub const LEASE_MS: u64 = 5_000;

/// Jobs that are submitted with each one that meets a kill: before it and behind it.
const BESIDE: usize = 2;

/// How long a process may take to reach its point.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A store on which processes are killed.
#[derive(Debug)]
pub struct CrashCampaign<'a> {
    pub(super) program: &'a str,
    pub(super) location: StoreLocation,
    proxy: Option<Proxy>,
    /// The test's own way to the store, which nothing holds.
    pub(super) engine: Backstop,
    bug: Option<Bug>,
    kills: Vec<KillPoint>,
    /// The jobs that met a kill.
    victims: Vec<(KillPoint, JobId)>,
    /// Those beside them.
    others: Vec<JobId>,
}

/// What was found when all had ended.
#[derive(Debug)]
pub struct CrashReport {
    /// What the checker says.
    pub report: CampaignReport,
    /// What was found at each point.
    pub figures: Vec<(KillPoint, CrashFigures)>,
}

impl<'a> CrashCampaign<'a> {
    /// A campaign on a store of its own. `bug`: what is wrong with the store of those that are killed.
    ///
    /// # Panics
    /// When the store cannot be opened.
    pub async fn new(program: &'a str, kind: StoreKind, bug: Option<Bug>) -> Self {
        let location = StoreLocation::new(kind, "matrix");
        let proxy = proxy_to(&location);
        Self::on(program, location, proxy, bug).await
    }

    async fn on(program: &'a str, location: StoreLocation, proxy: Option<Proxy>, bug: Option<Bug>) -> Self {
        let journal = Arc::new(Journal::create_in(location.folder()));
        let engine = journal_layer::open(location.url(), journal).await.expect("the store opens");
        let (kills, victims, others) = (Vec::new(), Vec::new(), Vec::new());
        Self { program, location, proxy, engine, bug, kills, victims, others }
    }

    /// Kills a process at a point.
    ///
    /// # Panics
    /// When no process dies there.
    pub async fn kill(&mut self, point: KillPoint) {
        let (label, trap) = self.next_kill(point);
        if point == KillPoint::MidBatch {
            return self.kill_submitter(&label, trap).await;
        }
        let victim = self.submit_around(point, &label).await;
        self.run_to_death("crash-work", &label, trap, Some(victim)).await;
    }

    /// Counts a kill; answers the label of its job, and where the statements of a process are held for it.
    pub(super) fn next_kill(&mut self, point: KillPoint) -> (String, Option<CrashTrap>) {
        let number = self.kills.iter().filter(|at| **at == point).count();
        self.kills.push(point);
        let label = format!("{}-{number:02}", point.name());
        let trap = match point {
            KillPoint::BeforeCommit | KillPoint::AfterCommit => {
                let after = point == KillPoint::AfterCommit;
                // Runs that succeed end in one statement there.
                let is_one = self.location.kind() == StoreKind::Postgres;
                let trap = if is_one { CrashTrap::at_end_of } else { CrashTrap::at_commit_of };
                Some(trap(&label, after))
            }
            // In the middle of a statement, and between the last one and the COMMIT.
            KillPoint::RetryScheduling if number.is_multiple_of(2) => Some(CrashTrap::at_nth(&label, 1)),
            KillPoint::RetryScheduling => Some(CrashTrap::at_commit_of(&label, false)),
            // Keys are looked up, jobs written, and keys written: the same job comes by in each of them.
            KillPoint::MidBatch => {
                Some(CrashTrap::at_nth(&job::batch_label(&label, BATCH / 2), 3 - number % 3))
            }
            _ => None,
        };
        (label, trap)
    }

    /// Submits the job that is to meet a kill, with others around it. They run one at a time, in this order.
    pub(super) async fn submit_around(&mut self, point: KillPoint, label: &str) -> JobId {
        // Their labels must not hold the one that its trap waits for.
        let before = self.others.len();
        let beside = |number| EffectJob { label: format!("beside-{}", before + number), point: None };
        let guilty = EffectJob { label: label.to_owned(), point: Some(point) };
        let order = (0..BESIDE).map(beside).chain([guilty]).chain((BESIDE..2 * BESIDE).map(beside));
        let jobs = order.map(|job| job.new_job(&self.engine)).collect();
        let ids = self.submit(Submit { jobs, atomic: true }).await;
        self.victims.push((point, ids[BESIDE]));
        self.others.extend(ids.iter().enumerate().filter(|(place, _)| *place != BESIDE).map(|(_, id)| *id));
        ids[BESIDE]
    }

    /// Submits the jobs of a batch, of which all meet the kill.
    pub(super) async fn submit_batch(&mut self, labels: impl Iterator<Item = String>) -> Vec<JobId> {
        let job = |label| EffectJob { label, point: None }.new_job(&self.engine);
        let jobs = labels.map(job).collect();
        let ids = self.submit(Submit { jobs, atomic: true }).await;
        self.victims.extend(ids.iter().map(|id| (KillPoint::MidBatch, *id)));
        ids
    }

    async fn submit(&self, submit: Submit) -> Vec<JobId> {
        let answers = self.engine.store().submit(submit).await.expect("the store answers");
        answers.into_iter().map(|answer| answer.expect("admitted").id).collect()
    }

    /// Kills a process half way through a batch of submits: nothing of it is there, and it can be repeated.
    async fn kill_submitter(&mut self, label: &str, trap: Option<CrashTrap>) {
        let before = self.stored().await;
        self.run_to_death("crash-submit", label, trap, None).await;
        assert_eq!(self.stored().await, before, "{label}: part of a batch is stored");
        let ids = self.submit(job::batch(&self.engine, label)).await;
        let again = self.submit(job::batch(&self.engine, label)).await;
        assert_eq!(again, ids, "{label}: a repeated batch is answered as before");
        assert_eq!(self.stored().await, before + BATCH as u64, "{label}");
        self.victims.extend(ids.iter().map(|id| (KillPoint::MidBatch, *id)));
    }

    /// How many jobs there are.
    async fn stored(&self) -> u64 {
        let queues = self.engine.queues().list().await.expect("the store can be read");
        let all = |queue: &backstop_store::QueueView| {
            queue.pending + queue.waiting + queue.running + queue.succeeded + queue.failed + queue.canceled
        };
        queues.iter().map(all).sum()
    }

    /// Starts a process and waits until it has died at its point, killed by itself or, when it is held there, by us.
    async fn run_to_death(&self, mode: &str, label: &str, trap: Option<CrashTrap>, victim: Option<JobId>) {
        let before = self.proxy.as_ref().map_or(0, Proxy::held);
        if let (Some(trap), Some(proxy)) = (&trap, &self.proxy) {
            trap.set(proxy);
        }
        let token = self.token(label);
        let mut variables = trap::variables(trap.as_ref(), &token);
        variables.push(("CHAOS_BATCH", label.to_owned()));
        variables.extend(self.bug.map(|bug| ("CHAOS_BUG", format!("{bug:?}"))));
        let mut node = self.start(mode, &variables);
        let began = Instant::now();
        while node.is_alive() {
            assert!(began.elapsed() < PATIENCE, "{label}: no process came to its point");
            if self.proxy.as_ref().is_some_and(|proxy| proxy.held() > before) {
                if let (true, Some(victim)) = (trap.is_some_and(|trap| trap.after), victim) {
                    self.succeeded(victim).await;
                }
                node.kill();
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(token.exists(), "{label}: a process died, and not where it should");
    }

    /// Returns when the store says that a job has succeeded.
    pub(super) async fn succeeded(&self, job: JobId) {
        let began = Instant::now();
        while state_of(&self.engine, job).await != Some(State::Succeeded) {
            assert!(began.elapsed() < PATIENCE, "job {job} was never committed");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// What a process leaves behind that dies by itself.
    pub(super) fn token(&self, label: &str) -> PathBuf {
        self.location.folder().join(format!("died-{label}"))
    }

    fn start(&self, mode: &str, variables: &[(&str, String)]) -> Node {
        let url = self.proxy.as_ref().map(|proxy| proxy.url(self.location.url()));
        let url = url.as_deref().unwrap_or(self.location.url());
        let start = NodeStart { mode, url, ..self.location.node(self.program, LEASE_MS) };
        let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, &**value)).collect();
        start.go_with(&variables)
    }

    /// Lets one more process finish what is left; then reads the journals and the store.
    ///
    /// # Panics
    /// When the process does not stop when asked to, or the store cannot be read.
    pub async fn settle(self) -> CrashReport {
        let node = self.start("crash-work", &[]);
        at_work(&self.engine, &node).await;
        drained(&self.engine).await;
        assert!(node.stop(), "a process stops cleanly when it is asked to");
        self.look().await
    }

    /// What the checker finds, and the figures of every point.
    pub(super) async fn look(&self) -> CrashReport {
        let folder = self.location.folder();
        let mut report = checker::check(&self.engine, folder).await.expect("the store can be read");
        let summary = JournalSummary::read(folder);
        let mut figures: Vec<(KillPoint, CrashFigures)> = Vec::new();
        for point in &self.kills {
            entry(&mut figures, *point).kills += 1;
        }
        for (point, id) in &self.victims {
            let record = self.view(*id).await.record;
            entry(&mut figures, *point).add_job(record.runs, record.crashes, summary.effects_of(*id));
        }
        for id in &self.others {
            let (view, effects) = (self.view(*id).await, summary.effects_of(*id));
            let (runs, payload) = (view.record.runs, &view.job.spec.payload);
            if (runs, effects) != (1, 1) {
                let what = format!("{payload} met no kill, and has {runs} runs and {effects} effects");
                report.violations.push(what);
            }
        }
        CrashReport { report, figures }
    }

    async fn view(&self, id: JobId) -> JobView {
        let job = self.engine.job(id).await.expect("the store can be read");
        job.expect("a job that was acknowledged is there").view
    }
}

fn entry(figures: &mut Vec<(KillPoint, CrashFigures)>, point: KillPoint) -> &mut CrashFigures {
    let place = figures.iter().position(|(at, _)| *at == point).unwrap_or_else(|| {
        figures.push((point, CrashFigures::default()));
        figures.len() - 1
    });
    &mut figures[place].1
}

/// A proxy before the server, where there is one.
pub(super) fn proxy_to(location: &StoreLocation) -> Option<Proxy> {
    let is_server = location.kind() != StoreKind::Sqlite;
    is_server.then(|| Proxy::start(location.address()).unwrap_or_else(|trouble| panic!("{trouble}")))
}

/// Kills a process at the `number`th CREATE while it makes the tables of a store; then the store is used.
///
/// # Panics
/// When the process does not die there, or the store cannot be used.
pub async fn kill_migration(program: &str, kind: StoreKind, number: usize) -> CrashReport {
    let location = StoreLocation::new(kind, "matrix");
    let mut campaign = opened_by_the_next(program, location, CrashTrap::at_nth("CREATE ", number)).await;
    campaign.next_kill(KillPoint::MidMigration);
    campaign.submit_around(KillPoint::MidMigration, "after").await;
    campaign.settle_whole().await
}

/// Kills a process at the `number`th statement about a table while it migrates a store of the first version that has
/// jobs in it; then these jobs are run, and others.
///
/// # Panics
/// When the process does not die there, or the store cannot be used.
pub async fn kill_upgrade(program: &str, kind: StoreKind, number: usize) -> CrashReport {
    let location = StoreLocation::new(kind, "upgrade");
    let jobs = older::make(&location).await;
    let mut campaign = opened_by_the_next(program, location, CrashTrap::at_nth("TABLE ", number)).await;
    campaign.next_kill(KillPoint::MidUpgrade);
    campaign.victims.extend(jobs.into_iter().map(|id| (KillPoint::MidUpgrade, id)));
    let beside = EffectJob { label: "new".to_owned(), point: None }.new_job(&campaign.engine);
    campaign.others.extend(campaign.submit(Submit { jobs: vec![beside], atomic: true }).await);
    campaign.settle_whole().await
}

/// Kills a process while it opens a store; answers the store as the next one finds it, migrated.
async fn opened_by_the_next<'a>(
    program: &'a str,
    location: StoreLocation,
    trap: CrashTrap,
) -> CrashCampaign<'a> {
    let (proxy, number) = (proxy_to(&location), trap.words.len());
    if let Some(proxy) = &proxy {
        trap.set(proxy);
    }
    let token = location.folder().join("died");
    let variables = trap::variables(Some(&trap), &token);
    let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, &**value)).collect();
    let url = proxy.as_ref().map_or_else(|| location.url().to_owned(), |proxy| proxy.url(location.url()));
    let start = NodeStart { mode: "crash-open", url: &url, ..location.node(program, LEASE_MS) };
    let (mut node, began) = (start.go_with(&variables), Instant::now());
    let is_held = || proxy.as_ref().is_some_and(|proxy| proxy.held() > 0);
    while node.is_alive() && !is_held() {
        assert!(began.elapsed() < PATIENCE, "statement {number} is never reached");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(is_held() || token.exists(), "a process ended, and not at statement {number}");
    node.kill();
    CrashCampaign::on(program, location, proxy, None).await
}

impl CrashCampaign<'_> {
    /// Settles it, and looks whether all tables and indexes are there.
    async fn settle_whole(self) -> CrashReport {
        let findings = self.engine.store().check().await.expect("the store can be read");
        let mut found = self.settle().await;
        // The servers of the tests are not durable, which is another finding.
        let of_tables = |finding: &Finding| ["schema", "tables"].contains(&&*finding.subject);
        let wrong = findings.into_iter().filter(|found| of_tables(found) && found.level != Level::Good);
        found.report.violations.extend(wrong.map(|finding| finding.message));
        found
    }
}
