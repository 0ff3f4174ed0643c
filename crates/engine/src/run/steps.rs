//! Durable steps of one run (W7, W8): which were called so far, what is stored of them, and what the run comes to when
//! its code calls others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backstop_core::failure::{Cause, Failure};
use backstop_core::job::{
    MOST_STEPS, SignalWait, Stale, StepFact, StepReplay, StepWrite, signal_of_step, signal_step,
};
use backstop_core::{JobId, Refusal, admit};
use backstop_store::{Answer, DocumentRange, Drawer, Error as StoreError, Note, Store};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::OnceCell;

use super::write::refused_for_good;
use crate::context::Run;
use crate::error::StepError;
use crate::job_signals::wait::{self, WaitRequest, WaitStart};
use crate::outcome::{Failed, Reply};
use crate::sealing;

/// Documents that are read at once.
const PAGE: usize = 100;

/// Why a step cannot be called like a wait (W10).
pub(crate) const NAME_OF_A_SIGNAL: &str = "names that begin with `signal:` are those of waits for signals";

/// Waits between two tries to reach a store that is away: the first and the longest.
const WAITS: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

/// What a run knows of its steps.
#[derive(Debug, Default)]
pub(crate) struct RunSteps {
    /// In the order of their calls.
    calls: Mutex<Vec<CalledStep>>,
    /// Why the run cannot go well, whatever its handler says.
    problem: Mutex<Option<Box<Failure>>>,
    /// What the run waits for (W10): it ends with that, whatever its handler says.
    wait: Mutex<Option<SignalWait>>,
    /// Results of earlier runs by key, read when the first of them is needed.
    stored: OnceCell<HashMap<String, Arc<str>>>,
}

/// A step that the run has called, and what came of it.
#[derive(Debug)]
struct CalledStep {
    name: String,
    progress: CallProgress,
}

/// How far the call of a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallProgress {
    Open,
    Done,
    /// Its code failed when so many steps had been called.
    Failed(usize),
}

/// One call of a step.
#[derive(Debug)]
pub(crate) struct StepCall {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) replay: StepReplay,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Every stored result of a job's steps, by key.
pub(crate) async fn stored_results(
    store: &dyn Store,
    job: JobId,
) -> Result<HashMap<String, Arc<str>>, StoreError> {
    let mut range = DocumentRange::first(Drawer::Steps, PAGE).under(format!("{job}/"));
    let mut all = HashMap::new();
    loop {
        let page = store.documents(range.clone()).await?;
        range.after = page.items.last().map(|document| document.key.clone());
        all.extend(page.items.into_iter().map(|document| (document.key, document.body)));
        if !page.more {
            return Ok(all);
        }
    }
}

impl RunSteps {
    /// How many steps were called so far.
    pub(crate) fn called(&self) -> u32 {
        u32::try_from(lock(&self.calls).len()).unwrap_or(u32::MAX)
    }

    /// The name of the next wait for a signal: the first that this run has not used.
    fn next_wait(&self, signal: &str) -> String {
        let calls = lock(&self.calls);
        let is_used = |name: &String| calls.iter().any(|called| called.name == *name);
        let mut names = (1..).map(|nth| signal_step(signal, nth));
        names.find(|name| !is_used(name)).unwrap_or_default()
    }

    /// The name of the step that was called so.
    pub(crate) fn name_of(&self, index: u32) -> Option<String> {
        Some(lock(&self.calls).get(usize::try_from(index).ok()?)?.name.clone())
    }

    /// Where the run is when it fails (D1): the first step that it has called and not finished, otherwise behind all
    /// that it has called. A step that failed before others were called was put up with. None for a run without steps.
    pub(crate) fn failed_at(&self) -> Option<u32> {
        let calls = lock(&self.calls);
        let is_unfinished = |called: &CalledStep| match called.progress {
            CallProgress::Open => true,
            CallProgress::Done => false,
            CallProgress::Failed(called_then) => called_then == calls.len(),
        };
        let at = calls.iter().position(is_unfinished).unwrap_or(calls.len());
        (!calls.is_empty()).then(|| u32::try_from(at).unwrap_or(u32::MAX))
    }

    /// The code of this step has failed. What its run makes of that is not known yet.
    pub(crate) fn failed(&self, index: u32) {
        let called = lock(&self.calls).len();
        self.proceed(index, CallProgress::Failed(called));
    }

    fn proceed(&self, index: u32, progress: CallProgress) {
        let mut calls = lock(&self.calls);
        if let Some(called) = usize::try_from(index).ok().and_then(|at| calls.get_mut(at)) {
            called.progress = progress;
        }
    }

    fn add(&self, name: &str) -> Result<u32, StepError> {
        let mut calls = lock(&self.calls);
        if calls.iter().any(|called| called.name == name) {
            return Err(StepError::CalledTwice { name: name.to_owned() });
        }
        if calls.len() >= MOST_STEPS {
            let (field, actual, limit) = ("job", calls.len() + 1, MOST_STEPS);
            return Err(Refusal::TooLarge { field, actual, limit, unit: "steps" }.into());
        }
        calls.push(CalledStep { name: name.to_owned(), progress: CallProgress::Open });
        Ok(u32::try_from(calls.len() - 1).unwrap_or(u32::MAX))
    }
}

impl Run {
    /// Begins a call: its index is decided here and now, so that steps which run side by side have an order.
    pub(crate) fn begin_step(&self, name: String, key: Option<&str>) -> Result<StepCall, StepError> {
        self.noting(self.decide_step(name, key))
    }

    fn decide_step(&self, name: String, key: Option<&str>) -> Result<StepCall, StepError> {
        let limits = &self.engine.parts.config.limits;
        admit::name("step", &name, limits)?;
        if signal_of_step(&name).is_some() {
            return Err(Refusal::invalid("step", NAME_OF_A_SIGNAL).into());
        }
        key.map_or(Ok(()), |key| admit::key("effect key", key, limits))?;
        self.place_step(name, key)
    }

    /// Begins to wait for a signal (W10): its place is decided here and now, as that of a step.
    pub(crate) fn begin_signal(&self, signal: &str) -> Result<StepCall, StepError> {
        let checked = admit::key("signal", signal, &self.engine.parts.config.limits);
        let call = checked.map_err(StepError::from).and_then(|()| {
            let name = self.steps.next_wait(signal);
            self.place_step(name, None)
        });
        self.noting(call)
    }

    fn place_step(&self, name: String, key: Option<&str>) -> Result<StepCall, StepError> {
        let index = self.steps.add(&name)?;
        let history = self.record.step_history();
        let replay = history.map_or(Ok(StepReplay::Run), |history| history.replay(index, &name, key))?;
        if matches!(replay, StepReplay::Stored(_)) {
            self.steps.proceed(index, CallProgress::Done);
        }
        Ok(StepCall { index, name, replay })
    }

    /// Remembers an error that ends the run whatever its handler makes of it: guessing on would be worse.
    pub(crate) fn noting<T>(&self, answer: Result<T, StepError>) -> Result<T, StepError> {
        if let Err(error) = &answer
            && let Some(failure) = error.failure()
        {
            lock(&self.steps.problem).get_or_insert(Box::new(failure));
        }
        answer
    }

    /// What the handler's reply comes to: a run whose steps went wrong has failed.
    pub(crate) fn settle_steps(&self, reply: Reply) -> Reply {
        let succeeded = match &reply.0 {
            Ok(_) => true,
            Err(failed) => failed.unserializable.is_some(),
        };
        // What is stored may not all have been called yet by a run that waits.
        let waits = lock(&self.steps.wait).is_some();
        let reply = match self.steps_problem(succeeded && !waits) {
            Some(failure) => Reply(Err(Failed::plain(failure))),
            None => match lock(&self.steps.wait).take() {
                Some(wait) => Reply(Err(Failed::waiting(wait))),
                None => reply,
            },
        };
        self.placed(reply)
    }

    /// Says at which step a run has failed (D1), unless that is known.
    pub(crate) fn placed(&self, mut reply: Reply) -> Reply {
        if let Err(failed) = &mut reply.0 {
            failed.step = failed.step.or_else(|| self.steps.failed_at());
        }
        reply
    }

    /// Waits for a signal: answers with one that was kept, or ends the run.
    pub(crate) async fn wait_for(
        &self,
        call: &StepCall,
        signal: &str,
        timeout: Duration,
    ) -> Result<Value, StepError> {
        let (signal, step) = (signal.to_owned(), call.name.clone());
        let request = WaitRequest { signal, step, index: Some(call.index), timeout };
        let begun = self.until_reached(|| self.begin_wait(&request)).await.map_err(StepError::from);
        match self.noting(begun)?.map_err(StepError::Stale)? {
            WaitStart::Taken(payload) => {
                self.steps.proceed(call.index, CallProgress::Done);
                Ok(payload)
            }
            WaitStart::Until(until) => {
                let WaitRequest { signal, step, .. } = request;
                let wait = SignalWait { signal: signal.clone(), step, until };
                lock(&self.steps.wait).get_or_insert(wait);
                Err(StepError::Waiting { signal, until })
            }
        }
    }

    fn begin_wait<'s>(&'s self, request: &'s WaitRequest) -> Answer<'s, Result<WaitStart, Stale>> {
        match &self.listener {
            // In a process of its own, its worker asks.
            Some(listener) => listener.waits(self.lease, request.clone()),
            None => Box::pin(wait::begin(&self.engine.parts, self.lease, &self.job.spec, request)),
        }
    }

    /// Why the run cannot go well, if it cannot; one that is about to succeed must have called all that is stored.
    pub(crate) fn steps_problem(&self, succeeds: bool) -> Option<Failure> {
        let problem = lock(&self.steps.problem).as_deref().cloned();
        let history = self.record.step_history().filter(|_| succeeds);
        problem.or_else(|| {
            let changed = history?.all_called(self.steps.called()).err()?;
            StepError::from(changed).failure()
        })
    }

    /// The stored result of a step.
    pub(crate) async fn stored_step<T: DeserializeOwned>(
        &self,
        name: &str,
        position: u32,
    ) -> Result<T, StepError> {
        let store = &self.engine.parts.store;
        let read = || self.until_reached(|| Box::pin(stored_results(&**store, self.lease.job)));
        let stored = self.steps.stored.get_or_try_init(read).await;
        let stored = self.noting(stored.map_err(StepError::from))?;
        let key = Drawer::step(self.lease.job, position);
        let read = stored.get(&key).ok_or_else(|| "it is missing".to_owned()).and_then(|text| {
            let config = &self.engine.parts.config;
            let text = sealing::step(config, &self.job.spec, text).map_err(|problem| problem.to_string())?;
            // What the decoder says may quote what was stored.
            let place = |problem: serde_json::Error| {
                format!("it does not decode, see line {} column {}", problem.line(), problem.column())
            };
            serde_json::from_str(&text).map_err(place)
        });
        let unreadable = |problem| StepError::Unreadable { name: name.to_owned(), problem };
        self.noting(read.map_err(unreadable))
    }

    /// What is written of a step that came to `value`.
    pub(crate) fn success_of(&self, call: &StepCall, value: &impl Serialize) -> Result<StepFact, StepError> {
        self.noting(self.result_text(&call.name, value)).map(StepFact::Done)
    }

    fn result_text(&self, name: &str, value: &impl Serialize) -> Result<Arc<str>, StepError> {
        let config = &self.engine.parts.config;
        let unstorable = |problem| StepError::Unstorable { name: name.to_owned(), problem };
        let text = serde_json::to_string(value).map_err(|problem| unstorable(problem.to_string()))?;
        let (actual, limit) = (text.len(), config.limits.result_bytes);
        if actual > limit {
            return Err(unstorable(format!("it has {actual} bytes, the limit is {limit}")));
        }
        sealing::kept_step(config, &self.job.spec, text).map_err(unstorable)
    }

    /// Writes what became of a step, under the lease of this run. A store that is away is asked again until the run is
    /// to stop: what was done must not be done twice for want of patience.
    pub(crate) async fn write_step(&self, call: &StepCall, fact: StepFact) -> Result<(), StepError> {
        let succeeded = matches!(fact, StepFact::Done(_));
        if succeeded {
            // No later run calls the code again that told of them (W9).
            self.flush_rejects().await.map_err(|error| StepError::Failed(error.into()))?;
        }
        let write = StepWrite { index: Some(call.index), name: call.name.clone(), fact };
        let store = &self.engine.parts.store;
        let note = || store.annotate(vec![Note::step(self.lease, write.clone())]);
        let answer = self.until_reached(note).await.map_err(StepError::from);
        let mut answers = self.noting(answer)?;
        self.noting(answers.pop().unwrap_or(Ok(())).map_err(StepError::from))?;
        if succeeded {
            self.steps.proceed(call.index, CallProgress::Done);
        }
        Ok(())
    }

    pub(crate) async fn until_reached<'s, T>(
        &self,
        ask: impl Fn() -> Answer<'s, T>,
    ) -> Result<T, StoreError> {
        let [mut wait, longest] = WAITS;
        loop {
            match ask().await {
                Err(error) if !refused_for_good(&error) => {
                    tokio::select! {
                        biased;
                        () = self.canceled.cancelled() => return Err(error),
                        () = tokio::time::sleep(wait) => wait = (wait * 2).min(longest),
                    }
                }
                answer => return answer,
            }
        }
    }
}

impl StepError {
    /// What the run comes to because of it; none when that is for the handler and the lease to say.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let permanent = |error_type: &str, why: &str| {
            Failure::new(Cause::Permanent, error_type, self.to_string()).because(why)
        };
        match self {
            Self::Changed(_) => {
                Some(permanent("StepsChanged", "other code cannot go on from its stored steps"))
            }
            Self::CalledTwice { .. } => Some(permanent("StepCalledTwice", "its code has to be corrected")),
            Self::Refused(_) => Some(permanent("StepRefused", "its code has to be corrected")),
            Self::Unstorable { .. } => {
                Some(permanent("StepUnstorable", "the result of a step cannot be stored"))
            }
            Self::Unreadable { .. } => {
                Some(permanent("StepUnreadable", "other code cannot go on from its stored steps"))
            }
            Self::Unknown { .. } => {
                Some(permanent("EffectUnknown", "a person has to find out what happened"))
            }
            Self::Store(_) => Some(Failure::new(Cause::EngineFault, "StepStore", self.to_string())),
            Self::Stale(_) | Self::Failed(_) | Self::Waiting { .. } => None,
        }
    }
}
