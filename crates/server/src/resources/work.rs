//! `/api/v1/work`: workers in any language claim jobs, keep them by heartbeats, and report how their runs ended (E7).

mod reading;
mod steps;

use std::collections::HashSet;

use axum::Json;
use axum::extract::State;
use backstop::{Grant, Handed, RemoteWorker};
use backstop_core::Lease;
use utoipa_axum::routes;

use crate::access::{Caller, Scope};
use crate::api::Api;
use crate::body::{JsonBody, RawBody, read};
use crate::error::ApiError;
use crate::lease::{LeaseKey, stale};
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{ErrorBody, ErrorDetail, work as shape};

/// Leases or results in one call at most.
const MOST_LEASES: usize = 1_000;

/// Lines in one call at most.
const MOST_LINES: usize = 1_000;

pub(crate) fn routes(routes: Routes) -> Routes {
    steps::routes(routes)
        .add(RouteNeeds::Right(Scope::Work), routes!(claim))
        .add(RouteNeeds::Right(Scope::Work), routes!(heartbeat))
        .add(RouteNeeds::Right(Scope::Work), routes!(finish))
        .add(RouteNeeds::Right(Scope::Work), routes!(died))
        .add(RouteNeeds::Right(Scope::Work), routes!(progress))
        .add(RouteNeeds::Right(Scope::Work), routes!(log))
}

/// Takes jobs. Answers at once when there is work, else when some arrives or becomes due, or when the wait is over.
#[utoipa::path(post, path = "/api/v1/work/claim", tag = "work", request_body = shape::ClaimRequest,
    responses((status = 200, body = shape::ClaimAnswer), (status = 400, body = ErrorBody),
        (status = 401, description = "Also when the token is revoked while this waits.", body = ErrorBody),
        (status = 422, body = ErrorBody)))]
async fn claim(
    State(api): State<Api>,
    caller: Caller,
    JsonBody(request): JsonBody<shape::ClaimRequest>,
) -> Result<Json<shape::ClaimAnswer>, ApiError> {
    let request = reading::work_request(&caller, &request, &api.engine().config().limits)?;
    // Everything that can fail comes before jobs are taken.
    let key = api.leases().key(&**api.engine().store()).await?;
    let remote = api.engine().remote();
    let _watched = api.tokens().watch();
    let handed = tokio::select! {
        biased;
        // What is taken meanwhile goes back uncharged: nobody waits for it any more.
        () = caller.ended() => return Err(ApiError::unauthorized()),
        handed = remote.claim(request) => handed?,
        () = api.stopping().cancelled() => Vec::new(),
    };
    let jobs = handed.iter().map(|one| claimed_job(key, &caller, one)).collect();
    Ok(Json(shape::ClaimAnswer { jobs }))
}

/// Keeps leases, and tells which are lost and why.
#[utoipa::path(post, path = "/api/v1/work/heartbeat", tag = "work", request_body = shape::HeartbeatRequest,
    responses((status = 200, body = shape::HeartbeatAnswer), (status = 400, body = ErrorBody),
        (status = 422, body = ErrorBody)))]
async fn heartbeat(
    State(api): State<Api>,
    caller: Caller,
    RawBody(bytes): RawBody,
) -> Result<Json<shape::HeartbeatAnswer>, ApiError> {
    let request: shape::HeartbeatRequest<'_> = read(&bytes)?;
    reading::few_enough("leases", request.leases.len(), MOST_LEASES)?;
    let limits = &api.engine().config().limits;
    let worker = reading::worker(&caller, &request.worker, request.instance.as_deref(), limits)?;
    let key = api.leases().key(&**api.engine().store()).await?;
    let read: Vec<(String, Option<Grant>)> = request
        .leases
        .into_iter()
        .map(|item| {
            let token = reading::token(item);
            let grant = key.open(&caller, &token);
            (token, grant)
        })
        .collect();
    Ok(Json(beat(&api, &worker, read).await?))
}

async fn beat(
    api: &Api,
    worker: &RemoteWorker,
    read: Vec<(String, Option<Grant>)>,
) -> Result<shape::HeartbeatAnswer, ApiError> {
    let grants = read.iter().filter_map(|(_, grant)| grant.clone()).collect();
    let beat = api.engine().remote().heartbeat(worker, grants).await?;
    let held: HashSet<Lease> = beat.held.iter().copied().collect();
    let canceled: HashSet<Lease> = beat
        .lost
        .iter()
        .filter(|lost| lost.reason == backstop::LostReason::Canceled)
        .map(|lost| lost.lease)
        .collect();
    let mut kept = shape::HeartbeatAnswer { held: Vec::new(), lost: Vec::new(), expires_at: beat.expires_at };
    for (token, grant) in read {
        let lease = grant.map(|grant| grant.lease);
        if lease.is_some_and(|lease| held.contains(&lease)) {
            kept.held.push(token);
            continue;
        }
        let reason = if lease.is_some_and(|lease| canceled.contains(&lease)) {
            shape::LostTokenReason::Canceled
        } else {
            shape::LostTokenReason::StaleLease
        };
        kept.lost.push(shape::LostToken { lease: token, reason });
    }
    Ok(kept)
}

/// Ends runs. Each result is taken or refused by itself; the answers come in the same order.
#[utoipa::path(post, path = "/api/v1/work/finish", tag = "work", request_body = shape::FinishRequest,
    responses((status = 200, body = shape::FinishAnswers), (status = 400, body = ErrorBody),
        (status = 422, body = ErrorBody)))]
async fn finish(
    State(api): State<Api>,
    caller: Caller,
    RawBody(bytes): RawBody,
) -> Result<Json<shape::FinishAnswers>, ApiError> {
    let request: shape::FinishRequest<'_> = read(&bytes)?;
    reading::few_enough("results", request.results.len(), MOST_LEASES)?;
    let key = api.leases().key(&**api.engine().store()).await?;
    let read: Vec<Result<backstop::Finished, ApiError>> =
        request.results.into_iter().map(|item| reading::finished(key, &caller, item)).collect();
    let taken = read.iter().filter_map(|item| item.as_ref().ok().cloned()).collect();
    let mut answers = api.engine().remote().finish(taken).await?.into_iter();
    let results = read.into_iter().map(|item| match item.map(|_| answers.next()) {
        Ok(Some(Ok(state))) => shape::FinishAnswer { ok: true, status: Some(state.to_string()), error: None },
        Ok(_) => refused(&stale()),
        Err(error) => refused(&error),
    });
    Ok(Json(shape::FinishAnswers { results: results.collect() }))
}

/// Tells that the process of a worker has died, and how: its runs end at once, as crashes with that evidence. What
/// other processes hold, also those with the same name, is not touched; a process that holds nothing is fine.
#[utoipa::path(post, path = "/api/v1/work/died", tag = "work", request_body = shape::DeadWorker,
    responses((status = 200, body = shape::DeadWorkerAnswer), (status = 400, body = ErrorBody),
        (status = 422, body = ErrorBody)))]
async fn died(
    State(api): State<Api>,
    caller: Caller,
    JsonBody(death): JsonBody<shape::DeadWorker>,
) -> Result<Json<shape::DeadWorkerAnswer>, ApiError> {
    let limits = &api.engine().config().limits;
    let worker = reading::worker(&caller, &death.worker, Some(&death.instance), limits)?;
    let runs = api.engine().remote().died(&worker, &reading::evidence(death)?).await?;
    Ok(Json(shape::DeadWorkerAnswer { runs: u64::try_from(runs).unwrap_or(u64::MAX) }))
}

/// Keeps what a run says of how far it is.
#[utoipa::path(post, path = "/api/v1/work/progress", tag = "work", request_body = shape::RunProgress,
    responses((status = 200, body = shape::LogAnswer), (status = 400, body = ErrorBody),
        (status = 409, body = ErrorBody),
        (status = 422, body = ErrorBody)))]
async fn progress(
    State(api): State<Api>,
    caller: Caller,
    JsonBody(request): JsonBody<shape::RunProgress>,
) -> Result<Json<shape::LogAnswer>, ApiError> {
    reading::percent(request.percent)?;
    let key = api.leases().key(&**api.engine().store()).await?;
    let grant = key.open(&caller, &request.lease).ok_or_else(stale)?;
    let note = request.note.unwrap_or_default();
    let noted = api.engine().remote().progress(&grant, request.percent, &note).await?;
    noted.map_err(|_| stale())?;
    Ok(Json(shape::LogAnswer { ok: true }))
}

/// Keeps lines with a run that is under way; they stand before those that come with its end.
#[utoipa::path(post, path = "/api/v1/work/log", tag = "work", request_body = shape::LogRequest,
    responses((status = 200, body = shape::LogAnswer), (status = 400, body = ErrorBody),
        (status = 409, body = ErrorBody),
        (status = 422, body = ErrorBody)))]
async fn log(
    State(api): State<Api>,
    caller: Caller,
    JsonBody(request): JsonBody<shape::LogRequest>,
) -> Result<Json<shape::LogAnswer>, ApiError> {
    reading::few_enough("lines", request.lines.len(), MOST_LINES)?;
    let key = api.leases().key(&**api.engine().store()).await?;
    let grant = key.open(&caller, &request.lease).ok_or_else(stale)?;
    let kept = api.engine().remote().log(&grant, &request.lines).await?;
    kept.map_err(|_| stale())?;
    Ok(Json(shape::LogAnswer { ok: true }))
}

fn claimed_job(key: &LeaseKey, caller: &Caller, handed: &Handed) -> shape::RemoteJob {
    let timeout = handed.view.job.spec.policy.timeout;
    shape::RemoteJob {
        job: reading::job(caller, &handed.view),
        steps: shape::StepResults(handed.steps.clone()),
        step_history: handed.view.record.steps_in_order(),
        inputs: handed.inputs.clone(),
        signals: shape::StepResults(handed.signals.clone().into_iter().collect()),
        timeout_ms: timeout.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
        lease: shape::LeaseToken {
            token: key.seal(caller, &handed.grant),
            fence: handed.grant.lease.fence.0,
            expires_at: handed.expires_at,
        },
    }
}

fn refused(error: &ApiError) -> shape::FinishAnswer {
    let why: Option<ErrorDetail> = serde_json::from_value(error.to_json()).ok();
    shape::FinishAnswer { ok: false, status: None, error: why }
}
