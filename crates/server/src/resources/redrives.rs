//! `/api/v1/redrives`: dead letters driven again by a stored plan (D4, D7).
//!
//! A plan may touch every tenant's jobs, so it is made and seen by those who see all.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstop::redrive::RedriveError;
use backstop_core::job::PlanId;
use backstop_core::redrive::{Plan, PlanError, PlanJob};
use backstop_store::PageRequest;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::IntoParams;
use utoipa_axum::routes;

use crate::access::{Caller, Scope};
use crate::api::Api;
use crate::body::{JsonBody, PageLimit, PathParams, QueryParams, wrong_field};
use crate::error::ApiError;
use crate::page::{page, whole};
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{ErrorBody, Items, NewPlan, PlanActor, PlanMade, PlanShown};

/// Characters of a cursor behind the plan and the kind of list: more than any list's name and place has.
const CURSOR_CHARS: usize = 64;

pub(crate) fn routes(routes: Routes) -> Routes {
    let (look, change) = (RouteNeeds::RightOverAll(Scope::Read), RouteNeeds::RightOverAll(Scope::Operate));
    routes
        .add(look, routes!(list))
        .add(change, routes!(make))
        .add(look, routes!(show))
        .add(look, routes!(jobs))
        .add(change, routes!(start))
        .add(change, routes!(pause))
        .add(change, routes!(resume))
        .add(change, routes!(cancel))
}

/// Which page.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// At most this many.
    #[param(value_type = Option<PageLimit>)]
    limit: PageLimit,
    /// Go on after this one, as `next_cursor` of the page before says.
    cursor: Option<String>,
}

/// Every plan, latest first.
#[utoipa::path(get, path = "/api/v1/redrives", tag = "redrives", params(Page),
    responses((status = 200, body = Items<PlanShown>)))]
async fn list(State(api): State<Api>, QueryParams(asked): QueryParams<Page>) -> Result<Response, ApiError> {
    let after = asked.cursor.as_deref().map(read_mark).transpose()?;
    let plans = api.engine().redrives().list().await?.into_iter();
    let rest = plans.filter(|plan| after.as_ref().is_none_or(|after| mark(plan) > *after));
    page(rest.map(PlanShown::from), asked.limit, |last| write_mark(&mark(&last.plan)))
}

/// The place of a plan among all: the latest first, and among equals the lower id.
type Mark = (std::cmp::Reverse<backstop::Timestamp>, PlanId);

fn mark(plan: &Plan) -> Mark {
    (std::cmp::Reverse(plan.created_at), plan.id.clone())
}

fn write_mark((at, id): &Mark) -> String {
    format!("{}.{id}", at.0.as_micros())
}

fn read_mark(text: &str) -> Result<Mark, ApiError> {
    let read = || {
        let (micros, id) = text.split_once('.')?;
        let at = backstop::Timestamp::from_micros(micros.parse().ok()?);
        Some((std::cmp::Reverse(at), id.parse().ok()?))
    };
    read().ok_or_else(|| wrong_field("cursor", "it is not a cursor of this list"))
}

/// Counts what would be driven again and makes a plan for it; `dry_run` only counts.
#[utoipa::path(post, path = "/api/v1/redrives", tag = "redrives", request_body = NewPlan,
    responses(
        (status = 200, description = "What a dry run counted.", body = PlanMade),
        (status = 201, description = "The plan was made; nothing is driven before it is started.", body = PlanMade),
        (status = 404, description = "No such incident.", body = ErrorBody),
        (status = 409, description = "No dead letter matches.", body = ErrorBody)))]
async fn make(
    State(api): State<Api>,
    caller: Caller,
    JsonBody(new): JsonBody<NewPlan>,
) -> Result<(StatusCode, Json<PlanMade>), ApiError> {
    let redrive =
        api.engine().redrives().plan(new.selector()).settings(new.settings.unwrap_or_default().into());
    let mut redrive = redrive.note(new.note).by(caller.signs(new.by.as_deref()));
    if let Some(version) = new.needs {
        redrive = redrive.needs(version);
    }
    if new.dry_run {
        let survey = Some(redrive.dry_run().await?);
        return Ok((StatusCode::OK, Json(PlanMade { survey, plan: None })));
    }
    let plan = Some(redrive.create().await?.into());
    Ok((StatusCode::CREATED, Json(PlanMade { survey: None, plan })))
}

/// One plan: where it is, what happened so far, and who did what.
#[utoipa::path(get, path = "/api/v1/redrives/{id}", tag = "redrives",
    params(("id" = PlanId, Path, description = "The plan.")), responses((status = 200, body = PlanShown)))]
async fn show(
    State(api): State<Api>,
    PathParams(id): PathParams<String>,
) -> Result<Json<PlanShown>, ApiError> {
    Ok(Json(api.engine().redrives().get(&known(&id)?).await?.into()))
}

/// What became of each job of a plan: first those of batches that have ended altogether, then the others.
#[utoipa::path(get, path = "/api/v1/redrives/{id}/jobs", tag = "redrives",
    params(("id" = PlanId, Path, description = "The plan."), Page), responses((status = 200, body = Items<PlanJob>)))]
async fn jobs(
    State(api): State<Api>,
    PathParams(id): PathParams<String>,
    QueryParams(asked): QueryParams<Page>,
) -> Result<Response, ApiError> {
    let plan = api.engine().redrives().get(&known(&id)?).await?;
    if asked.cursor.as_deref().is_some_and(|cursor| !is_job_cursor(cursor, &plan.id)) {
        return Err(wrong_field("cursor", "it is not a cursor of this list"));
    }
    let mut limit = asked.limit.rows();
    loop {
        let request = PageRequest { limit, after: asked.cursor.clone() };
        let found = api.engine().redrives().items(&plan.id, request).await?;
        match whole(&found.items, limit, found.next)? {
            Ok(answer) => return Ok(answer),
            Err(fewer) => limit = fewer,
        }
    }
}

/// True for what an earlier page of a plan's jobs may have said; nothing else is passed to the store.
fn is_job_cursor(cursor: &str, plan: &PlanId) -> bool {
    let rest = cursor.strip_prefix(plan.as_str()).and_then(|rest| rest.strip_prefix('/'));
    let place = rest.and_then(|rest| rest.strip_prefix("end/").or_else(|| rest.strip_prefix("open/")));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    place.is_some_and(|place| (1..=CURSOR_CHARS).contains(&place.len()) && place.bytes().all(is_plain))
}

/// Lets a plan go, beginning with its canary.
#[utoipa::path(post, path = "/api/v1/redrives/{id}/start", tag = "redrives",
    params(("id" = PlanId, Path, description = "The plan.")), request_body = Option<PlanActor>,
    responses((status = 200, body = PlanShown),
        (status = 409, description = "It was already started.", body = ErrorBody)))]
async fn start(
    State(api): State<Api>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    asking: Option<JsonBody<PlanActor>>,
) -> Result<Json<PlanShown>, ApiError> {
    Ok(Json(api.engine().redrives().start(&known(&id)?, &by(&caller, asking)).await?.into()))
}

/// Drives nothing more until it is resumed; what is in flight goes on.
#[utoipa::path(post, path = "/api/v1/redrives/{id}/pause", tag = "redrives",
    params(("id" = PlanId, Path, description = "The plan.")), request_body = Option<PlanActor>,
    responses((status = 200, body = PlanShown),
        (status = 409, description = "It is not running.", body = ErrorBody)))]
async fn pause(
    State(api): State<Api>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    asking: Option<JsonBody<PlanActor>>,
) -> Result<Json<PlanShown>, ApiError> {
    Ok(Json(api.engine().redrives().pause(&known(&id)?, &by(&caller, asking)).await?.into()))
}

/// Lets a paused plan go on; one that halted begins again with a canary.
#[utoipa::path(post, path = "/api/v1/redrives/{id}/resume", tag = "redrives",
    params(("id" = PlanId, Path, description = "The plan.")), request_body = Option<PlanActor>,
    responses((status = 200, body = PlanShown),
        (status = 409, description = "It is neither paused nor halted.", body = ErrorBody)))]
async fn resume(
    State(api): State<Api>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    asking: Option<JsonBody<PlanActor>>,
) -> Result<Json<PlanShown>, ApiError> {
    Ok(Json(api.engine().redrives().resume(&known(&id)?, &by(&caller, asking)).await?.into()))
}

/// Calls a plan off; what is in flight goes on.
#[utoipa::path(post, path = "/api/v1/redrives/{id}/cancel", tag = "redrives",
    params(("id" = PlanId, Path, description = "The plan.")), request_body = Option<PlanActor>,
    responses((status = 200, body = PlanShown),
        (status = 409, description = "It has ended.", body = ErrorBody)))]
async fn cancel(
    State(api): State<Api>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    asking: Option<JsonBody<PlanActor>>,
) -> Result<Json<PlanShown>, ApiError> {
    Ok(Json(api.engine().redrives().cancel(&known(&id)?, &by(&caller, asking)).await?.into()))
}

fn by(caller: &Caller, asking: Option<JsonBody<PlanActor>>) -> String {
    caller.signs(asking.and_then(|JsonBody(asking)| asking.by).as_deref())
}

/// The id of a plan; a text that is none names no plan.
fn known(id: &str) -> Result<PlanId, ApiError> {
    id.parse().map_err(|problem| ApiError::not_found("no_such_plan", format!("{problem}")))
}

impl From<RedriveError> for ApiError {
    fn from(error: RedriveError) -> Self {
        let (status, details) = match &error {
            RedriveError::Refused(refusal) => (status_of(refusal), details_of(refusal)),
            RedriveError::Busy { plan } => (StatusCode::CONFLICT, json!({ "plan": plan })),
            _ => match error {
                RedriveError::Store(error) => return error.into(),
                other => return crate::error::internal(&other),
            },
        };
        Self::new(status, error.code(), error.to_string()).details(details)
    }
}

const fn status_of(refusal: &PlanError) -> StatusCode {
    match refusal {
        PlanError::NoSuchIncident { .. } | PlanError::NoSuchPlan { .. } => StatusCode::NOT_FOUND,
        PlanError::MatchesNothing { .. } | PlanError::WrongPhase { .. } => StatusCode::CONFLICT,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

fn details_of(refusal: &PlanError) -> Value {
    match refusal {
        PlanError::NoSuchPlan { plan } => json!({ "plan": plan }),
        PlanError::WrongPhase { plan, phase, .. } => json!({ "plan": plan, "phase": phase }),
        PlanError::NoSuchIncident { incident } => json!({ "incident": incident }),
        _ => Value::Null,
    }
}
