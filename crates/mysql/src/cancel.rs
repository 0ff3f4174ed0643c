//! Ends what a call has left behind in the server: a statement that goes on waiting after its caller has gone away.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::shared::Shared;
use crate::sql;

/// How long the server may take to hear of it. Then the connection is closed without.
const LIMIT: Duration = Duration::from_secs(5);

/// Ends a connection that nobody may use again, with the statement and the transaction that are open on it.
pub(crate) fn abandon(shared: &Shared, conn: Conn) {
    let (id, opts) = (conn.id(), shared.opts.clone());
    let end = async move {
        // Closing alone is not enough: a server that waits for a lock does not look at its connections.
        let _ = timeout(LIMIT, kill(opts, id)).await;
        let _ = timeout(LIMIT, conn.disconnect()).await;
    };
    let runtime = Handle::try_current().unwrap_or_else(|_| shared.runtime.clone());
    runtime.spawn(end);
}

async fn kill(opts: Opts, id: u32) -> Result<(), mysql_async::Error> {
    let mut other = Conn::new(opts).await?;
    other.query_drop(format!("{}{id}", sql::KILL)).await?;
    other.disconnect().await
}
