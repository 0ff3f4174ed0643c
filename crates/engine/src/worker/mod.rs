//! Workers: fetch in batches, run, report in batches, renew one lease, stop without blame.
//!
//! One file per actor: `builder` makes a worker, `kinds` are what it can run, `fetch` claims, `execute` runs one job,
//! `completion` asks what became of one that the handler committed itself, `report` writes endings, `heartbeat` renews,
//! `quarantine` runs suspects alone, `lost_answers` looks for what a claim took whose answer was lost, `started_by`
//! tells whoever watches the process, `runtime` starts and stops them all. How a run may begin and how it ends is in
//! [`crate::run`].

mod builder;
pub(crate) mod completion;
pub(crate) mod execute;
mod fetch;
mod health;
mod heartbeat;
mod hooks;
mod inline;
pub(crate) mod kinds;
mod lost_answers;
mod parts;
mod quarantine;
mod report;
mod runtime;
pub(crate) mod slots;
mod started_by;

pub use builder::WorkerBuilder;
pub use hooks::{Hook, HookFuture, RunEnd, RunInfo};
pub use inline::{InlineWorker, Ran};
pub use runtime::{Stopped, WorkerHandle};
pub use started_by::WORKERS_FILE;
