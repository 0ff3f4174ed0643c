//! What people see of workers, queues and lists, made from rows that a store has read. Pure, the same on every store.
//!
//! # Layout
//! - [`roster`]: workers, and which lanes they leave waiting. [`mod@queues`]: queues with counts. [`listing`]: pages,
//!   and where a filter can find something. [`mod@source`]: from where a list is read.

pub mod listing;
pub mod queues;
pub mod roster;
pub mod source;

pub use listing::{KnownTotals, ListSizes, SearchSpace, cut, page_limit};
pub use queues::{LaneCounts, StateCounts, held_lanes, page_span, queue_page, queues};
pub use roster::{PauseNote, Roster, WorkerRow};
pub use source::{ListSource, ListSupport};
