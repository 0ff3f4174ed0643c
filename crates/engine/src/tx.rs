//! Submitting inside a transaction that the application itself has opened (L14).

use std::future::Future;

use backstop_core::job::NewJob;
use backstop_store::Submitted;

use crate::error::SubmitError;

/// A transaction on the database that also holds the jobs: its commit makes the job, its rollback leaves none.
pub trait CallerTransaction {
    /// Stores an admitted job inside the transaction.
    fn submit(&mut self, job: NewJob) -> impl Future<Output = Result<Submitted, SubmitError>>;
}

#[cfg(feature = "sqlite")]
impl CallerTransaction for backstop_sqlite::rusqlite::Transaction<'_> {
    async fn submit(&mut self, job: NewJob) -> Result<Submitted, SubmitError> {
        let clock = backstop_store::SystemClock::default();
        let mut answers = backstop_sqlite::submit_in(self, &clock, &[job])?;
        Ok(answers.pop().unwrap_or(Err(backstop_core::Refusal::BatchRefused { index: 0 }))?)
    }
}
