//! Workers: fetch in batches, run, report in batches, renew one lease, stop without blame.
//!
//! One file per actor: `fetch` claims, `execute` runs one job, `before` says whether it may, `conclude` and `end` turn
//! what happened into an ending, `completion` asks what became of one that the handler committed itself, `report`
//! writes endings, `apart` those that hold others up,
//! `heartbeat` renews, `doubt` looks for what a lost answer took, `runtime` starts and stops them all.

pub(crate) mod apart;
pub(crate) mod before;
mod builder;
mod completion;
pub(crate) mod conclude;
mod doubt;
pub(crate) mod end;
pub(crate) mod execute;
pub(crate) mod fetch;
mod heartbeat;
mod hooks;
mod inline;
pub(crate) mod report;
mod runtime;
mod slots;

pub use builder::WorkerBuilder;
pub use hooks::{Hook, HookFuture, RunEnd, RunInfo};
pub use inline::{InlineWorker, Ran};
pub use runtime::{Stopped, WorkerHandle};
