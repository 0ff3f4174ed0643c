//! The page as people and browsers meet it: who is let in, what is shown to whom, and what a form can do.

mod archive;
mod bridges;
mod changes;
mod escaping;
mod find;
mod handoffs;
mod happened;
mod hostile_names;
mod incidents;
mod live;
mod machine;
mod outage;
mod overview;
mod parked;
mod plans;
mod rejects;
mod resume;
mod rights;
mod sessions;
mod settings;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use backstop_server::{Scope, ServerSettings};
use backstop_testing::TokioClock;
use serde_json::{Value, json};

use crate::access::stage::{Reply, Stage};

/// Somebody with a browser.
pub(crate) struct Visitor<'a> {
    stage: &'a Stage,
    cookie: Option<String>,
}

impl<'a> Visitor<'a> {
    pub(crate) fn new(stage: &'a Stage) -> Self {
        Self { stage, cookie: None }
    }

    /// Logged in with a token.
    pub(crate) async fn with(stage: &'a Stage, token: &str) -> Self {
        let mut visitor = Self::new(stage);
        let asked = visitor.get("/login").await;
        let reply = visitor.send("/login", &[("proof", &proof(&asked.text)), ("token", token)]).await;
        assert_eq!(reply.status, StatusCode::SEE_OTHER, "{}", reply.text);
        let cookie = reply.headers["set-cookie"].to_str().unwrap();
        visitor.cookie = Some(cookie.split(';').next().unwrap().to_owned());
        visitor
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        let request = self.request(Request::get(path)).body(Body::empty()).unwrap();
        self.stage.send(request).await
    }

    /// Sends a form.
    pub(crate) async fn send(&self, path: &str, fields: &[(&str, &str)]) -> Reply {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(fields);
        let request = Request::post(path).header("content-type", "application/x-www-form-urlencoded");
        self.stage.send(self.request(request).body(Body::from(form.finish())).unwrap()).await
    }

    /// Makes a change as the buttons do, with the proof that stands on a page.
    pub(crate) async fn act(&self, action: &str, fields: &[(&str, &str)]) -> Reply {
        let proof = proof(&self.get("/tokens").await.text);
        let mut all = vec![("proof", proof.as_str()), ("do", action), ("back", "/queues")];
        all.extend(fields);
        self.send("/act", &all).await
    }

    fn request(&self, request: axum::http::request::Builder) -> axum::http::request::Builder {
        match &self.cookie {
            Some(cookie) => request.header("cookie", cookie),
            None => request,
        }
    }
}

/// The proof that stands on a page.
pub(crate) fn proof(page: &str) -> String {
    let (_, rest) = page.split_once("name=\"proof\" value=\"").unwrap_or_else(|| panic!("no form: {page}"));
    rest.split('"').next().unwrap().to_owned()
}

pub(crate) async fn stage() -> Stage {
    Stage::on(TokioClock::engine(), ServerSettings::default())
}

/// A job that fails for good with this error.
pub(crate) async fn dead_letter(stage: &Stage, token: &str, job: Value, error: &str, kind_of_error: &str) {
    failed(stage, token, job, (error, kind_of_error, "permanent")).await;
}

/// A job that fails once with an error of this type and class.
pub(crate) async fn failed(
    stage: &Stage,
    token: &str,
    job: Value,
    (error, kind_of_error, class): (&str, &str, &str),
) {
    let submitted = stage.call_with("POST", "/api/v1/jobs", Some(token), &job.to_string()).await;
    assert_eq!(submitted.status, 201, "{}", submitted.text);
    let (kind, queue) = (&job["kind"], job.get("queue").cloned().unwrap_or_else(|| json!("default")));
    let claim = json!({ "worker": "w", "queues": [queue], "kinds": [kind], "limit": 10 });
    let claimed = stage.call_with("POST", "/api/v1/work/claim", Some(token), &claim.to_string()).await;
    let outcome = json!({ "type": "failed", "class": class, "message": error, "error_type": kind_of_error });
    let lease = claimed.json()["jobs"][0]["lease"]["token"].clone();
    let finish = json!({ "results": [{ "lease": lease, "outcome": outcome }] });
    let ended = stage.call_with("POST", "/api/v1/work/finish", Some(token), &finish.to_string()).await;
    assert_eq!(ended.json()["results"][0]["ok"], true, "{}", ended.text);
}

/// A token that may do everything.
pub(crate) async fn whole_token(stage: &Stage) -> String {
    stage.token("all", &Scope::ALL).await
}
