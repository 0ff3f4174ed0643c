//! Payloads and results that nobody reads in the store (E12), and what people see of jobs.
//!
//! Owns when data is sealed and opened: at submit, just before a payload is decoded, and when a result is kept. Which
//! kinds are sealed is a setting; the form of sealed text is decided in `backstop_core::sealing`.

use std::sync::Arc;

use backstop_core::failure::{Cause, Failure};
use backstop_core::job::{Attempt, Callback, JobView, Spec};
use backstop_core::outbox::{MessageBody, OutboxMessage};
use backstop_core::sealing::{Owner, SHOWN, SealError, is_sealed, is_sealed_value, key_of};
use backstop_core::{JobId, Refusal};
use serde_json::Value;

use crate::config::Config;

/// Seals what a job brings, if its kind or that of a callback is to be sealed.
pub(crate) fn close(config: &Config, spec: &mut Spec) -> Result<(), Refusal> {
    let Some(encryption) = &config.encryption else { return Ok(()) };
    let id = spec.id;
    let seal = |field, kind: &str, payload: &mut Arc<str>| {
        if !encryption.covers(kind) {
            return Ok(());
        }
        let sealed = encryption.seal(Owner::payload(id, kind), payload);
        *payload =
            sealed.map_err(|problem| Refusal::invalid(field, format!("it cannot be sealed: {problem}")))?;
        Ok(())
    };
    seal("payload", &spec.kind, &mut spec.payload)?;
    for callback in [&mut spec.on_success, &mut spec.on_failure].into_iter().flatten() {
        let Callback { kind, payload, .. } = callback;
        seal("callback payload", kind, payload)?;
    }
    Ok(())
}

/// Seals the payload of a callback whose job has no id yet: it is bound to that of whoever declares it.
pub(crate) fn close_callback(config: &Config, owner: JobId, callback: &mut Callback) -> Result<(), Refusal> {
    if let Some(encryption) =
        config.encryption.as_ref().filter(|encryption| encryption.covers(&callback.kind))
    {
        let sealed = encryption.seal(Owner::payload(owner, &callback.kind), &callback.payload);
        callback.payload = sealed.map_err(|problem| {
            Refusal::invalid("callback payload", format!("it cannot be sealed: {problem}"))
        })?;
    }
    Ok(())
}

/// The payload for the handler: opened if it is sealed. That of a worker elsewhere is opened here too.
pub(crate) fn payload(config: &Config, spec: &Spec) -> Result<Arc<str>, Failure> {
    open(config, Owner::payload_of(spec), &spec.payload).map_err(|problem| {
        // Another key does not come by trying again, and nothing of what was sealed is told.
        Failure::new(Cause::Permanent, "Sealed", format!("the payload cannot be decrypted: {problem}"))
            .because("its payload cannot be opened")
    })
}

/// Opens all that [`close`] seals, so that it can be sealed for another job.
pub(crate) fn reopen(config: &Config, spec: &mut Spec) -> Result<(), SealError> {
    let id = spec.id;
    spec.payload = open(config, Owner::payload_of(spec), &spec.payload)?;
    for Callback { kind, payload, .. } in [&mut spec.on_success, &mut spec.on_failure].into_iter().flatten() {
        *payload = open(config, Owner::payload(id, kind), payload)?;
    }
    Ok(())
}

fn open(config: &Config, owner: Owner<'_>, text: &Arc<str>) -> Result<Arc<str>, SealError> {
    if !is_sealed(text) {
        return Ok(text.clone());
    }
    match (&config.encryption, key_of(text)) {
        (Some(encryption), _) => encryption.keys.open(owner, text).map(Into::into),
        (None, Some(key)) => Err(SealError::UnknownKey { key }),
        // It only begins like sealed text, and nothing is sealed here: a payload like any other.
        (None, None) => Ok(text.clone()),
    }
}

/// The result of a run as it is kept: sealed when its kind is, or when its payload was.
pub(crate) fn result(config: &Config, spec: &Spec, text: String) -> Result<Arc<str>, String> {
    kept(config, spec, Owner::result_of(spec), text)
}

/// The result of a step as it is kept, likewise (W7).
pub(crate) fn kept_step(config: &Config, spec: &Spec, text: String) -> Result<Arc<str>, String> {
    kept(config, spec, Owner::step_of(spec), text)
}

/// The result of a step as the handler gets it: opened if it is sealed.
pub(crate) fn step(config: &Config, spec: &Spec, text: &Arc<str>) -> Result<Arc<str>, SealError> {
    open(config, Owner::step_of(spec), text)
}

/// A rejected item as it is kept, likewise (W9).
pub(crate) fn kept_reject(config: &Config, spec: &Spec, text: String) -> Result<Arc<str>, String> {
    kept(config, spec, Owner::reject(spec.id, &spec.kind), text)
}

/// A rejected item in the clear; what these keys do not open stays closed.
pub(crate) fn opened_reject(config: &Config, job: JobId, kind: &str, item: &Arc<str>) -> Arc<str> {
    opened(config, Owner::reject(job, kind), item)
}

/// A rejected item as people see it: without secrets, and closed when it is sealed (F11, E12).
pub(crate) fn shown_reject(config: &Config, kind: &str, item: &Arc<str>) -> Value {
    if is_sealed(item) {
        return SHOWN.into();
    }
    match serde_json::from_str(item) {
        Ok(mut value) => {
            config.mask().value(Some(kind), &mut value);
            value
        }
        // What cannot be looked through is not shown.
        Err(_) => "[hidden]".into(),
    }
}

fn kept(config: &Config, spec: &Spec, owner: Owner<'_>, text: String) -> Result<Arc<str>, String> {
    match &config.encryption {
        Some(encryption) if seals(config, spec) => encryption.seal(owner, &text),
        _ => Ok(text.into()),
    }
}

/// True when what a job brings forth is sealed here: its kind is, or its payload was.
pub(crate) fn seals(config: &Config, spec: &Spec) -> bool {
    let encryption = config.encryption.as_ref();
    encryption.is_some_and(|encryption| encryption.covers(&spec.kind) || is_sealed(&spec.payload))
}

/// What a job of a sealed kind waited for, as it is kept (W10): as the result of a step. Who sends it may have no keys,
/// as who submits may have none.
pub(crate) fn kept_signal(
    config: &Config,
    job: JobId,
    kind: &str,
    text: Arc<str>,
) -> Result<Arc<str>, String> {
    match &config.encryption {
        Some(encryption) => encryption.seal(Owner::step(job, kind), &text),
        None => Ok(text),
    }
}

/// What a handler tells subscribers, as it may be told: they see what a view of the job would show, and so do webhooks,
/// streams and the copies that are stored on their way.
pub(crate) fn told(config: &Config, spec: &Spec, mut data: Value) -> Value {
    let sealed = config.encryption.as_ref().is_some_and(|encryption| encryption.covers(&spec.kind));
    if sealed || is_sealed(&spec.payload) {
        return SHOWN.into();
    }
    config.mask().value(Some(&spec.kind), &mut data);
    data
}

/// The job with its sealed data opened; what these keys do not open stays closed.
pub(crate) fn revealed(config: &Config, view: &JobView) -> JobView {
    let mut shown = view.clone();
    let spec = &view.job.spec;
    shown.job.spec.payload = opened(config, Owner::payload_of(spec), &spec.payload);
    shown.result = view.result.as_ref().map(|result| opened(config, Owner::result_of(spec), result));
    shown
}

/// The same for a run of this job.
pub(crate) fn revealed_run(config: &Config, job: &Spec, run: &Attempt) -> Attempt {
    let result = run.result.as_ref().map(|result| opened(config, Owner::result_of(job), result));
    Attempt { result, ..run.clone() }
}

/// A result as it is stored, opened if it is sealed; what these keys do not open stays closed.
pub(crate) fn opened_result(config: &Config, job: JobId, kind: &Arc<str>, result: &Value) -> Value {
    open_result(config, job, kind, result).unwrap_or_else(|_| SHOWN.into())
}

/// The same for whoever goes by what it says: nobody must take what stands for closed data for a result.
pub(crate) fn open_result(
    config: &Config,
    job: JobId,
    kind: &Arc<str>,
    result: &Value,
) -> Result<Value, SealError> {
    let text: Arc<str> = result.to_string().into();
    if !is_sealed(&text) {
        return Ok(result.clone());
    }
    let spec = Spec::new(job, kind.clone(), "");
    let opened = open(config, Owner::result_of(&spec), &text)?;
    Ok(serde_json::from_str(&opened).unwrap_or_default())
}

/// Opens what is sealed in a message that leaves the store. What these keys do not open stays sealed: nobody must take
/// it for a value, and another process may have the keys (B2, B7).
pub(crate) fn open_message(config: &Config, message: &mut OutboxMessage) {
    let OutboxMessage { job: Some(job), kind, body, .. } = message else { return };
    let spec = Spec::new(*job, kind.clone(), "");
    match body {
        MessageBody::Result { result: Some(result), .. } => {
            open_value(config, Owner::result_of(&spec), result);
        }
        MessageBody::Reject { reject, .. } => {
            if let Some(item) = &mut reject.item
                && let Ok(opened) = open(config, Owner::reject(*job, kind), item)
            {
                *item = opened;
            }
        }
        MessageBody::HandOff(body) => {
            if let Some(result) = &mut body.result {
                open_value(config, Owner::result_of(&spec), result);
            }
            if let Some(payload) = &mut body.payload {
                open_value(config, Owner::payload(body.callback_of.unwrap_or(*job), kind), payload);
            }
        }
        _ => {}
    }
}

fn open_value(config: &Config, owner: Owner<'_>, value: &mut Value) {
    let text: Arc<str> = value.to_string().into();
    let opened = open(config, owner, &text).ok().filter(|opened| *opened != text);
    if let Some(opened) = opened.and_then(|opened| serde_json::from_str(&opened).ok()) {
        *value = opened;
    }
}

/// True for a message of which these keys did not open everything.
pub(crate) fn is_message_sealed(message: &OutboxMessage) -> bool {
    let value = |value: &Option<Value>| value.as_ref().is_some_and(is_still_sealed);
    match &message.body {
        MessageBody::Result { result, .. } => value(result),
        MessageBody::Reject { reject, .. } => {
            reject.item.as_deref().is_some_and(|item| key_of(item).is_some())
        }
        MessageBody::HandOff(body) => value(&body.result) || value(&body.payload),
        _ => false,
    }
}

fn is_still_sealed(value: &Value) -> bool {
    is_sealed_value(value) && key_of(&value.to_string()).is_some()
}

fn opened(config: &Config, owner: Owner<'_>, text: &Arc<str>) -> Arc<str> {
    open(config, owner, text).unwrap_or_else(|_| format!("\"{SHOWN}\"").into())
}

/// How much of a payload views of its job show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShownPayload {
    /// All of it.
    Whole,
    /// What is left when secrets are masked (F11).
    Masked,
    /// Nothing: it is sealed in the store (E12).
    Sealed,
}

/// How much of its payload views of a job show; `payload` is what the handler gets.
pub(crate) fn shown_payload(config: &Config, spec: &Spec, payload: &Arc<str>) -> ShownPayload {
    if is_sealed(&spec.payload) {
        return ShownPayload::Sealed;
    }
    let shown = config.mask().text(Some(&spec.kind), payload);
    if shown == *payload { ShownPayload::Whole } else { ShownPayload::Masked }
}
