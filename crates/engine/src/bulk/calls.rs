//! The calls of one bulk kind in one worker (W12).
//!
//! Each claimed job comes here in a run of its own, waits with others for a call, and goes away with its own answer.
//! All rules about one run are where they are for every other kind: here is only who is called together, and what
//! becomes of a call that fails.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backstop_core::event::EventKind;
use backstop_core::failure::{Cause, Failure};
use tokio::task::{JoinError, JoinHandle};

use super::entry::{BulkEntry, CallEntry};
use super::handler::{BulkHandler, CallFuture};
use super::job;
use super::split::{FailedCall, after_failure};
use crate::context::Run;
use crate::outcome::{Failed, Reply};
use crate::registry::ReplyFuture;
use crate::run::end::overtime;
use crate::worker::completion;
use crate::worker::slots::RunSlot;

/// See the module.
pub(crate) struct BulkCalls {
    handler: BulkHandler<()>,
    /// How long a call may ignore that it was told to stop before it is reported as stuck (F10).
    stuck_after: Duration,
    waiting: Mutex<Waiting>,
}

/// Jobs that wait for a call.
#[derive(Default)]
struct Waiting {
    entries: Vec<Arc<BulkEntry>>,
    /// Which call they wait for: whoever waits for an earlier one is too late.
    turn: u64,
}

impl Waiting {
    fn take(&mut self) -> Vec<Arc<BulkEntry>> {
        self.turn += 1;
        std::mem::take(&mut self.entries)
    }
}

impl BulkCalls {
    pub(crate) fn new(handler: BulkHandler<()>, stuck_after: Duration) -> Arc<Self> {
        Arc::new(Self { handler, stuck_after, waiting: Mutex::default() })
    }

    /// How many jobs one call gets at most.
    pub(crate) const fn most(&self) -> usize {
        self.handler.settings.most_jobs()
    }

    /// Lets a run take part in a call, and comes to what that answers for it. Whoever drops this leaves the call.
    pub(crate) fn join(
        self: &Arc<Self>,
        payload: Arc<str>,
        run: Arc<Run>,
        slot: Arc<RunSlot>,
    ) -> ReplyFuture {
        let calls = self.clone();
        Box::pin(async move {
            // More than its queue has slots cannot come: nobody waits for them.
            let most = calls.most().min(slot.of_queue());
            let (entry, reply) = BulkEntry::new(payload, run, Some(slot));
            let _left = entry.left().clone().drop_guard();
            calls.add(entry, most);
            reply.await.unwrap_or_else(|_| failed(Failure::new(Cause::EngineFault, "BulkCall", LOST)))
        })
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first one waits for others, and the one that makes the call full begins it.
    fn add(self: &Arc<Self>, entry: Arc<BulkEntry>, most: usize) {
        let mut waiting = self.waiting();
        waiting.entries.push(entry);
        let calls = self.clone();
        if waiting.entries.len() >= most {
            let group = waiting.take();
            tokio::spawn(async move { calls.run(group).await });
        } else if waiting.entries.len() == 1 {
            let turn = waiting.turn;
            tokio::spawn(async move {
                tokio::time::sleep(calls.handler.settings.waits()).await;
                if let Some(group) = calls.take_turn(turn) {
                    calls.run(group).await;
                }
            });
        }
    }

    fn take_turn(&self, turn: u64) -> Option<Vec<Arc<BulkEntry>>> {
        let mut waiting = self.waiting();
        (waiting.turn == turn).then(|| waiting.take())
    }

    /// Calls for a group, and again for its parts until each has an answer.
    async fn run(&self, group: Vec<Arc<BulkEntry>>) {
        let mut next = vec![group];
        let mut call = 0;
        while let Some(mut group) = next.pop() {
            group.retain(|entry| entry.is_awaited());
            if group.is_empty() {
                continue;
            }
            call += 1;
            let called = group.len();
            let ended = self.call(&group, call).await;
            group.iter().for_each(|entry| entry.leave());
            group.retain(|entry| entry.is_awaited());
            let Err(problem) = ended else {
                group.iter().for_each(|entry| entry.end(unanswered(&entry.run)));
                continue;
            };
            if defers(problem.failure.cause) {
                group.iter().for_each(|entry| entry.end(failed(problem.failure.clone())));
                continue;
            }
            match after_failure(called, not_completed(group).await) {
                FailedCall::Alone(entry) => entry.end(Reply(Err(problem))),
                FailedCall::Again(groups) => next.extend(groups.into_iter().rev()),
            }
        }
    }

    /// One call in a task of its own, so that a panic or a blocked thread stays its own affair.
    async fn call(&self, group: &[Arc<BulkEntry>], call: u32) -> Result<(), Box<Failed>> {
        let entries: Vec<CallEntry> = group.iter().map(|entry| entry.enter(call)).collect();
        let stop: Vec<_> = entries.iter().map(|entry| entry.stop.clone()).collect();
        let mut task = tokio::spawn(logged(group, self.handler.call(entries)));
        let limit = group.iter().filter_map(|entry| entry.run.job.spec.policy.timeout).min();
        let ended = tokio::select! {
            biased;
            ended = &mut task => return ended.unwrap_or_else(|problem| Err(Failed::plain(panicked(problem)))),
            // Their runs have ended already.
            () = all_left(group) => Ok(()),
            () = time_up(group, limit) => Err(Failed::plain(overtime(limit.unwrap_or_default()))),
        };
        stop.iter().for_each(tokio_util::sync::CancellationToken::cancel);
        self.stop(task, group).await;
        ended
    }

    /// Drops a call. One that does not let go keeps the slots of its jobs and is reported (F10).
    async fn stop(&self, mut task: JoinHandle<Result<(), Box<Failed>>>, group: &[Arc<BulkEntry>]) {
        task.abort();
        if tokio::time::timeout(self.stuck_after, &mut task).await.is_ok() {
            return;
        }
        let mut slots = Vec::new();
        for entry in group {
            let Some(slot) = entry.slot() else { continue };
            tell(entry, EventKind::Stuck { run: entry.run.record.runs, slot: slot.number() });
            slots.push(slot);
        }
        tracing::warn!(
            jobs = slots.len(),
            kind = group.first().map(|entry| &*entry.run.job.spec.kind),
            "a bulk handler ignores the request to stop and keeps the slots of its jobs"
        );
        tokio::spawn(async move {
            let _ = task.await;
            drop(slots);
        });
    }
}

/// Said of a job whose call ended without anybody hearing of it.
const LOST: &str = "the bulk call ended without a trace";

/// True when a call that says so has failed for no job's fault, and nothing is charged for it: to look for a bad job
/// would only call again, for each of them, what is not there.
const fn defers(cause: Cause) -> bool {
    matches!(cause, Cause::Rejected | Cause::RateLimited | Cause::Snoozed)
}

/// The end of a job that its handler said nothing about. Whether a transaction of the handler's own has completed it is
/// for the store to say (L14).
fn unanswered(run: &Run) -> Reply {
    if run.completes.load(Ordering::SeqCst) {
        return Reply(Ok(None));
    }
    failed(job::unanswered())
}

/// Those of a failed call that can be called again: a transaction of the handler's own may have completed the others.
async fn not_completed(group: Vec<Arc<BulkEntry>>) -> Vec<Arc<BulkEntry>> {
    let mut left = Vec::with_capacity(group.len());
    for entry in group {
        if completion::is_open(&entry.run).await {
            left.push(entry);
        } else {
            entry.end(Reply(Ok(None)));
        }
    }
    left
}

/// Resolves when nobody waits for an answer that is missing. A call that has answered all may go on.
async fn all_left(group: &[Arc<BulkEntry>]) {
    for entry in group {
        // Who was answered leaves too.
        entry.left().cancelled().await;
    }
    if group.iter().all(|entry| entry.is_answered()) {
        std::future::pending::<()>().await;
    }
}

/// Resolves when the call has used its time, with a warning event for each of its jobs at 80 % (F10).
async fn time_up(group: &[Arc<BulkEntry>], limit: Option<Duration>) {
    let Some(limit) = limit else { return std::future::pending().await };
    let near = limit.mul_f64(0.8);
    tokio::time::sleep(near).await;
    for entry in group.iter().filter(|entry| entry.is_awaited()) {
        tell(entry, EventKind::TimeoutNear { run: entry.run.record.runs });
    }
    tokio::time::sleep(limit.saturating_sub(near)).await;
}

/// What a call for one job says through `tracing` is found by its run (F15); in a call for many nobody can tell whose
/// it is.
fn logged(group: &[Arc<BulkEntry>], call: CallFuture) -> CallFuture {
    #[cfg(feature = "run-log")]
    if let [only] = group {
        return Box::pin(tracing::Instrument::instrument(call, crate::run_log::span(&only.run)));
    }
    let _ = group;
    call
}

fn tell(entry: &BulkEntry, what: EventKind) {
    let run = entry.run.clone();
    tokio::spawn(async move { run.engine.parts.publish(&run.job, what).await });
}

fn panicked(problem: JoinError) -> Failure {
    Failure::new(Cause::Panic, "Panic", crate::worker::execute::panic_text(problem))
}

fn failed(failure: Failure) -> Reply {
    Reply(Err(Failed::plain(failure)))
}
