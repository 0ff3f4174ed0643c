//! Ends what a call has left behind in the server: a statement that goes on waiting after its caller has gone away.

use std::net::{IpAddr, ToSocketAddrs};

use backstop_sql::connection::{CANCEL_LIMIT, run_aside};
use deadpool_postgres::{Object, Pool};
use tokio_postgres::config::Host;

use crate::open::Place;
use crate::sql;
use crate::state::ServerState;

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
    let address = address.and_then(|text| text.parse().ok());
    let config = place.config.clone();
    let resolve = |name: &str| {
        let found = (name, 0).to_socket_addrs().into_iter().flatten();
        found.map(|found| found.ip()).collect()
    };
    let asked = move || is_here((port, address), config.get_ports(), config.get_hosts(), resolve);
    tokio::task::spawn_blocking(asked).await.unwrap_or(false)
}

/// True when a server that listens at this port and address, or on a socket of its machine, is one of those that we
/// connect to.
fn is_here(
    (port, address): (i32, Option<IpAddr>),
    ports: &[u16],
    hosts: &[Host],
    resolve: impl Fn(&str) -> Vec<IpAddr>,
) -> bool {
    if !ports.iter().any(|one| i32::from(*one) == port) {
        return false;
    }
    let Some(address) = address else { return hosts.iter().all(|host| matches!(host, Host::Unix(_))) };
    hosts.iter().any(|host| match host {
        Host::Tcp(name) => resolve(name).contains(&address),
        Host::Unix(_) => false,
    })
}

/// Cancels whatever runs on a connection, and closes it. Until then it keeps its place in the pool.
pub(crate) fn abandon(state: &ServerState, client: Object) {
    if client.is_closed() || !state.direct {
        return drop(Abandoned(Some(client)));
    }
    let (token, connector) = (client.cancel_token(), state.connector.clone());
    let abandoned = Abandoned(Some(client));
    let end = async move {
        // Closing alone is not enough: a server that waits for a lock does not look at its connections.
        let _ = tokio::time::timeout(CANCEL_LIMIT, token.cancel_query(connector)).await;
        drop(abandoned);
    };
    run_aside(&state.runtime, end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pooler_is_never_taken_for_the_server() {
        let ip = |text: &str| text.parse::<IpAddr>().ok();
        let tcp = |name: &str| vec![Host::Tcp(name.to_owned())];
        let socket = || vec![Host::Unix("/run/postgresql".into())];
        // Where the server says that it listens, where we connect to, and whether that is the same.
        for (server, port, hosts, direct) in [
            ((5432, ip("10.0.0.7")), 5432, tcp("db"), true),
            ((5432, ip("10.0.0.7")), 6432, tcp("db"), false),
            ((5432, ip("10.0.0.9")), 5432, tcp("db"), false),
            ((5432, ip("10.0.0.7")), 5432, tcp("nowhere"), false),
            // A pooler on the machine of the server, that has a socket of it.
            ((5432, None), 5432, tcp("db"), false),
            ((5432, None), 5432, socket(), true),
            ((5432, None), 6432, socket(), false),
            ((5432, ip("10.0.0.7")), 5432, socket(), false),
            ((5432, ip("10.0.0.7")), 5432, [tcp("nowhere"), tcp("db")].concat(), true),
        ] {
            let resolve =
                |name: &str| if name == "db" { ip("10.0.0.7").into_iter().collect() } else { vec![] };
            assert_eq!(is_here(server, &[port], &hosts, resolve), direct, "{server:?} {port} {hosts:?}");
        }
    }
}
