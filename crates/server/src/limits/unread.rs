//! What is left of a body when its request has been answered.
//!
//! A request may be refused before its body is read. If the connection were closed then, a client that is still
//! sending would see it break and never read why; if it were kept, the rest of the body would stand where the next
//! request is expected. So the rest is read and thrown away, within a bound of bytes and time, and only what goes
//! beyond that closes the connection, which the answer says.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header::{CONNECTION, EXPECT};
use axum::http::{HeaderMap, HeaderValue};
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use tokio::time::timeout;

/// Bytes that are read for a client that was refused: several times what any call may send.
const MOST: usize = 64 << 20;

/// How long they are read for, and how long nothing may come: whoever pauses is not kept waiting for its answer.
const LONGEST: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(500);

/// A body that whoever answers can go on reading.
pub(crate) struct UnreadBody {
    body: Shared,
    /// The client waits to be told before it sends: until somebody reads, it has nothing under way.
    waits: bool,
}

impl UnreadBody {
    /// Keeps hold of a request's body; none when it has none.
    pub(crate) fn of(request: Request) -> (Request, Option<Self>) {
        if request.body().is_end_stream() {
            return (request, None);
        }
        let waits = request.headers().contains_key(EXPECT);
        let (parts, body) = request.into_parts();
        let body = Shared(Arc::new(Mutex::new(Begun { body, begun: false })));
        let request = Request::from_parts(parts, Body::new(body.clone()));
        (request, Some(Self { body, waits }))
    }

    /// Reads what is left, and has the answer say when that was too much.
    pub(crate) async fn read_on(mut self, headers: &mut HeaderMap) {
        let nothing_comes = self.waits && !self.body.lock().begun;
        let whole = self.body.is_end_stream()
            || (!nothing_comes && timeout(LONGEST, self.drained()).await.unwrap_or(false));
        if !whole {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }

    async fn drained(&mut self) -> bool {
        let mut seen = 0;
        loop {
            let Ok(more) = timeout(PAUSE, self.body.frame()).await else { return false };
            let Some(frame) = more else { return true };
            let Ok(frame) = frame else { return false };
            seen += frame.data_ref().map_or(0, Bytes::len);
            if seen > MOST {
                return false;
            }
        }
    }
}

/// One body for the one who handles a request and for the one who answers it. They take turns: the first is done when
/// the second begins.
#[derive(Clone)]
struct Shared(Arc<Mutex<Begun>>);

/// A body, and whether somebody has begun to read it.
struct Begun {
    body: Body,
    begun: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Begun> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HttpBody for Shared {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut it = self.lock();
        it.begun = true;
        Pin::new(&mut it.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.lock().body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.lock().body.size_hint()
    }
}
