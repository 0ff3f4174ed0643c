//! Messages over a socket: each as JSON, after its length.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;

/// The longest message: a batch of jobs with the largest payloads has room in it.
const MESSAGE_MAX: usize = 64 * 1024 * 1024;

/// A message as it goes over the socket.
pub(super) fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let length = bytes.len() - 4;
    if length > MESSAGE_MAX {
        return Err(io::Error::other(format!("a message of {length} bytes is longer than {MESSAGE_MAX}")));
    }
    bytes[..4].copy_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    Ok(bytes)
}

/// Sends one message.
pub(super) async fn send(socket: &mut OwnedWriteHalf, message: &impl Serialize) -> io::Result<()> {
    socket.write_all(&encode(message)?).await
}

/// The end of a socket that messages leave by in order, most of them at once: what is said before a crash has been
/// said.
pub(super) struct MessageWriter {
    socket: OwnedWriteHalf,
    /// What the socket has not taken yet.
    backlog: Mutex<VecDeque<u8>>,
    grown: Notify,
}

impl MessageWriter {
    pub(super) fn new(socket: OwnedWriteHalf) -> Self {
        Self { socket, backlog: Mutex::default(), grown: Notify::new() }
    }

    fn backlog(&self) -> MutexGuard<'_, VecDeque<u8>> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message, or as much of it as the socket takes now; [`MessageWriter::flush`] sends the rest.
    pub(super) fn say(&self, message: &impl Serialize) {
        let Ok(bytes) = encode(message) else { return };
        let mut backlog = self.backlog();
        let mut rest = bytes.as_slice();
        while backlog.is_empty() && !rest.is_empty() {
            match self.socket.try_write(rest) {
                Ok(written) => rest = &rest[written..],
                // Full, or gone: whoever listens at the other end of the socket finds out first.
                Err(_) => break,
            }
        }
        backlog.extend(rest);
        self.grown.notify_one();
    }

    /// Sends what the socket did not take at once, for as long as it is there.
    pub(super) async fn flush(&self) -> io::Result<()> {
        loop {
            self.grown.notified().await;
            while !self.backlog().is_empty() {
                self.socket.writable().await?;
                let mut backlog = self.backlog();
                match self.socket.try_write(backlog.as_slices().0) {
                    Ok(written) => drop(backlog.drain(..written)),
                    Err(problem) if problem.kind() == io::ErrorKind::WouldBlock => {}
                    Err(problem) => return Err(problem),
                }
            }
        }
    }
}

/// Receives the next message; none when the other end is gone. Not to be dropped while it reads: half a message would
/// be lost.
pub(super) async fn receive<T: DeserializeOwned>(socket: &mut OwnedReadHalf) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match socket.read_exact(&mut length).await {
        Ok(_) => {}
        Err(problem) if problem.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(problem) => return Err(problem),
    }
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > MESSAGE_MAX {
        return Err(io::Error::other(format!("a message of {length} bytes is longer than {MESSAGE_MAX}")));
    }
    let mut bytes = vec![0; length];
    socket.read_exact(&mut bytes).await?;
    Ok(Some(serde_json::from_slice(&bytes)?))
}
