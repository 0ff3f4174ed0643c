//! How much of everything at once.

use std::time::Duration;

use super::shares::Share;

/// Bounds of the server. Every field has a safe default.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerLimits {
    /// Connections at once; over it the oldest idle one is closed, or the new one refused.
    pub connections: usize,
    /// Requests that run at once, without streams.
    pub requests: usize,
    /// Requests that wait for their turn; more are answered 503.
    pub queued: usize,
    /// How long one waits for its turn, or for room for its body.
    pub queued_for: Duration,
    /// Event streams at once.
    pub streams: usize,
    /// Of those, for one token and for one tenant; more are answered 429.
    pub streams_each: Share,
    /// Claims that wait for work at once.
    pub claims: usize,
    /// Of those, for one token and for one tenant; more are answered 429.
    pub claims_each: Share,
    /// Bytes of a body.
    pub body: usize,
    /// Bytes of a body that carries many things.
    pub bulk_body: usize,
    /// Bytes of all bodies that are held at once.
    pub bodies: usize,
    /// Of those, for one token and for one tenant; whoever has more under way waits for its own.
    pub bodies_each: Share,
    /// Bytes per second under which a body is too slow, once it has had `body_grace`.
    pub body_rate: u32,
    /// How long a body may take to begin, and how long it may pause.
    pub body_grace: Duration,
    /// How long a request's head may take.
    pub head: Duration,
    /// How long a connection may be idle between requests.
    pub idle: Duration,
    /// How long the other end may read nothing of an answer.
    pub unread: Duration,
    /// How long requests may go on when the server is told to stop.
    pub grace: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            requests: 512,
            queued: 1_024,
            queued_for: Duration::from_secs(5),
            streams: 8_000,
            streams_each: Share { token: 500, tenant: 2_000 },
            claims: 8_000,
            claims_each: Share { token: 2_000, tenant: 4_000 },
            body: 2 << 20,
            bulk_body: 16 << 20,
            bodies: 64 << 20,
            bodies_each: Share { token: 16 << 20, tenant: 32 << 20 },
            body_rate: 1_024,
            body_grace: Duration::from_secs(10),
            head: Duration::from_secs(10),
            idle: Duration::from_secs(75),
            unread: Duration::from_secs(30),
            grace: Duration::from_secs(30),
        }
    }
}
