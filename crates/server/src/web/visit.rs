//! One request of a person: who, what for, and how the answer is shown.

use std::borrow::Cow;

use axum::extract::FromRequestParts;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, LOCATION,
    REFERRER_POLICY,
};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use backstop::Timestamp;
use form_urlencoded::Serializer;
use maud::Markup;

use super::call::{ApiCalls, carried};
use super::history::CountHistory;
use super::server::PageServer;
use super::session::{self, PageSession, SessionRefusal};
use crate::access::{Caller, Peer};
use crate::error::ApiError;
use crate::lease::LeaseKey;
use crate::shape::ServerTime;

/// What a browser may do with a page of ours: load our own style, script and pictures, send forms to us, and nothing
/// else. Nothing that stands in a page runs, whoever wrote it there.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// A person's request.
pub(super) struct PageVisit {
    pub(super) server: PageServer,
    pub(super) caller: Caller,
    pub(super) calls: ApiCalls,
    pub(super) session: Option<PageSession>,
    pub(super) uri: Uri,
    pub(super) key: LeaseKey,
    /// True when it sends a form.
    pub(super) is_form: bool,
    /// When it came, by the store's clock.
    pub(super) now: Timestamp,
}

impl PageVisit {
    /// The first parameter of this name in the address; empty ones count as none.
    pub(super) fn asked(&self, name: &str) -> Option<Cow<'_, str>> {
        let query = self.uri.query().unwrap_or_default();
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        pairs.find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value)
    }

    /// True when this visitor may call a route of the API, such as `POST /api/v1/jobs/{id}/cancel`.
    pub(super) fn allows(&self, route: &str) -> bool {
        self.server.allows(&self.caller, route)
    }

    /// The last hour of the kept counts.
    pub(super) fn history(&self) -> &CountHistory {
        &self.server.api().reporting().history
    }

    /// True on a machine without tokens, where whoever comes may do everything.
    pub(super) fn is_open(&self) -> bool {
        self.session.is_none() && self.caller.token().is_none()
    }

    /// What its forms carry.
    pub(super) fn proof(&self) -> String {
        session::proof(&self.key, self.session.as_ref())
    }

    /// A path of the API or of the page, with those parameters of this address that are named, and others.
    pub(super) fn path(&self, path: &str, kept: &[&str], more: &[(&str, &str)]) -> String {
        let mut query = Serializer::new(String::new());
        for name in kept {
            if let Some(value) = self.asked(name) {
                query.append_pair(name, &value);
            }
        }
        query.extend_pairs(more);
        let query = query.finish();
        if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
    }
}

/// A page.
pub(super) fn answer(status: StatusCode, page: &Markup) -> Response {
    let mut response = (status, page.0.clone()).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Nobody else hears where somebody was. We do: without it a browser sends our own forms from the origin `null`.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

/// What is kept as a file and not shown; `disposition` says under which name.
pub(super) fn as_file(mut file: Response, disposition: &'static str) -> Response {
    let headers = file.headers_mut();
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static(disposition));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    file
}

/// Sends a browser on to another page of ours.
pub(super) fn go_to(path: &str) -> Response {
    let location = HeaderValue::from_str(path).unwrap_or_else(|_| HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response()
}

/// A part of a path, with everything that has a meaning there written otherwise.
pub(super) fn part(text: &str) -> String {
    // `+` stands for a blank in a query and for itself in a path.
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

/// A path of this page, and nothing that leads elsewhere.
pub(super) fn own_path(text: &str) -> &str {
    let plain = text.starts_with('/') && !text.starts_with("//");
    let safe = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if plain && safe && text.len() <= 2_000 { text } else { "/" }
}

/// A request before it is known whether its sender may see anything: for the page that asks who it is.
pub(super) struct UnknownVisit {
    pub(super) visit: PageVisit,
}

impl FromRequestParts<PageServer> for UnknownVisit {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, server: &PageServer) -> Result<Self, ApiError> {
        let api = server.api();
        let key = api.leases().key(&**api.engine().store()).await?.clone();
        let now = api.tokens().now().await?;
        let caller = Caller::of_request(&parts.extensions);
        let peer = parts.extensions.get::<Peer>().copied();
        let visit = PageVisit {
            calls: server.calls(caller.clone(), carried(&parts.headers), peer),
            server: server.clone(),
            caller,
            session: parts.extensions.get::<PageSession>().cloned(),
            uri: parts.uri.clone(),
            key,
            is_form: parts.method == Method::POST,
            now,
        };
        Ok(Self { visit })
    }
}

impl FromRequestParts<PageServer> for PageVisit {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, server: &PageServer) -> Result<Self, Response> {
        if let Some(SessionRefusal(refusal)) = parts.extensions.get() {
            return Err(refusal.clone().into_response());
        }
        let unknown = UnknownVisit::from_request_parts(parts, server).await;
        let UnknownVisit { mut visit } = unknown.map_err(IntoResponse::into_response)?;
        if !visit.caller.is_known() {
            let wanted = parts.uri.path_and_query().map_or("/", |path| path.as_str());
            let query = Serializer::new(String::new()).append_pair("next", wanted).finish();
            return Err(go_to(&format!("/login?{query}")));
        }
        // Moments of answers are measured by the store's clock, which may be a manual one.
        if let Ok(ServerTime { now }) = visit.calls.get("/api/v1/clock").await {
            visit.now = now;
        }
        Ok(visit)
    }
}
