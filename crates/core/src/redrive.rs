//! Re-drive plans: dead letters are driven again by a stored plan, never by a loop in a client (D4, D7).
//!
//! A [`Plan`] is a document. Each step of it is one round of pure functions over what was read: [`Plan::observe`] the
//! jobs that are in flight, [`Plan::advance`] to learn what may be done now, [`Plan::take`] from the candidates. The
//! changed plan, its items and the drives are then written in one transaction, so a node that dies between two steps
//! leaves nothing half done, and the next node goes on from what is stored.
//!
//! Nothing here reads a store or a clock, and nothing here drives a job: that is an
//! [`Operation`](crate::job::Operation).

mod describe;
mod drive;
mod error;
mod item;
mod observe;
mod people;
mod plan;
mod selector;
mod settings;
mod survey;

#[cfg(test)]
mod tests;

pub use drive::{DriveBatch, PlanDrive, PlanStep};
pub use error::PlanError;
pub use item::{PlanJob, PlanJobOutcome, PlanPart, UnknownPlanPart};
pub use observe::DrivenJob;
pub use plan::{Plan, PlanCounts, PlanDraft, PlanEntry, PlanHalt, PlanPhase, PlanRound};
pub use selector::{LeftOut, PlanSelector};
pub use settings::PlanSettings;
pub use survey::{PlanSurvey, PlanSurveyGroup, UnknownEffect};
