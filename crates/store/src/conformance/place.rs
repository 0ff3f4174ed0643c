//! Where a store under test lives, and how its futures are run.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use crate::{Answer, Error, ManualClock, ModelStore, Store};

/// A place that holds the data of one store, so that the store can be opened there more than once.
pub trait StorePlace: Sized + 'static {
    /// How many seeds the short form of [`property`](super::property()) plays here: fewer where every step
    /// travels.
    const SEEDS: u64 = 50;

    /// A new place with nothing in it. Whatever it occupies is freed when it is dropped.
    fn fresh() -> Self;

    /// Opens the store that lives here on this clock. What an earlier store of this place committed is there.
    fn open(&self, clock: ManualClock) -> impl Future<Output = Arc<dyn Store>>;

    /// Sets the counter of fences back to its beginning behind the store's back, as a restore that lost it does; false
    /// for a place where that cannot happen.
    fn lose_fences(&self) -> impl Future<Output = bool> {
        std::future::ready(false)
    }

    /// Runs a case to its end. A store that needs a runtime of its own brings it here.
    fn block_on<F: Future>(future: F) -> F::Output {
        block_on(future)
    }
}

/// Wakes the thread that waits in [`block_on`].
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread, which sleeps while there is nothing to do.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Makes several calls at once, and answers in their order when all are done.
pub(super) async fn at_once<T>(calls: Vec<Answer<'_, T>>) -> Vec<Result<T, Error>> {
    let mut calls: Vec<Call<'_, T>> = calls.into_iter().map(Call::Open).collect();
    std::future::poll_fn(|context| {
        for call in &mut calls {
            call.poll(context);
        }
        if calls.iter().all(|call| matches!(call, Call::Done(_))) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    let done = |call| if let Call::Done(answer) = call { Some(answer) } else { None };
    calls.into_iter().filter_map(done).collect()
}

enum Call<'a, T> {
    Open(Answer<'a, T>),
    Done(Result<T, Error>),
}

impl<T> Call<'_, T> {
    fn poll(&mut self, context: &mut Context<'_>) {
        if let Self::Open(answer) = self
            && let Poll::Ready(outcome) = Pin::new(answer).poll(context)
        {
            *self = Self::Done(outcome);
        }
    }
}

/// A place in memory for the model. Opening it again gives the same store: nothing else could keep the data.
#[derive(Debug, Default)]
pub struct MemoryPlace(OnceLock<Arc<ModelStore>>);

impl StorePlace for MemoryPlace {
    fn fresh() -> Self {
        Self::default()
    }

    async fn open(&self, clock: ManualClock) -> Arc<dyn Store> {
        let store = self.0.get_or_init(|| Arc::new(ModelStore::new(Arc::new(clock)))).clone();
        store.restart();
        store
    }
}
