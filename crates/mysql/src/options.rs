//! How a store is opened.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use backstop_store::Clock;

use crate::prefix::Prefix;

/// How a store is opened. The URL can say most of it too.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// A clock to go by instead of the server's; for tests.
    pub clock: Option<Arc<dyn Clock>>,
    /// What the names of the tables begin with.
    pub prefix: Prefix,
    /// Connections that all calls share, at most. What keeps a worker alive has one more. Each is made when it is
    /// needed and closed when nobody uses it. Three are enough for a worker: one works while somebody asks and somebody
    /// waits for a lock.
    pub connections: usize,
    /// How long one call may take.
    pub deadline: Duration,
    /// How long a lock that another transaction holds is waited for, in whole seconds, before the call is refused as
    /// busy.
    pub lock_wait: Duration,
    /// Bring the tables to this program's version.
    pub migrate: bool,
    /// The age from which `check` complains of a transaction: it keeps dead rows from being removed.
    pub old_transaction: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: None,
            prefix: Prefix::default(),
            connections: 3,
            deadline: Duration::from_secs(30),
            lock_wait: Duration::from_secs(3),
            migrate: true,
            old_transaction: Duration::from_secs(300),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("prefix", &self.prefix)
            .field("connections", &self.connections)
            .field("deadline", &self.deadline)
            .field("migrate", &self.migrate)
            .finish_non_exhaustive()
    }
}
