//! `/health`: is the process alive, and can it work (H2).

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::json;
use utoipa_axum::routes;

use crate::api::Api;
use crate::error::ApiError;
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{LiveStatus, Readiness, ReadyCheck};

pub(crate) fn routes(routes: Routes) -> Routes {
    routes.add(RouteNeeds::Nothing, routes!(live)).add(RouteNeeds::Nothing, routes!(ready))
}

/// Alive, whatever the store does: it checks nothing, so that no trouble elsewhere gets this process killed.
#[utoipa::path(get, path = "/health/live", tag = "health", responses((status = 200, body = LiveStatus)))]
async fn live() -> Json<LiveStatus> {
    Json(LiveStatus { status: "live".to_owned() })
}

/// Ready when the store answers, every loop of this process was heard of in time, every dependency of the workers here
/// is available, and somebody leads every duty of maintenance, here or elsewhere. When it is not, `details` has the
/// checks.
#[utoipa::path(get, path = "/health/ready", tag = "health",
    responses((status = 200, body = Readiness), (status = 503, body = crate::shape::ErrorBody)))]
async fn ready(State(api): State<Api>) -> Result<Json<Readiness>, ApiError> {
    let readiness = api.reporting().checks.readiness(api.engine()).await;
    let why = |check: &ReadyCheck| match check.problem.as_deref() {
        Some("slow") => format!("{} (no answer within 2 seconds)", check.name),
        Some("silent") => format!("{} (not heard of in time)", check.name),
        Some("unchecked") => format!("{} (not checked yet)", check.name),
        Some("failed") => format!("{} (its check failed)", check.name),
        Some("timed_out") => format!("{} (its check gave no answer in time)", check.name),
        Some("run_failed") => format!("{} (a run found it unavailable)", check.name),
        Some("far_above_others") => format!("{} (far more than on other workers)", check.name),
        Some("busy") => format!("{} (another transaction holds what it needs)", check.name),
        Some(code) => format!("{} ({code})", check.name),
        None => check.name.clone(),
    };
    let red: Vec<String> =
        readiness.checks.iter().filter(|check| check.required && !check.ok).map(why).collect();
    if red.is_empty() {
        return Ok(Json(readiness));
    }
    let message = format!("not ready: {}", red.join(", "));
    Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", message)
        .hint("details.checks has the last result of each; see the server's log")
        .details(json!(readiness))
        .retry_after(1))
}
