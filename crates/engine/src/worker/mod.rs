//! Workers: fetch in batches, run, report in batches, renew one lease, stop without blame.
//!
//! One file per actor: `fetch` claims, `execute` runs one job, `conclude` turns what happened into an ending,
//! `completion` asks what became of one that the handler committed itself, `report` writes endings, `heartbeat` renews,
//! `runtime` starts and stops them all.

mod builder;
mod completion;
pub(crate) mod conclude;
mod execute;
mod fetch;
mod heartbeat;
mod hooks;
mod inline;
mod report;
mod runtime;
mod slots;

pub use builder::WorkerBuilder;
pub use hooks::{Hook, HookFuture, RunInfo};
pub use inline::{InlineWorker, Ran};
pub use runtime::{Stopped, WorkerHandle};
