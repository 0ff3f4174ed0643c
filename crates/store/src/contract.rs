//! The traits that every store implements.

mod inspect;
mod work;

use std::future::Future;
use std::pin::Pin;

pub use inspect::InspectStore;
pub use work::WorkStore;

use crate::Error;

/// What a verb returns: a boxed future, so that the traits stay object-safe.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Something to wait for.
pub type Signal<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A durable keeper of jobs: what implements both traits is a store.
///
/// Promises that hold for every verb:
/// - an `Ok` means that what it says is durable;
/// - an `Err` means that nothing of the batch was stored, except [`Error::is_unknown`], after which the same call
///   can be made again: every verb is safe to repeat;
/// - a job is in exactly one state at every commit, and moves only as `backstop_core` decides;
/// - events of a commit reach the [`Observer`](crate::Observer) after it and before the verb answers, those of one job
///   in the order of its commits;
/// - text comes back as it was taken, to the last character; delays inside policies and decisions are kept to the
///   millisecond, moments to the microsecond;
/// - within a batch items are handled in order and later ones see what earlier ones did.
pub trait Store: WorkStore + InspectStore {}

impl<S: WorkStore + InspectStore> Store for S {}
