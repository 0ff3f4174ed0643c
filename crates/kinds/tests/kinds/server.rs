//! Web servers of the tests: each counts its connections, keeps what it was sent, and answers by a function.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// A request as it came: head and body.
pub(crate) type Request = (String, Vec<u8>);
/// What a server answers to a request.
pub(crate) type Script = Arc<dyn Fn(&Request) -> Vec<u8> + Send + Sync>;

/// A server that runs until its test ends.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Listens on a free port of `host`.
    pub(crate) async fn start(
        host: &str,
        script: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((host, 0)).await.expect("a port");
        let server = Self {
            address: listener.local_addr().expect("bound"),
            connections: Arc::default(),
            requests: Arc::default(),
        };
        let (it, script) = (server.clone(), Arc::new(script) as Script);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                it.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(answer(stream, script.clone(), it.requests.clone()));
            }
        });
        server
    }

    /// One that says 200 to everything.
    pub(crate) async fn sink(host: &str) -> Self {
        Self::start(host, |_| reply("200 OK", "", "reached")).await
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// How often somebody connected.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// What was asked so far, and forgets it.
    pub(crate) fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.requests.lock().expect("no panic"))
    }
}

/// Reads one request, keeps it and answers.
pub(crate) async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    script: Script,
    kept: Arc<Mutex<Vec<Request>>>,
) {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if !matches!(stream.read_buf(&mut bytes).await, Ok(1..)) {
            return;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let length = header(&head, "content-length").and_then(|text| text.parse().ok()).unwrap_or(0_usize);
    while bytes.len() < head_end + length {
        if !matches!(stream.read_buf(&mut bytes).await, Ok(1..)) {
            return;
        }
    }
    let request = (head, bytes.split_off(head_end));
    let reply = script(&request);
    kept.lock().expect("no panic").push(request);
    // Who has read enough goes away, and that is its right.
    let _ = stream.write_all(&reply).await;
    let _ = stream.shutdown().await;
}

/// An answer with further header lines, each with its line end.
pub(crate) fn reply(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// The value of a header.
pub(crate) fn header(head: &str, name: &str) -> Option<String> {
    let lines = head.lines().skip(1).filter_map(|line| line.split_once(": "));
    lines.into_iter().find(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned())
}
