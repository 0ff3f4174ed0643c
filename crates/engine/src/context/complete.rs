//! Completing a job inside the handler's own transaction (L14).

use std::sync::atomic::Ordering;

use backstop_core::failure::{HookAnswer, RuleSet};
use backstop_core::job::{NewJob, Stale, State};
use backstop_store::{Error as StoreError, Finish};
use serde::Serialize;

use super::{JobContext, Run};
use crate::error::CompleteError;
use crate::outcome::Reply;
use crate::run::conclude::{HandlerEnd, conclude};
use crate::tx::CallerTransaction;

impl<C> JobContext<C> {
    /// Completes the job inside the handler's own transaction: what the handler wrote there and the completion, with
    /// `result` and the `on_success` callback, commit together or not at all (L14).
    ///
    /// Commit the transaction next, and then return `Ok`; what the handler returns is not kept, `result` is. A handler
    /// that returns `Ok` although the transaction was not committed has failed: its run is tried again. A handler that
    /// fails or dies after the commit has completed its job all the same.
    ///
    /// # Errors
    /// [`CompleteError::Stale`] when the job was canceled or taken by others meanwhile: roll back, which `?` does with
    /// every driver. [`CompleteError::Store`] when the completion could not be written.
    pub async fn complete_in(
        &self,
        tx: &mut impl CallerTransaction,
        result: impl Serialize,
    ) -> Result<(), CompleteError> {
        self.run.may_complete()?;
        let finish = self.run.completion(&result);
        // Dropped here: what is not `Send` must not be held while the database works.
        drop(result);
        let store = self.run.engine.parts.store.clone();
        let new = finish.ending.follow_up.as_deref().into_iter().chain(&finish.ending.children);
        let new: Vec<NewJob> = new.cloned().collect();
        if !new.is_empty() {
            // What others share with these jobs must not hang on the handler's transaction.
            store.prepare(&new).await?;
        }
        self.run.completes_itself();
        completed(tx.finish(&self.run.engine.parts.transaction_context(), finish).await)
    }

    /// The same for a transaction that blocks the thread, such as rusqlite's: call it where the transaction is, inside
    /// `spawn_blocking`, with a clone of this context.
    ///
    /// # Errors
    /// As [`JobContext::complete_in`].
    #[cfg(feature = "sqlite")]
    pub fn complete_in_blocking(
        &self,
        tx: &backstop_sqlite::rusqlite::Connection,
        result: impl Serialize,
    ) -> Result<(), CompleteError> {
        self.run.may_complete()?;
        let finish = self.run.completion(&result);
        let context = self.run.engine.parts.transaction_context();
        self.run.completes_itself();
        completed(crate::tx::sqlite::finish(tx, &context, finish))
    }
}

impl Run {
    /// Refuses a completion that the steps of the run do not allow (W7), or that would lose rejects (W9).
    fn may_complete(&self) -> Result<(), CompleteError> {
        if let Some(problem) = self.completion_problem() {
            return Err(CompleteError::Rejects { problem });
        }
        self.steps_problem(true)
            .map_or(Ok(()), |failure| Err(CompleteError::Steps { problem: failure.message }))
    }

    /// From now on a transaction of the handler's own may complete the job.
    fn completes_itself(&self) {
        self.completes.store(true, Ordering::SeqCst);
        if let Some(listener) = &self.listener {
            listener.completes();
        }
    }

    /// The end of a run that went well, as the engine itself would write it.
    fn completion(&self, result: &impl Serialize) -> Finish {
        let handler_end = HandlerEnd {
            job: self.job.clone(),
            record: self.record.clone(),
            reply: Reply::of_value(result),
            output: self.output.lock().ok().and_then(|output| output.text()),
            code_version: self.code_version.clone(),
        };
        // A success: no rule is about it.
        let no_rules = RuleSet::default();
        let mut ending =
            conclude(&self.engine.parts.config, &no_rules, handler_end, |_, _| HookAnswer::default()).ending;
        self.children.join(&mut ending);
        Finish { lease: self.lease, ending }
    }
}

fn completed(answer: Result<Result<State, Stale>, StoreError>) -> Result<(), CompleteError> {
    answer??;
    Ok(())
}
