//! Every route with what it needs of its caller.
//!
//! A resource hands its routes over together with what they need; there is no other way into the router, so a route
//! without a declared need does not compile.

use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::openapi::path::HttpMethod;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::access::Scope;
use crate::api::Api;
use crate::door::{self, DoorLayer};
use crate::error::ApiError;
use crate::resources;

/// What a route needs of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteNeeds {
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
    pub needs: RouteNeeds,
}

/// What the door has to know of a route.
#[derive(Debug)]
pub(crate) struct RouteAccess {
    /// Its path, with parameters in braces.
    pub(crate) path: Arc<str>,
    pub(crate) needs: RouteNeeds,
    /// Method and path together, for each of [`METHODS`].
    names: [Arc<str>; METHODS.len()],
}

/// The methods that are told apart. One that anybody made up is none of ours.
const METHODS: [&str; 6] = ["GET", "POST", "PUT", "DELETE", "HEAD", "OTHER"];

/// The path of a request that has no route.
const NO_ROUTE: &str = "none";

impl RouteAccess {
    pub(crate) fn new(path: &str, needs: RouteNeeds) -> Self {
        Self { path: path.into(), needs, names: METHODS.map(|method| format!("{method} {path}").into()) }
    }

    /// Of whatever has no route.
    fn of_none() -> Self {
        Self::new(NO_ROUTE, RouteNeeds::Nothing)
    }

    /// False for a request that has none.
    pub(crate) fn is_route(&self) -> bool {
        &*self.path != NO_ROUTE
    }

    /// What a request is counted as.
    pub(crate) fn name(&self, method: &Method) -> &Arc<str> {
        let known = METHODS.iter().position(|one| *one == method.as_str());
        &self.names[known.unwrap_or(METHODS.len() - 1)]
    }
}

/// Routes under construction.
pub(crate) struct Routes {
    added: Vec<(RouteNeeds, UtoipaMethodRouter<Api>)>,
}

impl Routes {
    /// Adds the handlers of one path.
    pub(crate) fn add(mut self, needs: RouteNeeds, mut handlers: UtoipaMethodRouter<Api>) -> Self {
        crate::openapi::complete(needs, &mut handlers.1);
        self.added.push((needs, handlers));
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
    let routes = Routes { added: Vec::new() };
    let routes = resources::clock::routes(routes);
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
    let head = OpenApiRouter::with_openapi(crate::openapi::head());
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
    router
        .fallback(behind(&api, no_such_path))
        .method_not_allowed_fallback(behind(&api, wrong_method))
        .with_state(api)
}

/// An answer for requests without a route: they pass the door too.
fn behind(api: &Api, answer: fn() -> ApiError) -> impl Fn(Request) -> Answer + Clone + Send + Sync + 'static {
    let (api, sign) = (api.clone(), Arc::new(RouteAccess::of_none()));
    move |request| {
        let (api, sign) = (api.clone(), sign.clone());
        Box::pin(async move { door::pass(&api, &sign, request, async |_| answer().into_response()).await })
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
