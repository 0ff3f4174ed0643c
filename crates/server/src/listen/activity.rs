//! What a connection does, since when, and until when it may.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep};

use crate::limits::ServerLimits;

/// Nothing has come since the last answer.
const IDLE: u8 = 0;
/// A request's head comes in.
const HEAD: u8 = 1;
/// A request is being answered.
const BUSY: u8 = 2;

/// Stands for a write that is not held up.
const FLOWING: u64 = u64::MAX;

/// The state of one connection, in milliseconds since its beginning.
#[derive(Debug)]
pub(super) struct ConnectionActivity {
    born: Instant,
    phase: AtomicU8,
    since: AtomicU64,
    stuck_since: AtomicU64,
}

impl ConnectionActivity {
    /// Of a new connection: it has come to say something.
    pub(super) fn new() -> Self {
        let (phase, since) = (AtomicU8::new(HEAD), AtomicU64::new(0));
        Self { born: Instant::now(), phase, since, stuck_since: AtomicU64::new(FLOWING) }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_millis()).unwrap_or(FLOWING - 1)
    }

    fn turn(&self, phase: u8) {
        self.since.store(self.now(), Ordering::Relaxed);
        self.phase.store(phase, Ordering::Release);
    }

    /// A request has begun.
    pub(super) fn busy(&self) {
        self.turn(BUSY);
    }

    /// Its answer has been handed over.
    pub(super) fn idle(&self) {
        self.turn(IDLE);
    }

    /// When it became idle, if it is.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let since = Duration::from_millis(self.since.load(Ordering::Relaxed));
        (self.phase.load(Ordering::Acquire) == IDLE).then(|| self.born + since)
    }

    fn has_read(&self) {
        if self.phase.load(Ordering::Acquire) == IDLE {
            self.turn(HEAD);
        }
    }

    fn has_written(&self, held_up: bool) {
        if !held_up {
            self.stuck_since.store(FLOWING, Ordering::Relaxed);
        } else if self.stuck_since.load(Ordering::Relaxed) == FLOWING {
            self.stuck_since.store(self.now(), Ordering::Relaxed);
        }
    }

    /// Resolves when the connection has taken too long over what it does.
    pub(super) async fn overdue(&self, limits: &ServerLimits) {
        // Looked at now and then: a connection costs one timer, and nothing has to be told when its phase changes.
        let look = (limits.head / 4).clamp(Duration::from_millis(50), Duration::from_secs(5));
        while !self.is_overdue(limits) {
            sleep(look).await;
        }
    }

    fn is_overdue(&self, limits: &ServerLimits) -> bool {
        let passed =
            |since: u64, most: Duration| u128::from(self.now().saturating_sub(since)) >= most.as_millis();
        let stuck = self.stuck_since.load(Ordering::Relaxed);
        if stuck != FLOWING && passed(stuck, limits.unread) {
            return true;
        }
        let since = self.since.load(Ordering::Relaxed);
        match self.phase.load(Ordering::Acquire) {
            IDLE => passed(since, limits.idle),
            HEAD => passed(since, limits.head),
            // A body has a clock of its own, and a handler may take its time.
            _ => false,
        }
    }
}

/// A stream whose reads and writes are felt.
pub(super) struct MeteredStream<S> {
    pub(super) inner: S,
    pub(super) activity: Arc<ConnectionActivity>,
}

impl<S: AsyncRead + Unpin> AsyncRead for MeteredStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.activity.has_read();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MeteredStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.activity.has_written(written.is_pending());
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, pieces);
        self.activity.has_written(written.is_pending());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_phase_has_its_time() {
        let limits = ServerLimits::default();
        let after = async |prepare: fn(&ConnectionActivity)| {
            let activity = ConnectionActivity::new();
            prepare(&activity);
            let begun = Instant::now();
            let overdue = tokio::time::timeout(Duration::from_secs(600), activity.overdue(&limits)).await;
            overdue.ok().map(|()| begun.elapsed().as_secs())
        };
        assert_eq!(after(|_| {}).await, Some(10));
        assert_eq!(after(ConnectionActivity::idle).await, Some(75));
        assert_eq!(after(ConnectionActivity::busy).await, None);
        // A first byte ends the rest and begins a head.
        let begun = |activity: &ConnectionActivity| (activity.idle(), activity.has_read()).1;
        assert_eq!(after(begun).await, Some(10));
        let unread = |activity: &ConnectionActivity| (activity.busy(), activity.has_written(true)).1;
        assert_eq!(after(unread).await, Some(30));
        let read_at_last = |activity: &ConnectionActivity| {
            (activity.busy(), activity.has_written(true), activity.has_written(false)).2
        };
        assert_eq!(after(read_at_last).await, None);
    }
}
