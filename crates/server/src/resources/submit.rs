//! `POST /api/v1/jobs` and `/api/v1/jobs/batch`: jobs on their way in.
//!
//! The hot path of the API: payloads are handed on as the text that was sent, and single submits rely on the store's
//! own grouping of commits.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use backstop::{Callback, Enqueue, JobHandle, JobId, OnConflict, Refusal};
use backstop_core::failure::Backoff;
use backstop_core::job::is_trace_parent;
use backstop_store::Submitted;
use backstop_store::{JobFilter, PageRequest};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use utoipa_axum::routes;

use super::{jobs, names};
use crate::access::{Caller, Scope};
use crate::api::Api;
use crate::body::{RawBody, read, read_part};
use crate::error::ApiError;
use crate::handed_in::RequestSignature;
use crate::limits::room::{self, TenantName};
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{
    BackoffPart, CallbackJob, ErrorBody, ErrorDetail, Items, JobsBatch, SubmitAnswer, SubmitJob, SubmittedJob,
};

/// Jobs of one batch at most.
const MOST: usize = 1_000;

/// How many jobs of a business key are looked through for the one that holds it.
const HOLDERS: usize = 20;

pub(crate) fn routes(routes: Routes) -> Routes {
    let right = RouteNeeds::Right(Scope::Submit);
    routes.add(right, routes!(submit)).add(right, routes!(submit_batch))
}

/// Stores a job. An answer means that it is durable.
#[utoipa::path(post, path = "/api/v1/jobs", tag = "jobs", operation_id = "submit_job",
    params(("Idempotency-Key" = Option<String>, Header,
        description = "Used when the body has no `idempotency_key`.")),
    request_body = SubmitJob,
    responses(
        (status = 201, description = "It is stored.", body = SubmittedJob),
        (status = 200, description = "It was already stored.", body = SubmittedJob),
        (status = 404, description = "No such job to replace.", body = ErrorBody),
        (status = 409, description = "Another live job holds the business key, or the job to replace has started.",
         body = ErrorBody),
        (status = 422, description = "It can never be stored like this.", body = ErrorBody),
        (status = 429, description = "`tenant_limit`: the tenant has reached its limit of queues or kinds. Reserved: \
         `queue_full`.", body = ErrorBody)))]
async fn submit(
    State(api): State<Api>,
    caller: Caller,
    IdempotencyKey(key): IdempotencyKey,
    trace: TraceParent,
    vouched: RequestSignature,
    RawBody(bytes): RawBody,
) -> Result<(StatusCode, Json<SubmittedJob>), ApiError> {
    let mut job: SubmitJob<'_> = read(&bytes)?;
    job.idempotency_key = job.idempotency_key.or(key);
    trace.belongs(&mut job);
    let publication = vouched.check(&api, job.idempotency_key.as_deref(), &bytes)?;
    keys_are_own(&api, &caller, &mut job).await?;
    has_room(&api, &caller, &job).await?;
    let stored = match prepare(&api, &caller, job)?.submit().await {
        Ok(JobHandle { id, state, deduplicated, .. }) => {
            own(&api, &caller, &Submitted { id, state, deduplicated }).await?
        }
        Err(backstop::SubmitError::Refused(refusal)) => return Err(refused(&api, &caller, refusal).await),
        Err(error) => return Err(error.into()),
    };
    api.reporting().handed_in.count(publication.as_deref(), stored.deduplicated);
    let status = if stored.deduplicated { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(stored)))
}

/// Stores up to 1,000 jobs in one transaction: all of them or none, unless `partial`. One answer per job, in order.
///
/// A batch that is refused answers with the first refused job's error, whose details tell its `index`; a `partial` one
/// answers 207 when some jobs were refused.
#[utoipa::path(post, path = "/api/v1/jobs/batch", tag = "jobs", operation_id = "submit_jobs",
    request_body = JobsBatch,
    responses(
        (status = 201, description = "All are stored; some may have been stored before.",
         body = Items<SubmitAnswer>),
        (status = 200, description = "All were already stored.", body = Items<SubmitAnswer>),
        (status = 207, description = "Some were refused, the others are stored.", body = Items<SubmitAnswer>),
        (status = 404, description = "No such job to replace: nothing was stored.", body = ErrorBody),
        (status = 409, description = "A business key is held: nothing was stored.", body = ErrorBody),
        (status = 422, description = "A job can never be stored like this: nothing was stored.", body = ErrorBody),
        (status = 429, description = "`tenant_limit`: the tenant has reached its limit of queues or kinds; nothing was \
         stored.", body = ErrorBody)))]
async fn submit_batch(
    State(api): State<Api>,
    caller: Caller,
    trace: TraceParent,
    vouched: RequestSignature,
    RawBody(bytes): RawBody,
) -> Result<(StatusCode, Json<Items<SubmitAnswer>>), ApiError> {
    let batch: Unread<'_> = read(&bytes)?;
    if batch.jobs.len() > MOST {
        let message = format!("the batch has {} jobs, the limit is {MOST}", batch.jobs.len());
        return Err(ApiError::invalid(message)
            .hint("send several batches")
            .details(json!({ "field": "jobs" })));
    }
    let (mut prepared, mut publications) = (Vec::with_capacity(batch.jobs.len()), Vec::new());
    for (index, text) in batch.jobs.into_iter().enumerate() {
        let job = match read_part::<SubmitJob<'_>>("the job", text.get().as_bytes()) {
            Ok(mut job) => {
                trace.belongs(&mut job);
                publications.push(vouched.check(&api, job.idempotency_key.as_deref(), &bytes)?);
                ready(&api, &caller, job).await
            }
            Err(error) => {
                publications.push(None);
                Err(within("jobs", index, error))
            }
        };
        match job {
            // That the store is unavailable is nothing that is said of one job.
            Err(error) if !batch.partial || error.status().is_server_error() => return Err(at(index, error)),
            job => prepared.push(job),
        }
    }
    let answers = store_all(&api, &caller, prepared, batch.partial).await?;
    for (publication, answer) in publications.iter().zip(&answers) {
        if let SubmitAnswer::Stored(stored) = answer {
            api.reporting().handed_in.count(publication.as_deref(), stored.deduplicated);
        }
    }
    let is_new = |answer: &SubmitAnswer| matches!(answer, SubmitAnswer::Stored(it) if !it.deduplicated);
    let status = if answers.iter().any(|answer| matches!(answer, SubmitAnswer::Refused { .. })) {
        StatusCode::MULTI_STATUS
    } else if answers.iter().any(is_new) {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok((status, Json(Items::all(answers))))
}

/// A job of a batch, with every check that needs the store.
async fn ready(api: &Api, caller: &Caller, mut job: SubmitJob<'_>) -> Result<Enqueue, ApiError> {
    keys_are_own(api, caller, &mut job).await?;
    has_room(api, caller, &job).await?;
    prepare(api, caller, job)
}

/// Stores what could be prepared, and answers for each in order.
async fn store_all(
    api: &Api,
    caller: &Caller,
    prepared: Vec<Result<Enqueue, ApiError>>,
    partial: bool,
) -> Result<Vec<SubmitAnswer>, ApiError> {
    let (mut jobs, mut refused) = (Vec::with_capacity(prepared.len()), Vec::with_capacity(prepared.len()));
    for job in prepared {
        match job {
            Ok(job) => {
                jobs.push(job);
                refused.push(None);
            }
            Err(error) => refused.push(Some(error)),
        }
    }
    let answers = api.engine().submit_all(jobs, !partial).await?;
    if !partial && let Some(index) = answers.iter().position(at_fault) {
        let Some(Err(refusal)) = answers.into_iter().nth(index) else { return Ok(Vec::new()) };
        return Err(at(index, self::refused(api, caller, refusal).await));
    }
    let (mut answers, mut answered) = (answers.into_iter(), Vec::with_capacity(refused.len()));
    for error in refused {
        answered.push(match error {
            Some(error) => told(&error),
            None => answer(api, caller, answers.next()).await?,
        });
    }
    Ok(answered)
}

/// What a caller is told of one job of its batch.
async fn answer(
    api: &Api,
    caller: &Caller,
    answer: Option<Result<Submitted, Refusal>>,
) -> Result<SubmitAnswer, ApiError> {
    Ok(match answer {
        Some(Ok(submitted)) => match own(api, caller, &submitted).await {
            Ok(stored) => SubmitAnswer::Stored(stored),
            Err(error) if error.status().is_server_error() => return Err(error),
            Err(error) => told(&error),
        },
        Some(Err(refusal)) => told(&refused(api, caller, refusal).await),
        None => told(&Refusal::BatchRefused { index: 0 }.into()),
    })
}

/// True for the job that spoilt its batch; the others were only refused with it.
fn at_fault(answer: &Result<Submitted, Refusal>) -> bool {
    answer.as_ref().is_err_and(|refusal| !matches!(refusal, Refusal::BatchRefused { .. }))
}

/// What was stored, or was already stored and is for this caller's eyes.
async fn own(api: &Api, caller: &Caller, submitted: &Submitted) -> Result<SubmittedJob, ApiError> {
    if submitted.deduplicated && !may_know(api, caller, submitted.id).await? {
        return Err(names::held_elsewhere());
    }
    Ok(SubmittedJob { id: submitted.id, status: submitted.state, deduplicated: submitted.deduplicated })
}

/// A refusal in the caller's own names, which says nothing of a job that is not for its eyes.
async fn refused(api: &Api, caller: &Caller, refusal: Refusal) -> ApiError {
    if let Refusal::BusinessKeyConflict { holder, .. } = &refusal {
        match may_know(api, caller, *holder).await {
            Ok(true) => {}
            Ok(false) => return names::held_elsewhere(),
            Err(error) => return error,
        }
    }
    names::refusal(caller, refusal).into()
}

/// Whether a caller may hear of the job that holds one of its keys. Whoever sees everything may.
async fn may_know(api: &Api, caller: &Caller, holder: JobId) -> Result<bool, ApiError> {
    if caller.sees_all() {
        return Ok(true);
    }
    let hot = api.engine().job(holder).await?;
    Ok(match hot {
        Some(detail) => caller.sees(&detail.view.job.spec.queue).is_some(),
        None => jobs::absent(api, caller, holder).await.code() == "archived",
    })
}

fn told(error: &ApiError) -> SubmitAnswer {
    let mut said = error.to_json();
    SubmitAnswer::Refused {
        error: ErrorDetail {
            code: error.code().to_owned(),
            message: said["message"].as_str().unwrap_or_default().to_owned(),
            hint: said["hint"].as_str().map(str::to_owned),
            details: said["details"].take(),
        },
    }
}

/// A batch whose jobs are read one by one: one that cannot be read is refused by itself.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unread<'a> {
    #[serde(borrow)]
    jobs: Vec<&'a RawValue>,
    #[serde(default)]
    partial: bool,
}

/// The error of one of several jobs, with its field as it stands in the list that it is in.
pub(super) fn within(list: &str, index: usize, error: ApiError) -> ApiError {
    let mut details = error.to_json()["details"].take();
    let field = match details["field"].as_str() {
        Some(field) => format!("{list}[{index}].{field}"),
        None => format!("{list}[{index}]"),
    };
    if !details.is_object() {
        details = json!({});
    }
    details["field"] = field.into();
    error.details(details)
}

/// The error of one job of a batch, with its place in it.
fn at(index: usize, error: ApiError) -> ApiError {
    let mut details = error.to_json()["details"].take();
    if !details.is_object() {
        details = json!({});
    }
    details["index"] = index.into();
    error.details(details)
}

/// Refuses keys that are another's, and what is replaced must be for the caller's eyes (E13).
///
/// Whoever does not see everything names the one job that it replaces, and that one only is replaced: looking at the
/// holder of a key and replacing whoever holds it a moment later would be two steps, and another's job could come
/// between them.
pub(super) async fn keys_are_own(
    api: &Api,
    caller: &Caller,
    job: &mut SubmitJob<'_>,
) -> Result<(), ApiError> {
    let keys = [
        ("idempotency_key", &job.idempotency_key),
        ("business_key", &job.business_key),
        ("ordering_key", &job.ordering_key),
        ("limit_key", &job.limit_key),
        ("single_instance", &job.single_instance),
        ("dependency", &job.dependency),
        ("correlation_id", &job.correlation_id),
    ];
    for (field, key) in keys {
        // Schedules know their fires by such keys (W11).
        names::not_reserved(field, key.as_deref().unwrap_or_default())?;
        names::not_anothers(api, caller, field, key.as_deref(), job.queue.as_deref()).await?;
    }
    if caller.sees_all() {
        return Ok(());
    }
    if let Some(id) = job.replaces {
        jobs::seen(api, caller, id).await?;
    }
    if job.on_conflict != Some(OnConflict::Replace) {
        return Ok(());
    }
    job.on_conflict = None;
    let (None, Some(key)) = (job.replaces, &job.business_key) else { return Ok(()) };
    let business_key = Some(names::stored_key(caller, key.clone()));
    let filter = JobFilter { business_key, ..JobFilter::default() };
    // The newest first, and a key has one live job at most: it is among the first, or the key counts as held.
    let known = api.engine().jobs(filter, PageRequest::first(HOLDERS)).await?;
    match known.items.into_iter().find(|view| !view.state().is_terminal()) {
        Some(view) if caller.sees(&view.job.spec.queue).is_none() => Err(names::held_elsewhere()),
        holder => {
            job.replaces = holder.map(|view| view.job.spec.id);
            Ok(())
        }
    }
}

/// Refuses a job that would make more queues or kinds than a tenant may have, with those of its callbacks (E13).
pub(super) async fn has_room(api: &Api, caller: &Caller, job: &SubmitJob<'_>) -> Result<(), ApiError> {
    let callbacks = [&job.on_success, &job.on_failure].into_iter().flatten();
    let names = callbacks.map(|callback| (callback.queue.as_deref(), &*callback.kind));
    room_for(api, caller, names.chain([(job.queue.as_deref(), &*job.kind)])).await
}

/// Refuses queues and kinds of which there would be more than a tenant may have (E13).
pub(super) async fn room_for<'n>(
    api: &Api,
    caller: &Caller,
    names: impl IntoIterator<Item = (Option<&'n str>, &'n str)>,
) -> Result<(), ApiError> {
    if caller.tenant().is_none() {
        return Ok(());
    }
    let names = names.into_iter().flat_map(|(queue, kind)| {
        // A queue that this token is not for is refused as such.
        let queue = Some(queue.unwrap_or("default")).filter(|queue| caller.queue(queue).is_ok());
        queue.into_iter().flat_map(move |queue| [TenantName::Queue(queue), TenantName::Kind(kind)])
    });
    room::check(api.engine(), &api.door().tenant_names, caller, &names.collect::<Vec<_>>()).await
}

/// The job that a request describes, with everything that it says.
pub(super) fn prepare(api: &Api, caller: &Caller, job: SubmitJob<'_>) -> Result<Enqueue, ApiError> {
    check_together(&job)?;
    names::not_reserved("kind", &job.kind)?;
    names::not_reserved("queue", job.queue.as_deref().unwrap_or_default())?;
    let payload = job.payload.map_or("{}", |payload| payload.get());
    let mut new = api.engine().enqueue_raw(&job.kind, payload);
    // Before everything that starts from the queue's own settings.
    if job.queue.is_some() || !caller.sees_all() {
        new = new.queue(caller.queue(job.queue.as_deref().unwrap_or("default"))?);
    }
    macro_rules! set {
        (@ $value:ident) => { $value };
        (@ $value:ident $convert:expr) => { $convert($value) };
        ($($field:ident: $method:ident $(($convert:expr))?;)*) => {
            $(if let Some(value) = job.$field { new = new.$method(set!(@ value $($convert)?)); })*
        };
    }
    set! {
        priority: priority;
        version: version;
        run_at: run_at;
        delay_ms: delay (Duration::from_millis);
        expires_at: expires_at;
        max_retries: max_retries;
        max_crashes: max_crashes;
        timeout_ms: timeout (Duration::from_millis);
        max_wait_ms: max_wait (Duration::from_millis);
        idempotency_key: idempotency_key (|key| names::stored_key(caller, key));
        business_key: business_key (|key| names::stored_key(caller, key));
        ordering_key: ordering_key (|key| names::stored_key(caller, key));
        limit_key: limit_key (|key| names::stored_key(caller, key));
        single_instance: single_instance (|key| names::stored_key(caller, key));
        max_deferral_ms: max_deferral (Duration::from_millis);
        dependency: dependency (|key| names::stored_key(caller, key));
        correlation_id: correlation_id (|key| names::stored_key(caller, key));
        trace_parent: trace_parent;
        on_conflict: on_conflict;
        replaces: replaces;
        params: params;
    }
    for (pool, permits) in job.permits {
        new = new.permits(names::stored_key(caller, pool), permits);
    }
    if let Some(part) = job.backoff {
        new = new.adjust_backoff(|backoff| adjusted(backoff, &part));
    }
    if let Some(job) = job.on_success {
        new = new.on_success_raw(callback(caller, &job)?);
    }
    if let Some(job) = job.on_failure {
        new = new.on_failure_raw(callback(caller, &job)?);
    }
    Ok(job.tags.into_iter().fold(new, Enqueue::tag))
}

/// What no single field can say of itself.
fn check_together(job: &SubmitJob<'_>) -> Result<(), ApiError> {
    let refused = |field: &str, problem: &str| {
        let refusal = ApiError::invalid(format!("{field} is invalid: {problem}"));
        refusal
            .hint("correct the value and submit again")
            .details(json!({ "field": field, "problem": problem }))
    };
    if job.run_at.is_some() && job.delay_ms.is_some() {
        return Err(refused("delay_ms", "it cannot be combined with run_at; leave one out"));
    }
    Ok(())
}

fn adjusted(mut backoff: Backoff, part: &BackoffPart) -> Backoff {
    backoff.growth = part.policy.unwrap_or(backoff.growth);
    backoff.base = part.base_ms.map_or(backoff.base, Duration::from_millis);
    // A longer base than the cap that was left out means that no wait is cut.
    backoff.cap = part.cap_ms.map_or(backoff.cap, Duration::from_millis).max(backoff.base);
    backoff.jitter = part.jitter.unwrap_or(backoff.jitter);
    backoff
}

pub(super) fn callback(caller: &Caller, job: &CallbackJob<'_>) -> Result<Callback, ApiError> {
    names::not_reserved("callback kind", &job.kind)?;
    names::not_reserved("callback queue", job.queue.as_deref().unwrap_or_default())?;
    let queue = caller.queue(job.queue.as_deref().unwrap_or("default"))?;
    let payload = job.payload.map_or("{}", |payload| payload.get());
    Ok(Callback {
        kind: (&*job.kind).into(),
        version: job.version.unwrap_or(1),
        queue: queue.into(),
        payload: payload.into(),
    })
}

/// The header `traceparent` of W3C Trace Context. One that is none is left out, as that standard asks.
pub(super) struct TraceParent(Option<Arc<str>>);

impl TraceParent {
    /// A job that names no trace belongs to that of the request that brought it.
    pub(super) fn belongs(&self, job: &mut SubmitJob<'_>) {
        let own = job.trace_parent.take();
        job.trace_parent = own.or_else(|| self.0.as_deref().map(str::to_owned));
    }
}

impl<S: Sync> FromRequestParts<S> for TraceParent {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let given = parts.headers.get("traceparent").and_then(|value| value.to_str().ok());
        Ok(Self(given.filter(|text| is_trace_parent(text)).map(Into::into)))
    }
}

/// The header `Idempotency-Key`.
struct IdempotencyKey(Option<String>);

impl<S: Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let Some(given) = parts.headers.get("idempotency-key") else { return Ok(Self(None)) };
        match std::str::from_utf8(given.as_bytes()) {
            Ok(key) => Ok(Self(Some(key.to_owned()))),
            Err(_) => Err(ApiError::invalid("the header Idempotency-Key is not valid UTF-8")
                .hint("send plain text")
                .details(json!({ "field": "Idempotency-Key" }))),
        }
    }
}
