//! How one process reaches its server.

use std::time::Duration;

use backstop_store::encryption::TransportEncryption;
use mysql_async::{Opts, Pool};
use tokio::runtime::Handle;

use crate::prefix::Prefix;

/// How one process reaches its server.
pub(crate) struct ServerState {
    pub(crate) prefix: Prefix,
    pub(crate) pool: Pool,
    /// Where a statement is ended that nobody waits for any more, and by whom.
    pub(crate) opts: Opts,
    pub(crate) runtime: Handle,
    /// How its connections are protected.
    pub(crate) encryption: TransportEncryption,
    /// The age from which `doctor` reports a transaction.
    pub(crate) old_transaction: Duration,
}
