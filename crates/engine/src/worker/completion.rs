//! What became of a completion that a handler put into its own transaction (L14).
//!
//! Only a commit counts. The handler's word is compared with the store before the run is called a success, and
//! whatever is written otherwise is fenced: a commit that is still under way makes it stale, never the other way round.

use std::sync::atomic::Ordering;
use std::time::Duration;

use backstop_core::failure::{Cause, Failure};
use backstop_core::job::{JobDetail, State};
use tokio_util::sync::CancellationToken;

use crate::context::Run;
use crate::outcome::{Failed, Reply};

/// How long to wait before a store that did not answer is asked again.
const PAUSE: Duration = Duration::from_millis(250);

/// What a run comes to.
pub(crate) enum RunReply {
    /// The handler's own transaction has completed the job.
    Completed,
    /// This is to be written.
    Reply(Reply),
    /// The lease is gone: there is nothing to write.
    Gone,
}

/// What the store says of a run whose handler has called `complete_in`.
enum Fate {
    /// It was committed.
    Completed,
    /// The run is still held: it was rolled back, or its commit is not there yet.
    Held,
    /// The job was canceled or taken by others.
    Gone,
}

/// Compares what a handler says with the store, when it has tried to complete its job itself. `reply` is none for a
/// run that was stopped because its lease is gone; that it has completed its job is one way to lose it.
pub(crate) async fn settle(run: &Run, reply: Option<Reply>, interrupt: &CancellationToken) -> RunReply {
    if !run.completes.load(Ordering::SeqCst) {
        return reply.map_or(RunReply::Gone, RunReply::Reply);
    }
    match (fate(run, interrupt).await, reply) {
        (Fate::Completed, reply) => {
            if let Some(Reply(Err(failed))) = reply {
                let error = run.engine.parts.config.sanitized(&failed.failure.message);
                tracing::warn!(job = %run.lease.job, error,
                    "a handler failed after it had completed its job, which stays completed");
            }
            RunReply::Completed
        }
        (Fate::Held, Some(reply)) => RunReply::Reply(not_committed(reply)),
        (Fate::Held, None) | (Fate::Gone, _) => RunReply::Gone,
    }
}

/// True when a run whose call has failed can be called again: its handler has not completed the job, or its transaction
/// was rolled back. A commit that comes later makes whatever is written for this run stale.
pub(crate) async fn is_open(run: &Run) -> bool {
    if !run.completes.load(Ordering::SeqCst) {
        return true;
    }
    let held = matches!(fate(run, &run.canceled).await, Fate::Held);
    if held {
        run.completes.store(false, Ordering::SeqCst);
    }
    held
}

/// Asks the store until it answers. A worker that stops asks once: what it then writes is fenced anyhow.
async fn fate(run: &Run, interrupt: &CancellationToken) -> Fate {
    loop {
        match run.engine.parts.store.jobs(vec![run.lease.job]).await {
            Ok(found) => return of(found.into_iter().next().flatten(), run),
            Err(_) if interrupt.is_cancelled() => return Fate::Held,
            Err(error) => {
                tracing::warn!(%error, job = %run.lease.job, "cannot check whether a completion was committed");
                tokio::select! {
                    () = tokio::time::sleep(PAUSE) => {}
                    () = interrupt.cancelled() => {}
                }
            }
        }
    }
}

fn of(found: Option<JobDetail>, run: &Run) -> Fate {
    let Some(record) = found.map(|detail| detail.view.record) else { return Fate::Gone };
    match record.state {
        State::Succeeded if record.fence == run.lease.fence => Fate::Completed,
        _ if record.held_by(&run.lease).is_ok() => Fate::Held,
        _ => Fate::Gone,
    }
}

/// The reply of a run whose transaction was not committed: one that says "done" is wrong.
fn not_committed(reply: Reply) -> Reply {
    match reply.0 {
        Err(failed) if failed.unserializable.is_none() => Reply(Err(failed)),
        _ => Reply(Err(Failed::plain(Failure::new(
            Cause::Error,
            "NotCommitted",
            "the transaction that completed this job was not committed",
        )))),
    }
}
