//! Signals (W10): a job waits by key, and whoever sends the signal lets it go on.
//!
//! A wait is a durable step whose result somebody else writes. Whoever is about to wait first writes that it does, then
//! looks for a signal that came before; whoever sends one that finds nobody first keeps it, then looks for somebody who
//! waits. So of the two the second one always sees the first, whatever happens in between; and what hands the
//! signal over is one transaction, which the record of the job has to agree to.

pub(crate) mod due;
mod list;
mod send;
pub(crate) mod stored;
pub(crate) mod wait;

pub use self::list::{KeptSignal, SignalPage, WaitingJob};
pub use self::send::{SendSignal, SignalSent, Signals};
