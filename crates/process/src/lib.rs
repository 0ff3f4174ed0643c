//! Child processes of Backstop: limited, killed with all that they started, and reaped with what they used.
//!
//! - [`child`]: one process from its start to its end. It is reaped last, so that its number stays its own until
//!   nothing of its tree is left to be killed.
//! - [`tree`]: all processes that belong to it, wherever they went.
//! - [`cgroup`]: limits of memory where a part of the tree of cgroups was handed to this process.
//! - [`limits`]: what each of them may use.

pub mod cgroup;
pub mod child;
pub mod limits;
pub mod tree;

pub use cgroup::{DelegatedCgroup, MemoryCgroup, killed_for_memory};
pub use child::{ChildProcess, EndedProcess};
pub use limits::ProcessLimits;
pub use tree::{MARK, ProcessTree};
