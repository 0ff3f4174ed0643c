//! The API as its callers meet it: through the router, and over real sockets.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod access;
mod events;
mod harness;
mod jobs;
mod openapi;
mod operate;
mod page;
mod queues;
mod work;
