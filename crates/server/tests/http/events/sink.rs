//! A receiver of webhooks on a real socket, which checks signatures by itself.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// One request that arrived.
#[derive(Debug, Clone)]
pub(crate) struct Arrived {
    head: String,
    pub(crate) body: String,
}

/// A receiver.
pub(crate) struct Sink {
    pub(crate) url: String,
    pub(crate) port: u16,
    arrived: mpsc::UnboundedReceiver<Arrived>,
}

impl Sink {
    /// Answers with these statuses in turn, the last one for ever; 0 never answers.
    pub(crate) async fn new(statuses: &[u16]) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), statuses)
    }

    /// Answers well on every address of this machine, of either version.
    pub(crate) async fn everywhere() -> Self {
        Self::on(TcpListener::bind("[::]:0").await.unwrap(), &[204])
    }

    fn on(listener: TcpListener, statuses: &[u16]) -> Self {
        let address = listener.local_addr().unwrap();
        let (url, port) = (format!("http://{address}/hooks/secret-path"), address.port());
        let (sender, arrived) = mpsc::unbounded_channel();
        let mut statuses = statuses.to_vec();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let status = if statuses.len() > 1 { statuses.remove(0) } else { statuses[0] };
                tokio::spawn(answer(stream, status, sender.clone()));
            }
        });
        Self { url, port, arrived }
    }

    pub(crate) async fn next(&mut self) -> Arrived {
        self.arrived.recv().await.unwrap()
    }

    pub(crate) fn is_empty(&mut self) -> bool {
        self.arrived.is_empty()
    }
}

async fn answer(mut stream: TcpStream, status: u16, sender: mpsc::UnboundedSender<Arrived>) {
    let mut bytes = Vec::new();
    let arrived = loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let arrived = Arrived { head: head.to_owned(), body: body.to_owned() };
            if arrived.header("content-length").parse::<usize>().unwrap() == body.len() {
                break arrived;
            }
        }
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "the sender hung up: {text}");
    };
    let _ = sender.send(arrived);
    if status == 0 {
        std::future::pending::<()>().await;
    }
    let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).await.unwrap();
}

impl Arrived {
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        found.unwrap_or_else(|| panic!("no {name} in {}", self.head))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Checks the signature as receivers do.
    pub(crate) fn verify(&self, secret: &str) {
        let (id, at) = (self.header("webhook-id"), self.header("webhook-timestamp"));
        assert_eq!(self.header("webhook-signature"), signature(secret, id, at, &self.body));
    }
}

fn signature(secret: &str, id: &str, at: &str, body: &str) -> String {
    let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(format!("{id}.{at}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[test]
fn the_check_itself_agrees_with_the_published_example() {
    // V2
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let signed = signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", "{\"test\": 2432232314}");
    assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}
