//! `/api/v1/limits`: how many jobs may run at once and start in a time, over all workers (H5). A limit is about
//! everybody's jobs.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstop::limits::LimitProblem;
use utoipa_axum::routes;

use crate::access::Scope;
use crate::api::Api;
use crate::body::{JsonBody, PathParams, QueryParams};
use crate::error::ApiError;
use crate::page::{behind, page};
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{ErrorBody, Items, LimitBody, LimitJson, PageQuery};

pub(crate) fn routes(routes: Routes) -> Routes {
    let (look, change) = (RouteNeeds::RightOverAll(Scope::Read), RouteNeeds::RightOverAll(Scope::Operate));
    routes.add(look, routes!(list_limits)).add(change, routes!(set_limit)).add(change, routes!(delete_limit))
}

/// Every limit by name, with what is used of it and when it lets another job start.
#[utoipa::path(get, path = "/api/v1/limits", tag = "limits", params(PageQuery),
    responses((status = 200, body = Items<LimitJson>), (status = 422, body = ErrorBody)))]
async fn list_limits(
    State(api): State<Api>,
    QueryParams(PageQuery { limit, cursor }): QueryParams<PageQuery>,
) -> Result<Response, ApiError> {
    let rows: Vec<LimitJson> = api.engine().limits().list().await?.into_iter().map(Into::into).collect();
    page(behind(rows, cursor.as_deref(), |last| last.name.clone())?, limit.unwrap_or_default(), |last| {
        last.name.clone()
    })
}

/// Sets a limit, whether there is one of this name or not. Every worker follows it within two seconds.
#[utoipa::path(put, path = "/api/v1/limits/{name}", tag = "limits", request_body = LimitBody,
    params(("name" = String, Path, description = "What the limit is called.")),
    responses((status = 200, body = LimitJson),
        (status = 409, description = "There are too many limits.", body = ErrorBody)))]
async fn set_limit(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
    JsonBody(body): JsonBody<LimitBody>,
) -> Result<Json<LimitJson>, ApiError> {
    Ok(Json(api.engine().limits().set(body.named(&name)).await?.into()))
}

/// Removes a limit, and answers it once more. One that a settings file names comes back with the next start of a
/// program that reads it.
#[utoipa::path(delete, path = "/api/v1/limits/{name}", tag = "limits",
    params(("name" = String, Path, description = "What the limit is called.")),
    responses((status = 200, body = LimitJson), (status = 404, description = "No such limit.", body = ErrorBody)))]
async fn delete_limit(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
) -> Result<Json<LimitJson>, ApiError> {
    let unknown = || {
        ApiError::not_found("no_such_limit", format!("there is no limit `{name}`"))
            .hint("look at GET /api/v1/limits for those that exist")
    };
    let limits = api.engine().limits();
    let view = limits.get(&name).await?.ok_or_else(unknown)?;
    if limits.delete(&name).await? { Ok(Json(view.into())) } else { Err(unknown()) }
}

impl From<LimitProblem> for ApiError {
    fn from(problem: LimitProblem) -> Self {
        let code = match problem {
            LimitProblem::Store(error) => return error.into(),
            LimitProblem::Invalid(refusal) => return refusal.into(),
            LimitProblem::TooMany => "too_many_limits",
            LimitProblem::Changing => "limits_changing",
        };
        Self::new(StatusCode::CONFLICT, code, problem.to_string())
    }
}
