//! Names of steps that know what their step returns.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// The name of a step that returns `T`. Declared once, it is checked by the compiler where the step is added and where
/// its result is read.
///
/// ```
/// use backstop::prelude::*;
/// use backstop::workflows::StepName;
///
/// const RESERVED: StepName<String> = StepName::new("reserved");
///
/// #[job]
/// async fn reserve(order: u32) -> JobResult<String> {
///     Ok(format!("room for order {order}"))
/// }
///
/// #[job]
/// async fn charge(cx: JobContext<()>, cents: u32) -> JobResult<String> {
///     Ok(format!("{cents} cents for {}", cx.input(RESERVED)?))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> JobResult {
/// let engine = Backstop::open("memory:").await?;
/// let mut order = engine.workflow("order");
/// let reserve = order.step(RESERVED, engine.enqueue(Reserve { order: 7 })).add();
/// order.step("charged", engine.enqueue(Charge { cents: 990 })).after(&reserve).add();
/// order.submit().await?;
/// # Ok(()) }
/// ```
///
/// A step that returns something else has another name:
///
/// ```compile_fail,E0308
/// # use backstop::prelude::*;
/// # use backstop::workflows::StepName;
/// # #[job]
/// # async fn count() -> JobResult<u64> { Ok(1) }
/// # async fn add(engine: Backstop) {
/// const RESERVED: StepName<String> = StepName::new("reserved");
/// engine.workflow("order").step(RESERVED, engine.enqueue(Count {})).add();
/// # }
/// ```
pub struct StepName<T> {
    name: &'static str,
    result: PhantomData<fn() -> T>,
}

impl<T> StepName<T> {
    /// The name of a step that returns `T`.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, result: PhantomData }
    }

    /// As text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.name
    }
}

impl<T> Clone for StepName<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for StepName<T> {}

impl<T> fmt::Debug for StepName<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StepName").field(&self.name).finish()
    }
}

/// What can name a step that returns `T`: a [`StepName`], or a text, of which the compiler knows nothing.
pub trait NamesStep<T> {
    /// The name.
    fn into_name(self) -> Arc<str>;
}

impl<T> NamesStep<T> for StepName<T> {
    fn into_name(self) -> Arc<str> {
        self.name.into()
    }
}

impl<T> NamesStep<T> for &str {
    fn into_name(self) -> Arc<str> {
        self.into()
    }
}

impl<T> NamesStep<T> for String {
    fn into_name(self) -> Arc<str> {
        self.into()
    }
}

impl<T> NamesStep<T> for &String {
    fn into_name(self) -> Arc<str> {
        self.as_str().into()
    }
}

impl<T> NamesStep<T> for Arc<str> {
    fn into_name(self) -> Arc<str> {
        self
    }
}
