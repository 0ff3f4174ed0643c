//! Durable steps and effects, as a handler calls them (W7, W8).

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;

use backstop_core::envelope;
use backstop_core::job::{EffectPolicy, EffectReplay, StepFact, StepReplay};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{JobContext, Run};
use crate::error::StepError;
use crate::outcome::BoxError;
use crate::run::steps::StepCall;

tokio::task_local! {
    /// The index of the step whose code runs.
    static INDEX: u32;
}

/// The step whose code runs, if it is one.
pub(super) fn current_name(run: &Run) -> Option<String> {
    let index = INDEX.try_with(|index| *index).ok()?;
    run.steps.name_of(index)
}

impl Run {
    /// Runs the code of a step as that, and remembers when it fails.
    async fn in_step<T, E: Into<BoxError>>(
        &self,
        call: &StepCall,
        code: impl Future<Output = Result<T, E>>,
    ) -> Result<T, StepError> {
        let answer = INDEX.scope(call.index, code).await;
        answer.map_err(|error| {
            self.steps.failed(call.index);
            StepError::Failed(error.into())
        })
    }
}

type Work<'a, T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send + 'a>>;
type Code<'a, T> = Box<dyn FnOnce() -> Work<'a, T> + Send + 'a>;

impl<C> JobContext<C> {
    /// Runs `code` once per success: its result is stored under this run's lease, and later runs of the job are
    /// answered from the store without calling it (W7).
    ///
    /// A step that fails is not stored; its error goes to the handler, and `?` fails the run as usual. A run that dies
    /// between the end of `code` and the write calls it again, so what it does outside should bear that, or be an
    /// [`effect`](Self::effect).
    ///
    /// Names are unique within a job, and the order of the calls is part of what is stored: a step's index is decided
    /// when this is called, before the future is polled, so steps can run side by side in `join!`. Code that calls
    /// other names, or in another order, than what is stored gets [`StepError::Changed`], and the run ends as a dead
    /// letter whatever the handler makes of it: run it again with the code that fits, and it goes on from its steps.
    ///
    /// ```
    /// use backstop::prelude::*;
    ///
    /// #[job]
    /// async fn import(cx: JobContext<()>, url: String) -> JobResult<usize> {
    ///     let rows: Vec<u32> = cx.step("fetch", || async { fetch(&url).await }).await?;
    ///     let sum = cx.step("sum", || async { JobResult::Ok(rows.iter().sum::<u32>()) }).await?;
    ///     Ok(sum as usize)
    /// }
    ///
    /// async fn fetch(_: &str) -> JobResult<Vec<u32>> {
    ///     Ok(vec![1, 2, 3])
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// # let engine = Backstop::open("memory:").await?;
    /// let job = engine.enqueue(Import { url: "https://example.com/rows".into() }).submit().await?;
    /// # engine.worker(()).register::<Import>().queue("default", 1).inline()?.drain(10).await?;
    /// assert_eq!(job.result().await?, 6);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StepError::Failed`] with the error of `code`; the others say why its success could not be kept or read.
    pub fn step<T, E, F, Fut>(
        &self,
        name: impl Into<String>,
        code: F,
    ) -> impl Future<Output = Result<T, StepError>> + Send
    where
        T: Serialize + DeserializeOwned + Send,
        E: Into<BoxError> + Send,
        F: FnOnce() -> Fut + Send,
        Fut: Future<Output = Result<T, E>> + Send,
    {
        let (run, call) = (self.run.clone(), self.run.begin_step(name.into(), None));
        async move {
            let call = call?;
            if let StepReplay::Stored(position) = call.replay {
                return run.stored_step(&call.name, position).await;
            }
            let value = run.in_step(&call, code()).await?;
            let success = run.success_of(&call, &value)?;
            run.write_step(&call, success).await?;
            Ok(value)
        }
    }

    /// Prepares a call to the outside that must not happen twice without anybody knowing: that it is about to be made
    /// is stored before `code` runs, and its outcome after that (W8). It runs when it is awaited.
    ///
    /// A run that dies in between leaves it unknown, and so does `code` that fails, unless it says [`not_done`]. What
    /// the next run does then is said on the call: [`Effect::retry_safe`], [`Effect::verify`] or, unless it is told
    /// otherwise, [`Effect::ask`]. `key` is what the other side knows the call by; it stays the same over all runs.
    ///
    /// In everything else an effect is a [`step`](Self::step): its outcome is stored once and answers later runs.
    ///
    /// ```
    /// use backstop::prelude::*;
    ///
    /// #[job]
    /// async fn pay(cx: JobContext<()>, order: u64) -> JobResult<String> {
    ///     let key = format!("order-{order}");
    ///     let receipt = cx
    ///         .effect("charge", &key, || charge(&key))
    ///         .verify(|| find_charge(&key))
    ///         .await?;
    ///     Ok(receipt)
    /// }
    ///
    /// async fn charge(key: &str) -> JobResult<String> {
    ///     Ok(format!("receipt for {key}"))
    /// }
    ///
    /// /// Asks the other side whether it has seen the key.
    /// async fn find_charge(_key: &str) -> JobResult<Option<String>> {
    ///     Ok(None)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// # let engine = Backstop::open("memory:").await?;
    /// let job = engine.enqueue(Pay { order: 7 }).submit().await?;
    /// # engine.worker(()).register::<Pay>().queue("default", 1).inline()?.drain(10).await?;
    /// assert_eq!(job.result().await?, "receipt for order-7");
    /// # Ok(()) }
    /// ```
    pub fn effect<'a, T, E, F, Fut>(
        &self,
        name: impl Into<String>,
        key: impl Into<String>,
        code: F,
    ) -> Effect<'a, T>
    where
        E: Into<BoxError> + Send,
        F: FnOnce() -> Fut + Send + 'a,
        Fut: Future<Output = Result<T, E>> + Send + 'a,
    {
        let key = key.into();
        let call = self.run.begin_step(name.into(), Some(&key));
        Effect { run: self.run.clone(), call, key, code: boxed(code), policy: UnknownPolicy::Ask }
    }

    /// The identity of a step in this run: `executionId:stepIndex:attempt` (W7). Inside the code of a step it is that
    /// of the step, outside that of the next one. Every start of the job counts as an attempt, so no two runs share
    /// one; for what has to be the same in every run see [`effect_key`](Self::effect_key).
    #[must_use]
    pub fn transition_key(&self) -> String {
        let index = INDEX.try_with(|index| *index).unwrap_or_else(|_| self.run.steps.called());
        envelope::transition_key(self.id(), index, self.run_number())
    }
}

fn boxed<'a, T, E, F, Fut>(code: F) -> Code<'a, T>
where
    E: Into<BoxError>,
    F: FnOnce() -> Fut + Send + 'a,
    Fut: Future<Output = Result<T, E>> + Send + 'a,
{
    Box::new(move || {
        let work = code();
        Box::pin(async move { work.await.map_err(Into::into) })
    })
}

/// A call to the outside on its way, made by [`JobContext::effect`]. Await it.
///
/// ```
/// use backstop::Effect;
/// use backstop::prelude::*;
///
/// fn charge<'a>(cx: &JobContext<()>, key: &'a str) -> Effect<'a, String> {
///     cx.effect("charge", key, move || async move { JobResult::Ok(format!("paid {key}")) }).retry_safe()
/// }
///
/// #[job]
/// async fn pay(cx: JobContext<()>, order: String) -> JobResult<String> {
///     Ok(charge(&cx, &order).await?)
/// }
/// ```
#[must_use = "an effect is called when it is awaited"]
pub struct Effect<'a, T> {
    run: Arc<Run>,
    call: Result<StepCall, StepError>,
    key: String,
    code: Code<'a, T>,
    policy: UnknownPolicy<'a, T>,
}

/// What is done about an effect that may have happened.
enum UnknownPolicy<'a, T> {
    RetrySafe,
    Verify(Code<'a, Option<T>>),
    Ask,
}

impl<T> UnknownPolicy<'_, T> {
    /// Without the code that looks.
    const fn in_core(&self) -> EffectPolicy {
        match self {
            Self::RetrySafe => EffectPolicy::RetrySafe,
            Self::Verify(_) => EffectPolicy::Verify,
            Self::Ask => EffectPolicy::Ask,
        }
    }
}

impl<'a, T> Effect<'a, T> {
    /// When it may have happened, it is called again with the same key: the other side knows the key and does it once.
    pub fn retry_safe(mut self) -> Self {
        self.policy = UnknownPolicy::RetrySafe;
        self
    }

    /// When it may have happened, `look` asks the other side: `Some` is the outcome, and `None` means that it did not
    /// happen, so it is called.
    pub fn verify<E, F, Fut>(mut self, look: F) -> Self
    where
        E: Into<BoxError>,
        F: FnOnce() -> Fut + Send + 'a,
        Fut: Future<Output = Result<Option<T>, E>> + Send + 'a,
    {
        self.policy = UnknownPolicy::Verify(boxed(look));
        self
    }

    /// When it may have happened, the job stops for a person: it becomes a dead letter that names the effect and its
    /// key. Driving it again says that it may be called again. This is what holds unless something else is said.
    pub fn ask(mut self) -> Self {
        self.policy = UnknownPolicy::Ask;
        self
    }
}

impl<'a, T: Serialize + DeserializeOwned + Send + 'a> IntoFuture for Effect<'a, T> {
    type Output = Result<T, StepError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.call())
    }
}

impl<T: Serialize + DeserializeOwned + Send> Effect<'_, T> {
    async fn call(self) -> Result<T, StepError> {
        let Self { run, call, key, code, policy } = self;
        let call = call?;
        match call.replay.under(policy.in_core()) {
            EffectReplay::Stored(position) => return run.stored_step(&call.name, position).await,
            EffectReplay::Begin => run.write_step(&call, StepFact::Begun(key)).await?,
            EffectReplay::Run => {}
            EffectReplay::Verify => {
                if let UnknownPolicy::Verify(look) = policy
                    && let Some(outcome) = run.in_step(&call, look()).await?
                {
                    let success = run.success_of(&call, &outcome)?;
                    run.write_step(&call, success).await?;
                    return Ok(outcome);
                }
                // It has not happened so far. From here on this run may have done it, also when a person has confirmed
                // what an earlier one may have done.
                run.write_step(&call, StepFact::Begun(key)).await?;
            }
            EffectReplay::Unknown { run: began } => {
                return run.noting(Err(StepError::Unknown { name: call.name, key, run: began }));
            }
        }
        match run.in_step(&call, code()).await {
            Ok(outcome) => {
                let success = run.success_of(&call, &outcome)?;
                run.write_step(&call, success).await?;
                Ok(outcome)
            }
            Err(error) => {
                if matches!(&error, StepError::Failed(error) if error.is::<NotDone>()) {
                    run.write_step(&call, StepFact::NotDone).await?;
                }
                Err(error)
            }
        }
    }
}

impl<T> fmt::Debug for Effect<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Effect").field("call", &self.call).field("key", &self.key).finish_non_exhaustive()
    }
}

/// The error of an effect that did not happen, made by [`not_done`].
#[derive(thiserror::Error)]
#[error("{0}")]
struct NotDone(#[source] BoxError);

impl fmt::Debug for NotDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As the error itself: the type of a failure is read from here.
        self.0.fmt(f)
    }
}

/// Says that an effect failed and is known not to have happened, such as a call that was refused: the next run calls it
/// again, whatever its policy (W8).
///
/// ```
/// use backstop::prelude::*;
///
/// async fn charge(card: &str) -> JobResult<String> {
///     if card.is_empty() {
///         return Err(backstop::not_done("the card was declined"));
///     }
///     Ok("receipt".into())
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # assert_eq!(charge("").await.unwrap_err().to_string(), "the card was declined");
/// # }
/// ```
pub fn not_done(error: impl Into<BoxError>) -> BoxError {
    Box::new(NotDone(error.into()))
}
