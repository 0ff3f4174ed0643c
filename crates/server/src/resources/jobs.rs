//! `/api/v1/jobs`: looking at jobs and moving them.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use backstop::{JobId, OperateError, Refusal};
use backstop_core::job::{Attempt, AttemptJson, JobDetail, JobJson, JobView, Operated, read_document};
use serde::Serialize;
use serde_json::json;
use utoipa_axum::routes;

use super::ids::job_id;
use super::names;
use crate::access::{Caller, Scope};
use crate::api::Api;
use crate::body::{JsonBody, PathParams, QueryParams};
use crate::data::{self, DataLimit};
use crate::error::ApiError;
use crate::page::PageSteps;
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{
    Changed, ErrorBody, ExplainedJob, GivenReason, Items, JobQuery, LoggedRun, RevealQuery, RunsQuery,
};

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .add(RouteNeeds::Right(Scope::Read), routes!(list_jobs))
        .add(RouteNeeds::Right(Scope::Read), routes!(show_job))
        .add(RouteNeeds::Right(Scope::Read), routes!(list_attempts))
        .add(RouteNeeds::Right(Scope::Read), routes!(explain_job))
        .add(RouteNeeds::Right(Scope::Logs), routes!(read_logs))
        .add(RouteNeeds::Right(Scope::Operate), routes!(cancel_job))
        .add(RouteNeeds::Right(Scope::Operate), routes!(pause_job))
        .add(RouteNeeds::Right(Scope::Operate), routes!(resume_job))
        .add(RouteNeeds::Right(Scope::Operate), routes!(retry_job))
}

/// Jobs, newest first. Large data is left out, see `data_limit`. A page may end before its `limit`, by its size.
#[utoipa::path(get, path = "/api/v1/jobs", tag = "jobs", params(JobQuery),
    responses((status = 200, body = Items<JobJson>), (status = 422, body = ErrorBody)))]
async fn list_jobs(
    State(api): State<Api>,
    caller: Caller,
    QueryParams(query): QueryParams<JobQuery>,
) -> Result<Response, ApiError> {
    names::may_reveal(&caller, query.reveal)?;
    let mut filter = names::filter(&caller, query.conditions())?;
    filter.state = query.status;
    let mut page = PageSteps::new(query.limit, query.cursor);
    while let Some(step) = page.next() {
        let found = api.engine().jobs(filter.clone(), step).await?;
        page.take(found, |view| listed(&api, &caller, view, query.reveal, query.data_limit))?;
    }
    page.finish()
}

/// A job as a row of a list.
pub(super) fn listed(
    api: &Api,
    caller: &Caller,
    view: JobView,
    reveal: bool,
    limit: DataLimit,
) -> (JobId, usize, Option<JobJson>) {
    let (id, bytes) = (view.job.spec.id, data::bytes_of(&view));
    let shown = |view: &JobView| names::job(caller, names::shown(api, view, reveal).reads());
    (id, bytes, data::listed(view, limit, shown))
}

/// Everything about one job.
#[utoipa::path(get, path = "/api/v1/jobs/{id}", tag = "jobs", params(("id" = JobId, Path), RevealQuery),
    responses((status = 200, body = JobJson), (status = 404, body = ErrorBody)))]
async fn show_job(
    State(api): State<Api>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(RevealQuery { reveal }): QueryParams<RevealQuery>,
) -> Result<Json<JobJson>, ApiError> {
    names::may_reveal(&caller, reveal)?;
    let id = job_id(&api, &caller, &id).await?;
    let mut detail = seen(&api, &caller, id).await?;
    detail.view = names::shown(&api, &detail.view, reveal);
    names::job(&caller, detail.reads()).map(Json).ok_or_else(|| no_such_job(id))
}

/// The runs of a job that have ended, latest first. What they logged is there for those who may read logs.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/attempts", tag = "jobs", params(("id" = JobId, Path), RunsQuery),
    responses((status = 200, body = Items<AttemptJson>), (status = 404, body = ErrorBody)))]
async fn list_attempts(
    State(api): State<Api>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<RunsQuery>,
) -> Result<Response, ApiError> {
    let id = job_id(&api, &caller, &id).await?;
    runs(&api, &caller, id, query, |run| run).await
}

/// Why a job is where it is, what happens next and when.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/explain", tag = "jobs", params(("id" = JobId, Path)),
    responses((status = 200, body = ExplainedJob), (status = 404, body = ErrorBody)))]
async fn explain_job(
    State(api): State<Api>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<ExplainedJob>, ApiError> {
    let id = job_id(&api, &caller, &id).await?;
    let Some((view, mut explanation)) = api.engine().explain(id).await? else {
        return Err(absent(&api, &caller, id).await);
    };
    names::sentences(&caller, &view, &mut explanation);
    let Some(job) = names::job(&caller, view.reads()) else { return Err(no_such_job(id)) };
    let (kind, queue) = (job.kind.to_string(), job.queue.to_string());
    Ok(Json(ExplainedJob { id, kind, queue, explanation }))
}

/// What the runs of a job logged or printed, latest run first.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/logs", tag = "jobs", params(("id" = JobId, Path), RunsQuery),
    responses((status = 200, body = Items<LoggedRun>), (status = 404, body = ErrorBody)))]
async fn read_logs(
    State(api): State<Api>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<RunsQuery>,
) -> Result<Response, ApiError> {
    let id = job_id(&api, &caller, &id).await?;
    let logged = |run| {
        let AttemptJson { number, cause, finished_at, output, .. } = run;
        LoggedRun { number, cause, finished_at, output }
    };
    runs(&api, &caller, id, query, logged).await
}

/// Calls a job off, also a running one.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/cancel", tag = "jobs", params(("id" = JobId, Path)),
    request_body = Option<GivenReason>,
    responses((status = 200, body = Changed), (status = 404, body = ErrorBody)))]
async fn cancel_job(
    State(api): State<Api>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    said: Option<JsonBody<GivenReason>>,
) -> Result<Json<Changed>, ApiError> {
    let id = movable(&api, &caller, &id).await?;
    let reason = said.and_then(|JsonBody(said)| said.reason);
    let reason = reason.unwrap_or_else(|| format!("canceled by {}", caller.name()));
    changed(api.engine().cancel(id, reason).await)
}

/// Holds a job back: a pending one, or a dead letter.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/pause", tag = "jobs", params(("id" = JobId, Path)),
    responses((status = 200, body = Changed), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
async fn pause_job(
    State(api): State<Api>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Changed>, ApiError> {
    changed(api.engine().pause(movable(&api, &caller, &id).await?).await)
}

/// Puts a paused job back to where it was.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/resume", tag = "jobs", params(("id" = JobId, Path)),
    responses((status = 200, body = Changed), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
async fn resume_job(
    State(api): State<Api>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Changed>, ApiError> {
    changed(api.engine().resume(movable(&api, &caller, &id).await?).await)
}

/// Drives a dead letter again, with all its attempts.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/retry", tag = "jobs", params(("id" = JobId, Path)),
    responses((status = 200, body = Changed), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
async fn retry_job(
    State(api): State<Api>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Changed>, ApiError> {
    changed(api.engine().retry(movable(&api, &caller, &id).await?).await)
}

fn changed(operated: Result<Operated, OperateError>) -> Result<Json<Changed>, ApiError> {
    let Operated { changed, state, .. } = operated?;
    Ok(Json(Changed { changed, status: state.to_string() }))
}

pub(super) fn no_such_job(job: JobId) -> ApiError {
    Refusal::NoSuchJob { job }.into()
}

/// A hot job that this caller may see.
pub(super) async fn seen(api: &Api, caller: &Caller, id: JobId) -> Result<JobDetail, ApiError> {
    match api.engine().job(id).await? {
        Some(detail) if caller.sees(&detail.view.job.spec.queue).is_some() => Ok(detail),
        Some(_) => Err(no_such_job(id)),
        None => Err(absent(api, caller, id).await),
    }
}

/// Why a job is not among the hot ones: it was archived, or there is none for this caller (L16).
pub(super) async fn absent(api: &Api, caller: &Caller, id: JobId) -> ApiError {
    let archived = match api.engine().archive().get(id).await {
        Ok(Some(archived)) => archived,
        Ok(None) => return no_such_job(id),
        Err(error) => return error.into(),
    };
    let mut document = read_document(&archived.document).unwrap_or_default();
    if !names::document(caller, &mut document["job"]) {
        return no_such_job(id);
    }
    let message = format!("job {id} has {} and was archived at {}", archived.state, archived.archived_at);
    ApiError::not_found("archived", message)
        .hint(format!(
            "`backstop archive show {id}` shows all that is kept of it; so does /api/v1/archive/{id}"
        ))
        .details(json!({ "id": id, "status": archived.state, "archived_at": archived.archived_at }))
}

/// The id of a job that this caller may move. The store knows best whether it is there at all.
async fn movable(api: &Api, caller: &Caller, id: &str) -> Result<JobId, ApiError> {
    let id = job_id(api, caller, id).await?;
    if !caller.sees_all() {
        seen(api, caller, id).await?;
    }
    Ok(id)
}

/// A page of a job's ledger.
async fn runs<R: Serialize>(
    api: &Api,
    caller: &Caller,
    id: JobId,
    query: RunsQuery,
    show: impl Fn(AttemptJson) -> R,
) -> Result<Response, ApiError> {
    // An unknown job has an empty ledger, and should be told from one that has not run.
    let kind = seen(api, caller, id).await?.view.job.spec.kind;
    let mut page = PageSteps::new(query.limit, query.cursor);
    while let Some(step) = page.next() {
        let found = api.engine().attempts(id, step).await?;
        page.take(found, |run: Attempt| {
            let shown = names::run(api, caller, &kind, &run);
            let texts =
                [run.output.as_deref(), run.result.as_deref(), run.failure.as_ref().map(|f| &*f.message)];
            let bytes = 512 + texts.into_iter().flatten().map(str::len).sum::<usize>();
            (run.number, bytes, Some(show(shown)))
        })?;
    }
    page.finish()
}
