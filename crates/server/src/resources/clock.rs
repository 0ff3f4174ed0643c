//! `/api/v1/clock`: what time it is, by the only clock that counts.

use axum::Json;
use axum::extract::State;
use utoipa_axum::routes;

use crate::access::Scope;
use crate::api::Api;
use crate::error::ApiError;
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::ServerTime;

pub(crate) fn routes(routes: Routes) -> Routes {
    routes.add(RouteNeeds::Right(Scope::Read), routes!(clock))
}

/// The store's clock.
#[utoipa::path(get, path = "/api/v1/clock", tag = "health", responses((status = 200, body = ServerTime)))]
async fn clock(State(api): State<Api>) -> Result<Json<ServerTime>, ApiError> {
    Ok(Json(ServerTime { now: api.engine().store().now().await? }))
}
