//! One connection, from its first byte to its last.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Request, Response};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower::ServiceExt;

use super::activity::{ConnectionActivity, MeteredStream};
use crate::access::Peer;
use crate::api::Api;

/// Headers of a request at most; more are answered 431.
const HEADERS: usize = 64;

/// Bytes of a request's line and headers at most; more are answered 431 too.
const HEAD_BYTES: usize = 16 * 1_024;

/// Attends to connections.
pub(super) struct ConnectionServer {
    api: Api,
    router: Router,
}

impl ConnectionServer {
    pub(super) fn new(api: &Api) -> Self {
        Self { api: api.clone(), router: crate::routes::router(api.clone()) }
    }

    /// False when the other end expects TLS.
    pub(super) fn speaks_plainly(&self) -> bool {
        self.api.settings().tls.is_none()
    }

    /// Serves a connection until it ends, takes too long, or the server goes down.
    pub(super) async fn attend(&self, stream: TcpStream, peer: Peer, activity: Arc<ConnectionActivity>) {
        let Some(tls) = &self.api.settings().tls else { return self.speak(stream, peer, activity).await };
        // The handshake is a head of its own.
        match timeout(self.api.settings().limits.head, tls.acceptor().accept(stream)).await {
            Ok(Ok(stream)) => self.speak(stream, peer, activity).await,
            Ok(Err(error)) => tracing::debug!(%error, remote = %peer.remote, "a TLS handshake failed"),
            Err(_) => tracing::debug!(remote = %peer.remote, "a TLS handshake took too long"),
        }
    }

    async fn speak<S: AsyncRead + AsyncWrite + Unpin + Send>(
        &self,
        stream: S,
        peer: Peer,
        activity: Arc<ConnectionActivity>,
    ) {
        let io = TokioIo::new(MeteredStream { inner: stream, activity: activity.clone() });
        let service = service_fn(|request| self.answer(request, peer, activity.clone()));
        // The times of a connection are kept by its pulse: hyper's own for heads would also count the rest between two.
        let mut protocol = http1::Builder::new();
        protocol.max_headers(HEADERS).max_buf_size(HEAD_BYTES).header_read_timeout(None);
        let mut connection = pin!(protocol.serve_connection(io, service));
        let mut overdue = pin!(activity.overdue(&self.api.settings().limits));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = overdue.as_mut() => return,
            () = self.api.stopping().cancelled() => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection => ended,
                    () = overdue => return,
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, remote = %peer.remote, "a connection ended badly");
        }
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        peer: Peer,
        activity: Arc<ConnectionActivity>,
    ) -> Result<Response<Answering>, Infallible> {
        activity.busy();
        let rest = Rest(activity);
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer);
        let response = self.router.clone().oneshot(request).await?;
        Ok(response.map(|inner| Answering { inner, _rest: rest }))
    }
}

/// Lets a connection rest when its request is done with.
struct Rest(Arc<ConnectionActivity>);

impl Drop for Rest {
    fn drop(&mut self) {
        self.0.idle();
    }
}

/// The body of an answer; the connection is busy until it has been handed over.
struct Answering {
    inner: Body,
    _rest: Rest,
}

impl HttpBody for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
