//! The listener: connections in, answers out, until it is told to stop.

use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::api::Api;

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The address cannot be had.
    #[error("cannot listen on {address}: {problem}")]
    Address {
        /// Which address.
        address: SocketAddr,
        /// Why not.
        problem: std::io::Error,
    },
}

/// Serves the API on a listener until `stop` resolves.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    api: Api,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ListenError> {
    let router = crate::routes::router(api.clone());
    let stop = async move {
        stop.await;
        api.closing().cancel();
        // They would never end by themselves.
        api.close_streams();
    };
    let served = axum::serve(listener, router).with_graceful_shutdown(stop).await;
    served.map_err(|problem| ListenError::Address { address: SocketAddr::from(([0, 0, 0, 0], 0)), problem })
}
