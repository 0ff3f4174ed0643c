//! Bulk handlers (W12): one call gets many jobs and answers each of them; a call that fails is split until the bad job
//! stands alone.
//!
//! For work that costs little more for a hundred than for one: rows of one statement, items of one request. See
//! [`BulkJob`] for an example.

pub(crate) mod calls;
pub(crate) mod entry;
pub(crate) mod handler;
mod item;
mod job;
mod split;

#[doc(hidden)]
pub use self::handler::BulkHandler;
pub use self::handler::{BulkSettings, LONGEST_WAIT, MOST_JOBS};
pub use self::item::{BulkContext, BulkItem};
pub use self::job::BulkJob;
#[doc(hidden)]
pub use self::job::BulkOutput;
