//! The rules of Backstop, as pure functions over plain values.
//!
//! Nothing here touches a clock, randomness, files, the network or async: time, ids and jitter come in as
//! values, so every rule can be tested with a table and replayed from a ledger. Stores apply what this crate
//! decides; they never decide anything themselves.
//!
//! # Layout
//! - [`job`]: what a job is, the states it can be in, and the one function that moves it ([`job::next`]).
//! - [`failure`]: how a run ends: causes, budgets, [`failure::decide`] with its trace, backoff, redaction.
//! - [`admit`]: the checks a submit passes before any store sees it, and the [`Refusal`]s it can meet.
//! - [`event`]: what is told to subscribers after a commit.
//! - [`incident`]: failures that belong together, and what people say of them. [`redrive`]: plans that drive dead
//!   letters again.
//! - [`alert`]: what is told of a dead letter, beyond the event.
//! - [`explain`]: why a job is where it is, and what happens next.
//! - [`envelope`]: the dead letter as other systems read it. [`outbox`]: what sinks are sent. [`handoff`]: the same to
//!   another Backstop.
//! - [`signing`]: who vouches for a job. [`sealing`]: payloads that nobody reads in the store.
//! - [`tenant`]: which queue is whose. [`scale`]: how many worker processes there should be.
//! - [`run_limit`]: how many runs there may be at once, or start in a time.
//! - [`schedule`]: when jobs are submitted again and again.
//! - [`workflow`]: what follows when a step of many has ended.
//! - [`health`]: what workers depend on, and whether one fails far more often than the rest.
//! - [`limits`]: every bound, by name.

pub mod admit;
pub mod alert;
pub mod circuit;
pub mod depth;
pub mod digest;
pub mod envelope;
pub mod event;
pub mod explain;
pub mod failure;
pub mod handoff;
pub mod health;
pub mod id;
pub mod incident;
pub mod job;
pub mod limits;
#[cfg(feature = "openapi")]
mod openapi;
pub mod outbox;
pub mod redrive;
pub mod refusal;
pub mod reject;
pub mod run_limit;
pub mod scale;
pub mod schedule;
pub mod sealing;
pub mod signing;
pub mod tenant;
pub mod text;
pub mod time;
pub mod version;
pub mod workflow;

pub use id::{Fence, JobId, JobIdPrefix, Lease, WorkerId, WorkflowId};
pub use limits::Limits;
pub use refusal::Refusal;
pub use tenant::Tenant;
pub use time::Timestamp;
