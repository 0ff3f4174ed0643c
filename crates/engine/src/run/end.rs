//! How any run ends, wherever it ran: the rules are asked, the verdict is found, and what follows at once is done.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::event::EventKind;
use backstop_core::failure::{Cause, Failure, HookAnswer, RuleId};
use backstop_core::job::Ending;
use backstop_store::Store;

use super::conclude::{HandlerEnd, conclude};
use crate::parts::EngineParts;

/// Turns what happened into what is written. A rule that pauses the queue has done so when this returns (F18).
pub(crate) async fn end(
    parts: &Arc<EngineParts>,
    handler_end: HandlerEnd,
    ask: impl FnOnce(u32, &Failure) -> HookAnswer,
) -> Ending {
    let EngineParts { store, config, rules, .. } = &**parts;
    let job = handler_end.job.clone();
    // Only failures look at the rules: a success asks for nothing.
    let rules = if handler_end.reply.0.is_err() { rules.in_force(&**store).await } else { Arc::default() };
    let concluded = conclude(config, &rules, handler_end, ask);
    if let Some(rule) = &concluded.pauses {
        pause_by_rule(&**store, &job.spec.queue, rule).await;
    }
    let ending = concluded.ending;
    if let (Some(_), Some(failure)) = (job.spec.callback_of, &ending.failure) {
        let (parts, what) = (parts.clone(), EventKind::CallbackFailed { error: failure.message.clone() });
        tokio::spawn(async move { parts.publish(&job, what).await });
    }
    ending
}

/// Pauses the queue of a job because a rule says so. It happens before the run's end is written, so that a crash in
/// between leaves a paused queue and never an open one.
pub(crate) async fn pause_by_rule(store: &dyn Store, queue: &str, rule: &RuleId) {
    let note = format!("failure rule `{rule}`");
    match store.pause_queue(queue, true, Some(&note)).await {
        Ok(true) => tracing::warn!(queue, %rule, "a failure rule has paused a queue"),
        Ok(false) => {}
        Err(error) => tracing::error!(queue, %rule, %error, "a failure rule could not pause a queue"),
    }
}

/// How the text of every timeout begins that the engine itself has found.
pub(crate) const OVERTIME: &str = "the run took longer than";

/// The failure of a run that took longer than it may (F10).
pub(crate) fn overtime(limit: Duration) -> Failure {
    Failure::new(Cause::Timeout, "Timeout", format!("{OVERTIME} {limit:?}"))
}
