//! Batches: jobs without an order (W3).

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstop::Enqueue;
use backstop::workflows::WorkflowId;
use serde_json::json;
use serde_json::value::RawValue;
use utoipa_axum::routes;

use super::given::{callbacks, prepared};
use super::seen::{absent, cancel, created, list, pause, refused, seen, sees, stored};
use crate::access::{Caller, Scope};
use crate::api::Api;
use crate::body::{JsonBody, PathParams, QueryParams, RawBody, read, wrong_field};
use crate::error::ApiError;
use crate::resources::routes::Routes;
use crate::resources::submit::{TraceParent, within};
use crate::route::RouteNeeds;
use crate::shape::{
    BatchJobs, BatchJson, BatchStored, ErrorBody, GivenReason, Items, NewBatch, WorkflowChanged,
    WorkflowQuery,
};

/// Jobs of a batch in one request.
const MOST_JOBS: usize = 1_000;

pub(super) fn routes(routes: Routes) -> Routes {
    let (look, give) = (RouteNeeds::Right(Scope::Read), RouteNeeds::Right(Scope::Submit));
    let change = RouteNeeds::Right(Scope::Operate);
    routes
        .add(give, routes!(submit_batch_of_jobs))
        .add(give, routes!(add_to_batch))
        .add(give, routes!(seal_batch))
        .add(look, routes!(list_batches))
        .add(look, routes!(show_batch))
        .add(change, routes!(cancel_batch))
        .add(change, routes!(pause_batch))
        .add(change, routes!(resume_batch))
}

/// Stores a batch with up to 1,000 jobs: all of them, or nothing. More are added to one that is open.
#[utoipa::path(post, path = "/api/v1/batches", tag = "batches", operation_id = "submit_batch",
    request_body = NewBatch,
    responses(
        (status = 201, description = "It is stored.", body = BatchStored),
        (status = 200, description = "It was already stored, under the same key.", body = BatchStored),
        (status = 409, description = "Another live job holds a business key, or the key is a batch's that this token \
         does not see.", body = ErrorBody),
        (status = 422, description = "It can never be stored like this.", body = ErrorBody),
        (status = 429, description = "`tenant_limit`, or `queue_full`.", body = ErrorBody)))]
async fn submit_batch_of_jobs(
    State(api): State<Api>,
    caller: Caller,
    trace: TraceParent,
    RawBody(bytes): RawBody,
) -> Result<(StatusCode, Json<BatchStored>), ApiError> {
    let body: NewBatch<'_> = read(&bytes)?;
    let mut batch = api.engine().batch(body.name.as_str());
    if let Some(tenant) = caller.tenant() {
        batch = batch.tenant(tenant);
    }
    if let Some(key) = body.key {
        batch = batch.key(key);
    }
    if let Some(share) = body.success_rate_at_least {
        batch = batch.success_rate_at_least(share);
    }
    if let Some(most) = body.failures_at_most {
        if i64::try_from(most).is_err() {
            return Err(wrong_field("failures_at_most", "it is larger than any batch"));
        }
        batch = batch.failures_at_most(most);
    }
    let (on_success, on_failure) =
        callbacks(&api, &caller, body.then_on_success, body.then_on_failure).await?;
    batch = batch.callbacks_raw(on_success, on_failure);
    let jobs = jobs_of(&api, &caller, &trace, &body.jobs).await?;
    let submitted =
        if body.open { batch.open_with(jobs).await } else { batch.for_each(jobs, |job| job).await };
    let submitted = submitted.map_err(|problem| refused(&caller, problem))?;
    let view = stored(&api, &caller, submitted.id, submitted.deduplicated).await?;
    let (batch, deduplicated) = (view.into(), submitted.deduplicated);
    Ok((created(deduplicated), Json(BatchStored { batch, deduplicated })))
}

/// The jobs of a batch, from their texts.
async fn jobs_of(
    api: &Api,
    caller: &Caller,
    trace: &TraceParent,
    texts: &[&RawValue],
) -> Result<Vec<Enqueue>, ApiError> {
    if texts.len() > MOST_JOBS {
        let message = format!("the request has {} jobs, the limit is {MOST_JOBS}", texts.len());
        return Err(ApiError::invalid(message)
            .hint("open the batch with `\"open\": true`, and add the others with further requests")
            .details(json!({ "field": "jobs" })));
    }
    let mut jobs = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        let job = prepared(api, caller, trace, text.get()).await;
        jobs.push(job.map_err(|error| within("jobs", index, error))?);
    }
    Ok(jobs)
}

/// Adds up to 1,000 jobs to a batch that is open: all of them, or none. While it is paused they are stored paused.
#[utoipa::path(post, path = "/api/v1/batches/{id}/jobs", tag = "batches", request_body = BatchJobs,
    params(("id" = String, Path, description = "Which batch.")),
    responses((status = 200, body = BatchJson),
        (status = 404, description = "No such batch.", body = ErrorBody),
        (status = 409, description = "`batch_sealed`, `batch_canceled`, or another live job holds a \
         business key.", body = ErrorBody),
        (status = 422, description = "A job can never be stored like this: none was added.", body = ErrorBody),
        (status = 429, description = "`tenant_limit`, or `queue_full`.", body = ErrorBody)))]
async fn add_to_batch(
    State(api): State<Api>,
    caller: Caller,
    trace: TraceParent,
    PathParams(id): PathParams<String>,
    RawBody(bytes): RawBody,
) -> Result<Json<BatchJson>, ApiError> {
    let id = own_batch(&api, &caller, &id).await?;
    let body: BatchJobs<'_> = read(&bytes)?;
    let jobs = jobs_of(&api, &caller, &trace, &body.jobs).await?;
    let batch = api.engine().workflows().batch(id).await.map_err(|problem| refused(&caller, problem))?;
    batch.add(jobs).await.map_err(|problem| refused(&caller, problem))?;
    Ok(Json(batch.view().await.map_err(|problem| refused(&caller, problem))?.into()))
}

/// No more jobs are added: when all have ended, the batch has.
#[utoipa::path(post, path = "/api/v1/batches/{id}/seal", tag = "batches",
    params(("id" = String, Path, description = "Which batch.")),
    responses((status = 200, body = BatchJson),
        (status = 404, description = "No such batch.", body = ErrorBody)))]
async fn seal_batch(
    State(api): State<Api>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<BatchJson>, ApiError> {
    let id = own_batch(&api, &caller, &id).await?;
    let batch = api.engine().workflows().batch(id).await.map_err(|problem| refused(&caller, problem))?;
    batch.seal().await.map_err(|problem| refused(&caller, problem))?;
    Ok(Json(batch.view().await.map_err(|problem| refused(&caller, problem))?.into()))
}

/// A batch of this caller's, by its whole id: whoever may only submit does not look for others.
async fn own_batch(api: &Api, caller: &Caller, text: &str) -> Result<WorkflowId, ApiError> {
    let Ok(id) = text.parse() else { return Err(absent(text, true)) };
    match api.engine().workflows().get(id).await? {
        Some(view) if view.batch.is_some() && sees(caller, &view) => Ok(id),
        _ => Err(absent(text, true)),
    }
}

/// Batches, newest first.
#[utoipa::path(get, path = "/api/v1/batches", tag = "batches", params(WorkflowQuery),
    responses((status = 200, body = Items<BatchJson>), (status = 422, body = ErrorBody)))]
async fn list_batches(
    State(api): State<Api>,
    caller: Caller,
    QueryParams(query): QueryParams<WorkflowQuery>,
) -> Result<Response, ApiError> {
    list(&api, &caller, query, true, BatchJson::from).await
}

/// One batch. The id may be given by its first characters.
#[utoipa::path(get, path = "/api/v1/batches/{id}", tag = "batches",
    params(("id" = String, Path, description = "Which batch.")),
    responses((status = 200, body = BatchJson), (status = 404, description = "No such batch.", body = ErrorBody)))]
async fn show_batch(
    State(api): State<Api>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<BatchJson>, ApiError> {
    Ok(Json(seen(&api, &caller, &id, true).await?.into()))
}

/// Cancels every job of a batch that has not ended (W4). One that is open is sealed by that, and has failed.
#[utoipa::path(post, path = "/api/v1/batches/{id}/cancel", tag = "batches",
    params(("id" = String, Path, description = "Which batch.")), request_body = Option<GivenReason>,
    responses((status = 200, body = WorkflowChanged),
        (status = 404, description = "No such batch.", body = ErrorBody)))]
async fn cancel_batch(
    State(api): State<Api>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    body: Option<JsonBody<GivenReason>>,
) -> Result<Json<WorkflowChanged>, ApiError> {
    cancel(&api, &caller, &id, body, true).await
}

/// Holds back every job of a batch that has not started (W4), and those that are added until it is resumed.
#[utoipa::path(post, path = "/api/v1/batches/{id}/pause", tag = "batches",
    params(("id" = String, Path, description = "Which batch.")),
    responses((status = 200, body = WorkflowChanged),
        (status = 404, description = "No such batch.", body = ErrorBody)))]
async fn pause_batch(
    State(api): State<Api>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<WorkflowChanged>, ApiError> {
    pause(&api, &caller, &id, true, true).await
}

/// Lets the jobs of a batch go on that were held back (W4).
#[utoipa::path(post, path = "/api/v1/batches/{id}/resume", tag = "batches",
    params(("id" = String, Path, description = "Which batch.")),
    responses((status = 200, body = WorkflowChanged),
        (status = 404, description = "No such batch.", body = ErrorBody)))]
async fn resume_batch(
    State(api): State<Api>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<WorkflowChanged>, ApiError> {
    pause(&api, &caller, &id, false, true).await
}
