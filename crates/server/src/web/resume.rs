//! The page behind the link of a resume token (W10): a person who has it lets one job go on, once, without logging in.
//! Looking sends nothing, for links in mails are looked at by scanners too.

use axum::body::Bytes;
use axum::extract::Path;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::act::check;
use super::actions::PageFields;
use super::call::PageProblem;
use super::frame::{self, sentence};
use super::visit::{PageVisit, UnknownVisit, answer, part};
use super::words::{short, when};
use crate::shape::ResumeHint;

/// Shows what the token is for, and asks.
pub(super) async fn ask(UnknownVisit { visit }: UnknownVisit, Path(token): Path<String>) -> Response {
    match hint(&visit, &token).await {
        Ok(hint) => asked(&visit, &token, &hint, StatusCode::OK, None),
        Err(problem) => over(&problem),
    }
}

/// Sends the signal.
pub(super) async fn send(
    UnknownVisit { visit }: UnknownVisit,
    Path(token): Path<String>,
    body: Bytes,
) -> Response {
    let form = PageFields::read(&body);
    let hint = match hint(&visit, &token).await {
        Ok(hint) => hint,
        Err(problem) => return over(&problem),
    };
    match give(&visit, &token, &form).await {
        Ok(()) => answer(StatusCode::OK, &frame::bare("Sent", &done(&hint))),
        Err(problem) if problem.status == StatusCode::CONFLICT => over(&problem),
        Err(problem) => asked(&visit, &token, &hint, problem.status, Some(&problem)),
    }
}

fn api_path(token: &str) -> String {
    format!("/api/v1/resume/{}", part(token))
}

async fn hint(visit: &PageVisit, token: &str) -> Result<ResumeHint, PageProblem> {
    visit.calls.get_afresh(&api_path(token)).await
}

async fn give(visit: &PageVisit, token: &str, form: &PageFields) -> Result<(), PageProblem> {
    check(visit, form)?;
    let text = form.get("payload").unwrap_or_default().trim();
    let payload = if text.is_empty() { Ok(Value::Null) } else { serde_json::from_str::<Value>(text) };
    let payload = payload.map_err(|problem| {
        let message = format!("the answer is not valid JSON: {problem}");
        PageProblem::new(StatusCode::UNPROCESSABLE_ENTITY, &message, "put words in quotes, or leave it empty")
    })?;
    visit.calls.change(Method::POST, &api_path(token), Some(&json!({ "payload": payload }))).await.map(drop)
}

fn asked(
    visit: &PageVisit,
    token: &str,
    hint: &ResumeHint,
    status: StatusCode,
    problem: Option<&PageProblem>,
) -> Response {
    let body = html! {
        h1 { "A job waits for “" (short(&hint.signal, 120)) "”" }
        @if let Some(problem) = problem {
            p.wrong role="alert" {
                (sentence(&problem.message))
                @if let Some(hint) = &problem.hint { " " (sentence(hint)) }
            }
        }
        form.login action={ "/resume/" (part(token)) } method="post" {
            input type="hidden" name="proof" value=(visit.proof());
            label.field {
                span { "Answer, as JSON; may be empty" }
                textarea name="payload" rows="3" maxlength="16384" spellcheck="false" {}
            }
            button { "Let it go on" }
        }
        p.lead { "This link can be used once. It expires " (when(visit.now, hint.expires_at)) "." }
    };
    answer(status, &frame::bare("A job waits", &body))
}

fn done(hint: &ResumeHint) -> Markup {
    html! {
        h1 { "Sent" }
        p.lead { "The job that waited for “" (short(&hint.signal, 120)) "” goes on. You can close this page." }
    }
}

/// Nothing can be sent with it.
fn over(problem: &PageProblem) -> Response {
    let body = html! {
        h1 { "This link does nothing any more" }
        p.lead {
            (sentence(&problem.message))
            @if let Some(hint) = &problem.hint { " " (sentence(hint)) }
        }
    };
    answer(problem.status, &frame::bare("A link that was used", &body))
}
