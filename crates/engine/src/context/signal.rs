//! Waiting for a signal, as a handler does it (W10).

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::job::{SignalAnswer, StepReplay};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{JobContext, Run};
use crate::error::StepError;
use crate::run::steps::StepCall;

/// What a wait came to.
///
/// ```
/// use backstop::Signaled;
///
/// assert_eq!(Signaled::Received(7).received(), Some(7));
/// assert_eq!(Signaled::<u32>::TimedOut.received(), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signaled<T> {
    /// The signal came, with this.
    Received(T),
    /// The time was up.
    TimedOut,
}

impl<T> Signaled<T> {
    /// What came with the signal; none when the time was up.
    pub fn received(self) -> Option<T> {
        match self {
            Self::Received(payload) => Some(payload),
            Self::TimedOut => None,
        }
    }
}

impl<C> JobContext<C> {
    /// Waits for a signal, up to [`SignalCall::timeout`] (W10).
    ///
    /// When nobody has sent it yet, this answers [`StepError::Waiting`], which `?` returns: the run ends, and the job
    /// waits without a worker, a slot or a lease, charged nothing. When the signal comes, or the time is up, the
    /// job runs again, and the same call answers. Put what must not be done twice before it into
    /// [steps](Self::step): a wait is a step itself, and counts as one in the order of the calls.
    ///
    /// A signal that was sent before is kept for a while, and answers at once. A payload is not sealed: send what
    /// others may read in the store.
    ///
    /// ```
    /// use std::time::Duration;
    /// use backstop::prelude::*;
    /// use backstop::{SignalCall, Signaled};
    ///
    /// #[job]
    /// async fn publish(cx: JobContext<()>, post: u64) -> JobResult<String> {
    ///     let draft: String = cx.step("draft", || async { JobResult::Ok(format!("post {post}")) }).await?;
    ///     let approved: SignalCall<String> = cx.signal(format!("post-{post}/approved"));
    ///     match approved.timeout(Duration::from_secs(7 * 24 * 60 * 60)).await? {
    ///         Signaled::Received(by) => Ok(format!("{draft}, approved by {by}")),
    ///         Signaled::TimedOut => Ok("nobody cared".to_owned()),
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// # let engine = Backstop::open("memory:").await?;
    /// let job = engine.enqueue(Publish { post: 7 }).submit().await?;
    /// # let worker = engine.worker(()).register::<Publish>().queue("default", 1).inline()?;
    /// # worker.drain(10).await?;
    /// // The job waits.
    /// let sent = engine.signals().send("post-7/approved", &"ann").await?;
    /// assert_eq!(sent.delivered, 1);
    /// # worker.drain(10).await?;
    /// assert_eq!(job.result().await?, "post 7, approved by ann");
    /// # Ok(()) }
    /// ```
    pub fn signal<T: DeserializeOwned>(&self, key: impl Into<String>) -> SignalCall<T> {
        let key = key.into();
        let call = self.run.begin_signal(&key);
        SignalCall { run: self.run.clone(), key, call, timeout: None, what: PhantomData }
    }
}

/// A wait for a signal that begins when it is awaited: see [`JobContext::signal`].
#[must_use = "it waits when it is awaited"]
pub struct SignalCall<T> {
    run: Arc<Run>,
    key: String,
    call: Result<StepCall, StepError>,
    timeout: Option<Duration>,
    what: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for SignalCall<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignalCall")
            .field("key", &self.key)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl<T> SignalCall<T> {
    /// How long it waits at most; as long as any job may be put off unless it is said.
    pub const fn timeout(mut self, time: Duration) -> Self {
        self.timeout = Some(time);
        self
    }
}

impl<T: DeserializeOwned + Send + 'static> IntoFuture for SignalCall<T> {
    type Output = Result<Signaled<T>, StepError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { run, key, call, timeout, .. } = self;
            let call = call?;
            let answer = match call.replay {
                StepReplay::Stored(position) => run.stored_step(&call.name, position).await?,
                StepReplay::Run | StepReplay::Unknown { .. } => {
                    let longest = run.engine.parts.config.limits.delay;
                    SignalAnswer::Received(run.wait_for(&call, &key, timeout.unwrap_or(longest)).await?)
                }
            };
            match answer {
                SignalAnswer::TimedOut => Ok(Signaled::TimedOut),
                SignalAnswer::Received(payload) => {
                    run.noting(decode(&call.name, payload)).map(Signaled::Received)
                }
            }
        })
    }
}

fn decode<T: DeserializeOwned>(step: &str, payload: Value) -> Result<T, StepError> {
    serde_json::from_value(payload).map_err(|problem| {
        // What the decoder says may quote what was sent.
        let sort = if problem.is_data() {
            "the payload of the signal has another shape"
        } else {
            "it is not valid JSON"
        };
        StepError::Unreadable { name: step.to_owned(), problem: sort.to_owned() }
    })
}
