//! `/api/v1/signals` and `/api/v1/resume`: letting jobs go on that wait (W10).
//!
//! A resume token is for people and programs without a token of ours: it sends one signal to one job, once, until it
//! expires. It is signed as leases are. Only a POST uses it, so that whoever merely looks at a link, such as a scanner
//! of mails, sends nothing.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{Extensions, HeaderMap, StatusCode};
use axum::response::Response;
use backstop::job_signals::{KeptSignal, SignalPage, SignalSent, Signals, WaitingJob};
use backstop::{JobId, OperateError, Timestamp};
use backstop_core::tenant::TenantError;
use backstop_core::{Tenant, admit};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa_axum::routes;

use super::ids::job_id;
use super::jobs;
use crate::access::{Caller, Peer, Scope, count_wrong};
use crate::api::Api;
use crate::body::{JsonBody, PathParams, QueryParams, RawBody, read_any, wrong_field};
use crate::error::ApiError;
use crate::page::whole;
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{
    ErrorBody, Items, NewResumeToken, NewSignal, ResumeHint, ResumeTokenJson, SentSignal, SignalJson,
    SignalSort, SignalsQuery,
};

/// How resume tokens begin.
const PREFIX: &str = "rt1.";

/// How long a resume token can be used, unless it is said, and at most.
const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

pub(crate) fn routes(routes: Routes) -> Routes {
    // A key belongs to a tenant and not to a queue.
    let why = "signals reach all queues";
    routes
        .add(RouteNeeds::RightOverQueues(Scope::Read, why), routes!(list_signals))
        .add(RouteNeeds::RightOverQueues(Scope::Submit, why), routes!(send_signal))
        .add(RouteNeeds::Right(Scope::Operate), routes!(make_resume_token))
        .add(RouteNeeds::Nothing, routes!(look_at_resume_token))
        .add(RouteNeeds::Nothing, routes!(use_resume_token))
}

/// The signals that a caller may send and see.
fn signals(api: &Api, caller: &Caller, named: Option<String>) -> Result<Signals, ApiError> {
    let signals = api.engine().signals();
    Ok(match (caller.tenant(), named) {
        (Some(tenant), None) => signals.of_tenant(tenant),
        (Some(own), Some(named)) if own == named => signals.of_tenant(named),
        (Some(_), Some(_)) => return Err(ApiError::forbidden("this token is for another tenant")),
        (None, Some(named)) => {
            let named: Tenant = named.parse().map_err(|problem| {
                let problem: TenantError = problem;
                wrong_field("tenant", &problem.to_string())
            })?;
            signals.of_tenant(named.to_string())
        }
        (None, None) => signals,
    })
}

/// Sends a signal: every job that waits for its key goes on. When none does, it is kept for the first that will.
#[utoipa::path(post, path = "/api/v1/signals", tag = "signals", request_body = NewSignal,
    responses((status = 200, body = SentSignal), (status = 400, body = ErrorBody),
        (status = 413, description = "The payload is too large, or too many signals are kept.", body = ErrorBody),
        (status = 422, body = ErrorBody)))]
async fn send_signal(
    State(api): State<Api>,
    caller: Caller,
    JsonBody(signal): JsonBody<NewSignal>,
) -> Result<Json<SentSignal>, ApiError> {
    let NewSignal { key, payload, id, tenant } = signal;
    let mut send = signals(&api, &caller, tenant)?.send(key, &payload);
    if let Some(id) = id {
        send = send.id(id);
    }
    let SignalSent { delivered, kept, .. } = send.await?;
    Ok(Json(SentSignal { delivered, kept }))
}

/// Signals that are kept, or jobs that wait for one.
#[utoipa::path(get, path = "/api/v1/signals", tag = "signals", params(SignalsQuery),
    responses((status = 200, body = Items<SignalJson>), (status = 422, body = ErrorBody)))]
async fn list_signals(
    State(api): State<Api>,
    caller: Caller,
    QueryParams(SignalsQuery { state, limit, cursor }): QueryParams<SignalsQuery>,
) -> Result<Response, ApiError> {
    let signals = signals(&api, &caller, None)?;
    let mut rows = limit.unwrap_or_default().rows();
    loop {
        let SignalPage { items, next } = match state {
            SignalSort::Kept => shown(signals.kept(cursor.clone(), rows).await?, kept),
            SignalSort::Waiting => shown(signals.waiting(cursor.clone(), rows).await?, waiting),
        };
        match whole(&items, rows, next)? {
            Ok(response) => return Ok(response),
            Err(fewer) => rows = fewer,
        }
    }
}

fn shown<T>(page: SignalPage<T>, row: impl Fn(T) -> SignalJson) -> SignalPage<SignalJson> {
    SignalPage { items: page.items.into_iter().map(row).collect(), next: page.next }
}

fn kept(signal: KeptSignal) -> SignalJson {
    let KeptSignal { key, id, job, sent_at, until, .. } = signal;
    SignalJson { key, state: SignalSort::Kept, id: Some(id), job, sent_at: Some(sent_at), until }
}

fn waiting(one: WaitingJob) -> SignalJson {
    let WaitingJob { key, job, until, .. } = one;
    SignalJson { key, state: SignalSort::Waiting, id: None, job: Some(job), sent_at: None, until }
}

/// What a resume token says.
#[derive(Debug, Serialize, Deserialize)]
struct ResumeGrant {
    job: JobId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    signal: String,
    expires_at: Timestamp,
    /// Makes it another token than all others: it is used once.
    id: JobId,
}

/// Makes a token that sends a signal to this job, once, by whoever has it and without any other token.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/resume-token", tag = "signals", params(("id" = JobId, Path)),
    request_body = NewResumeToken,
    responses((status = 200, body = ResumeTokenJson), (status = 404, body = ErrorBody),
        (status = 422, body = ErrorBody)))]
async fn make_resume_token(
    State(api): State<Api>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    JsonBody(wanted): JsonBody<NewResumeToken>,
) -> Result<Json<ResumeTokenJson>, ApiError> {
    let id = job_id(&api, &caller, &id).await?;
    let detail = jobs::seen(&api, &caller, id).await?;
    let NewResumeToken { signal, expires_in_ms } = wanted;
    admit::key("signal", &signal, &api.engine().config().limits).map_err(OperateError::from)?;
    let span = expires_in_ms.map_or(WEEK, Duration::from_millis);
    if span < Duration::from_secs(1) || span > YEAR {
        return Err(wrong_field("expires_in_ms", "it must be a second at least and a year at most"));
    }
    let store = &**api.engine().store();
    let expires_at = store.now().await?.after(span);
    let tenant = detail.view.job.spec.tenant().map(str::to_owned);
    let grant = ResumeGrant { job: id, tenant, signal, expires_at, id: backstop::job_id() };
    let body = serde_json::to_vec(&grant).map_err(|problem| crate::error::internal(&problem))?;
    let token = api.leases().key(store).await?.sign(PREFIX, &body);
    let base = api.settings().public_url.as_deref().unwrap_or_default().trim_end_matches('/');
    let (url, page) = (format!("{base}/api/v1/resume/{token}"), format!("{base}/resume/{token}"));
    Ok(Json(ResumeTokenJson { token, url, page, expires_at }))
}

/// Tells what a resume token is for. It sends nothing: links are looked at by scanners of mails too.
#[utoipa::path(get, path = "/api/v1/resume/{token}", tag = "signals",
    params(("token" = String, Path, description = "The resume token.")),
    responses((status = 200, body = ResumeHint),
        (status = 404, description = "It is not a resume token, or it has expired.", body = ErrorBody)))]
async fn look_at_resume_token(
    State(api): State<Api>,
    PathParams(token): PathParams<String>,
    headers: HeaderMap,
    extensions: Extensions,
) -> Result<Json<ResumeHint>, ApiError> {
    let ResumeGrant { signal, expires_at, .. } = opened(&api, &token, &headers, &extensions).await?;
    let hint = "POST to this address to send the signal; it can be used once".to_owned();
    Ok(Json(ResumeHint { signal, expires_at, hint }))
}

/// Sends the signal of a resume token to its job. It can be used once, and needs no other token. A body of JSON that is
/// no object with `payload` alone is the payload itself: whoever calls the link back may have a body of its own.
#[utoipa::path(post, path = "/api/v1/resume/{token}", tag = "signals",
    params(("token" = String, Path, description = "The resume token.")), request_body = Option<Value>,
    responses((status = 200, body = SentSignal), (status = 400, body = ErrorBody),
        (status = 404, description = "It is not a resume token, or it has expired.", body = ErrorBody),
        (status = 409, description = "It was used before, or its job has ended.", body = ErrorBody),
        (status = 413, body = ErrorBody)))]
async fn use_resume_token(
    State(api): State<Api>,
    PathParams(token): PathParams<String>,
    headers: HeaderMap,
    extensions: Extensions,
    body: Option<RawBody>,
) -> Result<Json<SentSignal>, ApiError> {
    let grant = opened(&api, &token, &headers, &extensions).await?;
    let ResumeGrant { job, tenant, signal, expires_at, id } = grant;
    let detail = api.engine().job(job).await?;
    if detail.is_none_or(|detail| detail.view.record.state.is_terminal()) {
        return Err(ApiError::new(
            StatusCode::CONFLICT,
            "job_ended",
            "the job has ended: nobody waits for this",
        ));
    }
    let payload = body.map(|RawBody(bytes)| read_any(&bytes)).transpose()?.map_or(Value::Null, brought);
    let signals = api.engine().signals();
    let signals = match tenant {
        Some(tenant) => signals.of_tenant(tenant),
        None => signals,
    };
    // Its id counts for as long as the token does, so it is used once.
    let send = signals.send(signal, &payload).only(job).id(format!("resume {id}")).keep_until(expires_at);
    let SignalSent { delivered, kept, repeated, .. } = send.await?;
    if repeated {
        let message = "this token was used before: its signal was sent";
        return Err(ApiError::new(StatusCode::CONFLICT, "used", message).hint("ask for another one"));
    }
    Ok(Json(SentSignal { delivered, kept }))
}

/// What a body brings: the `payload` of one in our own shape, and all of any other.
fn brought(body: Value) -> Value {
    match body {
        Value::Object(mut fields) if fields.keys().all(|field| field == "payload") => {
            fields.remove("payload").unwrap_or_default()
        }
        other => other,
    }
}

/// What a token says, if it is one that we made and that has not expired.
async fn opened(
    api: &Api,
    token: &str,
    headers: &HeaderMap,
    extensions: &Extensions,
) -> Result<ResumeGrant, ApiError> {
    let store = &**api.engine().store();
    let said = api.leases().key(store).await?.verified(PREFIX, token);
    let Some(grant) = said.and_then(|said| serde_json::from_slice::<ResumeGrant>(&said).ok()) else {
        // Whoever guesses is counted as one who guesses tokens.
        count_wrong(api, extensions.get::<Peer>().copied(), headers)?;
        return Err(no_token());
    };
    let now = store.now().await?;
    if grant.expires_at <= now { Err(no_token()) } else { Ok(grant) }
}

fn no_token() -> ApiError {
    ApiError::not_found("no_such_token", "this is not a resume token, or it has expired")
        .hint("ask for another one")
}
