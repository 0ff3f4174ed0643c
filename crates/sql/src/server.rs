//! What each database server does in its own way.

use backstop_core::job::{Stale, State};
use backstop_store::{Claim, Claimed, Finding, Finish, Peek};

use crate::failure::SqlFailure;
use crate::row::Row;
use crate::session::Pending;
use crate::statement::Request;
use crate::transaction::Transaction;

/// What each database server does in its own way.
pub trait Server: Send + Sync + 'static {
    /// What kind of store it is, in a word.
    fn name(&self) -> &'static str;

    /// Takes due jobs for a worker (L2-L5).
    fn claim<'a>(&'a self, tx: &'a mut Transaction, claim: &'a Claim) -> Pending<'a, Claimed>;

    /// Says, without writing, whether a claim would find work and when the next job becomes due.
    fn peek<'a>(&'a self, tx: &'a mut Transaction, claim: &'a Claim) -> Pending<'a, Peek>;

    /// Ends runs that are plain, see [`PlainEnds`](crate::plain_ends::PlainEnds); none when they end in the ordinary
    /// way, and nothing is written.
    fn finish_plain<'a>(
        &'a self,
        tx: &'a mut Transaction,
        endings: &'a [Finish],
    ) -> Pending<'a, Option<Vec<Result<State, Stale>>>> {
        let (_, _) = (tx, endings);
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Adds what commits have left in `tally` to the counts of lanes, and tidies what else they leave behind.
    fn fold<'a>(&'a self, tx: &'a mut Transaction, limit: usize) -> Pending<'a, usize>;

    /// What `doctor` says of the server.
    fn check<'a>(&'a self, tx: &'a mut Transaction) -> Pending<'a, Vec<Finding>>;

    /// What a process asks for when one of its workers is made known.
    fn recall(&self) -> Option<Request> {
        None
    }

    /// Takes the answer to [`Server::recall`].
    ///
    /// # Errors
    /// [`SqlFailure::Unreadable`].
    fn recalled(&self, rows: Vec<Row>) -> Result<(), SqlFailure> {
        drop(rows);
        Ok(())
    }

    /// What a process keeps in the store, from time to time, for processes that begin later.
    fn keep(&self) -> Option<Request> {
        None
    }
}
