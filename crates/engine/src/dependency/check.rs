//! One check: a function of the application, a request, or a connection.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::address::CheckAddress;
use crate::outcome::BoxError;

/// How long a check may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// What is read of an answer to find its status.
const STATUS_LINE: usize = 256;

type CheckFuture = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

/// Asks whether a dependency is there.
#[derive(Clone)]
pub(crate) enum DependencyCheck {
    /// A function of the application.
    Code(Arc<dyn Fn() -> CheckFuture + Send + Sync>),
    /// A request or a connection.
    Address(CheckAddress),
}

impl std::fmt::Debug for DependencyCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(_) => f.write_str("Code"),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

impl DependencyCheck {
    /// A check in code, with what it shares with handlers.
    pub(crate) fn code<C, F, Fut>(app: Arc<C>, check: F) -> Self
    where
        C: Send + Sync + 'static,
        F: Fn(Arc<C>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        Self::Code(Arc::new(move || Box::pin(check(app.clone()))))
    }

    /// Makes it; says what is wrong if it fails. It takes as long as it takes.
    pub(super) async fn make(&self) -> Result<(), String> {
        match self {
            Self::Code(check) => check().await.map_err(|problem| problem.to_string()),
            Self::Address(address) => ask(address).await,
        }
    }
}

async fn ask(address: &CheckAddress) -> Result<(), String> {
    let connect = TcpStream::connect((address.host.as_str(), address.port));
    let mut stream = connect.await.map_err(|problem| format!("cannot connect: {problem}"))?;
    let Some(path) = &address.path else { return Ok(()) };
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: backstop/{}\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        address.authority(),
        env!("CARGO_PKG_VERSION")
    );
    let failed = |problem: std::io::Error| format!("the request failed: {problem}");
    stream.write_all(request.as_bytes()).await.map_err(failed)?;
    let mut answer = Vec::new();
    let mut head = stream.take(STATUS_LINE as u64);
    while !answer.contains(&b'\n') && head.read_buf(&mut answer).await.map_err(failed)? > 0 {}
    match status(&answer) {
        Some(200..300) => Ok(()),
        Some(code) => Err(format!("it answered {code}")),
        None => Err("it did not answer in HTTP".to_owned()),
    }
}

fn status(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\n').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    words.next().filter(|version| version.starts_with("HTTP/1."))?;
    words.next().filter(|code| code.len() == 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// Answers one connection with these bytes, and gives what it was sent.
    async fn server(answer: &'static [u8]) -> (String, tokio::task::JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let at = listener.local_addr().expect("its address").to_string();
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut asked = vec![0; 1_024];
            let read = stream.read(&mut asked).await.expect("what it was asked");
            asked.truncate(read);
            stream.write_all(answer).await.expect("an answer");
            asked
        });
        (at, served)
    }

    fn check(address: &str) -> DependencyCheck {
        DependencyCheck::Address(address.parse().expect("an address"))
    }

    #[tokio::test]
    async fn a_request_passes_when_it_is_answered_well() {
        // H1
        for (answer, passes) in [
            (&b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"[..], Ok(())),
            (b"HTTP/1.0 204 No Content\r\n\r\n", Ok(())),
            (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", Err("it answered 503")),
            (b"HTTP/1.1 301 Moved Permanently\r\n\r\n", Err("it answered 301")),
            (b"220 mail.internal ESMTP\r\n", Err("it did not answer in HTTP")),
            (b"", Err("it did not answer in HTTP")),
        ] {
            let (at, served) = server(answer).await;
            let made = check(&format!("http://{at}/health?deep=1")).make().await;
            assert_eq!(made, passes.map_err(str::to_owned));
            let asked = String::from_utf8(served.await.expect("it ended")).expect("text");
            assert!(asked.starts_with("GET /health?deep=1 HTTP/1.1\r\n"), "{asked}");
            assert!(asked.contains(&format!("\r\nHost: {at}\r\n")), "{asked}");
        }
    }

    #[tokio::test]
    async fn a_connection_is_enough_for_tcp() {
        // H1
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let at = listener.local_addr().expect("its address");
        assert_eq!(check(&format!("tcp://{at}")).make().await, Ok(()));
        drop(listener);
        let refused = check(&format!("tcp://{at}")).make().await.expect_err("nobody listens");
        assert!(refused.starts_with("cannot connect: "), "{refused}");
    }

    #[tokio::test]
    async fn a_check_in_code_shares_what_handlers_share() {
        // H1
        let app = Arc::new(std::sync::Mutex::new("down"));
        let check =
            DependencyCheck::code(app.clone(), |app: Arc<std::sync::Mutex<&'static str>>| async move {
                let state = *app.lock().expect("a lock");
                if state == "up" { Ok(()) } else { Err(state.into()) }
            });
        assert_eq!(check.make().await, Err("down".to_owned()));
        *app.lock().expect("a lock") = "up";
        assert_eq!(check.make().await, Ok(()));
    }
}
