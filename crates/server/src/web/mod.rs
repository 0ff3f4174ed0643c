//! The page: what the API knows, drawn for people who have to understand it fast.
//!
//! The page is a client of the API in the same process. Every figure on it is the answer of a route, and every change
//! is a call of one, made with the rights of whoever looks: so scopes, tenants, audit and limits hold without being
//! written twice, and what the page can do, a program can do too.
//!
//! - [`session`]: who looks. [`visit`]: one request of a person. [`call`]: how it asks the API.
//! - [`actions`], [`form`], [`act`]: every change that can be made, how it is asked for, and made.
//! - [`views`]: one file per view. [`frame`]: what is around all of them. [`words`], [`chart`], [`timeline`],
//!   [`graph`]: how figures read and look. [`history`], [`sampler`]: the last hour. [`assets`]: style and script.

mod act;
mod actions;
mod assets;
mod call;
mod chart;
mod ended_sessions;
mod find;
mod form;
mod frame;
mod graph;
mod history;
mod login;
mod resume;
mod sampler;
mod server;
mod session;
mod show;
mod timeline;
mod views;
mod visit;
mod words;

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use http_body_util::BodyExt as _;
use maud::html;

use crate::api::Api;
use crate::door::DoorLayer;
use crate::route::{RouteAccess, RouteNeeds, RouteSort};

pub(crate) use ended_sessions::EndedSessions;
pub(crate) use history::CountHistory;
pub(crate) use login::LoggedIn;
pub(crate) use sampler::keep_history;
use server::PageServer;
pub(crate) use session::identify;

/// Every view and form, on top of the API that they call and of what its routes need.
pub(crate) fn routes(api: &Api, calls: Router, needs: HashMap<String, RouteNeeds>) -> Router {
    let mut router = Router::new();
    for (path, sort, handlers) in table() {
        let sign = Arc::new(RouteAccess::of_page(path, sort));
        router = router.route(path, handlers.layer(DoorLayer { api: api.clone(), sign }));
    }
    router.with_state(PageServer::new(api.clone(), calls, needs))
}

/// True for a request of a browser that shows what it gets to somebody, outside of what programs call.
pub(crate) fn for_a_person(request: &Request) -> bool {
    request.method() == Method::GET && wants_words(request) && !request.uri().path().starts_with("/api/")
}

/// True for a request of a browser for a view or with a form.
pub(crate) fn wants_words(request: &Request) -> bool {
    let accepts = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepts.contains("text/html")
}

/// A refusal as a person reads it: whatever stood in the way before or within a view was said as programs are told.
/// What else the answer has, such as when to come again, stays.
pub(crate) async fn in_words(response: Response) -> Response {
    let is_json = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    if response.status().is_success() || !is_json {
        return response;
    }
    let (head, body) = response.into_parts();
    let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let problem = call::PageProblem::of(head.status, &bytes);
    let mut shown = visit::answer(head.status, &frame::bare("Not shown", &frame::problem(&problem)));
    for (name, value) in &head.headers {
        if !shown.headers().contains_key(name) && name != CONTENT_LENGTH {
            shown.headers_mut().insert(name.clone(), value.clone());
        }
    }
    shown
}

/// What a person sees who follows a wrong link.
pub(crate) fn no_such_page() -> Response {
    let body = html! {
        h1 { "There is nothing here" }
        p.lead { "The address may be mistyped, or what it named is gone." }
        p { a href="/" { "Overview" } " · " a href="/jobs" { "Jobs" } " · " a href="/incidents" { "Incidents" } }
    };
    visit::answer(StatusCode::NOT_FOUND, &frame::bare("There is nothing here", &body))
}

type PageRoute = (&'static str, RouteSort, MethodRouter<PageServer>);

fn table() -> Vec<PageRoute> {
    let view = |path, handlers| (path, RouteSort::Page, handlers);
    vec![
        view("/", get(views::overview::show)),
        view("/incidents", get(views::incidents::list)),
        view("/incidents/{fingerprint}", get(views::incident::show)),
        view("/redrives", get(views::redrives::list)),
        view("/redrives/new", get(views::redrive_new::show).post(views::redrive_new::count)),
        view("/redrives/{id}", get(views::redrive::show)),
        view("/jobs", get(views::jobs::list)),
        view("/jobs/new", get(views::submit::show)),
        view("/jobs/change", get(views::job_changes::show)),
        view("/jobs/{id}", get(views::job::show)),
        ("/jobs/{id}/reveal", RouteSort::AuditedPage, post(views::job::reveal)),
        view("/queues", get(views::queues::list)),
        view("/parked", get(views::parked::show)),
        view("/workflows", get(views::workflows::list)),
        view("/workflows/{id}", get(views::workflow::show)),
        view("/batches", get(views::batches::list)),
        view("/batches/{id}", get(views::batches::show)),
        view("/signals", get(views::signals::list).post(views::signals::make_link)),
        view("/schedules", get(views::schedules::list)),
        view("/schedules/{name}", get(views::schedule::show)),
        view("/rejects", get(views::rejects::list)),
        ("/rejects/export", RouteSort::AuditedPage, post(views::rejects::export_all)),
        view("/rejects/{fingerprint}", get(views::rejects::show)),
        ("/rejects/{fingerprint}/export", RouteSort::AuditedPage, post(views::rejects::export)),
        view("/workers", get(views::workers::list)),
        view("/handoffs", get(views::handoffs::list)),
        view("/bridges", get(views::bridges::list).post(views::bridges::test)),
        view("/bridges/{name}", get(views::bridge::show)),
        ("/bridges/{name}/invalid", RouteSort::AuditedPage, post(views::bridge::export)),
        view("/circuits", get(views::circuits::list)),
        view("/limits", get(views::limits::list)),
        view("/archive", get(views::archive::list).post(views::archive::count)),
        view("/archive/{id}", get(views::archive::show)),
        view("/alerts", get(views::alerts::list)),
        view("/webhooks", get(views::webhooks::list).post(views::webhooks::make)),
        view("/tokens", get(views::tokens::list).post(views::tokens::make)),
        view("/rules", get(views::rules::list).post(views::rules::rehearse)),
        view("/retry-budgets", get(views::retry_budgets::list)),
        view("/retention", get(views::retention::list).post(views::retention::count)),
        view("/audit", get(views::audit::list)),
        view("/find", get(find::show)),
        view("/act", post(act::act)),
        ("/login", RouteSort::AuditedPage, get(login::ask).post(login::log_in)),
        ("/resume/{token}", RouteSort::Page, get(resume::ask).post(resume::send)),
        ("/logout", RouteSort::AuditedPage, post(login::log_out)),
        view("/page/{file}", get(assets::serve)),
    ]
}
