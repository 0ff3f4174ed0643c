//! An API with tokens, called by their holders without a socket, or by anybody over one.

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use backstop::Backstop;
use backstop_server::{Api, ListenError, Scope, ServerSettings, TokenRequest, router, serve};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tower::ServiceExt;

/// An API under test.
pub(crate) struct Stage {
    pub(crate) api: Api,
    router: Router,
}

/// What came back. The body of a stream is not waited for.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: axum::http::HeaderMap,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|problem| panic!("{problem}: {self:?}"))
    }

    /// The code of a refusal, after checking that it has the one shape.
    pub(crate) fn code(&self) -> String {
        let error = &self.json()["error"];
        assert!(error["message"].is_string() && error.get("hint").is_some(), "not the one shape: {self:?}");
        error["code"].as_str().expect("a code").to_owned()
    }
}

impl Stage {
    /// On a store in memory.
    pub(crate) async fn new(settings: ServerSettings) -> Self {
        Self::on(Backstop::open("memory:").await.expect("a store in memory"), settings)
    }

    pub(crate) fn on(engine: Backstop, settings: ServerSettings) -> Self {
        let api = Api::new(engine, settings);
        Self { router: router(api.clone()), api }
    }

    /// Makes a token and answers it.
    pub(crate) async fn token(&self, name: &str, scopes: &[Scope]) -> String {
        self.token_of(name, scopes, None).await
    }

    pub(crate) async fn token_of(&self, name: &str, scopes: &[Scope], tenant: Option<&str>) -> String {
        self.make(TokenRequest { tenant: tenant.map(|tenant| tenant.parse().unwrap()), ..wish(name, scopes) })
            .await
    }

    pub(crate) async fn make(&self, wish: TokenRequest) -> String {
        let (token, _) = self.api.tokens().create(wish, "test").await.expect("a token");
        token.reveal().to_owned()
    }

    /// Sends a request, and leaves the body of its answer unread.
    pub(crate) async fn open(&self, request: Request<Body>) -> axum::response::Response {
        self.router.clone().oneshot(request).await.expect("the router always answers")
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Reply {
        let response = self.open(request).await;
        let (head, body) = response.into_parts();
        let kind = head.headers.get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
        let text = if kind.as_deref() == Some("text/event-stream") {
            String::new()
        } else {
            let bytes = body.collect().await.expect("a whole body").to_bytes();
            String::from_utf8(bytes.to_vec()).expect("text")
        };
        Reply { status: head.status, headers: head.headers, text }
    }

    /// Calls with a token, and with `{}` where a body is usual.
    pub(crate) async fn call(&self, method: &str, path: &str, token: Option<&str>) -> Reply {
        self.call_with(method, path, token, "{}").await
    }

    pub(crate) async fn call_with(&self, method: &str, path: &str, token: Option<&str>, body: &str) -> Reply {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let body = match method {
            "GET" | "DELETE" => Body::empty(),
            _ => {
                request = request.header("content-type", "application/json");
                Body::from(body.to_owned())
            }
        };
        self.send(request.body(body).expect("a request")).await
    }

    /// Listens on loopback.
    pub(crate) async fn listen(self) -> Listening {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel();
        let stopped = async {
            let _ = stopped.await;
        };
        let served = tokio::spawn(serve(listener, self.api.clone(), stopped));
        Listening { address, stop: Some(stop), served, api: self.api }
    }
}

/// A token to be made, for everything.
pub(crate) fn wish(name: &str, scopes: &[Scope]) -> TokenRequest {
    let scopes = scopes.iter().copied().collect();
    TokenRequest { name: name.to_owned(), scopes, tenant: None, queues: None, expires: None }
}

/// An API that listens.
pub(crate) struct Listening {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    pub(crate) served: JoinHandle<Result<(), ListenError>>,
    pub(crate) api: Api,
}

impl Listening {
    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("it listens")
    }

    /// Tells it to stop.
    pub(crate) fn stop(&mut self) {
        let _ = self.stop.take().expect("it was not told before").send(());
    }

    /// Sends text on a connection of its own and reads until the other end closes it.
    pub(crate) async fn exchange(&self, text: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(text.as_bytes()).await.expect("it reads");
        rest(&mut stream).await
    }

    /// A request with these lines of headers, which closes its connection.
    pub(crate) async fn request(&self, line: &str, headers: &str, body: &str) -> String {
        let host = self.address;
        let length =
            if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        let text =
            format!("{line} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}{length}\r\n{body}");
        self.exchange(&text).await
    }
}

/// Everything until the other end closes; a connection that is reset has ended too.
pub(crate) async fn rest(stream: &mut TcpStream) -> String {
    let (mut all, mut piece) = (Vec::new(), [0; 4_096]);
    while let Ok(count @ 1..) = stream.read(&mut piece).await {
        all.extend_from_slice(&piece[..count]);
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// One answer of a connection that stays open.
pub(crate) async fn one(stream: &mut TcpStream) -> String {
    let (mut all, mut piece) = (Vec::new(), [0; 4_096]);
    loop {
        let text = String::from_utf8_lossy(&all).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().expect("a length")) {
                return text;
            }
        }
        match stream.read(&mut piece).await {
            Ok(count @ 1..) => all.extend_from_slice(&piece[..count]),
            _ => return text,
        }
    }
}

/// The status of an answer as it came over the wire.
pub(crate) fn status(answer: &str) -> u16 {
    let status = answer.split(' ').nth(1).unwrap_or_else(|| panic!("no answer: {answer:?}"));
    status.parse().expect("a status")
}
