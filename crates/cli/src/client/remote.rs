//! A server over HTTP/1.1, with or without TLS. One connection, made again when it was closed.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderValue, Method, Request, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use super::ApiAnswer;
use crate::problem::Problem;

/// How long a server may take to accept a connection, and to answer.
const CONNECT: Duration = Duration::from_secs(10);
const ANSWER: Duration = Duration::from_secs(120);

/// The longest silence on a stream: a server that lives says something more often.
const SILENCE: Duration = Duration::from_secs(90);

/// The default port of a server, as in `backstop up`.
const PORT: u16 = 7700;

/// A stream that goes on until one of both sides ends it.
pub(crate) struct AnswerStream {
    body: Incoming,
    _sender: SendRequest<Full<Bytes>>,
    lost: Problem,
}

impl AnswerStream {
    /// The next bytes; none when the server has closed it.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        match tokio::time::timeout(SILENCE, self.body.frame()).await {
            Ok(None) => Ok(None),
            Ok(Some(Ok(frame))) => Ok(Some(frame.into_data().unwrap_or_default())),
            Ok(Some(Err(_))) | Err(_) => Err(self.lost.clone()),
        }
    }
}

/// A server and the token it wants.
pub(super) struct RemoteServer {
    host: String,
    port: u16,
    tls: bool,
    token: Option<HeaderValue>,
    connection: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

impl RemoteServer {
    /// A server by its URL, such as `http://127.0.0.1:7700`.
    pub(super) fn new(server: &str, token: Option<String>) -> Result<Self, Problem> {
        let wrong = |why: &str| {
            Problem::usage("bad_server", format!("--server is not the address of a server: {why}"))
                .hint("write http://HOST:PORT or https://HOST, without a path")
        };
        let uri: Uri = server.parse().map_err(|_| wrong("it is not a URL"))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong("it does not begin with http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("it has a user or a password in it; a token goes into BACKSTOP_TOKEN"));
        }
        if !matches!(uri.path(), "" | "/") {
            return Err(wrong("it has a path"));
        }
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { PORT });
        let token = token.map(|token| HeaderValue::try_from(format!("Bearer {}", token.trim())));
        let mut token = token.transpose().map_err(|_| {
            Problem::usage("bad_token", "BACKSTOP_TOKEN is not a token")
                .hint("copy it as `backstop token new` printed it")
        })?;
        if let Some(token) = &mut token {
            token.set_sensitive(true);
        }
        let host = authority.host().to_owned();
        Ok(Self { host, port, tls, token, connection: Mutex::new(None) })
    }

    /// Sends a request and reads the whole answer.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<ApiAnswer, Problem> {
        let mut slot = self.connection.lock().await;
        let mut sender = match slot.take().filter(|sender| !sender.is_closed()) {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        let request = self.request(method, path, body)?;
        let answered = tokio::time::timeout(ANSWER, async {
            sender.ready().await?;
            let (head, body) = sender.send_request(request).await?.into_parts();
            let body = body.collect().await?.to_bytes().to_vec();
            Ok::<_, hyper::Error>(ApiAnswer { status: head.status, body })
        });
        let answer = match answered.await {
            Ok(answer) => answer.map_err(|error| self.away(&error.to_string()))?,
            Err(_) => return Err(self.away(&format!("no answer within {} s", ANSWER.as_secs()))),
        };
        *slot = Some(sender);
        Ok(answer)
    }

    /// Opens a stream of server-sent events behind the last id that was seen, on a connection of its own.
    pub(super) async fn stream(&self, path: &str, last_id: Option<&str>) -> Result<AnswerStream, Problem> {
        let mut request = self.request(Method::GET, path, None)?;
        if let Some(id) = last_id.and_then(|id| HeaderValue::try_from(id).ok()) {
            request.headers_mut().insert("last-event-id", id);
        }
        let mut sender = self.connect().await?;
        let response = sender.send_request(request).await.map_err(|error| self.away(&error.to_string()))?;
        let (head, mut body) = response.into_parts();
        if head.status.is_success() {
            return Ok(AnswerStream { body, _sender: sender, lost: self.away("the connection was lost") });
        }
        let mut text = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            text.extend(frame.into_data().unwrap_or_default());
        }
        Err(super::refused(&ApiAnswer { status: head.status, body: text }))
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Request<Full<Bytes>>, Problem> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, format!("{}:{}", self.host, self.port))
            .header(header::USER_AGENT, concat!("backstop/", env!("CARGO_PKG_VERSION")));
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, token);
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::new(Bytes::from(body.unwrap_or_default())));
        request.map_err(|error| self.away(&error.to_string()))
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Problem> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let connected = tokio::time::timeout(CONNECT, TcpStream::connect((host, self.port))).await;
        let stream = match connected {
            Ok(stream) => stream.map_err(|error| self.away(&error.to_string()))?,
            Err(_) => return Err(self.away(&format!("no connection within {} s", CONNECT.as_secs()))),
        };
        if !self.tls {
            return self.shake(TokioIo::new(stream)).await;
        }
        let name = ServerName::try_from(host.to_owned()).map_err(|error| self.away(&error.to_string()))?;
        let tls = TlsConnector::from(Arc::new(self.trust()?)).connect(name, stream).await;
        self.shake(TokioIo::new(tls.map_err(|error| self.away(&error.to_string()))?)).await
    }

    async fn shake<T>(&self, stream: TokioIo<T>) -> Result<SendRequest<Full<Bytes>>, Problem>
    where
        T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = handshake(stream).await.map_err(|error| self.away(&error.to_string()))?;
        // It ends with the sender, or when the server closes it; whoever sends next sees that.
        tokio::spawn(connection);
        Ok(sender)
    }

    /// The certificates that this machine trusts.
    fn trust(&self) -> Result<ClientConfig, Problem> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|error| self.away(&error.to_string()))?;
        Ok(config.with_root_certificates(roots).with_no_client_auth())
    }

    fn away(&self, problem: &str) -> Problem {
        let scheme = if self.tls { "https" } else { "http" };
        let message =
            format!("the server {scheme}://{}:{} cannot be reached: {problem}", self.host, self.port);
        Problem::failed("server_unavailable", message)
            .hint("check that `backstop up` runs there, and the address in --server or BACKSTOP_SERVER")
    }
}
