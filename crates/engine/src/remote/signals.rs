//! Waits for signals of remote workers (W10): a run ends with what it waits for, and the next one is told what came.

use std::collections::BTreeMap;

use backstop_core::failure::{Cause, Failure};
use backstop_core::job::{
    MOST_STEPS, Record, SignalAnswer, SignalWait, Spec, StepState, signal_of_step, signal_step,
};
use backstop_core::{Limits, admit};
use backstop_store::Error as StoreError;
use serde_json::{Map, Value};

use super::Remote;
use super::finish::Finished;
use super::work::Ended;
use crate::error::StepError;
use crate::job_signals::wait::{self, WaitRequest, WaitStart};
use crate::outcome::Failed;

impl Remote {
    /// Begins the wait that a run ends with, if it does. What that comes to is found when the end is written.
    pub(super) async fn begin_wait(
        &self,
        result: &Finished,
        spec: &Spec,
        record: &Record,
    ) -> Result<Option<Box<Failed>>, StoreError> {
        let Ended::Waiting { signal, timeout, index } = &result.ended else { return Ok(None) };
        let limits = &self.parts.config.limits;
        if let Some(step) = answered_step(signal, record) {
            let until = self.parts.store.now().await?;
            return Ok(Some(Failed::waiting(SignalWait { signal: signal.clone(), step, until })));
        }
        if let Some(refused) = refused(signal, *index, record, limits) {
            return Ok(Some(refused));
        }
        let timeout = timeout.unwrap_or(limits.delay).min(limits.delay);
        let request =
            WaitRequest { signal: signal.clone(), step: next_step(signal, record), index: *index, timeout };
        let started = wait::begin(&self.parts, result.grant.lease, spec, &request).await?;
        let until = match started {
            Ok(WaitStart::Until(until)) => until,
            // It has it, and goes on at once; or the lease is stale, which the end of the run finds too.
            Ok(WaitStart::Taken(_)) | Err(_) => self.parts.store.now().await?,
        };
        let WaitRequest { signal, step, .. } = request;
        Ok(Some(Failed::waiting(SignalWait { signal, step, until })))
    }

    /// What a report that may have come before says: nothing is begun.
    pub(super) fn repeated_wait(&self, ended: &Ended, record: &Record) -> Option<Box<Failed>> {
        let Ended::Waiting { signal, index, .. } = ended else { return None };
        if let Some(refused) = refused(signal, *index, record, &self.parts.config.limits) {
            return Some(refused);
        }
        let wait =
            SignalWait { signal: signal.clone(), step: next_step(signal, record), until: record.run_at };
        Some(Failed::waiting(wait))
    }
}

/// The step of this signal that was answered while this run lasted, if one was. A run waits once, with its end: so a
/// server took the signal for it, or a sender gave it, and that server died before it had written the end.
fn answered_step(signal: &str, record: &Record) -> Option<String> {
    let steps = record.steps().iter().filter(|step| step.run == record.runs && step.state == StepState::Done);
    steps.map(|step| &step.name).find(|name| signal_of_step(name) == Some(signal)).cloned()
}

/// The first step of this signal that has nothing yet.
fn next_step(signal: &str, record: &Record) -> String {
    let done =
        |name: &String| record.steps().iter().any(|step| step.name == *name && step.state == StepState::Done);
    let mut names = (1..).map(|nth| signal_step(signal, nth));
    names.find(|name| !done(name)).unwrap_or_default()
}

/// Why nobody can wait for this.
fn refused(signal: &str, index: Option<u32>, record: &Record, limits: &Limits) -> Option<Box<Failed>> {
    let changed = record.step_history().and_then(|history| history.check_wait(index, signal).err());
    if let Some(failure) = changed.and_then(|changed| StepError::from(changed).failure()) {
        return Some(Failed::plain(failure));
    }
    let problem = match admit::key("signal", signal, limits) {
        Err(refusal) => refusal.to_string(),
        Ok(()) if record.steps().len() >= MOST_STEPS => format!("the job has {MOST_STEPS} steps already"),
        Ok(()) => return None,
    };
    let failure = Failure::new(Cause::Permanent, "SignalRefused", format!("it cannot wait: {problem}"));
    Some(Failed::plain(failure.because("its code has to be corrected")))
}

/// Parts what is stored of steps from what its waits came to: of several waits for one signal, the latest counts.
pub(super) fn parted(stored: Vec<(String, Value)>) -> (Vec<(String, Value)>, BTreeMap<String, Value>) {
    let (waits, steps): (Vec<_>, Vec<_>) =
        stored.into_iter().partition(|(name, _)| signal_of_step(name).is_some());
    let told = |(name, value): (String, Value)| {
        let payload = match serde_json::from_value(value) {
            // Null says that the time was up.
            Ok(SignalAnswer::Received(Value::Null)) => Value::Object(Map::new()),
            Ok(SignalAnswer::Received(payload)) => payload,
            Ok(SignalAnswer::TimedOut) | Err(_) => Value::Null,
        };
        Some((signal_of_step(&name)?.to_owned(), payload))
    };
    (steps, waits.into_iter().filter_map(told).collect())
}
