//! How workers are: what they depend on (H1), and whether one fails far more often than the rest (H8). Pure: time and
//! figures come in as values.
//!
//! - [`dependency`]: how one dependency is for one worker, and when it is looked at again.
//! - [`failures`]: the failures of a worker against those of the rest of the fleet.
//! - [`report`]: what a worker tells the others of itself.
//! - [`waits`]: how long the jobs that it took had waited.

pub mod dependency;
pub mod failures;
pub mod report;
pub mod waits;

pub use dependency::{CheckResult, DependencyEvent, DependencyResult, DependencyState};
pub use failures::{CountsByKind, FailureComparison, FailurePause, RunCounts, RunWindow, add_counts};
pub use report::{DependencyReport, FailurePauseReport, RunShare, WorkerReport};
pub use waits::{WaitCounts, WaitWindow, WaitsByQueue, add_waits};
