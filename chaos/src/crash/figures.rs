//! What was found after the kills at one point, and the file that keeps it for docs/guarantees.md.

use std::fs;
use std::path::PathBuf;

use super::KillPoint;

/// What was found after all kills at one point, on one store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CrashFigures {
    /// Processes that were killed.
    pub kills: usize,
    /// Jobs that met a kill. All of them succeeded.
    pub jobs: usize,
    /// Their runs.
    pub runs: usize,
    /// Runs that were taken back from the dead.
    pub rescued: usize,
    /// How often they did what they do outside.
    pub effects: usize,
}

impl CrashFigures {
    /// What must be found after so many kills: the same every time, or a test fails.
    ///
    /// `remote`: jobs run in a remote worker, and whoever writes to the store is a server. When that one dies, the
    /// worker tells another.
    #[must_use]
    pub fn expected(point: KillPoint, kills: usize, remote: bool) -> Self {
        // Of one job: runs, runs taken back, effects.
        let (jobs, runs, rescued, effects) = match (point, remote) {
            (KillPoint::BeforeCommit, false) | (KillPoint::AfterEffect, _) => (1, 2, 1, 2),
            (KillPoint::BeforeCommit, true) | (KillPoint::AfterCommit, _) => (1, 1, 0, 1),
            (KillPoint::RetryScheduling, false) => (1, 3, 1, 1),
            (KillPoint::RetryScheduling, true) => (1, 2, 0, 1),
            (KillPoint::LeaseHeld, _) => (1, 2, 1, 1),
            (KillPoint::MidBatch, false) => (super::job::BATCH, 1, 0, 1),
            (KillPoint::MidBatch, true) => (super::servers::REPORT, 1, 0, 1),
            // The job that was submitted when the tables were there.
            (KillPoint::MidMigration, _) => (1, 1, 0, 1),
            // Those that were there before.
            (KillPoint::MidUpgrade, _) => (super::older::JOBS, 1, 0, 1),
        };
        let jobs = jobs * kills;
        Self { kills, jobs, runs: jobs * runs, rescued: jobs * rescued, effects: jobs * effects }
    }

    /// Adds what was found elsewhere at the same point.
    pub fn add(&mut self, other: Self) {
        self.kills += other.kills;
        self.jobs += other.jobs;
        self.runs += other.runs;
        self.rescued += other.rescued;
        self.effects += other.effects;
    }

    /// Adds one job.
    pub fn add_job(&mut self, runs: u32, rescued: u32, effects: usize) {
        self.jobs += 1;
        self.runs += runs as usize;
        self.rescued += rescued as usize;
        self.effects += effects;
    }

    /// How it stands in the file: `who`, store, point and the figures.
    fn line(&self, who: &str, store: &str, point: KillPoint) -> String {
        let Self { kills, jobs, runs, rescued, effects } = self;
        let duplicates = effects - jobs;
        format!("{who}\t{store}\t{}\t{kills}\t{jobs}\t{runs}\t{rescued}\t{duplicates}", point.name())
    }
}

/// The file.
fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("crash-matrix.tsv")
}

/// Puts the figures of one store into the file, in place of those that were there.
///
/// # Panics
/// When it cannot be written.
pub fn keep(who: &str, store: &str, found: &[(KillPoint, CrashFigures)]) {
    let old = fs::read_to_string(path()).unwrap_or_default();
    let new = found.iter().map(|(point, figures)| figures.line(who, store, *point)).collect::<Vec<_>>();
    let heads: Vec<String> =
        found.iter().map(|(point, _)| format!("{who}\t{store}\t{}\t", point.name())).collect();
    let other = |line: &&str| !heads.iter().any(|head| line.starts_with(head));
    let mut lines: Vec<String> = old.lines().filter(other).map(ToOwned::to_owned).chain(new).collect();
    lines.sort();
    fs::write(path(), lines.join("\n") + "\n").expect("the file can be written");
}

/// Compares the file with what must be found after a full form.
///
/// # Panics
/// When it says something else: the page would be out of date.
pub fn compare(who: &str, store: &str, point: KillPoint, remote: bool) {
    let kept = fs::read_to_string(path()).unwrap_or_default();
    let expected = CrashFigures::expected(point, FULL_KILLS, remote).line(who, store, point);
    assert!(
        kept.lines().any(|line| line == expected),
        "crash-matrix.tsv does not say `{expected}`; run `cargo xtask torture matrix` and commit what it writes"
    );
}

/// How often a process is killed at each point in the full form.
pub const FULL_KILLS: usize = 20;
