//! One claimed job, run to its end. Nothing a handler does can take the worker down (F1).

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_core::event::EventKind;
use backstop_core::failure::{CallResult, Cause, Decision, Failure, HookAnswer, Verdict};
use backstop_core::job::{Ending, Record, Spec, StoredJob};
use backstop_store::{ClaimedJob, Finish, Observer};
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use super::completion::{RunReply, settle};
use super::hooks::{Hooked, RunEnd, RunInfo};
use super::kinds::{HandledKind, KindHandler, WorkerKinds};
use super::slots::RunSlot;
use crate::config::WorkerTimes;
use crate::context::Run;
use crate::dependency::need::{RunNeeds, said_by};
use crate::engine::Backstop;
#[cfg(target_os = "linux")]
use crate::isolate::pool::ChildProcesses;
use crate::isolate::settings::RunLimits;
use crate::outcome::{Failed, Reply, classify};
use crate::parts::EngineParts;
use crate::registry::ReplyFuture;
use crate::run::before::{Runner, before_run};
use crate::run::children::ChildJobs;
use crate::run::conclude::HandlerEnd;
use crate::run::end::{end, overtime};
use crate::run::output::RunOutput;
use crate::run::rejects::RunRejects;
use crate::run::steps::RunSteps;
use crate::sealing;
use crate::workflows::inputs::{self, Inputs};

/// How long a canceled handler may tidy up after its token has fired, before it is dropped.
const CANCEL_COURTESY: Duration = Duration::from_secs(1);

/// How long a run over its time is held up at most by rejects that wait to be written (W9).
const LAST_REJECTS: Duration = Duration::from_secs(5);

/// The same when the worker stops. With the longest time to tidy up, it has to fit into the last writes.
const LAST_REJECTS_OF_A_STOP: Duration = Duration::from_millis(500);

/// The type of an error that a hook before the run gives.
const BEFORE_RUN: &str = "BeforeRun";

/// Everything a run needs that all runs of a worker share.
pub(crate) struct Executor {
    pub(crate) engine: Backstop,
    pub(crate) kinds: WorkerKinds,
    /// The processes of isolated runs, where there can be any.
    #[cfg(target_os = "linux")]
    pub(crate) children: Arc<ChildProcesses>,
    /// False runs every job in this process.
    pub(crate) isolates: bool,
    pub(crate) hooks: Vec<Hooked>,
    pub(crate) code_version: Option<Arc<str>>,
    pub(crate) times: WorkerTimes,
}

/// What is left to do about a run.
pub(crate) enum Closing {
    /// Its end is to be written.
    Write {
        /// What is written.
        finish: Box<Finish>,
        /// The dependency that it found unavailable (H1).
        unavailable: Option<String>,
    },
    /// Nothing: the handler's own transaction has completed the job (L14).
    Completed,
    /// Nothing: the lease is gone.
    Lost,
}

/// How a handler was left.
enum Left {
    Ended(Reply),
    TimedOut,
    Interrupted,
    /// The job was canceled or taken by others: whatever the handler says is discarded (L7).
    Lost,
}

impl Executor {
    /// Runs one job.
    ///
    /// The slot is given back when the handler has really ended, also when that is after the answer (F10).
    pub(crate) async fn execute(
        &self,
        claimed: ClaimedJob,
        needs: RunNeeds,
        canceled: CancellationToken,
        interrupt: CancellationToken,
        slot: Arc<RunSlot>,
    ) -> Closing {
        let ClaimedJob { job, record, lease } = claimed;
        let inputs = self.inputs(&job.spec).await;
        let output = Mutex::new(RunOutput::new(self.engine.parts.config.limits.output_bytes));
        let run = Arc::new(Run {
            job: job.clone(),
            record: record.clone(),
            lease,
            canceled,
            output,
            engine: self.engine.clone(),
            code_version: self.code_version.clone(),
            courtesy: AtomicU64::new(0),
            completes: AtomicBool::new(false),
            children: ChildJobs::new(),
            inputs: inputs.as_ref().map(Clone::clone).unwrap_or_default(),
            steps: RunSteps::default(),
            rejects: RunRejects::default(),
            listener: None,
        });
        let info = RunInfo { job, record };
        let found = self.kinds.find(&info.job.spec.kind, info.job.spec.version);
        let handler = found.as_ref().map(|found| found.handler.clone());
        let need = found.as_ref().and_then(HandledKind::need);
        let parts = &self.engine.parts;
        let admitted = match self.before(&info, handler.as_deref()).await.and(inputs.map(drop)) {
            Ok(()) => self.engine.parts.admit(info.job.spec.id, &needs).await,
            Err(failed) => Err(failed),
        };
        let (call, reply) = match admitted {
            Err(failed) => (None, Some(Reply(Err(failed)))),
            Ok(call) => (call, self.handled(&run, found, &interrupt, slot).await),
        };
        let said = |result| {
            call.iter().for_each(|call| parts.circuits.note(call, result));
        };
        let reply = match settle(&run, reply, &interrupt).await {
            RunReply::Reply(reply) => reply,
            RunReply::Gone => {
                said(CallResult::Ignored);
                return Closing::Lost;
            }
            RunReply::Completed => {
                said(CallResult::Success);
                self.completed(&info).await;
                return Closing::Completed;
            }
        };
        call.iter().for_each(|call| parts.circuits.note(call, said_by(&reply, &call.key, need.as_ref())));
        let result = if self.hooks.is_empty() { None } else { value_of(&reply) };
        let unavailable = unavailable(&reply);
        let ending = self.end(&run, &info, reply, handler.as_deref()).await;
        let (failure, verdict) = (ending.failure.clone(), ending.decision.verdict.clone());
        self.after(&info, RunEnd { cause: ending.cause, result, failure, verdict }).await;
        Closing::Write { finish: Box::new(Finish { lease, ending }), unavailable }
    }

    /// What the steps before a step returned (W1). What follows from its end is for this process to look after.
    async fn inputs(&self, spec: &Spec) -> Result<Inputs, Box<Failed>> {
        let parts = &self.engine.parts;
        if let Some(part) = spec.part_of() {
            parts.workflows.runs(spec.id, part);
        }
        parts.inputs.read(parts, spec).await
    }

    /// What a handler's run comes to; none when the job was canceled or taken by others.
    async fn handled(
        &self,
        run: &Arc<Run>,
        found: Option<HandledKind>,
        interrupt: &CancellationToken,
        slot: Arc<RunSlot>,
    ) -> Option<Reply> {
        match self.handle_timed(run, found, interrupt, slot).await {
            Left::Ended(reply) => Some(reply),
            // Whoever gathered rejects was dropped, and the run still ends under its lease.
            Left::TimedOut => {
                run.flush_after_stop(LAST_REJECTS).await;
                Some(failed(overtime(run.job.spec.policy.timeout.unwrap_or_default())))
            }
            Left::Interrupted => {
                run.flush_after_stop(LAST_REJECTS_OF_A_STOP).await;
                Some(failed(Failure::new(Cause::Interrupted, "Interrupted", "the worker stops")))
            }
            Left::Lost => None,
        }
    }

    /// What a run of a job needs, for a worker that keeps no health of its own.
    pub(super) fn needs_of(&self, spec: &Spec) -> RunNeeds {
        let need = self.kinds.find(&spec.kind, spec.version).and_then(|found| found.need());
        let EngineParts { config, circuits, .. } = &*self.engine.parts;
        let key = config.needed_by(spec, need.as_ref());
        RunNeeds { key, by_itself: circuits.by_itself(spec, need.as_ref()), unavailable_for: None }
    }

    /// Tells what no store of this process has told: that the handler's own transaction has completed the job (L14).
    async fn completed(&self, info: &RunInfo) {
        // Sinks have it from that transaction.
        let (parts, job) = (self.engine.parts.clone(), info.job.clone());
        let what = EventKind::Succeeded { run: info.record.runs };
        tokio::spawn(async move { parts.tell_here(&job, what).await });
        self.engine.parts.figures.completed(&info.job.spec.kind);
        // The callback came with the same commit.
        self.engine.parts.events.work_arrived();
        self.engine.parts.workflows.runs_ended();
        let end = RunEnd { cause: Cause::Succeeded, result: None, failure: None, verdict: Verdict::Succeed };
        self.after(info, end).await;
    }

    async fn end(
        &self,
        run: &Run,
        info: &RunInfo,
        reply: Reply,
        handler: Option<&dyn KindHandler>,
    ) -> Ending {
        let handler_end = HandlerEnd {
            job: info.job.clone(),
            record: info.record.clone(),
            // A panic and overtime have a place, too.
            reply: run.placed(reply),
            output: run.output.lock().ok().and_then(|output| output.text()),
            code_version: self.code_version.clone(),
        };
        let ask = |attempt, failure: &Failure| match handler {
            Some(handler) => handler.ask(attempt, failure),
            None => HookAnswer::default(),
        };
        let mut ending = end(&self.engine.parts, handler_end, ask).await;
        run.children.leave_with(&mut ending);
        ending
    }

    /// The checks before the handler: those that hold everywhere, then the hooks (F14).
    async fn before(&self, info: &RunInfo, handler: Option<&dyn KindHandler>) -> Result<(), Box<Failed>> {
        let EngineParts { store, config, run_checks, .. } = &*self.engine.parts;
        let runner = Runner { code_version: self.code_version.as_deref(), knows: handler.is_some() };
        before_run(&**store, config, &info.job, &info.record, &runner).await?;
        run_checks.ask(&info.job).await?;
        for hooked in self.hooks_for(info) {
            let (hook, info) = (hooked.hook.clone(), info.clone());
            let called = tokio::spawn(async move { hook.before_run(&info).await }).await;
            match called {
                Ok(Ok(())) => {}
                // What it says counts as a handler's word would: an outcome, a mark, or a plain error.
                Ok(Err(error)) => return Err(classify(&*error, BEFORE_RUN)),
                Err(problem) => {
                    return Err(Failed::plain(Failure::new(Cause::Panic, BEFORE_RUN, panic_text(problem))));
                }
            }
        }
        Ok(())
    }

    fn hooks_for<'a>(&'a self, info: &'a RunInfo) -> impl Iterator<Item = &'a Hooked> {
        self.hooks.iter().filter(|hooked| hooked.is_for(&info.job.spec.kind))
    }

    async fn after(&self, info: &RunInfo, end: RunEnd) {
        for hooked in self.hooks_for(info) {
            let (hook, run, end) = (hooked.hook.clone(), info.clone(), end.clone());
            let error = match tokio::spawn(async move { hook.after_run(&run, &end).await }).await {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => error.to_string(),
                Err(problem) => panic_text(problem),
            };
            let error = self.engine.parts.config.sanitized(&error);
            self.tell(&info.job, EventKind::HookFailed { hook: "after_run", error });
        }
    }

    async fn handle_timed(
        &self,
        run: &Arc<Run>,
        found: Option<HandledKind>,
        interrupt: &CancellationToken,
        slot: Arc<RunSlot>,
    ) -> Left {
        let began = tokio::time::Instant::now();
        let left = self.handle(run, found, interrupt, slot).await;
        self.engine.parts.figures.ran(&run.job.spec.kind, began.elapsed());
        left
    }

    /// Runs the handler in a task of its own, so that a panic or a blocked thread stays its own affair.
    async fn handle(
        &self,
        run: &Arc<Run>,
        found: Option<HandledKind>,
        interrupt: &CancellationToken,
        slot: Arc<RunSlot>,
    ) -> Left {
        let Some(found) = found else { return Left::Lost };
        let payload = match sealing::payload(&self.engine.parts.config, &run.job.spec) {
            Ok(payload) => inputs::payload(&run.job.spec, &run.inputs).unwrap_or(payload),
            Err(failure) => return Left::Ended(failed(failure)),
        };
        let mut task = tokio::spawn(self.reply(run, &found, payload, &slot));
        // The time of a bulk kind is that of each of its calls, and not of a run that may see several.
        let limit = run.job.spec.policy.timeout.filter(|_| found.bulk.is_none());
        let left = tokio::select! {
            biased;
            ended = &mut task => return Left::Ended(of_join(ended)),
            () = run.canceled.cancelled() => Left::Lost,
            () = interrupt.cancelled() => Left::Interrupted,
            () = self.time_up(run, limit) => Left::TimedOut,
        };
        run.canceled.cancel();
        let courtesy = if matches!(left, Left::Lost) { CANCEL_COURTESY } else { Duration::ZERO };
        let courtesy = courtesy.max(run.courtesy());
        self.stop(task, courtesy, run, slot).await;
        left
    }

    /// True when the next run of a job has a process of its own (E2).
    pub(super) fn gives_a_process_to(&self, job: &StoredJob, record: &Record) -> bool {
        let found = self.kinds.find(&job.spec.kind, job.spec.version);
        found.is_some_and(|found| self.limits_of(&found, record.crashes).is_some())
    }

    /// What a run may use in a process of its own; none when it has none.
    fn limits_of(&self, found: &HandledKind, crashes: u32) -> Option<RunLimits> {
        let isolates = self.isolates && cfg!(target_os = "linux");
        found.isolation.of_run(crashes).filter(|_| isolates)
    }

    /// What the handler comes to: in a call with other jobs (W12), in this process, or in one of its own (E2).
    fn reply(
        &self,
        run: &Arc<Run>,
        found: &HandledKind,
        payload: Arc<str>,
        slot: &Arc<RunSlot>,
    ) -> ReplyFuture {
        if let Some(calls) = &found.bulk {
            return calls.join(payload, run.clone(), slot.clone());
        }
        #[cfg(target_os = "linux")]
        if let Some(limits) = self.limits_of(found, run.record.crashes) {
            let (children, run) = (self.children.clone(), run.clone());
            return Box::pin(async move { children.run(run, payload, limits).await });
        }
        found.handler.run_logged(payload, run)
    }

    /// Resolves when the run has used its time, with a warning event at 80 % (F10).
    async fn time_up(&self, run: &Run, limit: Option<Duration>) {
        let Some(limit) = limit else { return std::future::pending().await };
        let near = limit.mul_f64(0.8);
        tokio::time::sleep(near).await;
        let what = EventKind::TimeoutNear { run: run.record.runs };
        self.tell(&run.job, what);
        tokio::time::sleep(limit.saturating_sub(near)).await;
    }

    /// Drops the handler. One that does not let go keeps its slot and is reported (F10).
    async fn stop(
        &self,
        mut task: JoinHandle<Reply>,
        courtesy: Duration,
        run: &Arc<Run>,
        slot: Arc<RunSlot>,
    ) {
        if !courtesy.is_zero() && tokio::time::timeout(courtesy, &mut task).await.is_ok() {
            return;
        }
        task.abort();
        let stuck_after = self.times.stuck_after;
        let (parts, run) = (self.engine.parts.clone(), run.clone());
        tokio::spawn(async move {
            if tokio::time::timeout(stuck_after, &mut task).await.is_err() {
                let what = EventKind::Stuck { run: run.record.runs, slot: slot.number() };
                tracing::warn!(job = %run.job.spec.id, kind = %run.job.spec.kind, slot = slot.number(),
                    "a handler ignores the request to stop and keeps its slot");
                parts.publish(&run.job, what).await;
                let _ = task.await;
            }
            drop(slot);
        });
    }

    fn tell(&self, job: &Arc<StoredJob>, what: EventKind) {
        let (parts, job) = (self.engine.parts.clone(), job.clone());
        tokio::spawn(async move { parts.publish(&job, what).await });
    }
}

/// The dependency that a run found unavailable. One that only asks to wait is there.
fn unavailable(reply: &Reply) -> Option<String> {
    let failure = &reply.0.as_ref().err()?.failure;
    failure.dependency.clone().filter(|_| failure.cause == Cause::Rejected)
}

/// What a handler returned, or reported as its failure.
fn value_of(reply: &Reply) -> Option<serde_json::Value> {
    match &reply.0 {
        Ok(value) => value.clone(),
        Err(failed) => failed.value.clone(),
    }
}

fn failed(failure: Failure) -> Reply {
    Reply(Err(Failed::plain(failure)))
}

/// What a task comes to; a panic is an answer like any other.
pub(crate) fn of_join(ended: Result<Reply, JoinError>) -> Reply {
    ended.unwrap_or_else(|problem| failed(Failure::new(Cause::Panic, "Panic", panic_text(problem))))
}

/// What a panicking task said.
pub(crate) fn panic_text(problem: JoinError) -> String {
    match problem.try_into_panic() {
        Ok(payload) => payload_text(&*payload),
        Err(problem) => problem.to_string(),
    }
}

fn payload_text(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        return (*text).to_owned();
    }
    payload.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic without a message".to_owned())
}

/// A job that was claimed but never started, handed back without blame, to be claimed again after `delay` (C2).
pub(crate) fn hand_back(claimed: &ClaimedJob, delay: Duration) -> Finish {
    let decision = Decision { verdict: Verdict::Defer { delay }, ..Decision::handed_back() };
    let ending = Ending::plain(claimed.job.spec.header(), Cause::Interrupted, decision);
    Finish { lease: claimed.lease, ending }
}
