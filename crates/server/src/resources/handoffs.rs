//! `/api/v1/handoffs`: finished jobs that another Backstop goes on with (B7). They are about everybody's jobs.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstop::handoffs::HandOffProblem;
use utoipa_axum::routes;

use crate::access::{Caller, Scope};
use crate::api::Api;
use crate::body::{JsonBody, PathParams, QueryParams};
use crate::error::ApiError;
use crate::page::{behind, page};
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{DeletedJson, ErrorBody, HandOffJson, Items, PageQuery, PlanActor};

pub(crate) fn routes(routes: Routes) -> Routes {
    let (look, change) = (RouteNeeds::RightOverAll(Scope::Read), RouteNeeds::RightOverAll(Scope::Operate));
    routes
        .add(look, routes!(list_handoffs))
        .add(look, routes!(show_handoff))
        .add(RouteNeeds::RightOverAll(Scope::Admin), routes!(remove_handoff))
        .add(change, routes!(retry_handoff))
}

/// Every hand-off by name, with its backlog and its lag.
#[utoipa::path(get, path = "/api/v1/handoffs", tag = "handoffs", params(PageQuery),
    responses((status = 200, body = Items<HandOffJson>), (status = 422, body = ErrorBody)))]
async fn list_handoffs(
    State(api): State<Api>,
    QueryParams(PageQuery { limit, cursor }): QueryParams<PageQuery>,
) -> Result<Response, ApiError> {
    let rows = api.engine().handoffs().list().await?;
    let rows: Vec<HandOffJson> = rows.into_iter().map(HandOffJson::from).collect();
    page(behind(rows, cursor.as_deref(), |last| last.name.clone())?, limit.unwrap_or_default(), |last| {
        last.name.clone()
    })
}

/// One hand-off: how it stands and, when it stands still, what to do.
#[utoipa::path(get, path = "/api/v1/handoffs/{name}", tag = "handoffs",
    params(("name" = String, Path, description = "The publication.")),
    responses((status = 200, body = HandOffJson),
        (status = 404, description = "There is none of this name.", body = ErrorBody)))]
async fn show_handoff(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
) -> Result<Json<HandOffJson>, ApiError> {
    let found = api.engine().handoffs().show(&name).await?;
    found.map(|view| Json(view.into())).ok_or_else(|| HandOffProblem::Unknown(name).into())
}

/// Removes a hand-off that no process publishes, with the jobs that wait to be handed over. A process whose settings
/// still have it makes it known again when it starts.
#[utoipa::path(delete, path = "/api/v1/handoffs/{name}", tag = "handoffs",
    params(("name" = String, Path, description = "The publication.")),
    responses((status = 200, body = DeletedJson),
        (status = 404, description = "There is none of this name.", body = ErrorBody),
        (status = 409, description = "A process publishes it.", body = ErrorBody)))]
async fn remove_handoff(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
) -> Result<Json<DeletedJson>, ApiError> {
    let dropped = api.engine().handoffs().remove(&name).await?;
    Ok(Json(DeletedJson { name, dropped }))
}

/// Lets a hand-off go on at once, whether it stands still or waits for its next try.
#[utoipa::path(post, path = "/api/v1/handoffs/{name}/retry", tag = "handoffs",
    params(("name" = String, Path, description = "The publication.")), request_body = Option<PlanActor>,
    responses((status = 200, body = HandOffJson),
        (status = 404, description = "There is none of this name.", body = ErrorBody),
        (status = 409, description = "Others change it at the same time.", body = ErrorBody)))]
async fn retry_handoff(
    State(api): State<Api>,
    caller: Caller,
    PathParams(name): PathParams<String>,
    body: Option<JsonBody<PlanActor>>,
) -> Result<Json<HandOffJson>, ApiError> {
    let by = caller.signs(body.and_then(|JsonBody(body)| body.by).as_deref());
    Ok(Json(api.engine().handoffs().retry(&name, &by).await?.into()))
}

impl From<HandOffProblem> for ApiError {
    fn from(problem: HandOffProblem) -> Self {
        match problem {
            HandOffProblem::Store(error) => error.into(),
            HandOffProblem::Unknown(_) => Self::not_found("no_such_handoff", problem.to_string())
                .hint("a hand-off is made by [handoff.NAME] of a process that publishes"),
            HandOffProblem::Running { .. } => Self::new(
                StatusCode::CONFLICT,
                "handoff_running",
                problem.to_string(),
            )
            .hint(
                "take it out of the settings of every process that publishes, restart those, and try again",
            ),
            HandOffProblem::Changing(_) => {
                Self::new(StatusCode::CONFLICT, "handoff_changing", problem.to_string())
            }
            other => Self::invalid(other.to_string()),
        }
    }
}
