//! Connections to servers that speak HTTP, encrypted or not.

use std::sync::{Arc, OnceLock};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// A stream of bytes, whichever it is.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum NoConnection {
    /// Another time there may be one.
    Unavailable(String),
    /// There will never be one like this.
    Refused(String),
}

/// Connects. Whom an encrypted connection trusts: this authority alone, as PEM, or what this machine trusts.
pub(crate) async fn connect(
    host: &str,
    port: u16,
    encrypted: bool,
    authority: Option<&str>,
) -> Result<Box<dyn ByteStream>, NoConnection> {
    let unavailable = |error: std::io::Error| NoConnection::Unavailable(error.to_string());
    let stream = TcpStream::connect((host, port)).await.map_err(unavailable)?;
    stream.set_nodelay(true).map_err(unavailable)?;
    if !encrypted {
        return Ok(Box::new(stream));
    }
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|error| NoConnection::Refused(error.to_string()))?;
    let trust = trusted(authority).map_err(NoConnection::Refused)?;
    Ok(Box::new(TlsConnector::from(trust).connect(name, stream).await.map_err(unavailable)?))
}

/// What this machine trusts is read once.
fn trusted(authority: Option<&str>) -> Result<Arc<ClientConfig>, String> {
    static MACHINE: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    let Some(pem) = authority else {
        let read = || trusting(rustls_native_certs::load_native_certs().certs);
        return MACHINE.get_or_init(read).clone();
    };
    let own: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    trusting(own.map_err(|problem| problem.to_string())?)
}

fn trusting(certificates: Vec<CertificateDer<'static>>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates);
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|problem| problem.to_string())?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}
