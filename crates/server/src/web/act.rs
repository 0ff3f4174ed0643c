//! Making a change: a form becomes one call of the API.

use axum::body::Bytes;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use serde_json::Value;

use super::actions::{PageAction, PageFields, SAME, body, named};
use super::call::PageProblem;
use super::frame::PagePlace;
use super::session::is_proof;
use super::visit::{PageVisit, go_to, own_path, part};

/// Refuses a form that does not stand on a page of ours.
pub(super) fn check(visit: &PageVisit, form: &PageFields) -> Result<(), PageProblem> {
    if form.get("proof").is_some_and(|proof| is_proof(&visit.key, visit.session.as_ref(), proof)) {
        return Ok(());
    }
    let message = "this form is not from this page, or it is too old";
    Err(PageProblem::new(
        StatusCode::FORBIDDEN,
        message,
        "nothing was changed; reload the page and try again",
    ))
}

/// Makes a change.
pub(super) async fn act(visit: PageVisit, body: Bytes) -> Response {
    let form = PageFields::read(&body);
    let made = async {
        check(&visit, &form)?;
        make(&visit, &form).await
    };
    match made.await {
        Ok(path) => go_to(&path),
        Err(problem) => visit.refuse(PagePlace::None, &problem),
    }
}

/// Makes it, and answers where to go then.
async fn make(visit: &PageVisit, form: &PageFields) -> Result<String, PageProblem> {
    let wanted = form.get("do").unwrap_or_default();
    let action = named(wanted).ok_or_else(|| {
        PageProblem::new(StatusCode::NOT_FOUND, "there is no such action", "reload the page and try again")
    })?;
    let (method, path) = action.route.split_once(' ').unwrap_or(("POST", action.route));
    let path = filled(path, |name| form.get(&format!("at.{name}")).map(part));
    let body = body(action, form)?;
    let method = Method::from_bytes(method.as_bytes()).unwrap_or(Method::POST);
    let answer = visit.calls.change(method, &path, body.as_ref()).await?;
    let back = own_path(form.get("back").unwrap_or("/"));
    let to = match action.then {
        Some(then) => filled(then, |name| told(&answer, name).map(|text| part(&text))),
        None => back.to_owned(),
    };
    Ok(with_done(&to, &came_of(action, &answer)))
}

/// What the next page says of it: that it is done, or what the API found done already.
fn came_of(action: &PageAction, answer: &Value) -> String {
    let is_same = matches!(answer.get("changed"), Some(Value::Bool(false)))
        || answer.get("changed").and_then(Value::as_u64) == Some(0);
    match is_same {
        true => format!("{SAME}{}", told(answer, "status").unwrap_or_default()),
        false => action.name.to_owned(),
    }
}

/// A path with what stands for its names in braces.
fn filled(path: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut filled = String::new();
    for piece in path.split('{') {
        match piece.split_once('}') {
            Some((name, rest)) => {
                filled.push_str(&value(name).unwrap_or_default());
                filled.push_str(rest);
            }
            None => filled.push_str(piece),
        }
    }
    filled
}

fn told(answer: &Value, name: &str) -> Option<String> {
    name.split('.').try_fold(answer, |value, key| value.get(key))?.as_str().map(str::to_owned)
}

fn with_done(path: &str, name: &str) -> String {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let kept = form_urlencoded::parse(query.as_bytes()).filter(|(key, _)| key != "done");
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(kept).append_pair("done", name);
    format!("{path}?{}", query.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_away_from_the_page() {
        for (asked, led) in [
            ("/jobs?status=failed", "/jobs?status=failed"),
            ("//evil.example", "/"),
            ("https://evil.example", "/"),
            ("/\\evil.example", "/"),
            ("/x\r\nset-cookie: a=b", "/"),
            ("javascript:alert(1)", "/"),
        ] {
            assert_eq!(own_path(asked), led, "{asked}");
        }
        assert_eq!(
            with_done("/jobs?done=x&status=failed", "job.retry"),
            "/jobs?status=failed&done=job.retry"
        );
        assert_eq!(
            filled("/api/v1/queues/{name}/pause", |_| Some(part("a/b ?#"))),
            "/api/v1/queues/a%2Fb%20%3F%23/pause"
        );
    }
}
