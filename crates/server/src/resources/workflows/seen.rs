//! Workflows and batches for the eyes of a caller, and what it does about all of their jobs.

use axum::Json;
use axum::http::StatusCode;
use axum::response::Response;
use backstop::workflows::{WorkflowFilter, WorkflowId, WorkflowProblem, WorkflowView};
use backstop_store::PageRequest;
use serde::Serialize;
use serde_json::json;

use crate::access::{Caller, Scope};
use crate::api::Api;
use crate::body::{JsonBody, wrong_field};
use crate::error::ApiError;
use crate::page::PageText;
use crate::resources::names;
use crate::shape::{GivenReason, WorkflowChanged, WorkflowQuery};

/// Characters of an id that must be given to find the rest.
const SHORTEST_ID: usize = 6;

pub(super) const fn created(deduplicated: bool) -> StatusCode {
    if deduplicated { StatusCode::OK } else { StatusCode::CREATED }
}

pub(super) async fn list<T: Serialize>(
    api: &Api,
    caller: &Caller,
    query: WorkflowQuery,
    batches: bool,
    row: impl Fn(WorkflowView) -> T,
) -> Result<Response, ApiError> {
    let after = query.cursor.as_deref().map(|cursor| {
        cursor
            .parse()
            .map_err(|_| wrong_field("cursor", "it is not a cursor: pass `next_cursor` as it was given"))
    });
    let filter = WorkflowFilter {
        batches: Some(batches),
        status: query.status,
        name: query.name,
        tenant: caller.tenant().map(str::to_owned),
        ..WorkflowFilter::default()
    };
    let page = PageRequest { limit: query.limit.unwrap_or_default().rows(), after: after.transpose()? };
    let found = api.engine().workflows().list(&filter, page).await?;
    let (mut text, mut last) = (PageText::new(), query.cursor);
    for view in found.items.into_iter().filter(|view| sees(caller, view)) {
        let id = view.id.to_string();
        if !text.add(&row(view))? {
            return text.finish(last);
        }
        last = Some(id);
    }
    text.finish(found.next.map(|id| id.to_string()))
}

pub(super) async fn cancel(
    api: &Api,
    caller: &Caller,
    id: &str,
    body: Option<JsonBody<GivenReason>>,
    batch: bool,
) -> Result<Json<WorkflowChanged>, ApiError> {
    let id = seen(api, caller, id, batch).await?.id;
    let reason = body.and_then(|JsonBody(body)| body.reason);
    let reason = reason.unwrap_or_else(|| format!("canceled with its {}", what(batch)));
    let changed = api.engine().workflows().cancel(id, &reason).await;
    answer(api, id, changed.map_err(|problem| refused(caller, problem))?).await
}

pub(super) async fn pause(
    api: &Api,
    caller: &Caller,
    id: &str,
    paused: bool,
    batch: bool,
) -> Result<Json<WorkflowChanged>, ApiError> {
    let id = seen(api, caller, id, batch).await?.id;
    let workflows = api.engine().workflows();
    let changed = if paused { workflows.pause(id).await } else { workflows.resume(id).await };
    answer(api, id, changed.map_err(|problem| refused(caller, problem))?).await
}

async fn answer(api: &Api, id: WorkflowId, changed: u64) -> Result<Json<WorkflowChanged>, ApiError> {
    let view = api.engine().workflows().get(id).await?;
    let status = view.map(|view| view.status).ok_or_else(|| absent(&id.to_string(), false))?;
    Ok(Json(WorkflowChanged { changed, status }))
}

/// Whether a workflow is for this caller's eyes.
pub(super) fn sees(caller: &Caller, view: &WorkflowView) -> bool {
    caller.sees_workflow(view.tenant.as_deref(), &view.queues)
}

/// What was stored, or was stored before and is for this caller's eyes.
pub(super) async fn stored(
    api: &Api,
    caller: &Caller,
    id: WorkflowId,
    deduplicated: bool,
) -> Result<WorkflowView, ApiError> {
    let view = api.engine().workflows().get(id).await?.ok_or_else(|| absent(&id.to_string(), false))?;
    if deduplicated && !sees(caller, &view) {
        return Err(names::held_elsewhere());
    }
    Ok(view)
}

/// The workflow or batch that `text` names, or alone begins to name.
pub(super) async fn seen(
    api: &Api,
    caller: &Caller,
    text: &str,
    batch: bool,
) -> Result<WorkflowView, ApiError> {
    let id = match text.parse() {
        Ok(id) => id,
        Err(_) => by_prefix(api, caller, text, batch).await?,
    };
    match api.engine().workflows().get(id).await? {
        Some(view) if view.batch.is_some() == batch && sees(caller, &view) => Ok(view),
        _ => Err(absent(text, batch)),
    }
}

async fn by_prefix(api: &Api, caller: &Caller, text: &str, batch: bool) -> Result<WorkflowId, ApiError> {
    let is_id = |letter: char| letter.is_ascii_hexdigit() || letter == '-';
    if text.len() < SHORTEST_ID || text.len() > 36 || !text.chars().all(is_id) || !caller.may(Scope::Read) {
        return Err(absent(text, batch));
    }
    let filter = WorkflowFilter {
        batches: Some(batch),
        id_prefix: text.to_ascii_lowercase(),
        tenant: caller.tenant().map(str::to_owned),
        ..WorkflowFilter::default()
    };
    let found = api.engine().workflows().list(&filter, PageRequest::first(100)).await?;
    let seen: Vec<WorkflowId> =
        found.items.iter().filter(|view| sees(caller, view)).map(|view| view.id).collect();
    match (&seen[..], found.next) {
        ([one], None) => Ok(*one),
        ([], None) => Err(absent(text, batch)),
        _ => {
            let message = format!("{text} is ambiguous: more than one {} begins with it", what(batch));
            Err(ApiError::new(StatusCode::BAD_REQUEST, "ambiguous_id", message).hint("give more of the id"))
        }
    }
}

const fn what(batch: bool) -> &'static str {
    if batch { "batch" } else { "workflow" }
}

pub(super) fn absent(text: &str, batch: bool) -> ApiError {
    let (text, what): (String, _) = (text.chars().take(60).collect(), what(batch));
    let code = if batch { "no_such_batch" } else { "no_such_workflow" };
    ApiError::not_found(code, format!("there is no {what} `{text}`")).hint(format!(
        "give its whole id, or the first 6 or more characters; `backstop {what} list` shows ids"
    ))
}

/// A problem in the caller's own names.
pub(super) fn refused(caller: &Caller, problem: WorkflowProblem) -> ApiError {
    let text = problem.to_string();
    match problem {
        WorkflowProblem::Store(error) => error.into(),
        WorkflowProblem::Invalid(invalid) => {
            ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_workflow", text)
                .hint("correct the steps that are named, and submit again: nothing was stored")
                .details(json!({ "names": invalid.names() }))
        }
        WorkflowProblem::Rule(_) => {
            ApiError::invalid(text).hint("correct `success_rate_at_least` or `failures_at_most`")
        }
        WorkflowProblem::Job { job, refusal } => {
            let error: ApiError = names::refusal(caller, refusal).into();
            let mut details = error.to_json()["details"].take();
            if !details.is_object() {
                details = json!({});
            }
            details["job"] = job.into();
            error.details(details)
        }
        WorkflowProblem::Refused(refusal) => names::refusal(caller, refusal).into(),
        WorkflowProblem::Unknown(id) => absent(&id.to_string(), false),
        WorkflowProblem::NotABatch(id) => absent(&id.to_string(), true),
        WorkflowProblem::Sealed(_) => ApiError::new(StatusCode::CONFLICT, "batch_sealed", text),
        WorkflowProblem::Canceled(_) => ApiError::new(StatusCode::CONFLICT, "batch_canceled", text),
        _ => ApiError::new(StatusCode::CONFLICT, "workflow_changing", text).hint("send it again"),
    }
}
