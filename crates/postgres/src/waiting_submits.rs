//! Single submits that wait for a transaction, and how many transactions are under way for them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use backstop_core::Refusal;
use backstop_core::job::NewJob;
use backstop_store::{Error, Submitted};
use tokio::sync::{Notify, oneshot};

/// Jobs that share one transaction at most.
const MOST_JOBS: usize = 500;

/// A submit of one job that waits for a transaction.
pub(crate) struct WaitingSubmit {
    pub(crate) job: NewJob,
    pub(crate) answer: oneshot::Sender<Result<Vec<Result<Submitted, Refusal>>, Error>>,
}

/// Submits that wait, and how many transactions are under way for them.
#[derive(Default)]
pub(crate) struct WaitingSubmits {
    waiting: Mutex<Waiting>,
    /// Told when a transaction was cut short, with the runtime it was on: whoever waits begins another one.
    pub(crate) cut: Notify,
}

#[derive(Default)]
struct Waiting {
    submits: Vec<WaitingSubmit>,
    transactions: usize,
}

impl WaitingSubmits {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a submit; true when a new transaction should begin for it.
    pub(crate) fn add(&self, submit: WaitingSubmit, most: usize) -> bool {
        self.lock().submits.push(submit);
        self.may_begin(most)
    }

    /// True when somebody waits and fewer than `most` transactions are under way: one more is counted from now on.
    pub(crate) fn may_begin(&self, most: usize) -> bool {
        let mut waiting = self.lock();
        let begins = !waiting.submits.is_empty() && waiting.transactions < most;
        waiting.transactions += usize::from(begins);
        begins
    }

    /// The submits of the next transaction; none, and one transaction less is under way, when nobody waits.
    pub(crate) fn next(&self) -> Vec<WaitingSubmit> {
        let mut waiting = self.lock();
        if waiting.submits.is_empty() {
            waiting.transactions -= 1;
        }
        let jobs = waiting.submits.len().min(MOST_JOBS);
        waiting.submits.drain(..jobs).collect()
    }

    /// One transaction less is under way, although somebody may wait.
    pub(crate) fn cut_short(&self) {
        self.lock().transactions -= 1;
        self.cut.notify_waiters();
    }
}
