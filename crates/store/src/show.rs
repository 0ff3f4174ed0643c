//! What people see of workers, queues and lists, made from rows that a store has read. Pure, the same on every store.
//!
//! # Layout
//! - [`roster`]: workers, and which lanes they leave waiting. [`mod@queues`]: queues with counts. [`listing`]: pages,
//!   and the lanes that a filter allows.

pub mod listing;
pub mod queues;
pub mod roster;

pub use listing::{Scope, cut, page_limit};
pub use queues::{LaneCounts, held_lanes, queues};
pub use roster::{PauseNote, Roster, WorkerRow};
