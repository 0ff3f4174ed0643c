//! How any run ends, wherever it ran: the rules are asked, the verdict is found, and what follows at once is done.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::event::{Event, EventKind};
use backstop_core::failure::{Cause, Failure, HookAnswer};
use backstop_core::job::{Ending, StoredJob};

use super::conclude::{Happened, conclude};
use crate::engine::Backstop;

/// Turns what happened into what is written. A rule that pauses the queue has done so when this returns (F18).
pub(crate) async fn end(
    engine: &Backstop,
    happened: Happened,
    ask: impl FnOnce(u32, &Failure) -> HookAnswer,
) -> Ending {
    let inner = &engine.inner;
    let job = happened.job.clone();
    // Only failures look at the rules: a success asks for nothing.
    let book = if happened.reply.0.is_err() { inner.rules.book(&*inner.store).await } else { Arc::default() };
    let concluded = conclude(&inner.config, &book, happened, ask);
    if let Some(rule) = &concluded.pauses {
        engine.pause_by_rule(&job.spec.queue, rule).await;
    }
    let ending = concluded.ending;
    if let (Some(_), Some(failure)) = (job.spec.callback_of, &ending.failure) {
        let (engine, what) = (engine.clone(), EventKind::CallbackFailed { error: failure.message.clone() });
        tokio::spawn(async move { tell(&engine, &job, what).await });
    }
    ending
}

/// How the text of every timeout begins that the engine itself has found.
pub(crate) const OVERTIME: &str = "the run took longer than";

/// The failure of a run that took longer than it may (F10).
pub(crate) fn overtime(limit: Duration) -> Failure {
    Failure::new(Cause::Timeout, "Timeout", format!("{OVERTIME} {limit:?}"))
}

/// Publishes an event that no commit carries.
pub(crate) async fn tell(engine: &Backstop, job: &StoredJob, what: EventKind) {
    if let Ok(at) = engine.inner.store.now().await {
        engine.inner.bus.tell(Event { at, node: None, job: Some(job.spec.header()), what });
    }
}
