//! `/api/v1/dead-letters`: jobs that failed for good, their envelopes (D1), and removing them (D5).

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use backstop::{JobId, Refusal, State as JobState};
use backstop_core::envelope::envelope;
use backstop_core::job::{Attempt, JobView};
use backstop_store::{JobFilter, PageRequest};
use serde_json::Value;
use utoipa_axum::routes;

use super::{archive, ids, jobs, names};
use crate::access::{Caller, Scope};
use crate::api::Api;
use crate::body::{JsonBody, PathParams, QueryParams};
use crate::data;
use crate::error::ApiError;
use crate::page::PageSteps;
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{
    DeadExportQuery, DeadLetter, DeadQuery, DeadRow, Envelope, ErrorBody, ExportedJob, Items, JobSurvey,
    Purge, PurgeAnswer, WithEnvelope,
};

/// Dead letters that are counted at most before any goes.
const COUNT: usize = 10_000_000;

/// Jobs that one purge by id names at most.
const MOST_IDS: usize = 1_000;

/// Runs that are shown of one dead letter.
const LATEST: usize = 5;

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .add(RouteNeeds::Right(Scope::Read), routes!(list_dead_letters))
        .add(RouteNeeds::Right(Scope::Read), routes!(show_dead_letter))
        .add(RouteNeeds::Right(Scope::Logs), routes!(export_dead_letters))
        .add(RouteNeeds::Right(Scope::Admin), routes!(purge_dead_letters))
}

fn dead(caller: &Caller, conditions: JobFilter) -> Result<JobFilter, ApiError> {
    Ok(JobFilter { state: Some(JobState::Failed), ..names::filter(caller, conditions)? })
}

/// Dead letters, newest job first: as jobs, or as envelopes with `envelope=true`.
#[utoipa::path(get, path = "/api/v1/dead-letters", tag = "dead-letters", params(DeadQuery),
    responses((status = 200, body = Items<DeadRow>), (status = 422, body = ErrorBody)))]
async fn list_dead_letters(
    State(api): State<Api>,
    caller: Caller,
    QueryParams(query): QueryParams<DeadQuery>,
) -> Result<Response, ApiError> {
    let filter = dead(&caller, query.conditions())?;
    let mut page = PageSteps::new(query.limit, query.cursor);
    while let Some(step) = page.next() {
        let found = api.engine().jobs(filter.clone(), step).await?;
        if !query.envelope {
            page.take(found, |view| jobs::listed(&api, &caller, view, false, query.data_limit))?;
            continue;
        }
        let mut latest = Vec::with_capacity(found.items.len());
        for view in &found.items {
            latest.push(api.engine().attempts(view.job.spec.id, PageRequest::first(1)).await?.items);
        }
        let mut latest = latest.into_iter();
        page.take(found, |view| {
            let envelope = enveloped(&caller, &view, &latest.next().unwrap_or_default());
            (view.job.spec.id, data::bytes_of(&view), envelope)
        })?;
    }
    page.finish()
}

/// One dead letter: the job, its latest runs, and what to do.
#[utoipa::path(get, path = "/api/v1/dead-letters/{id}", tag = "dead-letters",
    params(("id" = JobId, Path), WithEnvelope),
    responses((status = 200, body = DeadLetter), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
async fn show_dead_letter(
    State(api): State<Api>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(with): QueryParams<WithEnvelope>,
) -> Result<Json<DeadLetter>, ApiError> {
    let id = ids::job_id(&api, &caller, &id).await?;
    let mut detail = jobs::seen(&api, &caller, id).await?;
    let explained = api.engine().explain(id).await?;
    let Some((view, mut explanation)) = explained else { return Err(jobs::absent(&api, &caller, id).await) };
    let runs = api.engine().attempts(id, PageRequest::first(LATEST)).await?.items;
    let Some(envelope) = enveloped(&caller, &view, &runs) else {
        let refusal = Refusal::WrongState { job: id, state: view.state(), verb: "shown as a dead letter" };
        return Err(refusal.into());
    };
    names::sentences(&caller, &view, &mut explanation);
    let attempts = runs.iter().map(|run| names::run(&api, &caller, &view.job.spec.kind, run)).collect();
    detail.view = names::shown(&api, &detail.view, false);
    let job = names::job(&caller, detail.reads()).ok_or_else(|| jobs::no_such_job(id))?;
    let (because, next) = (explanation.because, explanation.next);
    Ok(Json(DeadLetter { job, attempts, because, next, envelope: with.envelope.then_some(envelope) }))
}

/// The envelope of a dead letter, in the caller's names.
fn enveloped(caller: &Caller, view: &JobView, latest: &[Attempt]) -> Option<Envelope> {
    let version = latest.first().and_then(|attempt| attempt.code_version.as_deref());
    let mut envelope = envelope(&view.job, &view.record, view.last_failure.as_ref(), version)?;
    envelope["queue"] = caller.sees(&view.job.spec.queue)?.into();
    for name in ["executionKey", "correlationId"] {
        if let Some(key) = envelope[name].as_str() {
            envelope[name] = Value::from(names::own_key(caller, key).to_owned());
        }
    }
    serde_json::from_value(envelope).ok()
}

/// Dead letters with all that is known of each, in the clear, newest job first.
#[utoipa::path(get, path = "/api/v1/dead-letters/export", tag = "dead-letters", params(DeadExportQuery),
    responses((status = 200, body = Items<ExportedJob>), (status = 422, body = ErrorBody)))]
async fn export_dead_letters(
    State(api): State<Api>,
    caller: Caller,
    QueryParams(query): QueryParams<DeadExportQuery>,
) -> Result<Response, ApiError> {
    let filter = dead(&caller, query.conditions())?;
    let mut page = PageSteps::new(query.limit, query.cursor);
    while let Some(step) = page.next() {
        let found = api.engine().archive().export(filter.clone(), step).await?;
        page.take(found, |job| archive::exported_row(&caller, job))?;
    }
    page.finish()
}

/// Removes dead letters for good, one bounded batch a call; their idempotency keys keep answering.
#[utoipa::path(post, path = "/api/v1/dead-letters/purge", tag = "dead-letters", request_body = Purge,
    responses((status = 200, body = PurgeAnswer), (status = 422, body = ErrorBody)))]
async fn purge_dead_letters(
    State(api): State<Api>,
    caller: Caller,
    JsonBody(purge): JsonBody<Purge>,
) -> Result<Json<PurgeAnswer>, ApiError> {
    let conditions = purge.conditions();
    let narrow = conditions != JobFilter::default();
    if let Some(ids) = purge.ids {
        if narrow || purge.all || purge.dry_run || purge.cursor.is_some() {
            let message = "`ids` cannot be combined with conditions, `all`, `dry_run` or `cursor`";
            return Err(ApiError::invalid(message).hint("send either"));
        }
        return purge_ids(&api, &caller, ids).await;
    }
    let filter = dead(&caller, conditions)?;
    if purge.dry_run {
        let survey = Some(JobSurvey::of(api.engine().archive().survey(filter, COUNT).await?, &caller));
        return Ok(Json(PurgeAnswer { dry_run: true, purged: 0, left: 0, survey, next_cursor: None }));
    }
    if !narrow && !purge.all {
        let status = axum::http::StatusCode::UNPROCESSABLE_ENTITY;
        return Err(ApiError::new(
            status,
            "needs_all",
            "without a condition this would remove every dead letter",
        )
        .hint("narrow them down, or send `all: true`"));
    }
    let (done, next_cursor) = api.engine().archive().purge_page(&filter, purge.cursor).await?;
    Ok(Json(purged(done, next_cursor)))
}

async fn purge_ids(api: &Api, caller: &Caller, ids: Vec<JobId>) -> Result<Json<PurgeAnswer>, ApiError> {
    if ids.len() > MOST_IDS {
        let message = format!("ids has {} jobs, the limit is {MOST_IDS}", ids.len());
        return Err(ApiError::invalid(message).hint("send several requests"));
    }
    let asked = u64::try_from(ids.len()).unwrap_or(u64::MAX);
    let mine = if caller.sees_all() {
        ids
    } else {
        let found = api.engine().store().jobs(ids).await?.into_iter().flatten();
        let seen = found.filter(|detail| caller.sees(&detail.view.job.spec.queue).is_some());
        seen.map(|detail| detail.view.job.spec.id).collect()
    };
    let done = api.engine().archive().purge_those(mine, Some(JobState::Failed)).await?;
    Ok(Json(PurgeAnswer { left: asked.saturating_sub(done.purged), ..purged(done, None) }))
}

fn purged(done: backstop::archive::Purged, next_cursor: Option<JobId>) -> PurgeAnswer {
    PurgeAnswer { dry_run: false, purged: done.purged, left: done.left, survey: None, next_cursor }
}
