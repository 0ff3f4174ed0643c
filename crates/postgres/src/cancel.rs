//! Ends what a call has left behind in the server: a statement that goes on waiting after its caller has gone away.

use std::net::{IpAddr, ToSocketAddrs};
use std::time::Duration;

use deadpool_postgres::{Object, Pool};
use tokio::runtime::Handle;
use tokio_postgres::config::Host;

use crate::open::Place;
use crate::shared::Shared;
use crate::sql;

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

/// True when nothing stands between us and the server. A pooler may fall over a request to cancel (PgBouncer 1.18 ends
/// with a fatal error), so behind one none is sent: what waits for a lock there ends by its own limit.
pub(crate) async fn is_direct(pool: &Pool, place: &Place) -> bool {
    let Ok(client) = pool.get().await else { return false };
    let Ok(row) = client.query_one(sql::WHERE_IT_LISTENS, &[]).await else { return false };
    let (port, address): (i32, Option<String>) = (row.get(0), row.get(1));
    let ours: Vec<u16> = place.config.get_ports().to_vec();
    if !ours.iter().any(|one| i32::from(*one) == port) {
        return false;
    }
    let Some(address) = address.and_then(|text| text.parse::<IpAddr>().ok()) else {
        return place.config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)));
    };
    let hosts = place.config.get_hosts().to_vec();
    let known = tokio::task::spawn_blocking(move || {
        let tcp = hosts.iter().filter_map(|host| if let Host::Tcp(name) = host { Some(name) } else { None });
        tcp.flat_map(|name| (name.as_str(), 0).to_socket_addrs().into_iter().flatten())
            .any(|found| found.ip() == address)
    });
    known.await.unwrap_or(false)
}

/// Cancels whatever runs on a connection, and closes it. Until then it keeps its place in the pool.
pub(crate) fn abandon(shared: &Shared, client: Object) {
    if client.is_closed() || !shared.direct {
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
