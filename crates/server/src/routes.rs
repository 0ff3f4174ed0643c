//! Every route with what it needs of its caller.
//!
//! A resource hands its routes over together with what they need; there is no other way into the router, so a route
//! without a declared need does not compile.

use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::openapi::path::HttpMethod;
use utoipa_axum::router::OpenApiRouter;

use crate::api::Api;
use crate::door::{self, DoorLayer};
use crate::error::ApiError;
use crate::resources::routes::Routes;
use crate::route::{RouteAccess, RouteNeeds};
use crate::{openapi, resources, web};

/// One route: what the tests of every route go through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Route {
    /// The method, in capitals.
    pub method: String,
    /// The path, with parameters in braces.
    pub path: String,
    /// What it needs.
    pub needs: RouteNeeds,
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
    let routes = resources::clock::routes(Routes::default());
    let routes = resources::health::routes(routes);
    let routes = resources::work::routes(routes);
    let routes = resources::events::routes(routes);
    let routes = resources::metrics::routes(routes);
    let routes = resources::webhooks::routes(routes);
    let routes = resources::tokens::routes(routes);
    let routes = resources::audit::routes(routes);
    let routes = resources::alerts::routes(routes);
    let routes = resources::doctor::routes(routes);
    let routes = resources::incidents::routes(routes);
    let routes = resources::openapi::routes(routes);
    let routes = resources::redrives::routes(routes);
    let routes = resources::retention::routes(routes);
    let routes = resources::retry_budgets::routes(routes);
    let routes = resources::rules::routes(routes);
    let routes = resources::workers::routes(routes);
    let routes = resources::scale::routes(routes);
    let routes = resources::submit::routes(routes);
    let routes = resources::jobs::routes(routes);
    let routes = resources::job_changes::routes(routes);
    let routes = resources::dead::routes(routes);
    let routes = resources::archive::routes(routes);
    let routes = resources::bridges::routes(routes);
    let routes = resources::circuits::routes(routes);
    let routes = resources::handoffs::routes(routes);
    let routes = resources::limits::routes(routes);
    let routes = resources::ordering_keys::routes(routes);
    let routes = resources::schedules::routes(routes);
    let routes = resources::workflows::routes(routes);
    let routes = resources::signals::routes(routes);
    let routes = resources::rejects::routes(routes);
    let mut routes = resources::queues::routes(routes);
    for (needs, handlers) in &mut routes.added {
        openapi::complete(*needs, &mut handlers.1);
    }
    routes
}

/// Every route, with what it needs.
#[must_use]
pub fn table() -> Vec<Route> {
    let mut table = Vec::new();
    for (needs, (_, paths, _)) in all().added {
        for (path, item) in &paths.paths {
            let methods = [
                (HttpMethod::Get, item.get.is_some()),
                (HttpMethod::Post, item.post.is_some()),
                (HttpMethod::Put, item.put.is_some()),
                (HttpMethod::Delete, item.delete.is_some()),
            ];
            for (method, _) in methods.into_iter().filter(|(_, there)| *there) {
                table.push(Route { method: capitals(&method).to_owned(), path: path.clone(), needs });
            }
        }
    }
    table
}

/// The OpenAPI document of every route.
pub(crate) fn described() -> utoipa::openapi::OpenApi {
    let head = OpenApiRouter::with_openapi(openapi::head());
    let described = all().added.into_iter().fold(head, |router, (_, handlers)| router.routes(handlers));
    described.into_openapi()
}

/// The whole API, ready to be served or called without a socket.
pub fn router(api: Api) -> Router {
    let mut router = Router::new();
    for (needs, (_, paths, handlers)) in all().added {
        for path in paths.paths.keys() {
            let sign = Arc::new(RouteAccess::new(path, needs));
            let guarded = handlers.clone().layer(DoorLayer { api: api.clone(), sign });
            router = router.route(path, guarded);
        }
    }
    let router = router
        .fallback(behind(&api, no_such_path))
        .method_not_allowed_fallback(behind(&api, wrong_method))
        .with_state(api.clone());
    // The page calls what is here so far, and never itself.
    let needs = table().into_iter().map(|route| (format!("{} {}", route.method, route.path), route.needs));
    router.clone().merge(web::routes(&api, router, needs.collect()))
}

/// An answer for requests without a route: they pass the door too.
fn behind(api: &Api, answer: fn() -> ApiError) -> impl Fn(Request) -> Answer + Clone + Send + Sync + 'static {
    let (api, sign) = (api.clone(), Arc::new(RouteAccess::of_none()));
    move |request| {
        let (api, sign) = (api.clone(), sign.clone());
        let page = web::for_a_person(&request);
        let answer = move || if page { web::no_such_page() } else { answer().into_response() };
        Box::pin(async move { door::pass(&api, &sign, request, async |_| answer()).await })
    }
}

type Answer = Pin<Box<dyn Future<Output = Response> + Send>>;

fn no_such_path() -> ApiError {
    ApiError::not_found("no_such_path", "there is nothing at this path")
        .hint("/api/v1/openapi.json lists every path")
}

fn wrong_method() -> ApiError {
    let status = axum::http::StatusCode::METHOD_NOT_ALLOWED;
    ApiError::new(status, "method_not_allowed", "this path does not support this method")
        .hint("/api/v1/openapi.json lists what each path takes")
}
