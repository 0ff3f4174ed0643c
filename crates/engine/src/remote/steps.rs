//! Durable steps of remote workers (W7): what is stored goes out with the job, and what succeeded comes in by lease.

use std::sync::Arc;

use backstop_core::failure::{Cause, Failure};
use backstop_core::job::{MOST_STEPS, Stale, StepFact, StepHistory, StepWrite, signal_of_step};
use backstop_core::{Refusal, admit};
use backstop_store::{ClaimedJob, Drawer, Note};
use serde_json::Value;

use super::{Grant, Remote};
use crate::error::OperateError;
use crate::outcome::Failed;
use crate::run::steps::{NAME_OF_A_SIGNAL, stored_results};
use crate::sealing;

impl Remote {
    /// Stores that a step of a run succeeded, with its result; it stands behind those that are stored already. A name
    /// that is stored keeps its first result, so the call can be repeated.
    ///
    /// # Errors
    /// When the name is not one, the result is larger than a result may be, the job has too many steps, or the store is
    /// away. A lease that is no longer held is answered, not an error.
    pub async fn step(
        &self,
        grant: &Grant,
        name: &str,
        result: &Value,
    ) -> Result<Result<(), Stale>, OperateError> {
        let (config, lease) = (&self.parts.config, grant.lease);
        admit::name("name", name, &config.limits)?;
        if signal_of_step(name).is_some() {
            return Err(Refusal::invalid("name", NAME_OF_A_SIGNAL).into());
        }
        let text = result.to_string();
        let (actual, limit) = (text.len(), config.limits.result_bytes);
        if actual > limit {
            return Err(Refusal::TooLarge { field: "result", actual, limit, unit: "bytes" }.into());
        }
        // The kind says whether its results are sealed.
        let found = self.parts.store.jobs(vec![lease.job]).await?.pop().flatten();
        let Some(detail) = found else { return Ok(Err(Stale { job: lease.job, fence: lease.fence })) };
        let steps = detail.view.record.steps();
        if steps.len() >= MOST_STEPS && steps.iter().all(|step| step.name != name) {
            let (actual, limit) = (steps.len() + 1, MOST_STEPS);
            return Err(Refusal::TooLarge { field: "job", actual, limit, unit: "steps" }.into());
        }
        let kept = sealing::kept_step(config, &detail.view.job.spec, text)
            .map_err(|problem| Refusal::invalid("result", problem))?;
        let write = StepWrite { index: None, name: name.to_owned(), fact: StepFact::Done(kept) };
        Ok(self.note(Note::step(lease, write)).await?)
    }

    /// The stored results of a claimed job in the order of their calls, opened if they are sealed, those of its waits
    /// for signals among them. Most jobs have none, and nothing is asked for them.
    pub(super) async fn steps_of(&self, claimed: &ClaimedJob) -> Result<Vec<(String, Value)>, Box<Failed>> {
        let Some(history) = claimed.record.step_history() else { return Ok(Vec::new()) };
        let job = claimed.lease.job;
        let stored = stored_results(&*self.parts.store, job).await.map_err(|error| {
            Failed::plain(Failure::new(Cause::EngineFault, "StepStore", error.to_string()))
        })?;
        let open = |position, name: &str| {
            let text: Option<&Arc<str>> = stored.get(&Drawer::step(job, position));
            let text = text.ok_or_else(|| "it is missing".to_owned())?;
            let text =
                sealing::step(&self.parts.config, &claimed.job.spec, text).map_err(|e| e.to_string())?;
            serde_json::from_str(&text).map_err(|_| format!("`{name}` is not valid JSON"))
        };
        in_order(history)
            .into_iter()
            .map(|(position, name)| {
                let read = open(position, &name).map_err(|problem: String| {
                    let message = format!("the stored result of step `{name}` cannot be read: {problem}");
                    let failure = Failure::new(Cause::Permanent, "StepUnreadable", message);
                    Failed::plain(failure.because("the result of a step cannot be opened"))
                });
                read.map(|result| (name, result))
            })
            .collect()
    }
}

fn in_order(history: &StepHistory) -> Vec<(u32, String)> {
    let mut results: Vec<_> = history.results().collect();
    results.sort_by_key(|(_, step)| step.index);
    results.into_iter().map(|(position, step)| (position, step.name.clone())).collect()
}
