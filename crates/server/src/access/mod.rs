//! Who calls, and what they may do. Every request passes [`identify`] once; every route checks what it [`needs`].
//!
//! [`needs`]: crate::Needs

mod caller;
mod guard;
mod scope;

pub use caller::Caller;
pub(crate) use guard::{admit, identify};
pub use scope::Scope;
