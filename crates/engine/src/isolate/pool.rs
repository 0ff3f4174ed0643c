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

    /// Starts a child with these limits and keeps it for the first run.
    ///
    /// # Errors
    /// In words, when it does not come up: the program does not reach its worker, or needs more memory than that.
    pub(crate) async fn warm_up(&self, limits: &RunLimits) -> Result<(), String> {
        let child = IsolatedChild::start(&self.parts, limits).await?;
        self.give_back(child);
        Ok(())
    }

    /// Runs a job in a child. Dropping this kills the child with all that it started.
    pub(crate) async fn run(&self, run: Arc<Run>, payload: Arc<str>, limits: RunLimits) -> Reply {
        let child = match self.take() {
            Some(child) => child,
            None => match IsolatedChild::start(&self.parts, &RunLimits::default()).await {
                Ok(child) => child,
                Err(problem) => return no_child(&problem),
            },
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

    /// The one that was used last: the others may have been idle for long enough.
    fn take(&self) -> Option<IsolatedChild> {
        self.idle().pop().map(|(_, child)| child)
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
