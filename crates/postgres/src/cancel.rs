//! Ends what a call has left behind in the server: a statement that goes on waiting after its caller has gone away.

use std::time::Duration;

use deadpool_postgres::Object;
use tokio::runtime::Handle;

use crate::shared::Shared;

/// How long the server may take to hear of it. Then the connection is closed without.
const LIMIT: Duration = Duration::from_secs(5);

/// A connection that nobody may use again, on which a transaction may be open.
struct Abandoned(Option<Object>);

impl Drop for Abandoned {
    fn drop(&mut self) {
        // Taken out of the pool, it is closed instead of given back.
        drop(self.0.take().map(Object::take));
    }
}

/// Cancels whatever runs on a connection, and closes it. Until then it keeps its place in the pool.
pub(crate) fn abandon(shared: &Shared, client: Object) {
    if client.is_closed() {
        return drop(Abandoned(Some(client)));
    }
    let (token, connector) = (client.cancel_token(), shared.connector.clone());
    let abandoned = Abandoned(Some(client));
    let end = async move {
        // Closing alone is not enough: a server that waits for a lock does not look at its connections.
        let _ = tokio::time::timeout(LIMIT, token.cancel_query(connector)).await;
        drop(abandoned);
    };
    let runtime = Handle::try_current().unwrap_or_else(|_| shared.runtime.clone());
    runtime.spawn(end);
}
