//! `/api/v1/archive`: jobs that ended long ago (L16, D5).

use std::sync::LazyLock;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use backstop::archive::Archived;
use backstop::{JobId, WorkerId, worker_id};
use backstop_core::job::read_document;
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa_axum::routes;

use super::{ids, jobs, names};
use crate::access::{Caller, Scope};
use crate::api::Api;
use crate::body::{JsonBody, PathParams, QueryParams, wrong_field};
use crate::data;
use crate::error::ApiError;
use crate::page::PageSteps;
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{
    ArchiveQuery, ArchivedJob, ArchivedQuery, ErrorBody, ExportedJob, Items, PruneAnswer, PruneRequest,
    RevealQuery,
};

/// Archived jobs that are looked at for one page at most, where a condition leaves out most of them.
const LOOKED_AT: usize = 1_000;

/// Archived jobs that are counted at most.
const COUNT: usize = 10_000_000;

/// The longest time that archived jobs may be kept for, in milliseconds; longer is for ever.
const CENTURY_MS: u64 = 100 * 31_557_600_000;

/// How long this process leads the duty: long enough for a batch, short enough not to keep a worker waiting.
const TERM: Duration = Duration::from_secs(10);

/// Who leads the duty while somebody prunes by hand: this process, whichever request asks.
static NODE: LazyLock<WorkerId> = LazyLock::new(worker_id);

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .add(RouteNeeds::Right(Scope::Read), routes!(list_archive))
        .add(RouteNeeds::Right(Scope::Read), routes!(show_archived))
        .add(RouteNeeds::Right(Scope::Logs), routes!(export_archive))
        .add(RouteNeeds::RightOverAll(Scope::Admin), routes!(prune_archive))
}

/// Archived jobs, newest first. A page may hold fewer than `limit` of them while more follow.
#[utoipa::path(get, path = "/api/v1/archive", tag = "archive", params(ArchivedQuery),
    responses((status = 200, body = Items<ArchivedJob>), (status = 422, body = ErrorBody)))]
async fn list_archive(
    State(api): State<Api>,
    caller: Caller,
    QueryParams(query): QueryParams<ArchivedQuery>,
) -> Result<Response, ApiError> {
    let mut page = match query.is_narrow() {
        true => PageSteps::picking(query.limit, query.after(), LOOKED_AT),
        false => PageSteps::new(query.limit, query.after()),
    };
    while let Some(step) = page.next() {
        let found = api.engine().archive().page(step).await?;
        page.take(found, |(id, archived)| {
            let row = shown(&api, &caller, id, &archived, false).filter(|row| query.finds(row));
            let row = row.map(|mut row| {
                data::trim_document(&mut row.job, query.data_limit);
                ArchivedJob { attempts: None, ..row }
            });
            (id, archived.document.len(), row)
        })?;
    }
    page.finish()
}

/// All that is kept of one archived job.
#[utoipa::path(get, path = "/api/v1/archive/{id}", tag = "archive", params(("id" = JobId, Path), RevealQuery),
    responses((status = 200, body = ArchivedJob), (status = 404, body = ErrorBody)))]
async fn show_archived(
    State(api): State<Api>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(RevealQuery { reveal }): QueryParams<RevealQuery>,
) -> Result<Json<ArchivedJob>, ApiError> {
    names::may_reveal(&caller, reveal)?;
    let id = ids::job_id(&api, &caller, &id).await?;
    let Some(archived) = api.engine().archive().get(id).await? else {
        jobs::seen(&api, &caller, id).await?;
        return Err(ApiError::not_found("not_archived", format!("job {id} is not archived"))
            .hint(format!("`backstop job show {id}` shows it; so does /api/v1/jobs/{id}")));
    };
    shown(&api, &caller, id, &archived, reveal).map(Json).ok_or_else(|| jobs::no_such_job(id))
}

/// What is kept of a job, with its secrets masked unless they are asked for (F11); none when it is not for this
/// caller's eyes.
fn shown(api: &Api, caller: &Caller, id: JobId, archived: &Archived, reveal: bool) -> Option<ArchivedJob> {
    let mut document = read_document(&archived.document).unwrap_or_default();
    if !reveal {
        api.engine().mask().document(&mut document);
    }
    let (mut job, mut attempts) = (document["job"].take(), document["attempts"].take());
    if !names::document(caller, &mut job) {
        return None;
    }
    for run in attempts.as_array_mut().into_iter().flatten() {
        if !caller.may(Scope::Logs) {
            run["output"] = Value::Null;
        }
    }
    let Archived { archived_at, state, ran, .. } = *archived;
    Some(ArchivedJob { id, status: state, archived_at, ran, job, attempts: Some(attempts) })
}

/// Archived jobs with all that is known of each, in the clear, newest first.
#[utoipa::path(get, path = "/api/v1/archive/export", tag = "archive", params(ArchiveQuery),
    responses((status = 200, body = Items<ExportedJob>), (status = 422, body = ErrorBody)))]
async fn export_archive(
    State(api): State<Api>,
    caller: Caller,
    QueryParams(query): QueryParams<ArchiveQuery>,
) -> Result<Response, ApiError> {
    let mut page = PageSteps::new(query.limit, query.cursor);
    while let Some(step) = page.next() {
        let found = api.engine().archive().page(step).await?;
        page.take(found, |(id, archived)| {
            exported_row(&caller, backstop::archive::Exported::archived(id, archived))
        })?;
    }
    page.finish()
}

/// A job with all that is known of it, as a row of a list.
pub(super) fn exported_row(
    caller: &Caller,
    job: backstop::archive::Exported,
) -> (JobId, usize, Option<ExportedJob>) {
    let (id, bytes) = (job.id, job.document.len());
    (id, bytes, exported(caller, job))
}

/// A job with all that is known of it, in the caller's names; none when it is not for its eyes.
fn exported(caller: &Caller, job: backstop::archive::Exported) -> Option<ExportedJob> {
    let text = if caller.sees_all() && caller.may(Scope::Operate) {
        job.document.to_string()
    } else {
        let mut document = read_document(&job.document)?;
        names::document(caller, &mut document["job"]).then(|| document.to_string())?
    };
    Some(ExportedJob { id: job.id, status: job.state, document: RawValue::from_string(text).ok()? })
}

/// Removes what was archived long ago for good, one bounded batch a call; a job that never ran stays.
#[utoipa::path(post, path = "/api/v1/archive/prune", tag = "archive", request_body = Option<PruneRequest>,
    responses((status = 200, body = PruneAnswer), (status = 409, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn prune_archive(
    State(api): State<Api>,
    prune: Option<JsonBody<PruneRequest>>,
) -> Result<Json<PruneAnswer>, ApiError> {
    let PruneRequest { keep_ms, dry_run } = prune.map(|JsonBody(prune)| prune).unwrap_or_default();
    if keep_ms.is_some_and(|keep| keep > CENTURY_MS) {
        return Err(wrong_field("keep_ms", "it is longer than a hundred years"));
    }
    let engine = api.engine();
    let keep = keep_ms.map(Duration::from_millis).or(engine.config().retention.archive).ok_or_else(|| {
        let status = axum::http::StatusCode::BAD_REQUEST;
        ApiError::new(status, "usage", "no retention is set for archived jobs")
            .hint("say it, such as `--older-than 90d` or `keep_ms`, or set retention.archive")
    })?;
    let keep_ms = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
    let count = |jobs: usize| u64::try_from(jobs).unwrap_or(u64::MAX);
    if dry_run {
        let jobs = Some(count(engine.archive().prunable(keep, COUNT).await?));
        return Ok(Json(PruneAnswer { dry_run, keep_ms, jobs, pruned: 0, more: false }));
    }
    let Some((pruned, more)) = engine.archive().prune(*NODE, TERM, keep).await? else {
        let message = "a running worker does this by itself, by its own retention.archive";
        return Err(ApiError::new(axum::http::StatusCode::CONFLICT, "led_elsewhere", message)
            .hint("set retention.archive where the workers run, or stop them before this"));
    };
    Ok(Json(PruneAnswer { dry_run, keep_ms, jobs: None, pruned: count(pruned), more }))
}
