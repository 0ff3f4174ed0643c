//! One child of a worker: the worker's own program, run again, one job at a time (E2).

use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fs, io};

use backstop_core::event::{Event, EventKind};
use backstop_core::failure::{Cause, Failure};
use backstop_core::reject::RejectBatch;
use backstop_process::limits::{soft_cpu_limit, soft_data_limit};
use backstop_process::{ChildProcess, MemoryCgroup, ProcessLimits};
use backstop_store::Observer as _;
use backstop_store::{DocumentRange, Documents, Drawer, Note, Submit};
use tokio::net::UnixStream;
use tokio::net::unix::pipe::Receiver;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::evidence::{ALLOCATION_FAILED, CrashEvidence, megabytes};
use super::messages::{
    CallAnswer, CallError, ChildMessage, IsolatedRun, StoreCall, SubmitRefusal, WorkerMessage,
};
use super::role::CHILD;
use super::settings::RunLimits;
use super::{link, memory};
use crate::context::Run;
use crate::job_signals::wait;
use crate::outcome::{Failed, Reply};
use crate::parts::EngineParts;

/// How long a child may take until it can run jobs.
const START_TIME: Duration = Duration::from_secs(30);

/// How often the memory of a run is looked at that has a limit. The kernel limits what a process maps, which allocators
/// do ahead and by the gigabyte; what it really uses has to be looked at.
const MEMORY_LOOK: Duration = Duration::from_millis(50);

/// What a process uses of the memory that a run may have, as the kernel calls it.
const IN_USE: &str = "RssAnon:";

/// Earlier runs may leave one part of so many in use of what the limit leaves to a run.
const LEFT_IN_USE: u64 = 4;

/// How long the last words of a dead child may take to arrive: somebody who got away may hold its pipes.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// Bytes of a line that is kept; a longer one is kept in pieces.
const LINE_MAX: usize = 4 * 1024;

/// A child that has no job, and can have one.
pub(super) struct IsolatedChild {
    process: ChildProcess,
    say: OwnedWriteHalf,
    heard: mpsc::Receiver<ChildMessage>,
    printed: Arc<PrintedLines>,
    pipes: Vec<Arc<PrintedPipe>>,
    readers: Vec<JoinHandle<()>>,
    /// Ends with the child.
    listener: JoinHandle<()>,
    /// True when it was found to use more memory than it may.
    over_memory: bool,
    /// The memory that it had in use when it could run jobs.
    in_use_when_ready: u64,
    /// What limits its memory, where that may be a cgroup. Removed when the process above is gone.
    cgroup: Option<MemoryCgroup>,
}

/// What a child prints goes to the run that it has, if it has one; the last line is kept for the evidence.
#[derive(Default)]
struct PrintedLines(Mutex<(Option<Arc<Run>>, Option<String>)>);

/// What became of a run in a child.
pub(super) enum ChildEnd {
    /// The handler has returned, and the child can have another job.
    Replied(Reply, Box<IsolatedChild>),
    /// The child is no more.
    Died(Reply),
}

impl IsolatedChild {
    /// Starts one and waits until it can run jobs.
    ///
    /// # Errors
    /// When it cannot be started or ends before it is ready, in words.
    pub(super) async fn start(parts: &EngineParts) -> Result<Self, String> {
        let started = Self::spawn().await;
        let mut child = started.map_err(|problem| format!("it could not be started: {problem}"))?;
        let info = parts.store.info();
        let hello = WorkerMessage::Hello { backend: info.backend.to_owned(), location: info.location };
        let said = link::send(&mut child.say, &hello).await;
        let ready = tokio::time::timeout(START_TIME, child.heard.recv());
        match (said, ready.await) {
            (Ok(()), Ok(Some(ChildMessage::Ready))) => {
                child.in_use_when_ready = child.memory(IN_USE);
                Ok(child)
            }
            (_, Err(_)) => Err(format!("it was not ready within {} s", START_TIME.as_secs())),
            _ => Err(child.evidence(&RunLimits::default()).await.failure().message),
        }
    }

    /// Refuses limits that leave no memory to a run.
    ///
    /// # Errors
    /// In words, when the program alone has more in use.
    pub(super) fn check(&self, limits: &RunLimits) -> Result<(), String> {
        let used = self.memory(IN_USE);
        match limits.memory {
            Some(limit) if used >= limit => Err(format!(
                "its memory limit is {}, and the program itself needs {}: raise the limit",
                megabytes(limit),
                megabytes(used)
            )),
            _ => Ok(()),
        }
    }

    async fn spawn() -> io::Result<Self> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let command = own_program(theirs.into());
        let mark = crate::ids::worker_id().to_string();
        let mut process = ChildProcess::start(command, mark.clone(), &ProcessLimits::default()).await?;
        let cgroup = memory::hold(process.tree().root(), &mark);
        let printed = Arc::new(PrintedLines::default());
        let (stdout, stderr) = (process.stdout().map(OwnedFd::from), process.stderr().map(OwnedFd::from));
        let mut pipes = Vec::new();
        for pipe in [stdout, stderr].into_iter().flatten() {
            pipes.push(Arc::new(PrintedPipe::new(Receiver::from_owned_fd(pipe)?, printed.clone())));
        }
        let readers = pipes.iter().map(|pipe| tokio::spawn(pipe.clone().read())).collect();
        let (hear, say) = UnixStream::from_std(ours)?.into_split();
        let (told, heard) = mpsc::channel(16);
        let listener = tokio::spawn(listen(hear, told));
        let (over_memory, in_use_when_ready) = (false, 0);
        Ok(Self {
            process,
            say,
            heard,
            printed,
            pipes,
            readers,
            listener,
            over_memory,
            in_use_when_ready,
            cgroup,
        })
    }

    /// Runs a job. Dropping this kills the child with all that it started.
    pub(super) async fn run(
        mut self,
        parts: &EngineParts,
        run: &Arc<Run>,
        payload: Arc<str>,
        limits: &RunLimits,
    ) -> ChildEnd {
        let memory_before = self.memory("VmHWM:");
        self.printed.belongs_to(Some(run.clone()));
        let message = WorkerMessage::Run(Box::new(IsolatedRun {
            job: (*run.job).clone(),
            record: run.record.clone(),
            lease: run.lease,
            payload,
            inputs: run.inputs.clone(),
            code_version: run.code_version.clone(),
            sinks: parts.events.sinks().iter().cloned().collect(),
        }));
        let replied = match self.limit(limits) {
            Ok(()) => match link::send(&mut self.say, &message).await {
                Ok(()) => self.follow(parts, run, limits).await,
                Err(_) => None,
            },
            Err(problem) => return ChildEnd::Died(not_run(&problem)),
        };
        // What the handler printed was in the pipes before its answer was in the socket.
        for pipe in &self.pipes {
            pipe.take();
        }
        self.printed.belongs_to(None);
        match replied {
            Some(reply) => ChildEnd::Replied(reply, Box::new(self)),
            None => {
                self.printed.belongs_to(Some(run.clone()));
                let mut evidence = self.evidence(limits).await;
                evidence.peak_memory = evidence.peak_memory.max(Some(memory_before));
                ChildEnd::Died(Reply(Err(Failed::plain(evidence.failure()))))
            }
        }
    }

    /// Does what the child asks until its handler has returned; none when it died before.
    async fn follow(&mut self, parts: &EngineParts, run: &Arc<Run>, limits: &RunLimits) -> Option<Reply> {
        let mut canceled = false;
        let mut look = tokio::time::interval(MEMORY_LOOK);
        loop {
            let message = tokio::select! {
                message = self.heard.recv() => message?,
                _ = look.tick(), if limits.memory.is_some() && self.cgroup.is_none() => {
                    self.over_memory = limits.memory.is_some_and(|limit| self.memory(IN_USE) > limit);
                    if self.over_memory {
                        return None;
                    }
                    continue;
                }
                () = run.canceled.cancelled(), if !canceled => {
                    canceled = true;
                    link::send(&mut self.say, &WorkerMessage::Cancel).await.ok()?;
                    continue;
                }
            };
            match message {
                ChildMessage::Ready => {}
                ChildMessage::Log(line) => {
                    self.printed.said(&line);
                    run.log(&line);
                }
                ChildMessage::TidiesUpWithin(time) => {
                    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
                    run.courtesy.store(millis, Ordering::SeqCst);
                }
                ChildMessage::Completes => run.completes.store(true, Ordering::SeqCst),
                ChildMessage::Publish(name, data) => {
                    if let Ok(at) = parts.store.now().await {
                        let (job, what) = (Some(run.job.spec.header()), EventKind::Published { name, data });
                        parts.events.publish(Event { at, node: None, job, what });
                    }
                }
                ChildMessage::RejectsLost(rejects, problem) => run.sink_failed(rejects, &problem),
                ChildMessage::Call(number, call) => {
                    let answer = answer(parts, run, call).await;
                    link::send(&mut self.say, &WorkerMessage::Answer(number, answer)).await.ok()?;
                }
                ChildMessage::Ended(reply) => {
                    let mut reply = *reply;
                    let children = std::mem::take(&mut reply.children);
                    let most = parts.config.limits.batch;
                    // They were counted and checked where they were added.
                    children.into_iter().for_each(|child| drop(run.children.add(child, most)));
                    return Some(reply.into_reply());
                }
            }
        }
    }

    /// Sets what the next run may use.
    fn limit(&self, limits: &RunLimits) -> io::Result<()> {
        let root = self.process.tree().root();
        match &self.cgroup {
            Some(cgroup) => cgroup.limit(limits.memory)?,
            // What it has mapped so far is not the run's.
            None => {
                let most = limits.memory.map(|bytes| self.memory("VmData:").saturating_add(bytes));
                soft_data_limit(root, most)?;
            }
        }
        let cpu =
            limits.cpu.map(|most| processor_seconds(root.as_raw_nonzero().get()) + most.as_secs().max(1));
        soft_cpu_limit(root, cpu)
    }

    /// True when earlier runs have left so much in its memory that a run with these limits would pay for it.
    pub(super) fn is_worn(&self, limits: &RunLimits) -> bool {
        limits.memory.is_some_and(|limit| {
            let left_behind = self.memory(IN_USE).saturating_sub(self.in_use_when_ready);
            left_behind > limit.saturating_sub(self.in_use_when_ready) / LEFT_IN_USE
        })
    }

    /// True when a process that the last handler started still runs: then this child is not used again.
    pub(super) fn has_company(&self) -> bool {
        let root = self.process.tree().root().as_raw_nonzero().get();
        let Ok(threads) = fs::read_dir(format!("/proc/{root}/task")) else { return true };
        threads.filter_map(Result::ok).any(|thread| {
            fs::read_to_string(thread.path().join("children"))
                .is_ok_and(|children| !children.trim().is_empty())
        })
    }

    /// A line of what the kernel tells of its memory, in bytes.
    fn memory(&self, line: &str) -> u64 {
        let root = self.process.tree().root().as_raw_nonzero().get();
        let status = fs::read_to_string(format!("/proc/{root}/status")).unwrap_or_default();
        let line = status.lines().find_map(|text| text.strip_prefix(line)).unwrap_or_default();
        line.trim().trim_end_matches("kB").trim().parse::<u64>().map_or(0, |kilobytes| kilobytes * 1024)
    }

    /// Kills what is left, and says what is known of the end.
    async fn evidence(mut self, limits: &RunLimits) -> CrashEvidence {
        self.listener.abort();
        self.process.kill().await;
        self.process.exited().await;
        let read = async {
            for reader in &mut self.readers {
                let _ = reader.await;
            }
        };
        let _ = tokio::time::timeout(LAST_WORDS, read).await;
        let mut evidence = CrashEvidence {
            memory_limit: limits.memory,
            out_of_memory: self.over_memory || self.cgroup.as_ref().is_some_and(MemoryCgroup::ran_out),
            last_line: self.printed.last(),
            ..CrashEvidence::default()
        };
        if let Ok(ended) = self.process.reap() {
            (evidence.signal, evidence.code) = (ended.status.signal(), ended.status.code());
            evidence.peak_memory = Some(ended.peak_memory);
        }
        evidence
    }
}

impl PrintedLines {
    fn lock(&self) -> std::sync::MutexGuard<'_, (Option<Arc<Run>>, Option<String>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn belongs_to(&self, run: Option<Arc<Run>>) {
        self.lock().0 = run;
    }

    fn said(&self, line: &str) {
        let last = &mut self.lock().1;
        // What is said after this is only about how it ends.
        let ends = last.as_deref().is_some_and(|last| last.contains(ALLOCATION_FAILED));
        if !ends && !line.trim().is_empty() {
            *last = Some(line.to_owned());
        }
    }

    fn print(&self, line: &str) {
        self.said(line);
        match self.lock().0.clone() {
            Some(run) => run.log(line),
            None => tracing::info!(line, "an isolated child says"),
        }
    }

    fn last(&self) -> Option<String> {
        self.lock().1.take()
    }
}

/// This program once more, as a child that finds `socket` where its input would be.
fn own_program(socket: OwnedFd) -> Command {
    // The program that runs, also when another one has been put in its place meanwhile.
    let mut command = Command::new("/proc/self/exe");
    let mut own = std::env::args_os();
    if let Some(name) = own.next() {
        command.arg0(name);
    }
    command
        .args(own)
        .env(CHILD, std::process::id().to_string())
        .stdin(Stdio::from(socket))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Hands on what a child says. A message is read whole or not at all, so this is a task of its own.
async fn listen(mut hear: OwnedReadHalf, told: mpsc::Sender<ChildMessage>) {
    while let Ok(Some(message)) = link::receive(&mut hear).await {
        if told.send(message).await.is_err() {
            return;
        }
    }
}

/// A pipe that a child prints to.
struct PrintedPipe {
    pipe: Receiver,
    /// The beginning of a line.
    line: Mutex<Vec<u8>>,
    printed: Arc<PrintedLines>,
}

impl PrintedPipe {
    fn new(pipe: Receiver, printed: Arc<PrintedLines>) -> Self {
        Self { pipe, line: Mutex::default(), printed }
    }

    /// Reads for as long as anybody can print.
    async fn read(self: Arc<Self>) {
        while self.pipe.readable().await.is_ok() && self.take() {}
    }

    /// Takes what is there; false when there will be no more.
    fn take(&self) -> bool {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let mut chunk = vec![0; 16 * 1024];
        loop {
            match self.pipe.try_read(&mut chunk) {
                Ok(count @ 1..) => self.split(&chunk[..count], &mut line),
                Err(problem) if problem.kind() == io::ErrorKind::WouldBlock => return true,
                Ok(_) | Err(_) => {
                    if !line.is_empty() {
                        self.printed.print(&String::from_utf8_lossy(&line));
                        line.clear();
                    }
                    return false;
                }
            }
        }
    }

    fn split(&self, bytes: &[u8], line: &mut Vec<u8>) {
        for byte in bytes {
            if *byte == b'\n' || line.len() == LINE_MAX {
                self.printed.print(&String::from_utf8_lossy(line));
                line.clear();
            }
            if *byte != b'\n' {
                line.push(*byte);
            }
        }
    }
}

/// Results of steps, and batches of rejects, that a child gets at once.
const STEPS_PAGE: usize = 100;
const REJECTS_PAGE: usize = 20;

/// Asks the store for a child.
async fn answer(parts: &EngineParts, run: &Run, call: StoreCall) -> Result<CallAnswer, CallError> {
    let store = &parts.store;
    let answer = match call {
        StoreCall::Now => store.now().await.map(CallAnswer::Now),
        StoreCall::Submit { jobs, atomic } => store.submit(Submit { jobs, atomic }).await.map(|answers| {
            let answers = answers.into_iter();
            CallAnswer::Submitted(
                answers.map(|answer| answer.map(Into::into).map_err(SubmitRefusal::new)).collect(),
            )
        }),
        StoreCall::Prepare(jobs) => store.prepare(&jobs).await.map(|()| CallAnswer::Done),
        StoreCall::Progress(progress) => {
            // A stale lease is told to the handler by its token.
            store.annotate(vec![Note::progress(run.lease, progress)]).await.map(|_| CallAnswer::Done)
        }
        StoreCall::Step(write) => {
            let answers = store.annotate(vec![Note::step(run.lease, write)]).await;
            answers.map(|answers| CallAnswer::Written(answers.iter().all(Result::is_ok)))
        }
        StoreCall::StepResults(after) => {
            let range = DocumentRange::first(Drawer::Steps, STEPS_PAGE).under(format!("{}/", run.lease.job));
            store.documents(DocumentRange { after, ..range }).await.map(documents)
        }
        StoreCall::Rejects(batch) => {
            let answers = store.annotate(vec![Note::rejects(run.lease, batch)]).await;
            answers.map(|answers| CallAnswer::Written(answers.iter().all(Result::is_ok)))
        }
        StoreCall::SinkRejects(batch) => {
            let taken = run.put_rejects(&batch).await;
            Ok(CallAnswer::HandedOver(taken.map_err(|problem| problem.to_string())))
        }
        StoreCall::StoredRejects(after) => {
            let under = RejectBatch::under(&run.job.spec.queue, run.lease.job);
            let range = DocumentRange::first(Drawer::Rejects, REJECTS_PAGE).under(under);
            store.documents(DocumentRange { after, ..range }).await.map(documents)
        }
        StoreCall::Wait(request) => wait::begin(parts, run.lease, &run.job.spec, &request)
            .await
            .map(|start| CallAnswer::Waits(start.ok())),
    };
    answer.map_err(|error| CallError::new(&store.info().location, &error))
}

fn documents(page: Documents) -> CallAnswer {
    let items = page.items.into_iter().map(|document| (document.key, document.body)).collect();
    CallAnswer::Documents { now: page.now, items, more: page.more }
}

/// A run that never reached its handler: nobody is to blame but the engine.
fn not_run(problem: &io::Error) -> Reply {
    let message = format!("its process could not be limited: {problem}");
    Reply(Err(Failed::plain(Failure::new(Cause::EngineFault, "Isolation", message))))
}

/// Seconds of processor time that a process has used.
fn processor_seconds(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    // A hundred ticks a second is what the kernel tells on every machine of today.
    (ticks(11) + ticks(12)) / 100
}
