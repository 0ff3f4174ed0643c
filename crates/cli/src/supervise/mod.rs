//! Worker processes of one program: as many as the backlog needs, started, replaced, rolled and stopped (H9).
//!
//! How many there are to be and how long a dead one waits for its successor is decided in `backstop_core::scale`.
//! - [`program`]: what is started, and with what.
//! - [`process`]: one process from its start to its end.
//! - [`backlog`]: what waits and runs, look by look.
//! - [`supervisor`]: who is started and who is stopped. [`roll`]: new processes take over from old ones.
//! - [`deaths`]: what the store or the server is told of a process that died. [`last_line`]: what it said last.
//! - [`notice`]: what is said of all that.

mod backlog;
mod deaths;
mod last_line;
mod notice;
mod process;
mod program;
mod roll;
mod supervisor;

pub(crate) use backlog::Backlog;
pub(crate) use program::WorkerProgram;
pub(crate) use supervisor::{SupervisorSignals, supervise};
