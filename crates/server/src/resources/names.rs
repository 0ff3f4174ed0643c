//! Names as a caller says and sees them, and as the store keeps them: queues and keys of a tenant begin with its name
//! (E13). Also what of a job's data a caller sees at all: without secrets, unless it may see them (F11).

use axum::http::StatusCode;
use backstop::Refusal;
use backstop_core::depth::DepthScope;
use backstop_core::explain::Explanation;
use backstop_core::job::{Attempt, AttemptJson, JobJson, JobView};
use backstop_core::tenant;
use backstop_store::JobFilter;
use serde_json::{Value, json};

use crate::access::{Caller, RESERVED, Scope};
use crate::api::Api;
use crate::error::ApiError;

/// The parts of a job's document that hold keys.
const KEYS: [&str; 7] = [
    "idempotency_key",
    "business_key",
    "ordering_key",
    "correlation_id",
    "limit_key",
    "single_instance",
    "dependency",
];

/// Refuses a name of the engine's own.
///
/// # Errors
/// When it is one.
pub(crate) fn not_reserved(field: &str, name: &str) -> Result<(), ApiError> {
    if !name.starts_with(RESERVED) {
        return Ok(());
    }
    let message = format!("{field} is invalid: names that begin with `{RESERVED}` are the engine's own");
    Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "reserved_name", message)
        .hint("choose another name")
        .details(json!({ "field": field })))
}

/// Refuses a key that looks like that of a tenant, unless the job goes to a queue of that tenant: what is stored under
/// it would stand in the way of the tenant's own jobs (E13).
///
/// # Errors
/// When it does, or the store that knows the tenants is away.
pub(crate) async fn not_anothers(
    api: &Api,
    caller: &Caller,
    field: &str,
    key: Option<&str>,
    queue: Option<&str>,
) -> Result<(), ApiError> {
    let owner = key.and_then(tenant::of_queue).filter(|_| caller.tenant().is_none());
    let Some(owner) = owner else { return Ok(()) };
    if queue.and_then(tenant::of_queue) == Some(owner) || !api.tokens().has_tenant(owner).await? {
        return Ok(());
    }
    let message = format!("{field} is invalid: it begins with the name of a tenant, whose keys are its own");
    Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "reserved_name", message)
        .hint("choose another key, or a queue of that tenant")
        .details(json!({ "field": field })))
}

/// A key is held by a job that the caller may know nothing of.
pub(crate) fn held_elsewhere() -> ApiError {
    let message = "the key is held by a job that this token does not see";
    ApiError::new(StatusCode::CONFLICT, "key_held", message)
        .hint("choose another key, or use a token that is for the queue of that job")
}

/// A caller's key as the store keeps it.
pub(crate) fn stored_key(caller: &Caller, key: String) -> String {
    match caller.tenant() {
        Some(tenant) => format!("{tenant}/{key}"),
        None => key,
    }
}

/// A stored key as the caller knows it.
pub(crate) fn own_key<'k>(caller: &Caller, key: &'k str) -> &'k str {
    let own = caller.tenant().and_then(|tenant| key.strip_prefix(tenant)?.strip_prefix('/'));
    own.unwrap_or(key)
}

/// A job as this caller sees it; none when it is not for its eyes.
pub(crate) fn job(caller: &Caller, mut job: JobJson) -> Option<JobJson> {
    let queue = caller.sees(&job.queue)?;
    if caller.tenant().is_none() {
        return Some(job);
    }
    job.queue = queue.into();
    let keys = [
        &mut job.idempotency_key,
        &mut job.business_key,
        &mut job.ordering_key,
        &mut job.correlation_id,
        &mut job.limit_key,
        &mut job.single_instance,
        &mut job.dependency,
    ];
    let pools = std::mem::take(&mut job.permits).into_iter();
    job.permits = pools.map(|(pool, permits)| (own_key(caller, &pool).to_owned(), permits)).collect();
    for key in keys {
        *key = key.take().map(|key| own_key(caller, &key).to_owned());
    }
    if let Some(waiting) = &mut job.waiting_for {
        waiting.key = own_key(caller, &waiting.key).to_owned();
    }
    Some(job)
}

/// The document of a job, changed to what this caller may see; false when it is not for its eyes.
pub(crate) fn document(caller: &Caller, job: &mut Value) -> bool {
    let Some(queue) = job["queue"].as_str() else { return caller.sees_all() };
    let Some(queue) = caller.sees(queue) else { return false };
    if caller.tenant().is_none() {
        return true;
    }
    job["queue"] = Value::from(queue.to_owned());
    for name in KEYS {
        if let Some(key) = job[name].as_str() {
            job[name] = Value::from(own_key(caller, key).to_owned());
        }
    }
    if let Some(key) = job["waiting_for"]["key"].as_str() {
        job["waiting_for"]["key"] = Value::from(own_key(caller, key).to_owned());
    }
    true
}

/// An explanation in the caller's own names: its sentences name the queue, the key and the incident as the store does.
pub(crate) fn sentences(caller: &Caller, view: &JobView, explanation: &mut Explanation) {
    let Some(tenant) = caller.tenant() else { return };
    let spec = &view.job.spec;
    let incident = format!("{tenant}/{}", spec.kind);
    let needs = spec.needs.as_deref();
    let stored = [
        Some(&*spec.queue),
        spec.business_key.as_deref(),
        spec.ordering_key.as_deref(),
        needs.and_then(|needs| needs.limit_key.as_deref()),
        needs.and_then(|needs| needs.single_instance.as_deref()),
        spec.dependency.as_deref(),
        Some(&*incident),
    ];
    let pools = needs.into_iter().flat_map(|needs| needs.permits.keys().map(|pool| &**pool));
    let stored: Vec<&str> = stored.into_iter().flatten().chain(pools).collect();
    let own = |text: &mut String| {
        for name in &stored {
            *text = text.replace(name, own_key(caller, name));
        }
    };
    own(&mut explanation.because);
    own(&mut explanation.next);
    explanation.checks.iter_mut().for_each(|check| own(&mut check.answer));
}

/// A refusal in the caller's own names.
pub(crate) fn refusal(caller: &Caller, refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::BusinessKeyConflict { key, holder, state } => {
            let key = own_key(caller, &key).to_owned();
            Refusal::BusinessKeyConflict { key, holder, state }
        }
        Refusal::KindNotAllowed { kind, queue } => {
            let queue = caller.sees(&queue).map(str::to_owned).unwrap_or(queue);
            Refusal::KindNotAllowed { kind, queue }
        }
        Refusal::QueueFull { scope: DepthScope::Queue(queue), depth, limit } => {
            let own = caller.sees(&queue).map(Into::into);
            Refusal::QueueFull { scope: DepthScope::Queue(own.unwrap_or(queue)), depth, limit }
        }
        other => other,
    }
}

/// Conditions in the store's names, narrowed to what the caller may see.
///
/// # Errors
/// When they name a queue that the token is not for, or none although it is for some.
pub(crate) fn filter(caller: &Caller, mut filter: JobFilter) -> Result<JobFilter, ApiError> {
    match &filter.queue {
        Some(queue) => filter.queue = Some(caller.queue(queue)?),
        None if !caller.has_all_queues() => {
            let message = "this token is for some queues only: say which one with `queue`";
            return Err(ApiError::invalid(message)
                .hint("ask for one queue at a time")
                .details(json!({ "field": "queue" })));
        }
        None => {}
    }
    filter.tenant = caller.tenant().map(str::to_owned);
    filter.business_key = filter.business_key.map(|key| stored_key(caller, key));
    Ok(filter)
}

/// Refuses to show data in the clear to those who may not see it.
///
/// # Errors
/// When the token lacks the scope.
pub(crate) fn may_reveal(caller: &Caller, reveal: bool) -> Result<(), ApiError> {
    if reveal && !caller.may(Scope::Logs) {
        let message =
            "showing payloads and results in the clear needs the scope `logs`, which this token lacks";
        return Err(
            ApiError::forbidden(message).hint("leave `reveal` out, or use a token that has the scope")
        );
    }
    Ok(())
}

/// A job as it may be shown: its secrets masked and its sealed data closed (F11, E12), or both open to whoever may see
/// them.
pub(crate) fn shown(api: &Api, view: &JobView, reveal: bool) -> JobView {
    if reveal { api.engine().revealed(view) } else { view.masked(&api.engine().mask()) }
}

/// A run as this caller sees it: its data masked, what it logged only for those who may read logs.
pub(crate) fn run(api: &Api, caller: &Caller, kind: &str, run: &Attempt) -> AttemptJson {
    let mut run = run.masked(Some(kind), &api.engine().mask()).reads();
    if !caller.may(Scope::Logs) {
        run.output = None;
    }
    run
}
