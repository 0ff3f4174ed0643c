//! `/api/v1/schedules`: jobs that are submitted again and again (W11). A schedule is about everybody's jobs.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstop::schedules::ScheduleProblem;
use utoipa_axum::routes;

use super::submit;
use crate::access::{Caller, Scope};
use crate::api::Api;
use crate::body::{JsonBody, PathParams, QueryParams, RawBody, read};
use crate::error::ApiError;
use crate::page::{behind, page};
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{
    BackfillDone, BackfillRange, DeleteSchedule, ErrorBody, Items, PageQuery, PlanActor, ScheduleJson,
    ScheduleRun, SetSchedule, SetScheduleQuery, schedule_over,
};

pub(crate) fn routes(routes: Routes) -> Routes {
    let (look, change) = (RouteNeeds::RightOverAll(Scope::Read), RouteNeeds::RightOverAll(Scope::Operate));
    routes
        .add(look, routes!(list_schedules))
        .add(look, routes!(show_schedule))
        .add(change, routes!(set_schedule))
        .add(change, routes!(delete_schedule))
        .add(change, routes!(pause_schedule))
        .add(change, routes!(resume_schedule))
        .add(change, routes!(run_schedule))
        .add(change, routes!(backfill_schedule))
}

/// Every schedule by name.
#[utoipa::path(get, path = "/api/v1/schedules", tag = "schedules", params(PageQuery),
    responses((status = 200, body = Items<ScheduleJson>), (status = 422, body = ErrorBody)))]
async fn list_schedules(
    State(api): State<Api>,
    QueryParams(PageQuery { limit, cursor }): QueryParams<PageQuery>,
) -> Result<Response, ApiError> {
    let rows = api.engine().schedules().list().await?;
    let rows: Vec<ScheduleJson> = rows.into_iter().map(ScheduleJson::from).collect();
    page(behind(rows, cursor.as_deref(), |last| last.name.clone())?, limit.unwrap_or_default(), |last| {
        last.name.clone()
    })
}

/// One schedule, with its next five fire times.
#[utoipa::path(get, path = "/api/v1/schedules/{name}", tag = "schedules",
    params(("name" = String, Path, description = "What the schedule is called.")),
    responses((status = 200, body = ScheduleJson),
        (status = 404, description = "No such schedule.", body = ErrorBody)))]
async fn show_schedule(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
) -> Result<Json<ScheduleJson>, ApiError> {
    let found = api.engine().schedules().get(&name).await?;
    found.map(|view| Json(view.into())).ok_or_else(|| ScheduleProblem::Unknown(name).into())
}

/// Sets a schedule, whether there is one of this name or not. One that is there is replaced, unless `keep` says that
/// what is not named stays.
#[utoipa::path(put, path = "/api/v1/schedules/{name}", tag = "schedules", request_body = SetSchedule,
    params(("name" = String, Path, description = "What the schedule is called."), SetScheduleQuery),
    responses((status = 200, body = ScheduleJson),
        (status = 409, description = "A program or `backstop.toml` declares it, or there are too many schedules.",
         body = ErrorBody)))]
async fn set_schedule(
    State(api): State<Api>,
    caller: Caller,
    PathParams(name): PathParams<String>,
    QueryParams(SetScheduleQuery { keep }): QueryParams<SetScheduleQuery>,
    RawBody(bytes): RawBody,
) -> Result<Json<ScheduleJson>, ApiError> {
    let (schedules, keeps) = (api.engine().schedules(), keep.unwrap_or_default());
    let seen = if keeps { schedules.get(&name).await?.map(|view| view.schedule) } else { None };
    let bytes = match &seen {
        Some(seen) => schedule_over(seen, &bytes)?.into(),
        None => bytes,
    };
    let body: SetSchedule<'_> = read(&bytes)?;
    let expires_in = body.expires_in_ms.map(Duration::from_millis);
    let (settings, mut job) = body.split();
    submit::keys_are_own(&api, &caller, &mut job).await?;
    let mut job = submit::prepare(&api, &caller, job)?;
    if let Some(span) = expires_in {
        job = job.expires_in(span);
    }
    let set = match keeps {
        true => schedules.set_over(&name, seen.as_ref(), settings, job).await?,
        false => schedules.set(&name, settings, job).await?,
    };
    Ok(Json(set.into()))
}

/// Removes a schedule, and answers it once more. Jobs that it has submitted stay.
#[utoipa::path(delete, path = "/api/v1/schedules/{name}", tag = "schedules",
    params(("name" = String, Path, description = "What the schedule is called."), DeleteSchedule),
    responses((status = 200, body = ScheduleJson),
        (status = 404, description = "No such schedule.", body = ErrorBody),
        (status = 409, description = "A program or `backstop.toml` declares it.", body = ErrorBody)))]
async fn delete_schedule(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
    QueryParams(DeleteSchedule { force }): QueryParams<DeleteSchedule>,
) -> Result<Json<ScheduleJson>, ApiError> {
    Ok(Json(api.engine().schedules().delete(&name, force.unwrap_or_default()).await?.into()))
}

/// Fires nothing until it is resumed.
#[utoipa::path(post, path = "/api/v1/schedules/{name}/pause", tag = "schedules",
    params(("name" = String, Path, description = "What the schedule is called.")),
    request_body = Option<PlanActor>,
    responses((status = 200, body = ScheduleJson),
        (status = 404, description = "No such schedule.", body = ErrorBody)))]
async fn pause_schedule(
    State(api): State<Api>,
    caller: Caller,
    PathParams(name): PathParams<String>,
    body: Option<JsonBody<PlanActor>>,
) -> Result<Json<ScheduleJson>, ApiError> {
    let by = caller.signs(body.and_then(|JsonBody(body)| body.by).as_deref());
    Ok(Json(api.engine().schedules().pause(&name, &by).await?.into()))
}

/// Fires again, from the next fire time on.
#[utoipa::path(post, path = "/api/v1/schedules/{name}/resume", tag = "schedules",
    params(("name" = String, Path, description = "What the schedule is called.")),
    responses((status = 200, body = ScheduleJson),
        (status = 404, description = "No such schedule.", body = ErrorBody)))]
async fn resume_schedule(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
) -> Result<Json<ScheduleJson>, ApiError> {
    Ok(Json(api.engine().schedules().resume(&name).await?.into()))
}

/// Submits its job once, now; its fire times stay as they are.
#[utoipa::path(post, path = "/api/v1/schedules/{name}/run", tag = "schedules",
    params(("name" = String, Path, description = "What the schedule is called.")),
    responses((status = 200, body = ScheduleRun),
        (status = 404, description = "No such schedule.", body = ErrorBody),
        (status = 409, description = "Another live job holds the business key.", body = ErrorBody),
        (status = 429, description = "`queue_full`.", body = ErrorBody)))]
async fn run_schedule(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
) -> Result<Json<ScheduleRun>, ApiError> {
    Ok(Json(ScheduleRun { id: api.engine().schedules().run(&name).await? }))
}

/// Submits jobs for up to 1,000 fire times of the past that were not submitted before.
#[utoipa::path(post, path = "/api/v1/schedules/{name}/backfill", tag = "schedules", request_body = BackfillRange,
    params(("name" = String, Path, description = "What the schedule is called.")),
    responses((status = 200, body = BackfillDone),
        (status = 404, description = "No such schedule.", body = ErrorBody),
        (status = 409, description = "Another live job holds the business key.", body = ErrorBody),
        (status = 429, description = "`queue_full`.", body = ErrorBody)))]
async fn backfill_schedule(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
    JsonBody(BackfillRange { from, to }): JsonBody<BackfillRange>,
) -> Result<Json<BackfillDone>, ApiError> {
    Ok(Json(api.engine().schedules().backfill(&name, from, to).await?.into()))
}

impl From<ScheduleProblem> for ApiError {
    fn from(problem: ScheduleProblem) -> Self {
        let code = match problem {
            ScheduleProblem::Store(error) => return error.into(),
            ScheduleProblem::Invalid(refusal) => return refusal.into(),
            ScheduleProblem::Unknown(_) => {
                return Self::not_found("no_such_schedule", problem.to_string())
                    .hint("look at GET /api/v1/schedules for those that exist");
            }
            ScheduleProblem::Owned { .. } => "schedule_declared",
            ScheduleProblem::TooMany => "too_many_schedules",
            ScheduleProblem::Changing(_) => "schedule_changing",
        };
        Self::new(StatusCode::CONFLICT, code, problem.to_string())
    }
}
