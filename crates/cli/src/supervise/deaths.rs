//! Tells the store of processes that died: their runs end at once, with what is known of the end (C4).

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use backstop::{Backstop, CrashEvidence, WorkerId};
use serde_json::json;
use tokio::task::JoinSet;

use super::notice::SupervisorNotice;
use super::process::ProcessEnd;
use crate::output::figures::counted;

/// How long the store may take to hear of a death; later its own rules have found it.
const PATIENCE: Duration = Duration::from_secs(10);

/// The file to which a process adds the ids of its workers. It goes with this value.
#[derive(Debug)]
pub(super) struct WorkersFile(PathBuf);

impl WorkersFile {
    /// Makes one that nobody else can read or write.
    pub(super) fn create(mark: &str) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("backstop-{mark}"));
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// The workers that it names. A line that was cut off by a death names nobody.
    pub(super) fn workers(&self) -> Vec<WorkerId> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }
}

impl Drop for WorkersFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Reports of deaths that are on their way to the store.
#[derive(Debug)]
pub(super) struct CrashReports {
    /// None when the processes work through a server, which gives them their leases and takes them back.
    engine: Option<Backstop>,
    /// What is to be said of each.
    pub(super) tasks: JoinSet<Option<SupervisorNotice>>,
}

impl CrashReports {
    pub(super) fn new(engine: Option<Backstop>) -> Self {
        Self { engine, tasks: JoinSet::new() }
    }

    /// Tells the store how a process ended, in the background.
    pub(super) fn send(&mut self, pid: i32, end: &ProcessEnd) {
        let Some(engine) = self.engine.clone().filter(|_| !end.workers.is_empty()) else { return };
        let (workers, evidence) = (end.workers.clone(), evidence(end));
        self.tasks.spawn(async move {
            let told = tokio::time::timeout(PATIENCE, tell(&engine, &workers, &evidence)).await;
            match told {
                Ok(Ok(0)) => None,
                Ok(Ok(runs)) => {
                    let what = counted(u64::try_from(runs).unwrap_or(u64::MAX), "run");
                    let text = format!("process {pid}: ended its {what} in the store");
                    Some(SupervisorNotice::new("runs_ended", text, json!({ "pid": pid, "runs": runs })))
                }
                Ok(Err(problem)) => Some(not_told(pid, &problem.to_string())),
                Err(_) => Some(not_told(pid, "the store does not answer")),
            }
        });
    }
}

async fn tell(
    engine: &Backstop,
    workers: &[WorkerId],
    evidence: &CrashEvidence,
) -> Result<usize, backstop::store::Error> {
    let mut ended = 0;
    for worker in workers {
        ended += engine.worker_died(*worker, evidence).await?;
    }
    Ok(ended)
}

fn not_told(pid: i32, problem: &str) -> SupervisorNotice {
    let text = format!(
        "cannot tell the store that process {pid} died: {problem}; its runs are taken back when its lease has expired"
    );
    SupervisorNotice::new("runs_not_ended", text, json!({ "pid": pid })).warning()
}

fn evidence(end: &ProcessEnd) -> CrashEvidence {
    let mut evidence = CrashEvidence::default();
    if let Ok(status) = &end.status {
        (evidence.signal, evidence.code) = (status.signal(), status.code());
    }
    evidence.peak_memory = end.peak_memory;
    evidence
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_the_workers_that_were_written_whole_and_goes_away() {
        // C4
        let worker = backstop::worker_id();
        let file = WorkersFile::create(&format!("test-{worker}")).expect("a temporary folder");
        assert!(file.workers().is_empty());
        assert!(WorkersFile::create(&format!("test-{worker}")).is_err(), "it is nobody else's");
        fs::write(file.path(), format!("{worker}\n0193")).expect("its own file");
        assert_eq!(file.workers(), [worker]);
        let path = file.path().to_owned();
        drop(file);
        assert!(!path.exists());
    }
}
