//! Logging in with a token, and out again.

use axum::body::Bytes;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use maud::html;

use super::act::check;
use super::actions::PageFields;
use super::call::PageProblem;
use super::frame::{self, sentence};
use super::session::{PageSession, no_cookie};
use super::visit::{PageVisit, UnknownVisit, answer, go_to, own_path};
use crate::access::{Caller, TokenLookup, count_wrong};

/// Asks who it is. Whoever is known already is sent on.
pub(super) async fn ask(UnknownVisit { visit }: UnknownVisit) -> Response {
    let next = visit.asked("next").unwrap_or_default();
    if visit.caller.is_known() {
        return go_to(own_path(&next));
    }
    asked(&visit, &next, StatusCode::OK, None)
}

fn asked(visit: &PageVisit, next: &str, status: StatusCode, problem: Option<&str>) -> Response {
    let body = html! {
        h1 { "Log in" }
        @if let Some(problem) = problem { p.wrong role="alert" { (sentence(problem)) } }
        form.login action="/login" method="post" {
            input type="hidden" name="proof" value=(visit.proof());
            input type="hidden" name="next" value=(own_path(next));
            label.field {
                span { "Token" }
                input type="password" name="token" autocomplete="current-password" required autofocus
                    maxlength="256";
            }
            button { "Log in" }
        }
        p.lead {
            "A token says what you may see and do. "
            code { "backstop token new --name NAME --scope read --scope operate" }
            " makes one. You stay logged in for 12 hours, or until the token is revoked."
        }
    };
    answer(status, &frame::bare("Log in", &body))
}

/// Whom a request has logged in: it came from nobody, and is written down as theirs.
#[derive(Debug, Clone)]
pub(crate) struct LoggedIn(pub(crate) Caller);

/// Exchanges a token for a session.
pub(super) async fn log_in(UnknownVisit { visit }: UnknownVisit, body: Bytes) -> Response {
    let form = PageFields::read(&body);
    let next = form.get("next").unwrap_or("/").to_owned();
    match exchange(&visit, &form).await {
        Ok((cookie, caller)) => {
            let mut response = with_cookie(go_to(own_path(&next)), &cookie);
            response.extensions_mut().insert(LoggedIn(caller));
            response
        }
        Err(problem) => asked(&visit, &next, problem.status, Some(&problem.message)),
    }
}

async fn exchange(visit: &PageVisit, form: &PageFields) -> Result<(String, Caller), PageProblem> {
    check(visit, form)?;
    let api = visit.server.api();
    let token = form.get("token").unwrap_or_default().trim();
    match api.tokens().find(Some(token)).await.map_err(crate::error::ApiError::from)? {
        TokenLookup::Holder(caller) => {
            let session = PageSession::new(token, visit.now)?;
            Ok((session.cookie(&visit.key, api.settings().tls.is_some()), caller))
        }
        TokenLookup::Open => Err(PageProblem::new(
            StatusCode::UNAUTHORIZED,
            "there are no tokens yet; make one with `backstop token new` on the machine of the server",
            "",
        )),
        TokenLookup::Nobody => {
            count_wrong(api, visit.calls.peer, &visit.calls.headers)?;
            Err(PageProblem::new(StatusCode::UNAUTHORIZED, "this token is not valid", ""))
        }
    }
}

/// Ends a session on every node. Where that cannot be stored, it is said: then it has ended here alone.
pub(super) async fn log_out(visit: PageVisit, body: Bytes) -> Response {
    let form = PageFields::read(&body);
    if let Err(problem) = check(&visit, &form) {
        return visit.refuse(frame::PagePlace::None, &problem);
    }
    let api = visit.server.api();
    let ended = match &visit.session {
        Some(session) => session.end(api, visit.now).await,
        None => Ok(()),
    };
    let response = match ended {
        Ok(()) => go_to("/login"),
        Err(problem) => visit.refuse(frame::PagePlace::None, &problem.into()),
    };
    with_cookie(response, &no_cookie(api.settings().tls.is_some()))
}

fn with_cookie(mut response: Response, cookie: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(SET_COOKIE, value);
    }
    response
}
