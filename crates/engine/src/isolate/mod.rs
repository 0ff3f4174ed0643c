//! Runs in processes of their own (E2): a handler that crashes takes nobody with it, and one that does not stop is
//! killed with all that it started (E3).
//!
//! A child is the worker's own program, run again with the same arguments and a variable that says so. It comes to the
//! start of its worker as its parent did, and serves runs there instead of claiming any.
//! - [`role`]: which of the two this process is. [`settings`]: which kinds are isolated, and what their runs may use.
//! - [`pool`], [`child`], [`memory`], [`evidence`]: the worker's side. Children are kept and used again.
//! - [`serve`], [`store`]: the child's side.
//! - [`messages`], [`link`]: what they say to each other.

#[cfg(target_os = "linux")]
mod child;
mod evidence;
#[cfg(target_os = "linux")]
mod link;
#[cfg(target_os = "linux")]
pub(crate) mod memory;
#[cfg(target_os = "linux")]
mod messages;
#[cfg(target_os = "linux")]
pub(crate) mod pool;
mod role;
#[cfg(target_os = "linux")]
pub(crate) mod serve;
pub(crate) mod settings;
#[cfg(target_os = "linux")]
pub(crate) mod store;

pub use evidence::CrashEvidence;
pub use role::is_isolated_child;
pub use settings::{Isolation, IsolationSettings};
