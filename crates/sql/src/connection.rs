//! Connections to a database server, as its driver makes them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::dialect::Dialect;
use crate::row::Row;
use crate::session::Pending;
use crate::value::Query;

/// The server behind a store: its dialect, and a pool of connections to it.
pub trait Backend: Send + Sync + 'static {
    /// The dialect of the server.
    fn dialect(&self) -> &'static dyn Dialect;

    /// A connection on which no transaction is open.
    fn connect(&self) -> Pending<'_, Box<dyn ServerConnection>>;

    /// Tells other processes that work may have become claimable on queues (L13), where the server can.
    fn tell_others(&self, queues: BTreeSet<Arc<str>>) {
        drop(queues);
    }

    /// How locks are waited for.
    fn patience(&self) -> Patience;
}

/// How long locks are waited for while others may need the connection.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// What a single call waits before it gives its connection to others for the moment.
    pub short: Duration,
    /// What calls that share a transaction wait before they go on one by one.
    pub group: Duration,
    /// How often a lock is waited for with patience.
    pub waits: u32,
}

/// One connection. Dropped, it goes back to its pool.
pub trait ServerConnection: Send {
    /// Runs a batch in one round trip, as far as it fits into one. `sent` becomes true as soon as the commit may reach
    /// the server.
    fn send<'a>(&'a mut self, batch: Batch, sent: &'a mut bool) -> Pending<'a, Vec<Vec<Row>>>;

    /// Ends the transaction that is open.
    fn roll_back(&mut self) -> Pending<'_, ()>;

    /// Closes it, and ends whatever still runs on it: a server that waits for a lock does not look at its connections.
    fn abandon(self: Box<Self>);
}

/// How long the server may take to hear that nobody waits for a statement any more. Then the connection is closed
/// without.
pub const CANCEL_LIMIT: Duration = Duration::from_secs(5);

/// Runs something that nobody waits for: on the runtime of the caller, or on that of the store.
pub fn run_aside(runtime: &Handle, aside: impl Future<Output = ()> + Send + 'static) {
    Handle::try_current().as_ref().unwrap_or(runtime).spawn(aside);
}

/// Statements that are sent together.
#[derive(Debug)]
pub struct Batch {
    /// A transaction begins before them.
    pub begin: Option<Begin>,
    /// The statements.
    pub queries: Vec<Query>,
    /// The transaction is committed after them.
    pub commit: bool,
}

/// How a transaction begins.
#[derive(Debug, Clone, Copy)]
pub struct Begin {
    /// What it is for.
    pub mode: Mode,
    /// No lock is waited for longer than this.
    pub lock_wait: Duration,
}

/// What a transaction is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It reads one state of the tables.
    Read,
    /// It writes.
    Write,
    /// It writes, and each of its statements goes by a key, so it has one plan only, or brings its settings along.
    WriteByKey,
}
