//! What the tests of an application that embeds Backstop need.
//!
//! Everything runs on the store in memory, with a clock that stands until the test moves it: no server, no file, no
//! sleep. Handlers go through the real pipeline of the engine; this crate must not have a second one of its own. Its
//! functions panic with a clear message when something is wrong, as tests want it.
//!
//! ```
//! use backstop::prelude::*;
//! use backstop_testing::{TestEngine, assert_enqueued};
//!
//! #[job]
//! async fn welcome(cx: JobContext<Backstop>, name: String) -> JobResult {
//!     cx.app().enqueue(Remind { name }).delay(std::time::Duration::from_secs(86_400)).submit().await?;
//!     Ok(())
//! }
//!
//! #[job]
//! async fn remind(name: String) -> JobResult<String> {
//!     Ok(format!("{name}, you have not come back"))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let test = TestEngine::new();
//! test.run_job(test.engine().clone(), Welcome { name: "ada".into() }).await.assert_succeeded();
//! assert_enqueued::<Remind>(test.engine(), |reminder| reminder.name == "ada").await;
//!
//! // A day passes in no time.
//! test.advance_to_next().await;
//! let ran = test.drain((), |worker| worker.register::<Remind>()).await;
//! assert_eq!(ran[0].result_as::<String>(), "ada, you have not come back");
//! # }
//! ```
//!
//! # Layout
//! - [`TestEngine`], [`RunReport`]: run one job, or all that is due, and see what came of it.
//! - [`assert_enqueued`], [`refute_enqueued`], [`all_enqueued`]: what an application has submitted.
//! - [`TokioClock`]: real workers in tokio's paused time.
//! - [`CrashAt`], [`crash_everywhere`]: die at every call to the store, and see that nothing is lost.

mod clock;
mod crash;
mod engine;
mod enqueued;
mod report;
mod run;

pub use backstop_store::ManualClock;
pub use clock::TokioClock;
pub use crash::{CrashAt, CrashPoint, crash_everywhere};
pub use engine::TestEngine;
pub use enqueued::{all_enqueued, assert_enqueued, refute_enqueued};
pub use report::RunReport;
pub use run::run_job;

/// The code of docs/learn/testing.md, as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/learn/testing.md")]
pub struct TestingPage;
