//! One process from its start to its end.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use backstop::WORKERS_FILE;
use backstop_process::{ChildProcess, killed_for_memory};
use tokio::sync::watch;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;

use super::deaths::{NamedWorker, WorkersFile};
use super::last_line::PassedOn;
use super::program::WorkerProgram;

/// How long a killed process may take to be gone.
const GONE: Duration = Duration::from_secs(5);

const SIGKILL: i32 = 9;

/// What a process is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProcessOrder {
    Run,
    Drain,
    Kill,
}

/// A process that runs.
#[derive(Debug)]
pub(super) struct WorkerProcess {
    /// The task that looks after it.
    pub(super) task: Id,
    /// Its number.
    pub(super) pid: i32,
    /// Which of the rolls it came with.
    pub(super) generation: u64,
    /// When it was started.
    pub(super) started: Instant,
    /// True when it was told to stop.
    pub(super) draining: bool,
    order: watch::Sender<ProcessOrder>,
}

/// How a process ended.
#[derive(Debug)]
pub(super) struct ProcessEnd {
    /// Its exit code or signal.
    pub(super) status: io::Result<ExitStatus>,
    /// True when it did not stop in time, or was not given any.
    pub(super) killed: bool,
    /// The most memory that it had, in bytes, if that is known.
    pub(super) peak_memory: Option<u64>,
    /// True when it was killed as the kernel does for lack of memory, and the kernel has killed one for that meanwhile.
    pub(super) out_of_memory: bool,
    /// The last thing that it complained of.
    pub(super) last_line: Option<String>,
    /// The workers that it had.
    pub(super) workers: Vec<NamedWorker>,
}

impl WorkerProcess {
    /// Starts one. It has `grace` to stop when it is told to; its end is the end of its task.
    pub(super) async fn start(
        program: &WorkerProgram,
        generation: u64,
        grace: Duration,
        tasks: &mut JoinSet<ProcessEnd>,
    ) -> io::Result<Self> {
        let mark = format!("worker-{}", backstop::job_id());
        let file = WorkersFile::create(&mark);
        let mut command = program.command()?;
        match &file {
            Ok(file) => drop(command.env(WORKERS_FILE, file.path())),
            Err(problem) => {
                command.env_remove(WORKERS_FILE);
                tracing::warn!(%problem, "cannot make a file in the temporary folder: the runs of a process that \
                    dies are taken back when its lease has expired");
            }
        }
        let before = killed_for_memory();
        let mut child = ChildProcess::start_bound(command, mark).await?;
        let said = child.stderr().and_then(PassedOn::follow);
        let pid = child.tree().root().as_raw_nonzero().get();
        let (order, orders) = watch::channel(ProcessOrder::Run);
        let traces = ProcessTraces { said, file: file.ok(), killed_for_memory: before };
        let task = tasks.spawn(look_after(child, orders, grace, traces)).id();
        Ok(Self { task, pid, generation, started: Instant::now(), draining: false, order })
    }

    /// Tells it to stop, once.
    pub(super) fn drain(&mut self) {
        if !self.draining {
            self.draining = true;
            self.order.send_replace(ProcessOrder::Drain);
        }
    }

    /// Kills it and all that it started.
    pub(super) fn kill(&mut self) {
        self.draining = true;
        self.order.send_replace(ProcessOrder::Kill);
    }
}

/// What a process leaves behind.
struct ProcessTraces {
    said: Option<PassedOn>,
    file: Option<WorkersFile>,
    /// How many processes the kernel had killed for lack of memory when it was started.
    killed_for_memory: Option<u64>,
}

impl ProcessEnd {
    /// One of which nothing else is known.
    pub(super) const fn unknown(problem: io::Error) -> Self {
        Self {
            status: Err(problem),
            killed: false,
            peak_memory: None,
            out_of_memory: false,
            last_line: None,
            workers: Vec::new(),
        }
    }

    /// In words.
    pub(super) fn how(&self) -> String {
        match &self.status {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exited with code {code}"),
                (None, Some(signal)) => format!("was killed by signal {signal}"),
                (None, None) => "ended".to_owned(),
            },
            Err(problem) => format!("could not be waited for ({problem})"),
        }
    }
}

async fn look_after(
    mut child: ChildProcess,
    mut orders: watch::Receiver<ProcessOrder>,
    grace: Duration,
    traces: ProcessTraces,
) -> ProcessEnd {
    let mut deadline = None;
    let killed = loop {
        tokio::select! {
            () = child.exited() => break false,
            () = at(deadline) => break true,
            changed = orders.changed() => match (changed.is_ok(), *orders.borrow_and_update()) {
                // Its runs may have processes of their own, which it alone knows how to end well.
                (true, ProcessOrder::Drain) => {
                    child.tree().terminate_root();
                    deadline = Some(Instant::now() + grace);
                }
                (true, ProcessOrder::Run) => {}
                (true, ProcessOrder::Kill) | (false, _) => break true,
            },
        }
    };
    // Nothing of it may stay behind, however it ended.
    child.kill().await;
    if killed {
        let _ = tokio::time::timeout(GONE, child.exited()).await;
    }
    let (status, peak_memory) = match child.reap() {
        Ok(ended) => (Ok(ended.status), Some(ended.peak_memory)),
        Err(problem) => (Err(problem), None),
    };
    let by_kernel = !killed && status.as_ref().is_ok_and(|status| status.signal() == Some(SIGKILL));
    let out_of_memory = by_kernel && killed_for_memory() > traces.killed_for_memory;
    let last_line = match traces.said {
        Some(said) => said.last_line().await,
        None => None,
    };
    let workers = traces.file.map(|file| file.workers()).unwrap_or_default();
    ProcessEnd { status, killed, peak_memory, out_of_memory, last_line, workers }
}

/// Resolves at a moment; never without one.
pub(super) async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
