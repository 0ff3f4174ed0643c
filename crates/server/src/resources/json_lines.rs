//! Answers of one JSON document a line, made while they are read: a page at a time.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;
use serde::Serialize;
use tokio::sync::mpsc;

/// Pages of lines as they come.
pub(crate) struct JsonLines(pub(crate) mpsc::Receiver<Result<Bytes, io::Error>>);

impl HttpBody for JsonLines {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.0.poll_recv(cx).map(|page| page.map(|page| page.map(Frame::data)))
    }
}

impl IntoResponse for JsonLines {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, "application/x-ndjson")], Body::new(self)).into_response()
    }
}

/// One line.
pub(crate) fn line(document: &impl Serialize) -> Vec<u8> {
    // Texts and numbers: there is no way to fail.
    let mut text = serde_json::to_vec(document).unwrap_or_default();
    text.push(b'\n');
    text
}
