//! What every view has at hand: the API, how to call it, and what each of its routes needs.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::http::HeaderMap;

use super::call::{AnswerCache, ApiCalls};
use crate::access::{Caller, Peer, check_needs};
use crate::api::Api;
use crate::route::RouteNeeds;

/// The page of one server. Clones share everything.
#[derive(Clone)]
pub(super) struct PageServer {
    inner: Arc<PageServerParts>,
}

struct PageServerParts {
    api: Api,
    calls: Router,
    /// By method and path: `POST /api/v1/jobs/{id}/cancel`.
    needs: HashMap<String, RouteNeeds>,
    answers: Arc<AnswerCache>,
}

impl PageServer {
    pub(super) fn new(api: Api, calls: Router, needs: HashMap<String, RouteNeeds>) -> Self {
        let answers = Arc::new(AnswerCache::default());
        Self { inner: Arc::new(PageServerParts { api, calls, needs, answers }) }
    }

    pub(super) fn api(&self) -> &Api {
        &self.inner.api
    }

    /// Calls of the API for somebody.
    pub(super) fn calls(&self, caller: Caller, headers: HeaderMap, peer: Option<Peer>) -> ApiCalls {
        let (routes, answers) = (self.inner.calls.clone(), self.inner.answers.clone());
        ApiCalls { routes, answers, caller, headers, peer }
    }

    /// Whether somebody may call a route, by the same check that the route makes. One that does not exist is nobody's.
    pub(super) fn allows(&self, caller: &Caller, route: &str) -> bool {
        self.inner.needs.get(route).is_some_and(|needs| check_needs(*needs, caller).is_ok())
    }
}
