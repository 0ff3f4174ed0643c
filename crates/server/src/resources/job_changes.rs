//! `/api/v1/jobs/change`: the same change of many jobs, counted first.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use backstop::job_changes::JobChange;
use backstop_core::job::{JobChangeVerb, JobView};
use backstop_store::JobFilter;
use serde_json::json;
use utoipa_axum::routes;

use super::names;
use crate::access::{Caller, Scope};
use crate::api::Api;
use crate::body::{JsonBody, wrong_field};
use crate::error::ApiError;
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{ChangeJobs, ChangedJobs, ErrorBody, JobSurvey};

/// Jobs that are counted at most before any is changed.
const COUNT: usize = 1_000_000;

pub(crate) fn routes(routes: Routes) -> Routes {
    routes.add(RouteNeeds::Right(Scope::Operate), routes!(change_jobs))
}

/// Cancels, pauses or resumes the jobs that fit, newest first, 10,000 a call at most: `next_cursor` goes on.
///
/// `dry_run` counts them; with that count as `expected` nothing is changed when there are more of them by then.
#[utoipa::path(post, path = "/api/v1/jobs/change", tag = "jobs", request_body = ChangeJobs,
    responses((status = 200, body = ChangedJobs),
        (status = 409, description = "Code `more_than_expected` when there are more jobs than `expected`.",
            body = ErrorBody),
        (status = 422, body = ErrorBody)))]
async fn change_jobs(
    State(api): State<Api>,
    caller: Caller,
    JsonBody(wanted): JsonBody<ChangeJobs>,
) -> Result<Json<ChangedJobs>, ApiError> {
    let conditions = wanted.conditions();
    let narrow = conditions != JobFilter::default();
    let verb = wanted.change.ok_or_else(|| wrong_field("change", "it is missing; say what is to be done"))?;
    let status = wanted.status.ok_or_else(|| wrong_field("status", "it is missing; say in which state"))?;
    if !verb.leads_out_of(status) {
        let states: Vec<&str> = verb.states().map(backstop::State::as_str).collect();
        let problem = format!("jobs that are {status} cannot be changed so; one of {}", states.join(", "));
        return Err(wrong_field("status", &problem));
    }
    let filter = JobFilter { state: Some(status), ..names::filter(&caller, conditions)? };
    if wanted.dry_run {
        let survey = Some(JobSurvey::of(api.engine().archive().survey(filter, COUNT).await?, &caller));
        return Ok(Json(ChangedJobs { dry_run: true, changed: 0, left: 0, survey, next_cursor: None }));
    }
    if !narrow && !wanted.all {
        let message = format!("without a condition this would {} every job that is {status}", verb.as_str());
        return Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "needs_all", message)
            .hint("narrow them down, or send `all: true`"));
    }
    if let Some(expected) = wanted.expected {
        no_more_than(&api, &caller, &filter, expected).await?;
    }
    let change = match verb {
        JobChangeVerb::Cancel => {
            let reason = wanted.note.unwrap_or_else(|| format!("canceled by {}", caller.name()));
            JobChange::Cancel { reason }
        }
        JobChangeVerb::Pause => JobChange::Pause,
        JobChangeVerb::Resume => JobChange::Resume,
    };
    let may = |view: &JobView| caller.sees(&view.job.spec.queue).is_some();
    let done = api.engine().change_jobs(&filter, &change, wanted.cursor, may).await?;
    let (changed, left, next_cursor) = (done.changed, done.left, done.next);
    Ok(Json(ChangedJobs { dry_run: false, changed, left, survey: None, next_cursor }))
}

/// Refuses when more jobs fit than somebody has counted.
async fn no_more_than(api: &Api, caller: &Caller, filter: &JobFilter, expected: u64) -> Result<(), ApiError> {
    let most = usize::try_from(expected.saturating_add(1)).unwrap_or(COUNT).min(COUNT);
    let found = JobSurvey::of(api.engine().archive().survey(filter.clone(), most).await?, caller).jobs();
    if found > expected {
        let message = format!("more than {expected} jobs fit by now; nothing was changed");
        return Err(ApiError::new(StatusCode::CONFLICT, "more_than_expected", message)
            .hint("count them again")
            .details(json!({ "expected": expected })));
    }
    Ok(())
}
