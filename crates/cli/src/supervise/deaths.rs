//! Tells the store, or the server, of processes that died: their runs end at once, with what is known of the end (C4).

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use backstop::{Backstop, CrashEvidence, WorkerId};
use backstop_server::shape::work::{DeadWorker, DeadWorkerAnswer};
use serde::Deserialize;
use serde_json::json;
use tokio::task::JoinSet;

use super::notice::SupervisorNotice;
use super::process::ProcessEnd;
use crate::client::Client;
use crate::output::figures::counted;

/// How long the store or the server may take to hear of a death; later their own rules have found it.
const PATIENCE: Duration = Duration::from_secs(10);

const DIED: &str = "/api/v1/work/died";

/// A worker of a process, as the process named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NamedWorker {
    /// On the store.
    Here(WorkerId),
    /// Behind a server (E7).
    Remote(NamedRemote),
}

/// A remote worker: its name, and which of the processes with that name it is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct NamedRemote {
    worker: String,
    instance: String,
}

impl NamedWorker {
    fn read(line: &str) -> Option<Self> {
        let here = line.parse().ok().map(Self::Here);
        here.or_else(|| serde_json::from_str(line).ok().map(Self::Remote))
    }
}

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
    pub(super) fn workers(&self) -> Vec<NamedWorker> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        text.lines().filter_map(NamedWorker::read).collect()
    }
}

impl Drop for WorkersFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Reports of deaths that are on their way.
pub(super) struct CrashReports {
    hearers: DeathHearers,
    /// What is to be said of each.
    pub(super) tasks: JoinSet<Option<SupervisorNotice>>,
}

/// Who is told of deaths.
#[derive(Clone)]
struct DeathHearers {
    client: Arc<Client>,
    /// None when the processes work through a server.
    engine: Option<Backstop>,
}

impl CrashReports {
    pub(super) fn new(client: Arc<Client>, engine: Option<Backstop>) -> Self {
        Self { hearers: DeathHearers { client, engine }, tasks: JoinSet::new() }
    }

    /// Tells how a process ended, in the background.
    pub(super) fn send(&mut self, pid: i32, end: &ProcessEnd) {
        if end.workers.is_empty() {
            return;
        }
        let (hearers, workers, evidence) = (self.hearers.clone(), end.workers.clone(), evidence(end));
        self.tasks.spawn(async move {
            let told = tokio::time::timeout(PATIENCE, hearers.tell(&workers, &evidence)).await;
            match told {
                Ok(Ok(0)) => None,
                Ok(Ok(runs)) => {
                    let what = counted(runs, "run");
                    let text = format!("process {pid}: ended its {what} in the store");
                    Some(SupervisorNotice::new("runs_ended", text, json!({ "pid": pid, "runs": runs })))
                }
                Ok(Err(problem)) => Some(not_told(pid, &problem)),
                Err(_) => Some(not_told(pid, "nobody answers")),
            }
        });
    }
}

impl DeathHearers {
    /// Answers how many runs were ended, or what went wrong.
    async fn tell(&self, workers: &[NamedWorker], evidence: &CrashEvidence) -> Result<u64, String> {
        let mut ended = 0;
        for worker in workers {
            ended += match worker {
                NamedWorker::Here(worker) => self.tell_store(*worker, evidence).await?,
                NamedWorker::Remote(worker) => self.tell_server(worker, evidence).await?,
            };
        }
        Ok(ended)
    }

    async fn tell_store(&self, worker: WorkerId, evidence: &CrashEvidence) -> Result<u64, String> {
        // A process that has a store of its own beside the server: nobody here knows which.
        let Some(engine) = &self.engine else { return Ok(0) };
        let ended = engine.worker_died(worker, evidence).await.map_err(|problem| problem.to_string())?;
        Ok(u64::try_from(ended).unwrap_or(u64::MAX))
    }

    async fn tell_server(&self, named: &NamedRemote, evidence: &CrashEvidence) -> Result<u64, String> {
        let report = DeadWorker {
            worker: named.worker.clone(),
            instance: named.instance.clone(),
            signal: evidence.signal,
            code: evidence.code,
            peak_memory: evidence.peak_memory,
            out_of_memory: evidence.out_of_memory,
            last_line: evidence.last_line.clone(),
        };
        let told: Result<DeadWorkerAnswer, _> = self.client.post(DIED, &report).await;
        told.map(|answer| answer.runs).map_err(|problem| problem.to_string())
    }
}

fn not_told(pid: i32, problem: &str) -> SupervisorNotice {
    let text = format!(
        "cannot tell that process {pid} died: {problem}; its runs are taken back when its lease has expired"
    );
    SupervisorNotice::new("runs_not_ended", text, json!({ "pid": pid })).warning()
}

fn evidence(end: &ProcessEnd) -> CrashEvidence {
    let mut evidence = CrashEvidence::default();
    if let Ok(status) = &end.status {
        (evidence.signal, evidence.code) = (status.signal(), status.code());
    }
    (evidence.peak_memory, evidence.out_of_memory) = (end.peak_memory, end.out_of_memory);
    evidence.last_line = end.last_line.clone();
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
        let remote = r#"{"worker":"gpu 1","instance":"a7"}"#;
        fs::write(file.path(), format!("{worker}\n{remote}\n0193\n{}", &remote[..20])).expect("its own file");
        let named = NamedRemote { worker: "gpu 1".to_owned(), instance: "a7".to_owned() };
        assert_eq!(file.workers(), [NamedWorker::Here(worker), NamedWorker::Remote(named)]);
        let path = file.path().to_owned();
        drop(file);
        assert!(!path.exists());
    }
}
