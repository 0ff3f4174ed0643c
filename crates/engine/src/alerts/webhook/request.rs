//! One HTTP request on a connection of its own. Alerts are rare: a kept connection would mostly be a dead one.

use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper::http::uri::Scheme;
use hyper::rt::{Read, Write};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::standard_webhooks::{ID, SIGNATURE, Secret, TIMESTAMP, signatures};

/// Posts a body, signed now, and answers the status. `trust` is asked when the connection is to be encrypted.
pub(super) async fn post(
    address: &Uri,
    secrets: &[Secret],
    id: &str,
    body: String,
    trust: impl FnOnce() -> Result<Arc<ClientConfig>, String>,
) -> Result<StatusCode, String> {
    let host = address.host().unwrap_or_default();
    // An address of version 6 stands in brackets in a URL and nowhere else.
    let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let encrypted = address.scheme() == Some(&Scheme::HTTPS);
    let port = address.port_u16().unwrap_or(if encrypted { 443 } else { 80 });
    let request = request(address, secrets, id, body)?;
    let stream = TcpStream::connect((name.as_str(), port))
        .await
        .map_err(|problem| format!("cannot connect: {problem}"))?;
    if !encrypted {
        return exchange(TokioIo::new(stream), request).await;
    }
    let server = ServerName::try_from(name).map_err(|problem| problem.to_string())?;
    let stream = TlsConnector::from(trust()?)
        .connect(server, stream)
        .await
        .map_err(|problem| format!("cannot encrypt the connection: {problem}"))?;
    exchange(TokioIo::new(stream), request).await
}

fn request(
    address: &Uri,
    secrets: &[Secret],
    id: &str,
    body: String,
) -> Result<Request<Full<Bytes>>, String> {
    // Receivers compare it with their own clocks, so it is this machine's and not the store's.
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let authority = address.authority().map_or("", |authority| authority.as_str());
    let path = address.path_and_query().map_or("/", |path| path.as_str());
    Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(HOST, authority)
        .header(USER_AGENT, concat!("backstop/", env!("CARGO_PKG_VERSION")))
        .header(CONTENT_TYPE, "application/json")
        .header(ID, id)
        .header(TIMESTAMP, seconds)
        .header(SIGNATURE, signatures(secrets, id, seconds, body.as_bytes()))
        .body(Full::from(body))
        // What hyper says of a header would repeat it.
        .map_err(|_| "the request cannot be built".to_owned())
}

async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> Result<StatusCode, String>
where
    S: Read + Write + Send + Unpin + 'static,
{
    let failed = |problem: hyper::Error| format!("the request failed: {problem}");
    let (mut sender, connection) = http1::handshake(stream).await.map_err(failed)?;
    // Ends with this request, also when that is dropped at its deadline.
    let mut task = JoinSet::new();
    task.spawn(connection);
    let response = sender.send_request(request).await.map_err(failed)?;
    Ok(response.status())
}

/// What this machine trusts, read once: that takes longer than a request.
pub(super) fn machine() -> Result<Arc<ClientConfig>, String> {
    static READ: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    READ.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        trusting(roots)
    })
    .clone()
}

fn trusting(roots: RootCertStore) -> Result<Arc<ClientConfig>, String> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|problem| problem.to_string())?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

#[cfg(test)]
mod tests;
