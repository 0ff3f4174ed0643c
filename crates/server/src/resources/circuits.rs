//! `/api/v1/circuits`: which dependencies are left alone for a while, and by whom (H3). A circuit is about everybody's
//! jobs.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstop::circuits::CircuitProblem;
use utoipa_axum::routes;

use crate::access::{Caller, Scope};
use crate::api::Api;
use crate::body::{JsonBody, PathParams, QueryParams};
use crate::error::ApiError;
use crate::page::{behind, page};
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{CircuitJson, ErrorBody, Items, OpenCircuit, PageQuery, PlanActor};

pub(crate) fn routes(routes: Routes) -> Routes {
    let (look, change) = (RouteNeeds::RightOverAll(Scope::Read), RouteNeeds::RightOverAll(Scope::Operate));
    routes
        .add(look, routes!(list_circuits))
        .add(look, routes!(show_circuit))
        .add(change, routes!(open_circuit))
        .add(change, routes!(close_circuit))
}

/// Every circuit by key.
#[utoipa::path(get, path = "/api/v1/circuits", tag = "circuits", params(PageQuery),
    responses((status = 200, body = Items<CircuitJson>), (status = 422, body = ErrorBody)))]
async fn list_circuits(
    State(api): State<Api>,
    QueryParams(PageQuery { limit, cursor }): QueryParams<PageQuery>,
) -> Result<Response, ApiError> {
    let rows = api.engine().circuits().list().await?;
    let rows: Vec<CircuitJson> = rows.into_iter().map(CircuitJson::from).collect();
    page(behind(rows, cursor.as_deref(), |last| last.key.clone())?, limit.unwrap_or_default(), |last| {
        last.key.clone()
    })
}

/// One circuit.
#[utoipa::path(get, path = "/api/v1/circuits/{key}", tag = "circuits",
    params(("key" = String, Path, description = "The dependency.")),
    responses((status = 200, body = CircuitJson),
        (status = 404, description = "Nothing is known of it.", body = ErrorBody)))]
async fn show_circuit(
    State(api): State<Api>,
    PathParams(key): PathParams<String>,
) -> Result<Json<CircuitJson>, ApiError> {
    let found = api.engine().circuits().get(&key).await?;
    found.map(|view| Json(view.into())).ok_or_else(|| {
        ApiError::not_found("no_such_circuit", format!("nothing is known of a circuit `{key}`")).hint(
            "a circuit is made when a run that calls its dependency fails, or when it is opened by hand",
        )
    })
}

/// Opens a circuit by hand: its jobs wait, and nobody is charged.
#[utoipa::path(post, path = "/api/v1/circuits/{key}/open", tag = "circuits",
    params(("key" = String, Path, description = "The dependency.")), request_body = Option<OpenCircuit>,
    responses((status = 200, body = CircuitJson),
        (status = 409, description = "There are too many circuits.", body = ErrorBody)))]
async fn open_circuit(
    State(api): State<Api>,
    caller: Caller,
    PathParams(key): PathParams<String>,
    body: Option<JsonBody<OpenCircuit>>,
) -> Result<Json<CircuitJson>, ApiError> {
    let OpenCircuit { for_ms, by } = body.map(|JsonBody(body)| body).unwrap_or_default();
    let by = caller.signs(by.as_deref());
    Ok(Json(api.engine().circuits().open(&key, &by, for_ms.map(Duration::from_millis)).await?.into()))
}

/// Closes a circuit by hand: its jobs run at once.
#[utoipa::path(post, path = "/api/v1/circuits/{key}/close", tag = "circuits",
    params(("key" = String, Path, description = "The dependency.")), request_body = Option<PlanActor>,
    responses((status = 200, body = CircuitJson),
        (status = 404, description = "Nothing is known of it.", body = ErrorBody)))]
async fn close_circuit(
    State(api): State<Api>,
    caller: Caller,
    PathParams(key): PathParams<String>,
    body: Option<JsonBody<PlanActor>>,
) -> Result<Json<CircuitJson>, ApiError> {
    let by = caller.signs(body.and_then(|JsonBody(body)| body.by).as_deref());
    Ok(Json(api.engine().circuits().close(&key, &by).await?.into()))
}

impl From<CircuitProblem> for ApiError {
    fn from(problem: CircuitProblem) -> Self {
        match problem {
            CircuitProblem::Store(error) => error.into(),
            CircuitProblem::Invalid(refusal) => refusal.into(),
            CircuitProblem::Unknown(_) => Self::not_found("no_such_circuit", problem.to_string()),
            CircuitProblem::TooMany => {
                Self::new(StatusCode::CONFLICT, "too_many_circuits", problem.to_string())
            }
            CircuitProblem::Changing(_) => {
                Self::new(StatusCode::CONFLICT, "circuit_changing", problem.to_string())
            }
        }
    }
}
