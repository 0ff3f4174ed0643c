//! One connection through the proxy: two threads, each carrying bytes in one direction.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Control, HeldSide, Hold};
use crate::signals::wait_until;

/// How many bytes are carried at once.
const CHUNK: usize = 64 * 1024;

/// How long a trap waits for the server's answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// An answer in several pieces is over when nothing came for this long.
const QUIET: Duration = Duration::from_millis(30);

/// Both ends of one connection.
#[derive(Debug)]
pub(super) struct ProxyLink {
    client: TcpStream,
    server: TcpStream,
    closed: AtomicBool,
    /// Set by a trap: answers are thrown away, and the time of the last one is kept.
    trapped: AtomicBool,
    answered: Mutex<Option<Instant>>,
}

impl ProxyLink {
    pub(super) fn new(client: TcpStream, server: TcpStream) -> Self {
        // Small messages go out at once, as they would without the proxy.
        let _ = client.set_nodelay(true);
        let _ = server.set_nodelay(true);
        Self {
            client,
            server,
            closed: AtomicBool::new(false),
            trapped: AtomicBool::new(false),
            answered: Mutex::new(None),
        }
    }

    /// Ends both sides and wakes the threads that wait on them.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }

    /// From the client to the server, with an eye on the traps.
    ///
    /// The bytes are looked at before they are taken: the kernel resets a connection that is closed with bytes left
    /// unread, and that is how a trap makes the client see a reset instead of an orderly end.
    pub(super) fn carry_requests(&self, control: &Control, mut hold: Option<Hold>) {
        let mut chunk = vec![0; CHUNK];
        let mut past: Vec<u8> = Vec::new();
        loop {
            let length = match self.client.peek(&mut chunk) {
                Ok(0) => {
                    let _ = self.server.shutdown(Shutdown::Write);
                    return;
                }
                Ok(length) => length,
                Err(_) => return self.close(),
            };
            let bytes = &chunk[..length];
            self.pass_or_wait(control);
            if self.is_closed() {
                return;
            }
            past.extend_from_slice(bytes);
            if let Some(forward) = control.spring(&past) {
                return self.trap(control, bytes, forward);
            }
            past.drain(..past.len().saturating_sub(control.memory()));
            if let Some(Hold { sequence, side }) = &mut hold
                && let Some(place) = sequence.feed(bytes)
            {
                let side = *side;
                hold = None;
                if control.take_hold() && self.hold(control, &bytes[..place], side) {
                    return;
                }
            }
            count(control, length);
            if (&self.server).write_all(bytes).is_err() {
                return self.close();
            }
            if (&self.client).read_exact(&mut chunk[..length]).is_err() {
                return self.close();
            }
        }
    }

    /// From the server to the client.
    pub(super) fn carry_answers(&self, control: &Control) {
        let mut chunk = vec![0; CHUNK];
        loop {
            let length = match (&self.server).read(&mut chunk) {
                Ok(length) => length,
                Err(_) if self.trapped.load(Ordering::SeqCst) => return,
                Err(_) => return self.close(),
            };
            if self.trapped.load(Ordering::SeqCst) {
                // The end of the connection is an answer too.
                *self.answered.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
                if length == 0 {
                    return;
                }
                continue;
            }
            self.pass_or_wait(control);
            if length == 0 || self.is_closed() {
                let _ = self.client.shutdown(Shutdown::Write);
                return;
            }
            count(control, length);
            if (&self.client).write_all(&chunk[..length]).is_err() {
                return self.close();
            }
        }
    }

    /// Ends the connection around the given bytes, which the client still has unread on its way.
    fn trap(&self, control: &Control, bytes: &[u8], forward: bool) {
        self.trapped.store(true, Ordering::SeqCst);
        if forward && (&self.server).write_all(bytes).is_ok() {
            count(control, bytes.len());
            wait_until(ANSWER_LIMIT, || {
                let last = *self.answered.lock().unwrap_or_else(PoisonError::into_inner);
                self.is_closed() || last.is_some_and(|last| last.elapsed() > QUIET)
            });
        }
        // Counted first: a client that sees its connection end may ask at once.
        control.cuts.fetch_add(1, Ordering::SeqCst);
        // Ends the other thread; the last of the two drops the client's socket, and that is the reset.
        let _ = self.server.shutdown(Shutdown::Both);
    }

    /// Holds the connection at what comes after the given bytes; true when it has ended meanwhile.
    fn hold(&self, control: &Control, before: &[u8], side: HeldSide) -> bool {
        if side == HeldSide::Server {
            self.trapped.store(true, Ordering::SeqCst);
            control.held.fetch_add(1, Ordering::SeqCst);
            return false;
        }
        count(control, before.len());
        let _ = (&self.server).write_all(before);
        control.held.fetch_add(1, Ordering::SeqCst);
        // What the client still sends goes nowhere, until it is gone.
        let mut chunk = vec![0; CHUNK];
        while matches!((&self.client).read(&mut chunk), Ok(1..)) {}
        self.close();
        true
    }

    fn pass_or_wait(&self, control: &Control) {
        control.wait_while(|orders| orders.stall && !orders.stop && !self.is_closed());
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}

/// Called before the bytes are sent: who has received them finds them counted.
fn count(control: &Control, length: usize) {
    control.bytes.fetch_add(u64::try_from(length).unwrap_or(u64::MAX), Ordering::SeqCst);
}
