//! Predicates by name (W2): a question about results, which a worker that knows the name answers.
//!
//! Asking is a job: of the kind [`predicate_kind`], before the step that waits for the answer. So a predicate that no
//! worker knows waits visibly, and one that fails is retried, and then dead, like any other job.

use std::future::Future;
use std::sync::Arc;

use backstop_core::failure::{Cause, Failure, HookAnswer};
use backstop_core::job::Spec;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::context::JobContext;
use crate::isolate::settings::IsolationSettings;
use crate::outcome::{Failed, IntoReply, JobResult, Reply};
use crate::registry::{Handler, ReplyFuture};
use crate::remote::Ended;

/// What the kinds of the jobs that ask predicates begin with.
const ASKING: &str = "predicate:";

/// The kind of the jobs that ask a predicate.
#[must_use]
pub fn predicate_kind(name: &str) -> String {
    format!("{ASKING}{name}")
}

/// The end of a run of a worker elsewhere: who is asked a predicate says yes or no. Anything else would be a "no" that
/// nobody has said.
pub(crate) fn with_an_answer(spec: &Spec, ended: Ended) -> Ended {
    match &ended {
        Ended::Succeeded { result: Some(Value::Bool(_)) } => ended,
        Ended::Succeeded { .. } if spec.part_of().is_some() && spec.kind.starts_with(ASKING) => {
            let text = "a predicate is answered with the result true or false, and this is neither";
            let failure = Failure::new(Cause::Invalid, "Predicate", text);
            Ended::Failed(failure.because("its code has to be corrected"))
        }
        _ => ended,
    }
}

/// Asks one predicate.
pub(crate) struct PredicateHandler<F, P> {
    ask: Arc<F>,
    input: std::marker::PhantomData<fn() -> P>,
}

impl<F, P> PredicateHandler<F, P> {
    pub(crate) fn new(ask: F) -> Self {
        Self { ask: Arc::new(ask), input: std::marker::PhantomData }
    }
}

impl<C, F, P, Fut> Handler<C> for PredicateHandler<F, P>
where
    C: Send + Sync + 'static,
    P: DeserializeOwned + Send + 'static,
    F: Fn(P) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = JobResult<bool>> + Send + 'static,
{
    fn version(&self) -> u32 {
        1
    }

    fn queue(&self) -> &'static str {
        "default"
    }

    fn run(&self, _: Arc<str>, cx: JobContext<C>) -> ReplyFuture {
        let ask = self.ask.clone();
        Box::pin(async move {
            match serde_json::from_value::<P>(question(&cx)) {
                Ok(input) => ask(input).await.into_reply(),
                Err(problem) => {
                    let text = format!("the result does not decode for this predicate: {problem}");
                    let failure = Failure::new(Cause::Invalid, "Predicate", text);
                    Reply(Err(Failed::plain(failure.because("the result can never be asked about"))))
                }
            }
        })
    }

    fn ask(&self, _: u32, _: &Failure) -> HookAnswer {
        HookAnswer::default()
    }

    fn isolation(&self) -> IsolationSettings {
        IsolationSettings::default()
    }

    fn dependency(&self) -> Option<&'static str> {
        None
    }

    fn dependency_from(&self) -> Option<&'static str> {
        None
    }

    fn implemented_by(&self) -> &'static str {
        std::any::type_name::<F>()
    }
}

/// The result of the one step before, or those of all by their names.
fn question<C>(cx: &JobContext<C>) -> Value {
    let inputs = cx.inputs();
    match (inputs.len(), inputs.values().next()) {
        (1, Some(only)) => only.clone(),
        _ => inputs.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
    }
}
