//! `/api/v1/doctor`: what is wrong with the store, if anything is.

use axum::Json;
use axum::extract::State;
use utoipa_axum::routes;

use crate::access::Scope;
use crate::api::Api;
use crate::error::ApiError;
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{DoctorFinding, Items};

pub(crate) fn routes(routes: Routes) -> Routes {
    routes.add(RouteNeeds::RightOverAll(Scope::Read), routes!(examine))
}

/// What is good and what is not about the store's settings and about this version on it.
#[utoipa::path(get, path = "/api/v1/doctor", tag = "doctor", responses((status = 200, body = Items<DoctorFinding>)))]
async fn examine(State(api): State<Api>) -> Result<Json<Items<DoctorFinding>>, ApiError> {
    Ok(Json(Items::all(api.engine().doctor().await?.into_iter().map(DoctorFinding::from))))
}
