//! Marks that `#[derive(JobError)]` puts on error types, and how they are found in a source chain (F6).

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::CallResult;

/// What an error says of its own chances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The variant that carries it; empty for a struct.
    pub variant: &'static str,
    /// What it says.
    pub kind: MarkKind,
}

/// The kinds of marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkKind {
    /// No mark: an ordinary error of a type that derives `JobError`.
    Plain,
    /// No retry can mend it.
    Permanent {
        /// Why, as its author wrote it.
        reason: &'static str,
    },
    /// The input can never be handled.
    Invalid {
        /// Why, as its author wrote it.
        reason: &'static str,
    },
    /// A dependency is away for the moment.
    Transient {
        /// Which one.
        dependency: &'static str,
    },
    /// Try again after this long.
    RetryIn {
        /// How long.
        delay: Duration,
    },
}

/// Implemented by `#[derive(JobError)]`: tells Backstop what an error means for its job.
pub trait JobError: Error + 'static {
    /// The mark of this value; none lets the search go on through its source.
    fn mark(&self) -> Option<Mark>;

    /// The error inside that this value passes off as itself, as thiserror's `#[error(transparent)]` does: it is no
    /// link of the source chain, so the search would miss it.
    fn stands_for(&self) -> Option<&(dyn Error + 'static)> {
        None
    }

    /// What it says of the dependency that was called (H4); none leaves that to its cause.
    fn call_result(&self) -> Option<CallResult> {
        None
    }
}

type Look = for<'a> fn(&'a (dyn Error + 'static)) -> Option<&'a dyn JobError>;

/// One error type that derives `JobError`, collected at link time so that it is found behind any wrapper.
#[derive(Debug)]
pub struct Probe {
    type_name: &'static str,
    look: Look,
}

impl Probe {
    /// A probe for one type; the derive writes this.
    #[must_use]
    pub const fn of<E: JobError>(type_name: &'static str) -> Self {
        Self { type_name, look: look::<E> }
    }
}

inventory::collect!(Probe);

/// A field of any error type, boxed and erased ones too, as the trait object that a search needs.
///
/// The derive calls it as a method: a box of `dyn Error` is no error itself, so the compiler goes on to what it holds.
#[doc(hidden)]
pub trait AsError {
    /// The error.
    fn as_error(&self) -> &(dyn Error + 'static);
}

impl<E: Error + 'static> AsError for E {
    fn as_error(&self) -> &(dyn Error + 'static) {
        self
    }
}

impl AsError for dyn Error + 'static {
    fn as_error(&self) -> &(dyn Error + 'static) {
        self
    }
}

impl AsError for dyn Error + Send + 'static {
    fn as_error(&self) -> &(dyn Error + 'static) {
        self
    }
}

impl AsError for dyn Error + Send + Sync + 'static {
    fn as_error(&self) -> &(dyn Error + 'static) {
        self
    }
}

/// The mark of one link of a source chain, with the name of its type.
pub(crate) fn find(error: &(dyn Error + 'static)) -> Option<(&'static str, Mark)> {
    let mut current = error;
    loop {
        if let Some((type_name, known)) = probe(current)
            && let Some(mark) = known.mark()
        {
            return Some((type_name, mark));
        }
        current = behind(current)?;
    }
}

/// The error that a link hides: a transparent one and an `io::Error` around a custom error answer `source()` with the
/// source of what they hold, never with what they hold.
pub(crate) fn behind<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>() {
        Some(wrapper) => wrapper.get_ref().map(AsError::as_error),
        None => probe(error)?.1.stands_for(),
    }
}

/// What one link of a source chain says of the dependency that was called (H4).
pub(crate) fn call_result(error: &(dyn Error + 'static)) -> Option<CallResult> {
    probe(error)?.1.call_result()
}

fn probe<'a>(error: &'a (dyn Error + 'static)) -> Option<(&'static str, &'a dyn JobError)> {
    inventory::iter::<Probe>.into_iter().find_map(|probe| Some((probe.type_name, (probe.look)(error)?)))
}

/// The error as an `E`. A box or an `Arc` of one counts too: both are errors of their own type in a source chain, which
/// a plain downcast does not see through.
fn look<'a, E: JobError>(error: &'a (dyn Error + 'static)) -> Option<&'a dyn JobError> {
    let found = error
        .downcast_ref::<E>()
        .or_else(|| error.downcast_ref::<Box<E>>().map(AsRef::as_ref))
        .or_else(|| error.downcast_ref::<Arc<E>>().map(AsRef::as_ref))?;
    Some(found)
}
