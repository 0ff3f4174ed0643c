//! `/health`: is the process alive, and can it work.

use axum::Json;
use axum::extract::State;
use utoipa_axum::routes;

use crate::api::Api;
use crate::error::ApiError;
use crate::routes::{Needs, Routes};
use crate::shape::Alive;

pub(crate) fn routes(routes: Routes) -> Routes {
    routes.add(Needs::Nothing, routes!(live)).add(Needs::Nothing, routes!(ready))
}

/// Alive, whatever the store does.
#[utoipa::path(get, path = "/health/live", tag = "health", responses((status = 200, body = Alive)))]
async fn live() -> Json<Alive> {
    Json(Alive { status: "live".to_owned() })
}

/// Ready when the store answers.
#[utoipa::path(get, path = "/health/ready", tag = "health",
    responses((status = 200, body = Alive), (status = 503, body = crate::shape::Failed)))]
async fn ready(State(api): State<Api>) -> Result<Json<Alive>, ApiError> {
    api.engine().store().now().await?;
    Ok(Json(Alive { status: "ready".to_owned() }))
}
