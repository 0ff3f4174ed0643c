//! Room for requests, streams, claims that wait and bodies, each counted by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::settings::ServerLimits;
use super::shares::{HeldShare, Share, Shares, busy};
use crate::access::Caller;
use crate::error::ApiError;

/// Routes whose answers wait for something to happen: each counted by itself, or it would keep the others out.
pub(super) const STREAM: &str = "/api/v1/events";
pub(super) const POLL: &str = "/api/v1/work/claim";

/// Room that is shared by all requests.
#[derive(Debug)]
pub(crate) struct RequestRoom {
    requests: Arc<Semaphore>,
    queued: AtomicUsize,
    streams: Shares,
    claims: Shares,
    pub(super) bodies: Shares,
}

impl RequestRoom {
    pub(crate) fn new(limits: &ServerLimits) -> Self {
        // Whoever may send a body may send a whole one.
        let whole = limits.body.max(limits.bulk_body);
        let Share { token, tenant } = limits.bodies_each;
        let bodies_each = Share { token: token.max(whole), tenant: tenant.max(whole) };
        Self {
            requests: Arc::new(Semaphore::new(limits.requests.min(Semaphore::MAX_PERMITS))),
            queued: AtomicUsize::new(0),
            streams: Shares::new(limits.streams, limits.streams_each),
            claims: Shares::new(limits.claims, limits.claims_each),
            bodies: Shares::new(limits.bodies, bodies_each),
        }
    }

    /// A place among the running requests, after a bounded wait in a bounded queue.
    pub(super) async fn turn(&self, limits: &ServerLimits) -> Result<OwnedSemaphorePermit, ApiError> {
        if let Ok(place) = self.requests.clone().try_acquire_owned() {
            return Ok(place);
        }
        let _queued = Queued::join(&self.queued, limits.queued).ok_or_else(busy)?;
        let turn = timeout(limits.queued_for, self.requests.clone().acquire_owned()).await;
        turn.ok().and_then(Result::ok).ok_or_else(busy)
    }

    /// A place for an answer that waits for something to happen; none for a route that does not.
    pub(super) fn waiting(&self, route: &str, caller: &Caller) -> Option<Result<HeldShare, ApiError>> {
        let (shares, what, setting) = match route {
            STREAM => (&self.streams, "event streams", "max_streams"),
            POLL => (&self.claims, "waiting claims", "max_claims"),
            _ => return None,
        };
        Some(shares.try_take(caller, 1).map_err(|full| full.refused(what, setting)))
    }
}

/// A place in the queue, given back when it is dropped.
struct Queued<'a>(&'a AtomicUsize);

impl<'a> Queued<'a> {
    fn join(queued: &'a AtomicUsize, most: usize) -> Option<Self> {
        let before = queued.fetch_add(1, Ordering::Relaxed);
        let place = Self(queued);
        (before < most).then_some(place)
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
