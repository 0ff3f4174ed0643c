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
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::audience::Audience;
use super::frame::{self, GapReason};
use super::ring::RingRead;
use super::{CountedSubscriber, EventHub};
use crate::access::{Caller, TokenWatchGuard};

/// How long nothing may be sent, so that proxies and clients know that the connection lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Events taken from the ring at a time: enough to save locking, few enough that a slow reader holds little.
const TAKEN: usize = 32;

/// Events passed over at a time before others get a turn.
const PASSED: usize = 4_096;

/// The body of one subscriber.
pub(crate) struct Subscriber {
    hub: Arc<EventHub>,
    audience: Arc<Audience>,
    seen: SubscriberPosition,
    ready: VecDeque<Bytes>,
    news: Pin<Box<OwnedNotified>>,
    silence: Pin<Box<Sleep>>,
    sent_at: Instant,
    /// Resolves when its token is worth nothing any more.
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
    _watched: Option<TokenWatchGuard>,
    _counted: CountedSubscriber,
}

/// How far a subscriber has come.
pub(super) struct SubscriberPosition {
    pub(super) epoch: Arc<str>,
    /// It has seen everything up to here.
    pub(super) seq: u64,
    /// Behind this number its audience knows what is for it; what came before it must look through itself.
    pub(super) known_from: u64,
}

impl Subscriber {
    /// A subscriber that has seen everything up to `seen`, and is sent `first` before anything else.
    pub(super) fn new(
        hub: Arc<EventHub>,
        counted: CountedSubscriber,
        caller: &Caller,
        audience: Arc<Audience>,
        seen: SubscriberPosition,
        first: Vec<Bytes>,
    ) -> Self {
        Self {
            ended: Box::pin(caller.ended()),
            _watched: None,
            news: Box::pin(audience.news.clone().notified_owned()),
            silence: Box::pin(tokio::time::sleep(KEEP_ALIVE)),
            sent_at: Instant::now(),
            ready: first.into(),
            seen,
            hub,
            audience,
            _counted: counted,
        }
    }

    /// Keeps the tokens watched for as long as it reads.
    pub(crate) fn watched(mut self, watched: TokenWatchGuard) -> Self {
        self._watched = Some(watched);
        self
    }

    /// Takes what the ring has for this subscriber. False when there is more to look through.
    fn take(&mut self) -> bool {
        let hub = self.hub.clone();
        let ring = hub.read();
        if *ring.epoch != *self.seen.epoch {
            // The log was off, and is another one now.
            let (through, after) = (ring.before_first(), format!("{}-{}", self.seen.epoch, self.seen.seq));
            let why = GapReason::OtherEpoch;
            self.ready.push_back(frame::gap(&ring.epoch, through, why, Some(&after), None));
            let known_from = ring.last();
            self.seen = SubscriberPosition { epoch: ring.epoch.clone(), seq: through, known_from };
            return true;
        }
        let SubscriberPosition { epoch, seq, known_from } = &mut self.seen;
        if *seq >= *known_from && self.audience.latest() <= *seq {
            *seq = ring.last().max(*seq);
            return true;
        }
        for _ in 0..PASSED {
            match ring.after(*seq) {
                RingRead::Nothing => return true,
                RingRead::Gone { through } => {
                    let missed = through.checked_sub(*seq);
                    self.ready.push_back(frame::gap(epoch, through, GapReason::TooFast, None, missed));
                    *seq = through;
                }
                RingRead::Told(told) => {
                    *seq = told.event.seq;
                    if self.audience.wants(&told.event) {
                        self.ready.push_back(told.frame(epoch, self.audience.tenant()));
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
            return Some(frame::keep_alive(&self.seen.epoch, self.seen.seq));
        }
        None
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.hub.audiences().leave(&self.audience);
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
            if this.ended.as_mut().poll(cx).is_ready() {
                return Poll::Ready(None);
            }
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
            let news = this.audience.news.clone().notified_owned();
            this.news.as_mut().set(news);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use backstop::Backstop;
    use http_body_util::BodyExt;

    use super::*;
    use crate::access::Caller;
    use crate::stream::{EventFilter, ResumePoint};

    /// Counts how often a task is woken.
    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[tokio::test]
    async fn whoever_has_nothing_to_read_is_not_woken_and_keeps_its_place() {
        // V2
        let engine = Backstop::open("memory:").await.expect("a store in memory");
        let hub = EventHub::new(1_000, 1_000_000, Arc::default());
        let subscribe = async |events: Option<Vec<String>>| {
            let filter = EventFilter { events, ..EventFilter::default() };
            let subscribed = hub.subscribe(&engine, Caller::local("me"), filter, &ResumePoint::Now).await;
            subscribed.expect("the store is there")
        };
        let (mut busy, mut idle) = (subscribe(None).await, subscribe(Some(vec!["dead".to_owned()])).await);
        let (wakes, opening) = (Arc::new(Wakes::default()), idle.frame().await);
        assert!(opening.is_some() && busy.frame().await.is_some(), "each is greeted");
        let waker = Waker::from(wakes.clone());
        assert!(Pin::new(&mut idle).poll_frame(&mut Context::from_waker(&waker)).is_pending());
        let before = idle.seen.seq;

        engine.enqueue_raw("mail", "{}").submit().await.expect("stored");
        assert!(busy.frame().await.is_some(), "it is told");
        assert_eq!(wakes.0.load(Ordering::SeqCst), 0, "and the other is let sleep");
        assert!(Pin::new(&mut idle).poll_frame(&mut Context::from_waker(&waker)).is_pending());
        assert!(idle.seen.seq > before, "but knows where it is when it looks");
        drop((busy, idle));
        assert_eq!(hub.subscribers(), 0);
    }
}
