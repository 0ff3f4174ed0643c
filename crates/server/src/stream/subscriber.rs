//! One subscriber: the body of its answer, which is made as fast as it is read.
//!
//! It has no task, no channel and no buffer of its own: it reads the ring behind the last number it has seen. A
//! subscriber that reads slowly finds that numbers are gone, is told so, and goes on; nobody waits for it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::futures::OwnedNotified;
use tokio::time::{Instant, Sleep};

use super::filter::{Filter, visible};
use super::frame::{self, Why};
use super::ring::Next;
use super::{Hub, Seat};
use crate::access::Caller;

/// How long nothing may be sent, so that proxies and clients know that the connection lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Events taken from the ring at a time: enough to save locking, few enough that a slow reader holds little.
const TAKEN: usize = 32;

/// Events passed over at a time before others get a turn.
const PASSED: usize = 4_096;

/// The body of one subscriber.
pub(crate) struct Subscriber {
    hub: Arc<Hub>,
    caller: Caller,
    filter: Filter,
    epoch: Arc<str>,
    seen: u64,
    ready: VecDeque<Bytes>,
    news: Pin<Box<OwnedNotified>>,
    silence: Pin<Box<Sleep>>,
    sent_at: Instant,
    _seat: Seat,
}

impl Subscriber {
    /// A subscriber that has seen everything up to `seen`, and is sent `first` before anything else.
    pub(super) fn new(
        hub: Arc<Hub>,
        seat: Seat,
        caller: Caller,
        filter: Filter,
        seen: (Arc<str>, u64),
        first: Vec<Bytes>,
    ) -> Self {
        Self {
            news: Box::pin(hub.news.clone().notified_owned()),
            silence: Box::pin(tokio::time::sleep(KEEP_ALIVE)),
            sent_at: Instant::now(),
            ready: first.into(),
            epoch: seen.0,
            seen: seen.1,
            hub,
            caller,
            filter,
            _seat: seat,
        }
    }

    /// Takes what the ring has for this subscriber. False when there is more to look through.
    fn take(&mut self) -> bool {
        let hub = self.hub.clone();
        let ring = hub.read();
        for _ in 0..PASSED {
            match ring.after(self.seen) {
                Next::Nothing => return true,
                Next::Gone { through } => {
                    let missed = through.checked_sub(self.seen);
                    self.ready.push_back(frame::gap(&self.epoch, through, Why::TooFast, None, missed));
                    self.seen = through;
                }
                Next::Told(told) => {
                    self.seen = told.seq;
                    if visible(&self.caller, &told.event) && self.filter.wants(&told.event) {
                        self.ready.push_back(told.frame(&self.epoch, self.caller.tenant()));
                    }
                }
            }
            if self.ready.len() >= TAKEN {
                return true;
            }
        }
        false
    }

    fn send(&mut self) -> Option<Bytes> {
        let bytes = self.ready.pop_front()?;
        if self.ready.is_empty() {
            // Thousands that wait hold no memory for what they were sent.
            self.ready = VecDeque::new();
        }
        self.sent_at = Instant::now();
        Some(bytes)
    }

    /// A sign of life when nothing was sent for too long. The timer is moved only when it fires, not by every event.
    fn sign_of_life(&mut self, cx: &mut Context<'_>) -> Option<Bytes> {
        while self.silence.as_mut().poll(cx).is_ready() {
            let quiet_until = self.sent_at + KEEP_ALIVE;
            if Instant::now() < quiet_until {
                self.silence.as_mut().reset(quiet_until);
                continue;
            }
            self.sent_at = Instant::now();
            self.silence.as_mut().reset(self.sent_at + KEEP_ALIVE);
            return Some(frame::keep_alive(&self.epoch, self.seen));
        }
        None
    }
}

impl Body for Subscriber {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        loop {
            if let Some(bytes) = this.send() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            if this.hub.is_closed() {
                return Poll::Ready(None);
            }
            let all_seen = this.take();
            if !this.ready.is_empty() {
                continue;
            }
            if let Some(bytes) = this.sign_of_life(cx) {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            if !all_seen {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if this.news.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            // Listens again before it looks again, so that nothing falls in between.
            let news = this.hub.news.clone().notified_owned();
            this.news.as_mut().set(news);
        }
    }
}
