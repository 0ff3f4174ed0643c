//! What a program prints: the start of it is kept and logged, all of it is read, so that no program waits for a reader.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;

use crate::refusal::brief;

/// Keeps a line with the run.
pub(super) type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// Bytes kept of each stream.
const KEPT_MAX: usize = 64 * 1024;
/// Bytes logged of each stream: both fit into what the engine keeps of a run, with a line about the rest.
const LOGGED_MAX: usize = 30 * 1024;
/// Bytes of a logged line; a longer one is logged in pieces.
const LINE_MAX: usize = 4 * 1024;

/// What was read of a stream so far.
#[derive(Debug, Clone, Default)]
pub(super) struct CapturedOutput {
    /// The first bytes.
    pub(super) kept: Vec<u8>,
    /// How many more there were.
    pub(super) dropped: u64,
}

impl CapturedOutput {
    /// The last line with something in it.
    pub(super) fn last_line(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.kept);
        text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(brief)
    }

    fn take(&mut self, bytes: &[u8]) {
        let room = (KEPT_MAX - self.kept.len()).min(bytes.len());
        self.kept.extend_from_slice(&bytes[..room]);
        self.dropped += u64::try_from(bytes.len() - room).unwrap_or(u64::MAX);
    }
}

/// A stream that is being read.
#[derive(Clone, Default)]
pub(super) struct OutputStream(Arc<Mutex<CapturedOutput>>);

impl OutputStream {
    /// What was read so far.
    pub(super) fn captured(&self) -> CapturedOutput {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads to the end. Lines are logged as they come, with `mark` before each.
    pub(super) async fn read(self, mut pipe: Receiver, mark: &'static str, log: Log) {
        let mut chunk = vec![0; 16 * 1024];
        let mut lines = Lines { mark, log, line: Vec::new(), room: LOGGED_MAX, silent: 0 };
        while let Ok(count @ 1..) = pipe.read(&mut chunk).await {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).take(&chunk[..count]);
            lines.take(&chunk[..count]);
        }
        lines.end();
    }
}

/// Logs a stream line by line until its room is used up, and counts the rest.
struct Lines {
    mark: &'static str,
    log: Log,
    line: Vec<u8>,
    room: usize,
    silent: usize,
}

impl Lines {
    fn take(&mut self, bytes: &[u8]) {
        for (at, byte) in bytes.iter().enumerate() {
            if self.silent > 0 {
                self.silent += bytes.len() - at;
                return;
            }
            if *byte == b'\n' || self.line.len() == LINE_MAX {
                self.tell();
            }
            if *byte != b'\n' {
                self.line.push(*byte);
            }
        }
    }

    fn tell(&mut self) {
        let cost = self.mark.len() + self.line.len() + 1;
        if cost > self.room {
            self.silent += self.line.len() + 1;
        } else {
            self.room -= cost;
            (self.log)(&format!("{}{}", self.mark, String::from_utf8_lossy(&self.line)));
        }
        self.line.clear();
    }

    fn end(mut self) {
        if !self.line.is_empty() {
            self.tell();
        }
        if self.silent > 0 {
            (self.log)(&format!("{}… {} more bytes are not shown", self.mark, self.silent));
        }
    }
}
