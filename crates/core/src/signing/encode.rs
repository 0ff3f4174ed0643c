//! The bytes of a job that are signed.
//!
//! Every field of [`Spec`] is here except the signature itself. The match is exhaustive on purpose: a new field does
//! not compile before somebody has decided about it.

use std::time::Duration;

use super::FORM;
use crate::failure::{Backoff, Growth, Jitter};
use crate::job::{Callback, FiredBy, PartOf, Policy, Provenance, SharingNeeds, Spec};

/// Takes bytes, part by part.
type Put<'p> = &'p mut dyn FnMut(&[u8]);

/// Gives the bytes of a job to `put`.
pub(super) fn job(spec: &Spec, put: Put<'_>) {
    let Spec {
        id,
        kind,
        version,
        queue,
        priority,
        payload,
        policy: promised,
        expires_at,
        idempotency_key,
        business_key,
        ordering_key,
        needs,
        dependency,
        correlation_id,
        tags,
        params,
        on_success,
        on_failure,
        callback_of,
        provenance,
    } = spec;
    text(FORM, put);
    put(id.as_bytes());
    text(kind, put);
    put(&version.to_be_bytes());
    text(queue, put);
    text(priority.as_str(), put);
    text(payload, put);
    policy(promised, put);
    option(*expires_at, put, |moment, put| put(&moment.as_micros().to_be_bytes()));
    for key in [idempotency_key, business_key, correlation_id] {
        option(key.as_deref(), put, text);
    }
    length(tags.len(), put);
    tags.iter().for_each(|tag| text(tag, put));
    option(params.as_deref(), put, text);
    option(on_success.as_ref(), put, callback);
    option(on_failure.as_ref(), put, callback);
    option(*callback_of, put, |parent, put| put(parent.as_bytes()));
    let (trace, schedule, part_of) = match provenance.as_deref() {
        Some(Provenance { signature: _, trace, schedule, part_of, damage: _ }) => {
            (trace.as_deref(), schedule.as_ref(), part_of.as_ref())
        }
        None => (None, None, None),
    };
    option(trace, put, text);
    // Behind everything else, and only when there is one: jobs without it have the bytes they always had.
    if let Some(key) = ordering_key {
        text("ordering key", put);
        text(key, put);
    }
    sharing(needs.as_deref(), promised, put);
    if let Some(key) = dependency {
        text("dependency", put);
        text(key, put);
    }
    if let Some(FiredBy { name, fire_time }) = schedule {
        text("schedule", put);
        text(name, put);
        put(&fire_time.as_micros().to_be_bytes());
    }
    part(part_of, put);
}

fn part(part_of: Option<&PartOf>, put: Put<'_>) {
    let Some(PartOf { id, node, number, follows, renewed, payload_from }) = part_of else { return };
    text("part of", put);
    put(id.as_bytes());
    option(node.as_deref(), put, text);
    put(&number.to_be_bytes());
    put(&[u8::from(*follows), u8::from(*renewed)]);
    option(payload_from.as_deref(), put, text);
}

fn sharing(needs: Option<&SharingNeeds>, promised: &Policy, put: Put<'_>) {
    for (shared, permits) in needs.iter().flat_map(|needs| needs.shared()) {
        text(&shared.text(), put);
        put(&permits.to_be_bytes());
    }
    if let Some(most) = promised.max_deferral {
        text("max deferral", put);
        millis(most, put);
    }
}

fn policy(promised: &Policy, put: Put<'_>) {
    let Policy { max_retries, max_crashes, backoff, timeout, max_wait, max_deferral: _ } = promised;
    let Backoff { growth, base, cap, jitter } = backoff;
    put(&max_retries.to_be_bytes());
    put(&max_crashes.to_be_bytes());
    let grows = match growth {
        Growth::None => "none",
        Growth::Fixed => "fixed",
        Growth::Linear => "linear",
        Growth::Exponential => "exponential",
    };
    text(grows, put);
    millis(*base, put);
    millis(*cap, put);
    match jitter {
        Jitter::None => text("none", put),
        Jitter::Full => text("full", put),
        Jitter::Equal => text("equal", put),
        Jitter::Percent(percent) => {
            text("percent", put);
            put(&[*percent]);
        }
    }
    option(*timeout, put, millis);
    option(*max_wait, put, millis);
}

fn callback(callback: &Callback, put: Put<'_>) {
    let Callback { kind, version, queue, payload } = callback;
    text(kind, put);
    put(&version.to_be_bytes());
    text(queue, put);
    text(payload, put);
}

/// A time as stores keep it: in whole milliseconds.
fn millis(span: Duration, put: Put<'_>) {
    put(&u64::try_from(span.as_millis()).unwrap_or(u64::MAX).to_be_bytes());
}

fn text(text: &str, put: Put<'_>) {
    length(text.len(), put);
    put(text.as_bytes());
}

fn length(length: usize, put: Put<'_>) {
    put(&u64::try_from(length).unwrap_or(u64::MAX).to_be_bytes());
}

fn option<T>(value: Option<T>, put: Put<'_>, write: impl FnOnce(T, Put<'_>)) {
    match value {
        Some(value) => {
            put(&[1]);
            write(value, put);
        }
        None => put(&[0]),
    }
}
