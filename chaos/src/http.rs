//! A client of the HTTP API that a kill cannot surprise: one connection for each request, and a deadline on everything.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Longer than any wait that is asked for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Posts JSON and answers the JSON that came back.
///
/// # Errors
/// When nobody listens, the connection ends early, or the answer is no success.
pub fn post(address: SocketAddr, path: &str, body: &Value) -> io::Result<Value> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| broken("no whole head"))?;
    if !head.starts_with("HTTP/1.1 200") {
        return Err(broken(body));
    }
    serde_json::from_str(body).map_err(io::Error::other)
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}
