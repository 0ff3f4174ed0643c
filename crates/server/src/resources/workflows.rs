//! `/api/v1/workflows` and `/api/v1/batches`: jobs that belong together (W1-W6). Both are read and operated on alike.

mod batches;
mod given;
mod seen;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use backstop::workflows::Branching;
use utoipa_axum::routes;

use self::given::{add_node, callbacks};
use self::seen::{cancel, created, list, pause, refused, seen, stored};
use super::submit::{TraceParent, within};
use crate::access::{Caller, Scope};
use crate::api::Api;
use crate::body::{JsonBody, PathParams, QueryParams, RawBody, read};
use crate::drawing;
use crate::error::ApiError;
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{
    ErrorBody, GivenReason, Items, NewWorkflow, WorkflowChanged, WorkflowJson, WorkflowQuery, WorkflowStored,
};

pub(crate) fn routes(routes: Routes) -> Routes {
    let (look, give) = (RouteNeeds::Right(Scope::Read), RouteNeeds::Right(Scope::Submit));
    let change = RouteNeeds::Right(Scope::Operate);
    let routes = routes
        .add(give, routes!(submit_workflow))
        .add(look, routes!(list_workflows))
        .add(look, routes!(show_workflow))
        .add(look, routes!(draw_workflow))
        .add(look, routes!(write_workflow_as_mermaid))
        .add(change, routes!(cancel_workflow))
        .add(change, routes!(pause_workflow))
        .add(change, routes!(resume_workflow));
    batches::routes(routes)
}

/// Stores a workflow: all of its jobs, or nothing. An answer means that it is durable.
#[utoipa::path(post, path = "/api/v1/workflows", tag = "workflows", request_body = NewWorkflow,
    responses(
        (status = 201, description = "It is stored.", body = WorkflowStored),
        (status = 200, description = "It was already stored, under the same key.", body = WorkflowStored),
        (status = 409, description = "Another live job holds a business key, or the key is a workflow's that this \
         token does not see.", body = ErrorBody),
        (status = 422, description = "`invalid_workflow`: its shape cannot be; the details name the steps. Or a job \
         can never be stored like this.", body = ErrorBody),
        (status = 429, description = "`tenant_limit`, or `queue_full`.", body = ErrorBody)))]
async fn submit_workflow(
    State(api): State<Api>,
    caller: Caller,
    trace: TraceParent,
    RawBody(bytes): RawBody,
) -> Result<(StatusCode, Json<WorkflowStored>), ApiError> {
    let body: NewWorkflow<'_> = read(&bytes)?;
    let mut flow = api.engine().workflow(body.name.as_str());
    for (index, text) in body.nodes.iter().enumerate() {
        let node = add_node(&api, &caller, &trace, &mut flow, text).await;
        node.map_err(|error| within("nodes", index, error))?;
    }
    for (name, branching) in body.branches {
        if branching != Branching::All {
            flow.branches(name, branching);
        }
    }
    let (on_success, on_failure) = callbacks(&api, &caller, body.on_success, body.on_failure).await?;
    flow = flow.callbacks_raw(on_success, on_failure);
    if let Some(key) = body.key {
        flow = flow.key(key);
    }
    let submitted = flow.submit().await.map_err(|problem| refused(&caller, problem))?;
    let view = stored(&api, &caller, submitted.id, submitted.deduplicated).await?;
    let (workflow, deduplicated) = (view.into(), submitted.deduplicated);
    Ok((created(deduplicated), Json(WorkflowStored { workflow, deduplicated })))
}

/// Workflows, newest first, without their steps.
#[utoipa::path(get, path = "/api/v1/workflows", tag = "workflows", params(WorkflowQuery),
    responses((status = 200, body = Items<WorkflowJson>), (status = 422, body = ErrorBody)))]
async fn list_workflows(
    State(api): State<Api>,
    caller: Caller,
    QueryParams(query): QueryParams<WorkflowQuery>,
) -> Result<Response, ApiError> {
    list(&api, &caller, query, false, WorkflowJson::from).await
}

/// One workflow with its steps. The id may be given by its first characters.
#[utoipa::path(get, path = "/api/v1/workflows/{id}", tag = "workflows",
    params(("id" = String, Path, description = "Which workflow.")),
    responses((status = 200, body = WorkflowJson),
        (status = 404, description = "No such workflow.", body = ErrorBody)))]
async fn show_workflow(
    State(api): State<Api>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<WorkflowJson>, ApiError> {
    Ok(Json(seen(&api, &caller, &id, false).await?.into()))
}

/// A picture of a workflow.
#[utoipa::path(get, path = "/api/v1/workflows/{id}/graph.svg", tag = "workflows",
    params(("id" = String, Path, description = "Which workflow.")),
    responses((status = 200, body = String, content_type = "image/svg+xml"),
        (status = 404, description = "No such workflow.", body = ErrorBody)))]
async fn draw_workflow(
    State(api): State<Api>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Response, ApiError> {
    let workflow: WorkflowJson = seen(&api, &caller, &id, false).await?.into();
    Ok(([(CONTENT_TYPE, "image/svg+xml")], drawing::svg(&workflow)).into_response())
}

/// A workflow as text in the language of Mermaid.
#[utoipa::path(get, path = "/api/v1/workflows/{id}/graph.mmd", tag = "workflows",
    params(("id" = String, Path, description = "Which workflow.")),
    responses((status = 200, body = String, content_type = "text/plain"),
        (status = 404, description = "No such workflow.", body = ErrorBody)))]
async fn write_workflow_as_mermaid(
    State(api): State<Api>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Response, ApiError> {
    let workflow: WorkflowJson = seen(&api, &caller, &id, false).await?.into();
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], drawing::mermaid(&workflow)).into_response())
}

/// Cancels every step that has not ended (W4).
#[utoipa::path(post, path = "/api/v1/workflows/{id}/cancel", tag = "workflows",
    params(("id" = String, Path, description = "Which workflow.")), request_body = Option<GivenReason>,
    responses((status = 200, body = WorkflowChanged),
        (status = 404, description = "No such workflow.", body = ErrorBody)))]
async fn cancel_workflow(
    State(api): State<Api>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    body: Option<JsonBody<GivenReason>>,
) -> Result<Json<WorkflowChanged>, ApiError> {
    cancel(&api, &caller, &id, body, false).await
}

/// Holds back every step that has not started (W4).
#[utoipa::path(post, path = "/api/v1/workflows/{id}/pause", tag = "workflows",
    params(("id" = String, Path, description = "Which workflow.")),
    responses((status = 200, body = WorkflowChanged),
        (status = 404, description = "No such workflow.", body = ErrorBody)))]
async fn pause_workflow(
    State(api): State<Api>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<WorkflowChanged>, ApiError> {
    pause(&api, &caller, &id, true, false).await
}

/// Lets the steps go on that were held back (W4).
#[utoipa::path(post, path = "/api/v1/workflows/{id}/resume", tag = "workflows",
    params(("id" = String, Path, description = "Which workflow.")),
    responses((status = 200, body = WorkflowChanged),
        (status = 404, description = "No such workflow.", body = ErrorBody)))]
async fn resume_workflow(
    State(api): State<Api>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<WorkflowChanged>, ApiError> {
    pause(&api, &caller, &id, false, false).await
}
