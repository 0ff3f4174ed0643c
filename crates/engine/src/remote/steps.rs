//! Durable steps and effects of remote workers (W7, W8): what is stored goes out with the job, and what they do comes
//! in by lease. What a call comes to is decided by the history of the job, as it is for handlers in the process.

use std::collections::HashMap;
use std::sync::Arc;

use backstop_core::failure::{Cause, Failure};
use backstop_core::job::{
    EffectCall, EffectPolicy, EffectReplay, JobDetail, MOST_STEPS, Spec, Stale, StepFact, StepHistory,
    StepWrite, signal_of_step,
};
use backstop_core::{JobId, Lease, Refusal, admit};
use backstop_store::{ClaimedJob, Drawer, Error as StoreError, Note};
use serde_json::Value;

use super::{Grant, Remote};
use crate::error::StepError;
use crate::outcome::Failed;
use crate::run::steps::{NAME_OF_A_SIGNAL, stored_results};
use crate::sealing;

/// What a remote worker says of a step or an effect.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteStep {
    /// The order of its call in this run, from 0; none puts it behind all that are stored, unchecked.
    pub index: Option<u32>,
    /// Its name.
    pub name: String,
    /// What it came to; none says that an effect that was begun did not happen.
    pub result: Option<Value>,
}

/// What a remote worker does about an effect that it is about to call (W8).
#[derive(Debug, Clone, PartialEq)]
pub enum RemoteEffect {
    /// It calls it: that is stored.
    Run,
    /// It asks the other side first. When that has not seen it, it says so with [`EffectCall::not_seen`] and calls it.
    Verify,
    /// Nothing: this is its stored outcome.
    Done(Value),
}

/// Results of steps by key.
type StoredResults = HashMap<String, Arc<str>>;

impl Remote {
    /// Stores what a step or an effect of a run came to. A name that is stored keeps its first result, so the call can
    /// be repeated.
    ///
    /// # Errors
    /// When the name is not one, the result is larger than a result may be, the job has too many steps, something else
    /// is stored in this place, the lease is no longer held, or the store is away. Nothing is stored then.
    pub async fn step(&self, grant: &Grant, step: RemoteStep) -> Result<(), StepError> {
        let config = &self.parts.config;
        self.check_name(&step.name)?;
        let text = step.result.map(|result| result.to_string());
        let (actual, limit) = (text.as_ref().map_or(0, String::len), config.limits.result_bytes);
        if actual > limit {
            return Err(Refusal::TooLarge { field: "result", actual, limit, unit: "bytes" }.into());
        }
        let detail = self.held(grant.lease).await?;
        let history = history(&detail);
        history.check_place(step.index, &step.name)?;
        let fact = match text {
            // The kind says whether its results are sealed.
            Some(text) => StepFact::Done(
                sealing::kept_step(config, &detail.view.job.spec, text)
                    .map_err(|problem| Refusal::invalid("result", problem))?,
            ),
            None if history.is_begun(&step.name) => StepFact::NotDone,
            None => return Err(Refusal::invalid("name", "no effect of this name was begun").into()),
        };
        self.write_step(grant.lease, history, StepWrite { index: step.index, name: step.name, fact }).await
    }

    /// Stores that a run is about to call an effect, unless what is stored says something else (W8). What it came to is
    /// told with [`step`](Self::step). In one run the same call is answered in the same way, so it can be repeated.
    ///
    /// A run that was answered [`RemoteEffect::Verify`], and whose other side has not seen the effect, says so with
    /// `not_seen`: from then on this run may have done it, and that is stored before it is called.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use backstop::prelude::*;
    /// use backstop::{EffectCall, EffectPolicy, RemoteEffect, RemoteStep};
    /// # use backstop::{KnownKind, RemoteWorker, WorkRequest};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// # let engine = Backstop::open("memory:").await?;
    /// # engine.enqueue_raw("charge", "{}").submit().await?;
    /// # let remote = engine.remote();
    /// # let request = WorkRequest {
    /// #     worker: RemoteWorker { realm: String::new(), name: "till-1".into(), instance: None },
    /// #     queues: vec!["default".into()],
    /// #     kinds: vec![KnownKind { kind: "charge".into(), version: 1 }].into(),
    /// #     limit: 1,
    /// #     wait: Duration::ZERO,
    /// #     lease: Duration::from_secs(30),
    /// #     code_version: None,
    /// # };
    /// # let grant = remote.claim(request).await?.remove(0).grant;
    /// let (name, key, policy) = ("charge", "order-7", EffectPolicy::Verify);
    /// let call = EffectCall { index: Some(0), name, key, policy, not_seen: false };
    /// if remote.effect(&grant, call).await? == RemoteEffect::Run {
    ///     let receipt = Some("ch_18".into());
    ///     remote.step(&grant, RemoteStep { index: Some(0), name: "charge".into(), result: receipt }).await?;
    /// }
    /// assert_eq!(remote.effect(&grant, call).await?, RemoteEffect::Done("ch_18".into()));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`step`](Self::step); [`StepError::Unknown`] when a person has to find out whether it happened.
    pub async fn effect(&self, grant: &Grant, call: EffectCall<'_>) -> Result<RemoteEffect, StepError> {
        let (lease, name) = (grant.lease, call.name);
        self.check_name(name)?;
        admit::key("key", call.key, &self.parts.config.limits)?;
        if call.not_seen && call.policy != EffectPolicy::Verify {
            let problem = "only under the policy `verify` the other side is asked; leave it out";
            return Err(Refusal::invalid("not_seen", problem).into());
        }
        let detail = self.held(lease).await?;
        let (history, run) = (history(&detail), detail.view.record.runs);
        if history.is_over_in(run, name) {
            return Err(Refusal::invalid("name", "this run has said that the effect did not happen").into());
        }
        match history.replay_effect(&call, run)? {
            EffectReplay::Begin => {
                let fact = StepFact::Begun(call.key.to_owned());
                let write = StepWrite { index: call.index, name: name.to_owned(), fact };
                self.write_step(lease, history, write).await?;
                Ok(RemoteEffect::Run)
            }
            EffectReplay::Run => Ok(RemoteEffect::Run),
            EffectReplay::Verify => Ok(RemoteEffect::Verify),
            EffectReplay::Stored(position) => {
                let stored = self.results_of(lease.job).await?;
                let opened = self.opened(&stored, &detail.view.job.spec, position);
                let unreadable = |problem| StepError::Unreadable { name: name.to_owned(), problem };
                opened.map(RemoteEffect::Done).map_err(unreadable)
            }
            EffectReplay::Unknown { run } => {
                Err(StepError::Unknown { name: name.to_owned(), key: call.key.to_owned(), run })
            }
        }
    }

    fn check_name(&self, name: &str) -> Result<(), Refusal> {
        admit::name("name", name, &self.parts.config.limits)?;
        match signal_of_step(name) {
            Some(_) => Err(Refusal::invalid("name", NAME_OF_A_SIGNAL)),
            None => Ok(()),
        }
    }

    /// The job that this lease holds.
    async fn held(&self, lease: Lease) -> Result<JobDetail, StepError> {
        let found = self.parts.store.jobs(vec![lease.job]).await?.pop().flatten();
        let detail = found.ok_or(StepError::Stale(Stale { job: lease.job, fence: lease.fence }))?;
        detail.view.record.held_by(&lease).map_err(StepError::Stale)?;
        Ok(detail)
    }

    async fn write_step(
        &self,
        lease: Lease,
        history: &StepHistory,
        write: StepWrite,
    ) -> Result<(), StepError> {
        if !history.has_room_for(&write.name) {
            let (actual, limit) = (history.marks().len() + 1, MOST_STEPS);
            return Err(Refusal::TooLarge { field: "job", actual, limit, unit: "steps" }.into());
        }
        Ok(self.note(Note::step(lease, write)).await??)
    }

    /// A stored result, opened if it is sealed, or why it cannot be read.
    fn opened(&self, stored: &StoredResults, spec: &Spec, position: u32) -> Result<Value, String> {
        let text = stored.get(&Drawer::step(spec.id, position)).ok_or("it is missing")?;
        let text = sealing::step(&self.parts.config, spec, text).map_err(|problem| problem.to_string())?;
        serde_json::from_str(&text).map_err(|_| "it is not valid JSON".to_owned())
    }

    /// The stored results of a claimed job in the order of their calls, opened if they are sealed, those of its waits
    /// for signals among them. Most jobs have none, and nothing is asked for them.
    pub(super) async fn steps_of(&self, claimed: &ClaimedJob) -> Result<Vec<(String, Value)>, Box<Failed>> {
        let Some(history) = claimed.record.step_history() else { return Ok(Vec::new()) };
        let stored = self.results_of(claimed.lease.job).await.map_err(|error| {
            Failed::plain(Failure::new(Cause::EngineFault, "StepStore", error.to_string()))
        })?;
        in_order(history)
            .into_iter()
            .map(|(position, name)| {
                let read = self.opened(&stored, &claimed.job.spec, position).map_err(|problem| {
                    let message = format!("the stored result of step `{name}` cannot be read: {problem}");
                    let failure = Failure::new(Cause::Permanent, "StepUnreadable", message);
                    Failed::plain(failure.because("the result of a step cannot be opened"))
                });
                read.map(|result| (name, result))
            })
            .collect()
    }

    async fn results_of(&self, job: JobId) -> Result<StoredResults, StoreError> {
        stored_results(&*self.parts.store, job).await
    }
}

/// What is stored of a job's steps; most have nothing.
fn history(detail: &JobDetail) -> &StepHistory {
    const NOTHING: &StepHistory = &StepHistory::new();
    detail.view.record.step_history().unwrap_or(NOTHING)
}

fn in_order(history: &StepHistory) -> Vec<(u32, String)> {
    let mut results: Vec<_> = history.results().collect();
    results.sort_by_key(|(_, step)| step.index);
    results.into_iter().map(|(position, step)| (position, step.name.clone())).collect()
}
