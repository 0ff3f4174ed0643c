//! `/metrics`: figures for Prometheus (V3).

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use utoipa_axum::routes;

use crate::access::Scope;
use crate::api::Api;
use crate::figures;
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;

pub(crate) fn routes(routes: Routes) -> Routes {
    // Kinds and queues of all tenants are labels here.
    routes.add(RouteNeeds::RightOverAll(Scope::Read), routes!(metrics))
}

/// Every figure, at most a second old.
#[utoipa::path(get, path = "/metrics", tag = "metrics",
    responses((status = 200, content_type = "text/plain", body = String)))]
async fn metrics(State(api): State<Api>) -> Response {
    let text: Arc<str> = figures::scrape(&api).await;
    ([(CONTENT_TYPE, figures::CONTENT_TYPE)], text.to_string()).into_response()
}
