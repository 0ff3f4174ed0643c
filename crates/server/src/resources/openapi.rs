//! `/api/v1/openapi.json`: what this API is, for programs.

use std::sync::LazyLock;

use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse, Response};
use utoipa_axum::routes;

use crate::resources::routes::Routes;
use crate::route::RouteNeeds;

/// The document, written once: it is the same for every caller.
static WRITTEN: LazyLock<String> =
    LazyLock::new(|| serde_json::to_string(&crate::openapi::document()).unwrap_or_default());

pub(crate) fn routes(routes: Routes) -> Routes {
    routes.add(RouteNeeds::Nothing, routes!(document))
}

/// This document.
#[utoipa::path(get, path = "/api/v1/openapi.json", tag = "openapi",
    responses((status = 200, description = "An OpenAPI 3.1 document.", body = Object)))]
async fn document() -> Response {
    let json = HeaderValue::from_static("application/json");
    ([(CONTENT_TYPE, json)], WRITTEN.as_str()).into_response()
}
