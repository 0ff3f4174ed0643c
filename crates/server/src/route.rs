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
    /// A right without the bounds of queues, and why: what it concerns belongs to a tenant and not to a queue.
    RightOverQueues(Scope, &'static str),
    /// A right without the bounds of a tenant or of queues: it concerns everybody.
    RightOverAll(Scope),
}

/// Who a route is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteSort {
    /// Programs: tokens in a header, bodies in JSON.
    Api,
    /// People: sessions in a cookie, forms. A change is made by a call of the API, and that call is written down.
    Page,
    /// People; what is asked for is no call of the API, so that this request itself is written down.
    AuditedPage,
}

/// Marks a call that the page makes for somebody: it is written down like any other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CalledByPage;

/// What the door has to know of a route.
#[derive(Debug)]
pub(crate) struct RouteAccess {
    /// Its path, with parameters in braces.
    pub(crate) path: Arc<str>,
    pub(crate) needs: RouteNeeds,
    /// How its requests are told apart from calls of the API.
    pub(crate) sort: RouteSort,
    /// Method and path together, for each of [`METHODS`].
    names: [Arc<str>; METHODS.len()],
}

/// The methods that are told apart. One that anybody made up is none of ours.
const METHODS: [&str; 6] = ["GET", "POST", "PUT", "DELETE", "HEAD", "OTHER"];

/// The path of a request that has no route.
const NO_ROUTE: &str = "none";

impl RouteAccess {
    pub(crate) fn new(path: &str, needs: RouteNeeds) -> Self {
        let names = METHODS.map(|method| format!("{method} {path}").into());
        Self { path: path.into(), needs, sort: RouteSort::Api, names }
    }

    /// Of a view or a form. Who is let in is decided by the routes of the API that it calls.
    pub(crate) fn of_page(path: &str, sort: RouteSort) -> Self {
        Self { sort, ..Self::new(path, RouteNeeds::Nothing) }
    }

    /// False for what only programs call.
    pub(crate) fn is_page(&self) -> bool {
        self.sort != RouteSort::Api
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
