//! What a job is and the ways it can move.
//!
//! [`NewJob`] is what a submit brings, [`StoredJob`] what never changes afterwards, [`Record`] what does.
//! [`next`] is the whole state table; nothing else in the workspace decides where a job may go.

mod callback;
mod change;
mod damage;
mod defaults;
mod effects;
mod ending;
mod extras;
mod fired_by;
mod followed;
mod ledger;
mod marks;
mod masked;
mod needs;
mod part_of;
mod policy;
mod priority;
mod provenance;
mod reads;
mod record;
mod remark;
mod retention;
mod signal;
mod signal_wait;
mod spec;
mod state;
mod steps;
mod steps_changed;
mod summary;
mod transition;
mod turn;
mod view;
mod waiting;

#[cfg(test)]
mod record_tests;

pub use callback::{CallbackInput, ParentEnd, ParentError};
pub use change::JobChangeVerb;
pub use damage::Damage;
pub use defaults::JobDefaults;
pub use effects::{EffectCall, EffectPolicy, EffectReplay};
pub use ending::{Ending, FailureRecord};
pub use extras::JobExtras;
pub use fired_by::FiredBy;
pub use followed::read_document;
pub(crate) use followed::value_or_text;
pub use ledger::Attempt;
pub use marks::{ALERT_WINDOW, AlertMark, InvalidPlanId, Marks, PlanId};
pub use masked::{Mask, Masking};
pub use needs::{MOST_PERMITS, MOST_POOLS, SharedResource, SharingNeeds};
pub use part_of::{PartOf, WorkflowMark, WorkflowPart};
pub use policy::Policy;
pub use priority::{Aging, Priority, UnknownPriority};
pub use provenance::{Provenance, Signature, is_trace_parent};
pub use reads::{AttemptJson, JobJson};
pub use record::{Hold, Operated, Operation, Progress, Record, Stale, Unclaimable};
pub use remark::{LogLines, NoteError, Remark};
pub use retention::Retention;
pub use signal_wait::{SignalAnswer, SignalWait, signal_of_step, signal_step};
pub use spec::{Callback, Header, NewJob, OnConflict, Spec, Start, StoredJob};
pub use state::{State, UnknownState};
pub use steps::{MOST_STEPS, StepFact, StepHistory, StepMark, StepReplay, StepState, StepWrite};
pub use steps_changed::{StepPlace, StepsChanged};
pub use summary::JobSummary;
pub use transition::{IllegalTransition, PausedFrom, TABLE, Trigger, next};
pub use view::{JobDetail, JobView};
pub use waiting::{LinePlace, WaitDetail, WaitReason};
