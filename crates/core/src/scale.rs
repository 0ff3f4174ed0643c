//! How many worker processes there should be (H9). Pure: figures and time come in as values.
//!
//! - [`held`]: what limits keep from running, for which nobody is needed.
//! - [`range`]: between how many.
//! - [`load`]: what waits and runs on a queue, and how many processes that needs.
//! - [`scaler`]: when a need is acted on, so that the number does not go up and down all the time.
//! - [`restart`]: how long to wait before a process that died is started again.

pub mod held;
pub mod load;
pub mod range;
pub mod restart;
pub mod scaler;

pub use held::{LimitedJobs, QueueRoom};
pub use load::{ProcessSlots, QueueLoad};
pub use range::{ProcessRange, ProcessRangeError};
pub use restart::Restarts;
pub use scaler::{ScaleSettings, Scaler};
