//! What jobs need that may be away (H1): how it is checked, and how it is for one worker.
//!
//! Owns the checks and the state of each dependency. It must not claim or run anything: the worker asks which kinds it
//! may claim, and tells how runs ended.

mod address;
pub(crate) mod check;
pub(crate) mod need;
pub(crate) mod own;
mod settings;
pub(crate) mod watched;

pub use address::{CheckAddress, CheckAddressError};
pub use settings::DependencySettings;
