//! The children of a worker: started when a run needs one, and used again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop_core::failure::{Cause, Failure};
use tokio::time::Instant;

use super::child::{ChildEnd, IsolatedChild};
use super::settings::RunLimits;
use crate::context::Run;
use crate::outcome::{Failed, Reply};
use crate::parts::EngineParts;

/// How long a child that has nothing to do is kept.
const KEPT: Duration = Duration::from_secs(5 * 60);

/// How long a job rests when no child could be started for it.
const NO_CHILD_PAUSE: Duration = Duration::from_secs(5);

/// See the module.
pub(crate) struct ChildProcesses {
    parts: Arc<EngineParts>,
    idle: Mutex<Vec<(Instant, IsolatedChild)>>,
}

impl ChildProcesses {
    pub(crate) fn new(parts: Arc<EngineParts>) -> Self {
        Self { parts, idle: Mutex::default() }
    }

    /// Makes sure that runs with these limits can have a child, and keeps it for the first of them.
    ///
    /// # Errors
    /// In words, when it does not come up: the program does not reach its worker, or needs more memory than that.
    pub(crate) async fn check(&self, limits: &RunLimits) -> Result<(), String> {
        let child = self.take_or_start(&RunLimits::default()).await?;
        let fits = child.check(limits);
        self.give_back(child);
        fits
    }

    /// Runs a job in a child. Dropping this kills the child with all that it started.
    pub(crate) async fn run(&self, run: Arc<Run>, payload: Arc<str>, limits: RunLimits) -> Reply {
        let child = match self.take_or_start(&limits).await {
            Ok(child) => child,
            Err(problem) => return no_child(&problem),
        };
        match child.run(&self.parts, &run, payload, &limits).await {
            ChildEnd::Died(reply) => reply,
            ChildEnd::Replied(reply, child) => {
                self.give_back(*child);
                reply
            }
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<(Instant, IsolatedChild)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one that was used last, because the others may have been idle for long enough; or a new one. One in whose
    /// memory too much is left for a run with these limits is killed.
    async fn take_or_start(&self, limits: &RunLimits) -> Result<IsolatedChild, String> {
        loop {
            let idle = self.idle().pop();
            match idle {
                Some((_, child)) if child.is_worn(limits) => drop(child),
                Some((_, child)) => return Ok(child),
                None => return IsolatedChild::start(&self.parts).await,
            }
        }
    }

    fn give_back(&self, child: IsolatedChild) {
        // Dropped, one that has left something running is killed with it.
        if child.has_company() {
            return;
        }
        let now = Instant::now();
        let outworn = {
            let mut idle = self.idle();
            idle.push((now, child));
            let fresh = idle.partition_point(|(since, _)| now.duration_since(*since) > KEPT);
            idle.drain(..fresh).collect::<Vec<_>>()
        };
        drop(outworn);
    }
}

fn no_child(problem: &str) -> Reply {
    let message = format!("no process could be started to run it in: {problem}");
    let failure = Failure::new(Cause::EngineFault, "Isolation", message).retry_in(NO_CHILD_PAUSE);
    Reply(Err(Failed::plain(failure)))
}
