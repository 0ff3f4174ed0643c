//! What goes over the wire: events as server-sent events.
//!
//! Owns the text of each block. An id is `EPOCH-SEQ`; a block without data moves the reader's last id and is no event.

use std::fmt::Write as _;

use axum::body::Bytes;
use serde_json::{Value, json};

/// How soon a client that lost its connection should come back, in milliseconds.
const RETRY_MS: u32 = 2_000;

/// What a tenant knows without its own name before it.
const NAMED_BY_TENANT: [&str; 4] = ["queue", "kind", "business_key", "correlation_id"];

/// Why events are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GapReason {
    /// The id is of another event log: the one there was is no more.
    OtherEpoch,
    /// The id is none that was ever given.
    UnknownId,
    /// They are older than what is kept.
    TooOld,
    /// They came faster than this subscriber read, or than this process could tell.
    TooFast,
}

impl GapReason {
    const fn as_str(self) -> &'static str {
        match self {
            Self::OtherEpoch => "other_epoch",
            Self::UnknownId => "unknown_id",
            Self::TooOld => "too_old",
            Self::TooFast => "too_fast",
        }
    }
}

/// One event; `data` is JSON.
pub(crate) fn event(epoch: &str, seq: u64, name: &str, data: &str) -> Bytes {
    let mut text = String::with_capacity(data.len() + 64);
    let _ = write!(text, "id: {epoch}-{seq}\nevent: {name}\ndata: {data}\n\n");
    text.into()
}

/// Where the JSON of an event is in its block: at the end.
pub(crate) fn data_of(block: &Bytes, len: usize) -> Bytes {
    let end = block.len().saturating_sub("\n\n".len());
    block.slice(end.saturating_sub(len)..end)
}

/// The first block: from here on nothing is missed.
pub(crate) fn opening(epoch: &str, seen: u64) -> Bytes {
    format!("retry: {RETRY_MS}\nid: {epoch}-{seen}\n\n").into()
}

/// Keeps the connection open, and lets a reader whose filter lets little through keep its place.
pub(crate) fn keep_alive(epoch: &str, seen: u64) -> Bytes {
    format!(": keep-alive\nid: {epoch}-{seen}\n\n").into()
}

/// Says that events are missing: which id was asked for, where it goes on, and how many there were, if that is known.
pub(crate) fn gap(
    epoch: &str,
    through: u64,
    why: GapReason,
    after: Option<&str>,
    missed: Option<u64>,
) -> Bytes {
    let resumes_after = format!("{epoch}-{through}");
    let data =
        json!({ "reason": why.as_str(), "after": after, "resumes_after": resumes_after, "missed": missed });
    format!("id: {resumes_after}\nevent: gap\ndata: {data}\n\n").into()
}

/// An event, as it is written, under the names by which its tenant knows it.
pub(crate) fn local_names(mut shown: Value, tenant: &str) -> Value {
    for field in NAMED_BY_TENANT {
        let Some(Value::String(name)) = shown.get_mut(field) else { continue };
        if let Some(local) = name.strip_prefix(tenant).and_then(|rest| rest.strip_prefix('/')) {
            *name = local.to_owned();
        }
    }
    shown
}
