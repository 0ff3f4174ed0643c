//! A body that ends when the server goes down, and gives its place back when it is done with.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::shares::HeldShare;

/// The body of a stream.
pub(super) struct StoppableBody {
    inner: Body,
    stopped: Pin<Box<WaitForCancellationFutureOwned>>,
    _place: HeldShare,
}

impl StoppableBody {
    pub(super) fn new(inner: Body, stopping: CancellationToken, place: HeldShare) -> Self {
        Self { inner, stopped: Box::pin(stopping.cancelled_owned()), _place: place }
    }
}

impl HttpBody for StoppableBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        // What is there to be sent is sent; only waiting for more is over.
        if let ready @ Poll::Ready(_) = Pin::new(&mut self.inner).poll_frame(cx) {
            return ready;
        }
        self.stopped.as_mut().poll(cx).map(|()| None)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
