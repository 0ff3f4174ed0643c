//! One question over HTTP or HTTPS, with an answer of a few words.
//!
//! Redirects are not followed, and nothing of this process is sent along: addresses come from messages.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use url::Url;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of an answer at most.
const MOST_ANSWER: usize = 64 * 1024;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// Asks. An error says in words why there is no answer.
pub(crate) async fn get(url: &str) -> Result<HttpAnswer, String> {
    let url = Url::parse(url).map_err(|problem| problem.to_string())?;
    match tokio::time::timeout(PATIENCE, exchange(&url)).await {
        Ok(answer) => answer,
        Err(_) => Err("no answer in time".to_owned()),
    }
}

async fn exchange(url: &Url) -> Result<HttpAnswer, String> {
    let host = url.host_str().ok_or("the address has no host")?;
    let port = url.port_or_known_default().ok_or("the address has no port")?;
    let stream = TcpStream::connect((host.trim_matches(['[', ']']), port)).await;
    let stream = encrypted(stream.map_err(|error| error.to_string())?, url, host).await?;
    let (mut sender, connection) =
        handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    // Ends with this function.
    let mut task = JoinSet::new();
    task.spawn(async move { drop(connection.await) });
    let path = url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
    let authority = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    let request = Request::get(path).header("host", authority).body(Empty::<Bytes>::new());
    let answer = sender.send_request(request.map_err(|error| error.to_string())?).await;
    let answer = answer.map_err(|error| error.to_string())?;
    let status = answer.status().as_u16();
    let named = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
        (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let headers = answer.headers().iter().map(named).collect();
    let body = Limited::new(answer.into_body(), MOST_ANSWER).collect().await;
    let body = body.map_err(|error| error.to_string())?.to_bytes();
    Ok(HttpAnswer { status, headers, body: String::from_utf8_lossy(&body).into_owned() })
}

async fn encrypted(stream: TcpStream, url: &Url, host: &str) -> Result<Box<dyn ByteStream>, String> {
    if url.scheme() != "https" {
        return Ok(Box::new(stream));
    }
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let encrypted = TlsConnector::from(trusted(None)?).connect(name, stream).await;
    Ok(Box::new(encrypted.map_err(|error| error.to_string())?))
}

/// Trusts this authority alone, or what this machine trusts.
pub(crate) fn trusted(authority: Option<&str>) -> Result<Arc<ClientConfig>, String> {
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
