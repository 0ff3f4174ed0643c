//! The one contract between the engine and whatever keeps its jobs.
//!
//! A [`Store`] has two kinds of verbs: what workers and maintenance call ([`WorkStore`]) and what people ask
//! ([`InspectStore`]). Each takes a batch, each write about a run carries its
//! lease, and the store's own clock is the only clock: callers pass durations. No SQL word appears here.
//!
//! # Layout
//! - [`contract`]: the two traits, with the promise of each verb.
//! - [`submit`], [`claim`], [`finish`], [`worker`], [`duty`], [`mod@line`], [`query`]: what the verbs take and answer.
//! - [`document`]: small documents of the engine's own, changed together with jobs. `admission`: what queues let in, as
//!   one of them.
//! - [`run_limits`], [`sharing`]: limits on runs, and how jobs that share something are taken.
//! - [`clock`], [`observer`], [`error`]: time, hints and events, and what can go wrong.
//! - [`versions`], [`encryption`]: what stores on database servers have in common before the first transaction.
//! - [`working_set`]: one transaction of a store that works in sets, for the stores on database servers.
//! - [`show`]: what people see, made from rows that a store has read.
//! - [`model`]: a store in memory that really stores; the reference that every other store is compared with.
//! - `conformance` (feature): the suite that any store passes with one macro call.

mod admission;
pub mod claim;
pub mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod contract;
pub mod document;
pub mod duty;
pub mod encryption;
pub mod error;
pub mod finish;
mod layer;
pub mod line;
pub mod model;
pub mod observer;
mod outbox;
pub mod query;
pub mod retire;
pub mod run_limits;
pub mod sharing;
pub mod show;
pub mod submit;
pub mod versions;
pub mod worker;
pub mod working_set;

pub use admission::QueueAdmission;
pub use backstop_core::incident::Incident;
pub use claim::{Claim, ClaimQueue, Claimed, ClaimedJob, Peek};
pub use clock::{Clock, ManualClock, SystemClock};
pub use contract::{Answer, InspectStore, Signal, Store, WorkStore};
pub use document::{Amend, Amended, Document, DocumentRange, Documents, Drawer, Edit, Expect, check_names};
pub use duty::{Duty, Orphan, Overdue, Term, Terms};
pub use error::Error;
pub use finish::{Finish, Note, NoteDocument, outbox_document, signal_document};
pub use layer::Layer;
pub use line::{LineRange, LineView};
pub use model::ModelStore;
pub use observer::{Observer, Silent};
pub use outbox::OutboxBacklog;
pub use query::{
    Archived, Finding, HeldLane, Holdings, IncidentFilter, JobFilter, Level, NameRange, Page, PageRequest,
    QueueRange, QueueView, StoreInfo, Survey, SurveyGroup, WorkerView,
};
pub use retire::LaneMark;
pub use submit::{Submit, Submitted};
pub use versions::Versions;
pub use worker::{HandedRun, KnownKind, NewWorker, Renewed};
