//! How a store is opened.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use backstop_store::Clock;

use crate::schema::Schema;

/// How a store is opened. The URL can say most of it too.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// A clock to go by instead of the server's; for tests.
    pub clock: Option<Arc<dyn Clock>>,
    /// The schema that holds the tables.
    pub schema: Schema,
    /// Connections that all calls share, at most. What keeps a worker alive has one more, and one listens. Each is made
    /// when it is needed and closed when nobody uses it. Three are enough for a worker: one works while somebody asks
    /// and somebody waits for a lock.
    pub connections: usize,
    /// How long one call may take.
    pub deadline: Duration,
    /// How long a lock that another transaction holds is waited for, before the call is refused as busy.
    pub lock_wait: Duration,
    /// How long a connection that nobody uses is kept.
    pub keep_idle: Duration,
    /// Where notices of other processes are heard.
    pub listen: Listen,
    /// How often the connection for notices is proved to be alive.
    pub probe: Duration,
    /// Bring the tables to this program's version.
    pub migrate: bool,
    /// A transaction that is open for longer is named by `doctor`: it keeps dead rows from being removed.
    pub old_transaction: Duration,
    /// No claim and no end is made in one statement; for tests.
    pub long_way: bool,
}

/// Where notices of other processes are heard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Listen {
    /// Over a connection of its own to the store's URL.
    #[default]
    On,
    /// Nowhere: polling is enough.
    Off,
    /// At this URL, because a pooler stands before the store's own.
    At(String),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: None,
            schema: Schema::default(),
            connections: 3,
            deadline: Duration::from_secs(30),
            lock_wait: Duration::from_secs(3),
            keep_idle: Duration::from_secs(10),
            listen: Listen::On,
            probe: Duration::from_secs(20),
            migrate: true,
            old_transaction: Duration::from_secs(300),
            long_way: false,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("schema", &self.schema)
            .field("connections", &self.connections)
            .field("deadline", &self.deadline)
            .field("migrate", &self.migrate)
            .finish_non_exhaustive()
    }
}
