//! `/health`: is the process alive, and can it work (H2).

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::json;
use utoipa_axum::routes;

use crate::api::Api;
use crate::error::ApiError;
use crate::routes::{Needs, Routes};
use crate::shape::{Alive, Check, Readiness};

pub(crate) fn routes(routes: Routes) -> Routes {
    routes.add(Needs::Nothing, routes!(live)).add(Needs::Nothing, routes!(ready))
}

/// Alive, whatever the store does: it checks nothing, so that no trouble elsewhere gets this process killed.
#[utoipa::path(get, path = "/health/live", tag = "health", responses((status = 200, body = Alive)))]
async fn live() -> Json<Alive> {
    Json(Alive { status: "live".to_owned() })
}

/// Ready when the store answers, every loop of this process was heard of in time, and somebody leads every duty of
/// maintenance, here or elsewhere. When it is not, `details` has the checks.
#[utoipa::path(get, path = "/health/ready", tag = "health",
    responses((status = 200, body = Readiness), (status = 503, body = crate::shape::Failed)))]
async fn ready(State(api): State<Api>) -> Result<Json<Readiness>, ApiError> {
    let readiness = api.tell().checks.readiness(api.engine()).await;
    let why = |check: &Check| match check.problem.as_deref() {
        Some("slow") => format!("{} (no answer within 2 seconds)", check.name),
        Some("silent") => format!("{} (not heard of in time)", check.name),
        Some("busy") => format!("{} (another transaction holds what it needs)", check.name),
        Some(code) => format!("{} ({code})", check.name),
        None => check.name.clone(),
    };
    let red: Vec<String> = readiness.checks.iter().filter(|check| !check.ok).map(why).collect();
    if red.is_empty() {
        return Ok(Json(readiness));
    }
    let message = format!("not ready: {}", red.join(", "));
    Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", message)
        .hint("details.checks has the last result of each; the server's log says more")
        .details(json!(readiness))
        .retry_after(1))
}
