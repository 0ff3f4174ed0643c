//! A durable job engine whose heart is what happens when work fails.
//!
//! Every run ends with one cause and each cause has its own budget; every write about a run is fenced; every decision
//! can be explained. Jobs are typed structs, kept in a SQLite file by default, and run by workers in your own process.
//!
//! ```
#![doc = include_str!("../../../examples/examples/hello.rs")]
//! ```
//!
//! # Layout
//! - [`Backstop`]: the handle: [`Backstop::enqueue`], [`Backstop::worker`], [`Backstop::explain`].
//! - [`Job`], [`JobContext`], [`Outcome`], [`JobError`](marks::JobError): what a handler is made of.
//! - [`WorkerBuilder`], [`WorkerHandle`]: what runs handlers.
//! - [`Config`]: limits, queues, kinds, retention, alerts, redaction, [`Signing`], [`Encryption`].

mod alerts;
mod budget;
mod config;
mod context;
mod crowd;
mod engine;
mod error;
mod events;
pub mod figures;
mod ids;
mod incidents;
mod job;
#[cfg(all(doctest, feature = "macros", feature = "sqlite"))]
mod learn;
mod loops;
mod maintenance;
pub mod marks;
mod open;
mod outcome;
mod quiet;
mod redrive;
mod registry;
mod remote;
mod retention;
mod rules;
#[cfg(feature = "run-log")]
mod run_log;
mod runs;
mod sealing;
pub mod signals;
mod signing;
#[cfg(feature = "standard-webhooks")]
pub mod standard_webhooks;
mod submit;
mod tx;
mod worker;

pub use backstop_core as core;
pub use backstop_core::event::{Event, EventKind};
pub use backstop_core::failure::{Backoff, Cause, Failure, Growth, Jitter, TerminalReason, Verdict};
pub use backstop_core::job::{
    Callback, JobDefaults, OnConflict, ParentEnd, ParentError, Policy, Priority, Retention, State,
};
pub use backstop_core::{JobId, Limits, Refusal, Timestamp, WorkerId};
#[cfg(feature = "macros")]
pub use backstop_macros::{JobError, job};
#[cfg(feature = "mysql")]
pub use backstop_mysql as mysql;
#[cfg(feature = "postgres")]
pub use backstop_postgres as postgres;
#[cfg(feature = "sqlite")]
pub use backstop_sqlite as sqlite;
pub use backstop_store as store;
pub use backstop_store::{Archived, Submitted};

pub use alerts::{
    AlertAccount, AlertChannel, AlertError, AlertFuture, AlertLog, AlertMessage, Alerts, LogChannel,
};
#[cfg(feature = "webhook")]
pub use alerts::{Webhook, WebhookError};
pub use config::{Config, Pace, QueueConfig, Retirement};
pub use context::JobContext;
pub use engine::Backstop;
pub use error::{CompleteError, Error, OperateError, SubmitError};
pub use events::Events;
pub use ids::{job_id, worker_id};
pub use job::{Defaults, Job};
pub use loops::{Health, HealthWatch, LoopHealth, Loops, Pulse};
pub use maintenance::{DutyHealth, Maintenance, MaintenanceHandle};
pub use outcome::{BoxError, IntoReply, JobResult, Outcome, Reply};
pub use redrive::{Redrive, RedriveError};
pub use remote::{
    Beat, Ended, Finished, Grant, Handed, LostLease, LostReason, Remote, RemoteWorker, WorkRequest,
};
pub use retention::{Exported, PurgeError, Purged};
pub use rules::{Rehearsal, RuleProblem, Trial};
#[cfg(feature = "run-log")]
pub use run_log::RunLog;
pub use sealing::Encryption;
pub use signing::Signing;
pub use submit::Enqueue;
pub use tx::CallerTransaction;
pub use worker::{
    Hook, HookFuture, InlineWorker, Ran, RunEnd, RunInfo, Stopped, WorkerBuilder, WorkerHandle,
};

/// What most programs import.
pub mod prelude {
    pub use crate::{
        Backoff, Backstop, BoxError, Defaults, Job, JobContext, JobResult, OnConflict, Outcome, Policy,
        Priority,
    };
    #[cfg(feature = "macros")]
    pub use crate::{JobError, job};
    /// The derives, which need no dependency on serde.
    #[cfg(feature = "macros")]
    pub use backstop_macros::{Deserialize, Serialize};
    /// The traits.
    pub use serde::{de::Deserialize, ser::Serialize};
}

/// For code that the macros write. Not part of the interface.
#[doc(hidden)]
pub mod __private {
    pub use inventory;
    pub use serde;
}
