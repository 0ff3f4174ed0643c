//! What a route needs of its caller, and how it is named.

use std::sync::Arc;

use axum::http::Method;
use serde::Serialize;

use crate::access::Scope;

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
    pub(crate) fn of_none() -> Self {
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
