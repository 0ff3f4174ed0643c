//! `/api/v1/work/step` and `/api/v1/work/effect`: durable steps and effects of remote workers (W7, W8).

use axum::Json;
use axum::extract::State;
use backstop::{RemoteEffect, RemoteStep, StepError};
use backstop_core::job::EffectCall;
use utoipa_axum::routes;

use crate::access::{Caller, Scope};
use crate::api::Api;
use crate::body::{JsonBody, wrong_field};
use crate::error::ApiError;
use crate::lease::stale;
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{ErrorBody, work as shape};

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .add(RouteNeeds::Right(Scope::Work), routes!(step))
        .add(RouteNeeds::Right(Scope::Work), routes!(effect))
}

/// Stores that a step or an effect of a run succeeded, with its result, or that an effect did not happen. When the job
/// is claimed again, `steps` has the result. A name that is stored keeps its first result, so this can be repeated.
#[utoipa::path(post, path = "/api/v1/work/step", tag = "work", request_body = shape::StepRequest,
    responses((status = 200, body = shape::LogAnswer), (status = 400, body = ErrorBody),
        (status = 409, description = "Code `steps_changed` when something else is stored in this place.",
            body = ErrorBody),
        (status = 422, body = ErrorBody)))]
async fn step(
    State(api): State<Api>,
    caller: Caller,
    JsonBody(request): JsonBody<shape::StepRequest>,
) -> Result<Json<shape::LogAnswer>, ApiError> {
    let shape::StepRequest { lease, name, result, not_done, index } = request;
    match (&result, not_done) {
        (None, false) => return Err(wrong_field("result", "it is missing; null is a result too")),
        (Some(_), true) => return Err(wrong_field("not_done", "what did not happen has no result")),
        _ => {}
    }
    let key = api.leases().key(&**api.engine().store()).await?;
    let grant = key.open(&caller, &lease).ok_or_else(stale)?;
    api.engine().remote().step(&grant, RemoteStep { index, name, result }).await.map_err(refused)?;
    Ok(Json(shape::LogAnswer { ok: true }))
}

/// Stores that a run is about to call an effect, and answers what to do: call it, ask the outside whether it happened
/// before, or nothing. What it came to is told with `/work/step`. The same call of one run is answered in the same
/// way, so this can be repeated.
#[utoipa::path(post, path = "/api/v1/work/effect", tag = "work", request_body = shape::EffectRequest,
    responses((status = 200, body = shape::EffectAnswer), (status = 400, body = ErrorBody),
        (status = 409, description = "Code `effect_unknown` when it may have happened and a person has to find out, \
            `steps_changed` when something else is stored in this place.", body = ErrorBody),
        (status = 422, body = ErrorBody)))]
async fn effect(
    State(api): State<Api>,
    caller: Caller,
    JsonBody(request): JsonBody<shape::EffectRequest>,
) -> Result<Json<shape::EffectAnswer>, ApiError> {
    let shape::EffectRequest { lease, name, key: effect_key, policy, not_seen, index } = &request;
    let key = api.leases().key(&**api.engine().store()).await?;
    let grant = key.open(&caller, lease).ok_or_else(stale)?;
    let call = EffectCall { index: *index, name, key: effect_key, policy: *policy, not_seen: *not_seen };
    let answer = api.engine().remote().effect(&grant, call).await.map_err(refused)?;
    Ok(Json(match answer {
        RemoteEffect::Run => shape::EffectAnswer::Run,
        RemoteEffect::Verify => shape::EffectAnswer::Verify,
        RemoteEffect::Done(result) => shape::EffectAnswer::Done { result },
    }))
}

fn refused(error: StepError) -> ApiError {
    match error {
        StepError::Stale(_) => stale(),
        other => other.into(),
    }
}
