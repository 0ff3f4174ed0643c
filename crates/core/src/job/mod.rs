//! What a job is and the ways it can move.
//!
//! [`NewJob`] is what a submit brings, [`Job`] what never changes afterwards, [`Record`] what does.
//! [`next`] is the whole state table; nothing else in the workspace decides where a job may go.

mod callback;
mod damage;
mod defaults;
mod ending;
mod followed;
mod glance;
mod ledger;
mod marks;
mod masked;
mod papers;
mod policy;
mod priority;
mod reads;
mod record;
mod remark;
mod retention;
mod spec;
mod state;
mod transition;
mod view;

#[cfg(test)]
mod record_tests;

pub use callback::{ParentEnd, ParentError, Told};
pub use damage::Damage;
pub use defaults::JobDefaults;
pub use ending::{Ending, FailureRecord};
pub use followed::read_document;
pub use glance::Glance;
pub use ledger::Attempt;
pub use marks::{ALERT_WINDOW, AlertMark, InvalidPlanId, Marks, PlanId};
pub use masked::{Mask, Masking};
pub use papers::{Papers, Signature, is_trace_parent};
pub use policy::Policy;
pub use priority::{Aging, Priority, UnknownPriority};
pub use reads::{AttemptReads, JobReads};
pub use record::{Hold, Operated, Operation, Progress, Record, Stale, Unclaimable};
pub use remark::{Lines, Remark};
pub use retention::Retention;
pub use spec::{Callback, Header, Job, NewJob, OnConflict, Spec, Start};
pub use state::{State, UnknownState};
pub use transition::{IllegalMove, PausedFrom, TABLE, Trigger, next};
pub use view::{JobDetail, JobView};
