//! Reads a body: no longer than it may be, no slower, and no more of all bodies at once than there is room for.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::StatusCode;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use super::settings::ServerLimits;
use super::shares::HeldShare;
use super::{room, too_large};
use crate::access::Caller;
use crate::api::Api;
use crate::error::ApiError;

/// The whole body, with the room it takes.
pub(super) async fn read(
    mut body: Body,
    most: usize,
    api: &Api,
    caller: &Caller,
) -> Result<(Bytes, Option<HeldShare>), ApiError> {
    let (limits, began) = (&api.settings().limits, Instant::now());
    let (mut whole, mut held) = (Gathered::default(), None::<HeldShare>);
    while !body.is_end_stream() {
        let patience = began + patience(limits, whole.len(), began.elapsed());
        let Some(frame) = timeout_at(patience, body.frame()).await.map_err(|_| too_slow())? else { break };
        // The sender has gone, or sends no chunks; whichever, nobody learns more than that.
        let frame = frame.map_err(|_| ApiError::unreadable("the body ended early"))?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + data.len() > most {
            return Err(too_large(most));
        }
        let more = room(api, caller, &data).await?;
        match &mut held {
            Some(held) => held.merge(more),
            none => *none = Some(more),
        }
        whole.add(data);
    }
    Ok((whole.into_bytes(), held))
}

/// Pieces of a body. One that comes in one piece, as most do, is never copied.
#[derive(Default)]
struct Gathered {
    first: Bytes,
    all: Vec<u8>,
}

impl Gathered {
    fn len(&self) -> usize {
        self.first.len().max(self.all.len())
    }

    fn add(&mut self, piece: Bytes) {
        if self.first.is_empty() {
            self.first = piece;
            return;
        }
        if self.all.is_empty() {
            self.all.extend_from_slice(&self.first);
        }
        self.all.extend_from_slice(&piece);
    }

    fn into_bytes(self) -> Bytes {
        if self.all.is_empty() { self.first } else { self.all.into() }
    }
}

/// Until when, from its beginning, the next piece of a body must come: it may pause for the grace and no longer, and
/// after the grace it must have kept the rate.
fn patience(limits: &ServerLimits, seen: usize, elapsed: Duration) -> Duration {
    let paid =
        Duration::from_secs(u64::try_from(seen).unwrap_or(u64::MAX) / u64::from(limits.body_rate.max(1)));
    (elapsed + limits.body_grace).min(paid.max(limits.body_grace))
}

fn too_slow() -> ApiError {
    ApiError::new(StatusCode::REQUEST_TIMEOUT, "too_slow", "the body came too slowly")
        .hint("send it again; nothing was done")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_may_pause_for_the_grace_and_must_keep_the_rate() {
        let limits = ServerLimits::default();
        let secs = Duration::from_secs;
        for (seen, elapsed, until) in [
            (0, 0, 10),
            (9_000, 9, 10),
            // After the grace it has as long as its bytes have paid for.
            (20 * 1_024, 12, 20),
            (20 * 1_024, 19, 20),
            // A lot at first does not buy a long silence.
            (1 << 20, 3, 13),
            (1 << 20, 100, 110),
        ] {
            assert_eq!(patience(&limits, seen, secs(elapsed)), secs(until), "{seen} {elapsed}");
        }
    }
}
