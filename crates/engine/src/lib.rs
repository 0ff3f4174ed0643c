//! A durable job engine whose heart is what happens when work fails.
//!
//! Every run ends with one cause and each cause has its own budget; every write about a run is fenced; every decision
//! can be explained. Jobs are typed structs, kept in a SQLite file by default, and run by workers in your own process.
//!
//! ```standalone_crate
#![doc = include_str!("../../../examples/examples/hello.rs")]
//! ```
//!
//! # Layout
//! - [`Backstop`]: the handle: [`Backstop::enqueue`], [`Backstop::worker`], [`Backstop::explain`].
//! - [`Job`], [`JobContext`], [`Outcome`], [`JobError`](marks::JobError): what a handler is made of.
//! - [`bulk`]: handlers that get many jobs in one call.
//! - [`WorkerBuilder`], [`WorkerHandle`]: what runs handlers.
//! - [`Config`]: limits, queues, kinds, retention, alerts, redaction, [`Signing`], [`Encryption`], [`keys`].
//! - For whoever looks after the jobs: [`query`], [`queue`], [`job_changes`], [`incident`], [`redrive`],
//!   [`rule`], [`archive`].
//! - [`store`] and one module for each database.

mod alerts;
pub mod archive;
pub mod bridges;
mod budget;
pub mod bulk;
pub mod circuits;
mod config;
mod context;
mod dependency;
mod doctor;
mod engine;
mod error;
mod events;
pub mod figures;
mod handle;
pub mod handoffs;
mod ids;
pub mod incident;
mod isolate;
mod job;
pub mod job_changes;
pub mod job_signals;
pub mod keys;
#[cfg(all(doctest, feature = "macros", feature = "sqlite"))]
mod learn;
pub mod limits;
mod log_throttle;
mod loops;
mod maintenance;
pub mod marks;
mod open;
pub mod ordering;
mod outcome;
mod parts;
mod poll_interval;
pub mod query;
pub mod queue;
pub mod redrive;
mod registry;
pub mod rejects;
mod remote;
pub mod rule;
mod run;
mod run_checks;
#[cfg(feature = "run-log")]
mod run_log;
mod runs;
pub mod schedules;
mod sealing;
pub mod signals;
mod signing;
pub mod sinks;
#[cfg(feature = "standard-webhooks")]
pub mod standard_webhooks;
pub mod store;
mod submit;
mod tenant_incidents;
mod tx;
mod worker;
mod worker_reports;
pub mod workflows;

/// SQLite: opening a store with options, and the drivers whose transactions can hold jobs.
#[cfg(feature = "sqlite")]
pub mod sqlite {
    #[doc(hidden)]
    pub use backstop_sqlite::TABLES_OF_VERSION_1;
    #[cfg(feature = "tx-sqlx-sqlite")]
    pub use backstop_sqlite::sqlx;
    pub use backstop_sqlite::{Options, SqliteStore, Synchronous, rusqlite};
}

/// PostgreSQL: opening a store with options, and the drivers whose transactions can hold jobs.
#[cfg(feature = "postgres")]
pub mod postgres {
    #[doc(hidden)]
    pub use backstop_postgres::TABLES_OF_VERSION_1;
    #[cfg(feature = "tx-diesel-async")]
    pub use backstop_postgres::diesel_async;
    #[cfg(feature = "tx-sqlx-postgres")]
    pub use backstop_postgres::sqlx;
    pub use backstop_postgres::{Listen, Options, PostgresStore, roles, schema_of, tokio_postgres};
}

/// MariaDB and MySQL: opening a store with options, and the drivers whose transactions can hold jobs.
#[cfg(feature = "mysql")]
pub mod mysql {
    #[doc(hidden)]
    pub use backstop_mysql::TABLES_OF_VERSION_1;
    #[cfg(feature = "tx-sqlx-mysql")]
    pub use backstop_mysql::sqlx;
    pub use backstop_mysql::{MysqlStore, Options, mysql_async, roles};
}

pub use backstop_core::admit::AllowedKinds;
pub use backstop_core::event::{Event, EventKind, WorkflowHeader};
pub use backstop_core::failure::{
    Backoff, BudgetSettings, Cause, Failure, Growth, Jitter, TerminalReason, Verdict,
};
pub use backstop_core::job::{
    Aging, Callback, EffectCall, EffectPolicy, JobDefaults, OnConflict, ParentEnd, ParentError, Policy,
    Priority, Retention, Stale, State,
};
pub use backstop_core::{JobId, Limits, Refusal, Timestamp, WorkerId};
#[cfg(feature = "macros")]
pub use backstop_macros::{JobError, job};
pub use backstop_store::KnownKind;

pub use alerts::{
    AlertChannel, AlertError, AlertFuture, AlertLog, AlertMessage, Alerts, IncidentAlertLog, LogChannel,
};
#[cfg(feature = "webhook")]
pub use alerts::{Webhook, WebhookError};
pub use config::{Config, Encryption, QueueConfig, Retirement, SignalSettings, Signing, WorkerTimes};
pub use context::steps::{Effect, not_done};
pub use context::{JobContext, SignalCall, Signaled};
pub use dependency::{CheckAddress, CheckAddressError, DependencySettings};
pub use engine::Backstop;
pub use error::{CompleteError, Error, OperateError, RejectError, StepError, SubmitError};
pub use events::Events;
pub use events::kept::{EventLogEntry, EventLogLimits, EventLogPage, LoggedEvent, LoggedWorkflow};
pub use events::log::{EventLog, EventLogPosition};
pub use handle::{JobHandle, ResultError};
pub use ids::{job_id, worker_id};
pub use isolate::{CrashEvidence, Isolation, IsolationSettings, is_isolated_child};
pub use job::{Defaults, Job, ResultOf};
pub use loops::{DependencyHealth, Health, HealthWatch, LoopHealth, LoopHeartbeat, Loops, PausedHealth};
pub use maintenance::{DutyHealth, Maintenance, MaintenanceHandle};
pub use outcome::{BoxError, IntoReply, JobResult, Outcome, Reply};
pub use remote::{
    CircuitPass, Ended, Finished, Grant, Handed, LostLease, LostReason, Remote, RemoteEffect, RemoteReject,
    RemoteStep, RemoteWorker, RenewedLeases, WorkRequest,
};
pub use run_checks::{RunCheck, RunCheckAnswer};
#[cfg(feature = "run-log")]
pub use run_log::RunLog;
pub use submit::Enqueue;
pub use tx::{CallerTransaction, TransactionContext};
pub use worker::{
    Hook, HookFuture, InlineWorker, Ran, RunEnd, RunInfo, Stopped, WORKERS_FILE, WorkerBuilder, WorkerHandle,
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
    pub use crate::registry::RegistryEntry;
    pub use inventory;
    pub use serde;
}
