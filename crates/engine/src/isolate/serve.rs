//! The child's side: a process that runs the jobs which its worker hands to it, one at a time, until the worker is
//! gone.

use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop_core::Lease;
use backstop_core::failure::{Cause, Failure};
use backstop_core::job::Stale;
use backstop_store::{Answer, StoreInfo};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde_json::Value;
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use super::link::{self, MessageWriter};
use super::messages::{ChildMessage, IsolatedReply, IsolatedRun, WorkerMessage};
use super::store::{Calls, child_store};
use crate::context::Run;
use crate::engine::Backstop;
use crate::job_signals::wait::{WaitRequest, WaitStart};
use crate::outcome::{Failed, Reply};
use crate::run::children::ChildJobs;
use crate::run::listener::RunListener;
use crate::run::output::RunOutput;
use crate::run::rejects::RunRejects;
use crate::run::steps::RunSteps;
use crate::worker::execute::of_join;
use crate::worker::kinds::WorkerKinds;

/// The kinds of stores there are: what a child hears of its worker's becomes one of these.
const BACKENDS: [&str; 4] = ["sqlite", "postgres", "mysql", "memory"];

/// Serves until the worker is gone, and ends this process.
pub(crate) async fn serve(engine: &Backstop, kinds: &WorkerKinds) -> ! {
    let code = match serve_until_gone(engine, kinds).await {
        Ok(()) => 0,
        Err(problem) => {
            tracing::error!(%problem, "an isolated child cannot talk to its worker");
            1
        }
    };
    std::process::exit(code)
}

async fn serve_until_gone(engine: &Backstop, kinds: &WorkerKinds) -> io::Result<()> {
    // A handler that keeps this process busy must not outlive the worker.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let (mut hear, socket) = socket()?.into_split();
    let worker = Arc::new(MessageWriter::new(socket));
    let calls = Arc::new(Calls::new(worker.clone()));
    tokio::spawn(async move { worker.flush().await });
    let canceled: Arc<Mutex<CancellationToken>> = Arc::default();
    while let Some(message) = link::receive(&mut hear).await? {
        match message {
            WorkerMessage::Hello { backend, location } => {
                let backend = BACKENDS.into_iter().find(|known| *known == backend).unwrap_or("memory");
                child_store().connect(calls.clone(), StoreInfo { backend, location });
                calls.say(&ChildMessage::Ready);
            }
            WorkerMessage::Answer(call, answer) => calls.answered(call, answer),
            WorkerMessage::Cancel => canceled.lock().unwrap_or_else(PoisonError::into_inner).cancel(),
            WorkerMessage::Run(run) => {
                let token = CancellationToken::new();
                *canceled.lock().unwrap_or_else(PoisonError::into_inner) = token.clone();
                tokio::spawn(perform(engine.clone(), kinds.clone(), *run, token, calls.clone()));
            }
        }
    }
    Ok(())
}

/// The socket to the worker stands where other programs have their input; what reads that from now on finds nothing.
fn socket() -> io::Result<UnixStream> {
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let nothing = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    let socket = StdUnixStream::from(socket);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

/// Runs one job and says how it ended.
async fn perform(
    engine: Backstop,
    kinds: WorkerKinds,
    isolated: IsolatedRun,
    canceled: CancellationToken,
    calls: Arc<Calls>,
) {
    let IsolatedRun { job, record, lease, payload, inputs, code_version, sinks } = isolated;
    engine.parts.events.set_sinks(sinks);
    let handler = kinds.find(&job.spec.kind, job.spec.version).map(|found| found.handler.clone());
    let run = Arc::new(Run {
        job: Arc::new(job),
        record,
        lease,
        canceled,
        output: Mutex::new(RunOutput::new(engine.parts.config.limits.output_bytes)),
        engine,
        code_version,
        courtesy: AtomicU64::new(0),
        completes: AtomicBool::new(false),
        children: ChildJobs::new(),
        inputs,
        steps: RunSteps::default(),
        rejects: RunRejects::default(),
        listener: Some(calls.clone()),
    });
    let reply = match handler {
        Some(handler) => {
            let task = tokio::spawn(handler.run_logged(payload, &run));
            of_join(task.await)
        }
        // It is the same program, but its worker may be built otherwise here than there.
        None => {
            let message = format!("the isolated child does not know kind `{}`", run.job.spec.kind);
            Reply(Err(Failed::plain(Failure::new(Cause::EngineFault, "Isolation", message))))
        }
    };
    calls.say(&ChildMessage::Ended(Box::new(IsolatedReply::new(reply, run.children.take()))));
}

impl RunListener for Calls {
    fn logged(&self, line: &str) {
        self.say(&ChildMessage::Log(line.to_owned()));
    }

    fn tidies_up_within(&self, time: Duration) {
        self.say(&ChildMessage::TidiesUpWithin(time));
    }

    fn completes(&self) {
        self.say(&ChildMessage::Completes);
    }

    fn published(&self, name: &str, data: Value) {
        self.say(&ChildMessage::Publish(name.to_owned(), data));
    }

    fn waits(&self, lease: Lease, request: WaitRequest) -> Answer<'_, Result<WaitStart, Stale>> {
        Box::pin(self.begin_wait(lease, request))
    }
}
