//! Every route with what it needs of its caller.
//!
//! A resource hands its routes over together with what they need; there is no other way into the router, so a route
//! without a declared need does not compile.

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::openapi::path::HttpMethod;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::access::{self, Scope};
use crate::api::Api;
use crate::error::ApiError;
use crate::resources;

/// What a route needs of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Needs {
    /// Nothing: it tells nothing about jobs.
    Nothing,
    /// A right; the handler shows and touches only what is the caller's.
    Right(Scope),
    /// A right without the bounds of a tenant or of queues: it concerns everybody.
    RightOverAll(Scope),
}

/// One route: what the tests of every route go through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Route {
    /// The method, in capitals.
    pub method: String,
    /// The path, with parameters in braces.
    pub path: String,
    /// What it needs.
    pub needs: Needs,
}

/// Routes under construction.
pub(crate) struct Routes {
    router: OpenApiRouter<Api>,
    table: Vec<Route>,
}

impl Routes {
    fn new() -> Self {
        Self { router: OpenApiRouter::with_openapi(crate::openapi::head()), table: Vec::new() }
    }

    /// Adds the handlers of one path.
    pub(crate) fn add(mut self, needs: Needs, handlers: UtoipaMethodRouter<Api>) -> Self {
        let (schemas, mut paths, router) = handlers;
        crate::openapi::complete(needs, &mut paths);
        for (path, item) in &paths.paths {
            let methods = [
                (HttpMethod::Get, item.get.is_some()),
                (HttpMethod::Post, item.post.is_some()),
                (HttpMethod::Put, item.put.is_some()),
                (HttpMethod::Delete, item.delete.is_some()),
            ];
            for (method, _) in methods.into_iter().filter(|(_, there)| *there) {
                self.table.push(Route { method: capitals(&method).to_owned(), path: path.clone(), needs });
            }
        }
        let check = move |request: Request, next: Next| access::admit(needs, request, next);
        let guarded = router.layer(middleware::from_fn(check));
        self.router = self.router.routes((schemas, paths, guarded));
        self
    }
}

const fn capitals(method: &HttpMethod) -> &'static str {
    match method {
        HttpMethod::Post => "POST",
        HttpMethod::Put => "PUT",
        HttpMethod::Delete => "DELETE",
        _ => "GET",
    }
}

fn all() -> Routes {
    let routes = Routes::new();
    let routes = resources::clock::routes(routes);
    let routes = resources::health::routes(routes);
    let routes = resources::work::routes(routes);
    let routes = resources::events::routes(routes);
    let routes = resources::metrics::routes(routes);
    let routes = resources::webhooks::routes(routes);
    let routes = resources::tokens::routes(routes);
    let routes = resources::audit::routes(routes);
    let routes = resources::doctor::routes(routes);
    let routes = resources::incidents::routes(routes);
    let routes = resources::openapi::routes(routes);
    let routes = resources::redrives::routes(routes);
    let routes = resources::rules::routes(routes);
    let routes = resources::workers::routes(routes);
    let routes = resources::submit::routes(routes);
    let routes = resources::jobs::routes(routes);
    let routes = resources::dead::routes(routes);
    let routes = resources::archive::routes(routes);
    resources::queues::routes(routes)
}

/// Every route, with what it needs.
#[must_use]
pub fn table() -> Vec<Route> {
    all().table
}

/// The OpenAPI document of every route.
pub(crate) fn described() -> utoipa::openapi::OpenApi {
    all().router.into_openapi()
}

/// The whole API, ready to be served or called without a socket.
pub fn router(api: Api) -> Router {
    let (router, _) = all().router.split_for_parts();
    let router = router.fallback(no_such_path).method_not_allowed_fallback(wrong_method);
    crate::door::around(router, &api)
        .layer(middleware::from_fn_with_state(api.clone(), crate::figures::count))
        .with_state(api)
}

async fn no_such_path() -> Response {
    ApiError::not_found("no_such_path", "there is nothing at this path")
        .hint("/api/v1/openapi.json lists every path")
        .into_response()
}

async fn wrong_method() -> Response {
    let status = axum::http::StatusCode::METHOD_NOT_ALLOWED;
    ApiError::new(status, "method_not_allowed", "this path does not take this method")
        .hint("/api/v1/openapi.json lists what each path takes")
        .into_response()
}
