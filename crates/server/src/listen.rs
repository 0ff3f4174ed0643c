//! The listener: connections in, answers out, until it is told to stop.
//!
//! - [`connections`]: the connections there are, and room for one more. [`activity`]: what one of them does, and for
//!   how long.
//! - [`connection`]: one connection from its first byte to its last. [`tls`]: the certificate.

mod activity;
mod connection;
mod connections;
mod error;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use backstop::{LoopHeartbeat, MaintenanceHandle};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::access::Peer;
use crate::api::Api;
use crate::web;
use connection::ConnectionServer;
use connections::Connections;
pub use error::ListenError;
pub use tls::TlsSettings;

/// The whole answer to a connection that finds no room.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
    connection: close\r\ncontent-length: 118\r\n\r\n\
    {\"error\":{\"code\":\"busy\",\"message\":\"too many connections\",\
    \"hint\":\"keep connections and use them again\",\"details\":null}}";

/// How long a loop of the server may be silent.
const SILENT: Duration = Duration::from_secs(60);

/// How long to wait when the system gives no more sockets.
const NO_SOCKETS: Duration = Duration::from_millis(100);

/// A listener on an address, if the API may listen there.
///
/// # Errors
/// When the address is taken, or open to others without a token, or the engine is told what could never work.
pub async fn bind(address: SocketAddr, api: &Api) -> Result<TcpListener, ListenError> {
    check(address, api).await?;
    TcpListener::bind(address).await.map_err(|problem| ListenError::Address { address, problem })
}

/// Refuses to be open to other machines without a token, and settings that would let nothing through.
async fn check(address: SocketAddr, api: &Api) -> Result<(), ListenError> {
    api.engine().config().check()?;
    if address.ip().to_canonical().is_loopback() || api.tokens().any_live().await? {
        return Ok(());
    }
    Err(ListenError::NoToken { address })
}

/// Serves the API on a listener until `stop` resolves; returns when the last request has ended or the grace is over.
///
/// Whoever serves a store takes part in its maintenance, with a worker in the process or not (L15, L17).
///
/// # Errors
/// When it may not listen there.
pub async fn serve(
    listener: TcpListener,
    api: Api,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ListenError> {
    let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let address =
        listener.local_addr().map_err(|problem| ListenError::Address { address: nowhere, problem })?;
    check(address, &api).await?;
    api.engine().rejects().warn_of_loss();
    let maintenance = maintain(&api);
    let dependencies = watch_dependencies(&api);
    let counts = web::keep_history(&api);
    let connections = Arc::new(Connections::new(api.settings().limits.connections));
    let attendant = Arc::new(ConnectionServer::new(&api));
    let accepting = keep_accepting(listener, &api, &connections, attendant);
    stop.await;
    api.stopping().cancel();
    // With this task the listener goes: nobody new gets in.
    accepting.abort();
    let _ = accepting.await;
    drop((dependencies, counts));
    // They would never end by themselves.
    api.close_streams();
    if timeout(api.settings().limits.grace, connections.is_empty()).await.is_err() {
        tracing::warn!(connections = connections.len(), "requests that outlasted the grace are cut off");
        connections.clear();
    }
    api.door().audit.flush().await;
    maintenance.stop().await;
    Ok(())
}

/// Takes part in maintenance, and lets readiness rest on it.
fn maintain(api: &Api) -> MaintenanceHandle {
    let maintenance = api.engine().maintenance();
    let maintenance = match api.settings().lease {
        Some(lease) => maintenance.lease(lease),
        None => maintenance,
    };
    let running = maintenance.start();
    let watch = running.watch();
    api.watch("maintenance", move || watch.health());
    running
}

/// Where connections come from.
trait ConnectionSource: Send + Sync + 'static {
    /// The next one; none when nobody came for a while.
    fn next(&self) -> impl Future<Output = Option<std::io::Result<(TcpStream, SocketAddr)>>> + Send;
}

impl ConnectionSource for TcpListener {
    async fn next(&self) -> Option<std::io::Result<(TcpStream, SocketAddr)>> {
        timeout(SILENT / 4, self.accept()).await.ok()
    }
}

/// Starts the loop that takes connections, with a heartbeat like every other (H11).
fn keep_accepting(
    listener: impl ConnectionSource,
    api: &Api,
    connections: &Arc<Connections>,
    attendant: Arc<ConnectionServer>,
) -> JoinHandle<()> {
    let (listener, connections) = (Arc::new(listener), connections.clone());
    let stop = api.stopping().clone();
    api.reporting().loops.supervise("listen", SILENT, stop, move |heartbeat| {
        let (listener, connections, attendant) = (listener.clone(), connections.clone(), attendant.clone());
        async move { accept(&*listener, &connections, &attendant, &heartbeat).await }
    })
}

async fn accept(
    listener: &impl ConnectionSource,
    connections: &Arc<Connections>,
    attendant: &Arc<ConnectionServer>,
    heartbeat: &LoopHeartbeat,
) {
    loop {
        heartbeat.record();
        match listener.next().await {
            Some(Ok((stream, remote))) => welcome(stream, remote, connections, attendant),
            Some(Err(error)) => {
                // One that hung up before it was accepted is no news; a lack of sockets passes.
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(NO_SOCKETS).await;
            }
            None => {}
        }
    }
}

/// Checks what the kinds of remote workers need, if the configuration says how (H1).
fn watch_dependencies(api: &Api) -> Option<AbortOnDropHandle<()>> {
    let remote = api.engine().remote();
    if !remote.has_checks() {
        return None;
    }
    let stop = api.stopping().clone();
    let watch = api.reporting().loops.supervise("dependencies", SILENT, stop, move |heartbeat| {
        let remote = remote.clone();
        async move { remote.watch_dependencies(&heartbeat).await }
    });
    Some(AbortOnDropHandle::new(watch))
}

fn welcome(
    stream: TcpStream,
    remote: SocketAddr,
    connections: &Arc<Connections>,
    attendant: &Arc<ConnectionServer>,
) {
    let Ok(local) = stream.local_addr() else { return };
    let Some(place) = connections.enter() else {
        if attendant.speaks_plainly() {
            // As much as fits into the socket at once: nobody waits for somebody who is turned away.
            let _ = stream.try_write(FULL);
        }
        return;
    };
    // Answers are written whole; waiting for more of them only delays.
    let _ = stream.set_nodelay(true);
    let attendant = attendant.clone();
    let activity = place.activity();
    connections
        .attend(place, async move { attendant.attend(stream, Peer { remote, local }, activity).await });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use backstop::Backstop;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::api::ServerSettings;

    /// Never answers the first time it is asked, and is like any other afterwards.
    struct HangsOnce {
        listener: TcpListener,
        has_hung: AtomicBool,
    }

    impl ConnectionSource for HangsOnce {
        async fn next(&self) -> Option<std::io::Result<(TcpStream, SocketAddr)>> {
            if !self.has_hung.swap(true, Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            self.listener.next().await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_listening_task_that_hangs_turns_red_and_is_started_again() {
        // H11
        let engine = Backstop::open("memory:").await.expect("memory");
        let api = Api::new(engine, ServerSettings::default());
        let listener = bind(([127, 0, 0, 1], 0).into(), &api).await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let connections = Arc::new(Connections::new(10));
        let source = HangsOnce { listener, has_hung: AtomicBool::new(false) };
        let attendant = Arc::new(ConnectionServer::new(&api));
        let accepting = keep_accepting(source, &api, &connections, attendant);
        let listening = || {
            let health = api.reporting().loops.watch().health().expect("it runs");
            health.loops.into_iter().find(|one| one.name == "listen").expect("it is listed")
        };
        assert!(listening().ok);
        let mut was_red = false;
        for _ in 0..300 {
            tokio::time::advance(Duration::from_secs(1)).await;
            tokio::task::yield_now().await;
            was_red |= !listening().ok;
            if listening().restarts > 0 {
                break;
            }
        }
        assert_eq!((listening().restarts, was_red), (1, true), "it was found and started again");
        tokio::time::resume();
        let mut client = TcpStream::connect(address).await.expect("it listens");
        let asked = "GET /health/live HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        client.write_all(asked.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert_eq!(listening().restarts, 1, "once");
        api.stopping().cancel();
        accepting.abort();
    }

    #[test]
    fn the_answer_of_a_full_house_is_whole_and_in_the_one_shape() {
        let text = std::str::from_utf8(FULL).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{} {head}", body.len());
        let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(body["error"]["code"], "busy");
    }
}
