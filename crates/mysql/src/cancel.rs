//! Ends what a call has left behind in the server: a statement that goes on waiting after its caller has gone away.

use backstop_sql::connection::{CANCEL_LIMIT, run_aside};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use tokio::time::timeout;

use crate::sql;
use crate::state::ServerState;

/// Ends a connection that nobody may use again, with the statement and the transaction that are open on it.
pub(crate) fn abandon(state: &ServerState, conn: Conn) {
    let (id, opts) = (conn.id(), state.opts.clone());
    let end = async move {
        // Closing alone is not enough: a server that waits for a lock does not look at its connections.
        let _ = timeout(CANCEL_LIMIT, kill(opts, id)).await;
        let _ = timeout(CANCEL_LIMIT, conn.disconnect()).await;
    };
    run_aside(&state.runtime, end);
}

async fn kill(opts: Opts, id: u32) -> Result<(), mysql_async::Error> {
    let mut other = Conn::new(opts).await?;
    other.query_drop(format!("{}{id}", sql::KILL)).await?;
    other.disconnect().await
}
