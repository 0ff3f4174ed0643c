//! The protocol of beanstalkd: orders are lines, answers are lines, and some are followed by a body.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::broker::{BrokerError, PATIENCE};

/// Bytes of a line at most: the server's own lines are far shorter.
const MOST_LINE: u64 = 1_024;

/// Bytes of a body at most; servers take 64 KiB unless they are told otherwise.
const MOST_BODY: usize = 256 * 1024 * 1024;

/// What the server answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BeanstalkdAnswer {
    pub(super) line: String,
    pub(super) body: Vec<u8>,
}

impl BeanstalkdAnswer {
    /// True when the answer begins with this word.
    pub(super) fn is(&self, word: &str) -> bool {
        self.line.split(' ').next() == Some(word)
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct BeanstalkdConnection {
    stream: BufStream<TcpStream>,
    address: String,
}

impl BeanstalkdConnection {
    pub(super) async fn open(host: &str, port: u16, address: &str) -> Result<Self, BrokerError> {
        let unavailable = |problem: String| BrokerError::Unavailable { address: address.to_owned(), problem };
        let connected = timeout(PATIENCE, TcpStream::connect((host, port))).await;
        let stream = connected
            .map_err(|_| unavailable("the connection was not made in time".to_owned()))?
            .map_err(|error| unavailable(error.to_string()))?;
        // Orders are small, and each waits for its answer.
        stream.set_nodelay(true).map_err(|error| unavailable(error.to_string()))?;
        Ok(Self { stream: BufStream::new(stream), address: address.to_owned() })
    }

    fn unavailable(&self, problem: impl ToString) -> BrokerError {
        BrokerError::Unavailable { address: self.address.clone(), problem: problem.to_string() }
    }

    /// An answer that was not expected.
    pub(super) fn refused(&self, line: &str) -> BrokerError {
        let problem = match line {
            "JOB_TOO_BIG" => "the message is larger than the server takes; raise its option -z".to_owned(),
            "DRAINING" => "the server is in drain mode and takes no messages".to_owned(),
            line => format!("it answered `{line}`"),
        };
        BrokerError::Refused { address: self.address.clone(), problem }
    }

    pub(super) async fn send(&mut self, orders: &[u8]) -> Result<(), BrokerError> {
        let write = async {
            self.stream.write_all(orders).await?;
            self.stream.flush().await
        };
        match timeout(PATIENCE, write).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(self.unavailable(error)),
            Err(_) => Err(self.unavailable("an order was not taken in time")),
        }
    }

    pub(super) async fn reply(&mut self) -> Result<BeanstalkdAnswer, BrokerError> {
        self.reply_within(Duration::ZERO).await
    }

    /// Reads an answer for which the server itself may wait so long.
    pub(super) async fn reply_within(&mut self, wait: Duration) -> Result<BeanstalkdAnswer, BrokerError> {
        match timeout(wait + PATIENCE, read(&mut self.stream)).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => Err(self.unavailable(error)),
            Err(_) => Err(self.unavailable("no answer in time")),
        }
    }
}

/// Reads one answer.
async fn read(stream: &mut (impl AsyncBufReadExt + Unpin)) -> std::io::Result<BeanstalkdAnswer> {
    let wrong = |what: &str| std::io::Error::new(std::io::ErrorKind::InvalidData, what.to_owned());
    let mut line = Vec::new();
    stream.take(MOST_LINE).read_until(b'\n', &mut line).await?;
    if line.is_empty() {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    let text = line.strip_suffix(b"\r\n").ok_or_else(|| wrong("a line without an end"))?;
    let line = String::from_utf8(text.to_vec()).map_err(|_| wrong("a line that is not text"))?;
    let mut body = Vec::new();
    if let Some(length) = body_length(&line) {
        if length > MOST_BODY {
            return Err(wrong("a body beyond every limit"));
        }
        body.resize(length, 0);
        stream.read_exact(&mut body).await?;
        let mut end = [0; 2];
        stream.read_exact(&mut end).await?;
        if end != *b"\r\n" {
            return Err(wrong("a body without an end"));
        }
    }
    Ok(BeanstalkdAnswer { line, body })
}

/// How many bytes follow an answer.
fn body_length(line: &str) -> Option<usize> {
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        ["RESERVED" | "FOUND", _, length] | ["OK", length] => length.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answer(bytes: &[u8]) -> Result<BeanstalkdAnswer, String> {
        let mut stream = tokio::io::BufReader::new(bytes);
        read(&mut stream).await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn lines_and_bodies_are_read_whatever_is_in_them() {
        let plain = answer(b"INSERTED 7\r\n").await.unwrap();
        assert!(plain.is("INSERTED") && !plain.is("INSERTED 7") && plain.body.is_empty());
        let reserved = answer(b"RESERVED 7 6\r\na\r\nb\0\xff\r\nDELETED\r\n").await.unwrap();
        assert_eq!(reserved.body, b"a\r\nb\0\xff");
        assert_eq!(answer(b"RESERVED 7 0\r\n\r\n").await.unwrap().body, b"");
    }

    #[tokio::test]
    async fn broken_answers_are_errors_and_never_wait_for_more_than_comes() {
        for (bytes, told) in [
            (&b""[..], "unexpected end of file"),
            (b"INSERTED 7", "without an end"),
            (b"RESERVED 7 6\r\nab", "early eof"),
            (b"RESERVED 7 2\r\nabcd", "a body without an end"),
            (b"\xff\r\n", "not text"),
            (b"OK 99999999999\r\n", "beyond every limit"),
        ] {
            let problem = answer(bytes).await.unwrap_err();
            assert!(problem.contains(told), "{problem}");
        }
        assert!(answer(&vec![b'x'; 5_000]).await.is_err(), "a line has an end");
    }
}
