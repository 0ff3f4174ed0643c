//! `/api/v1/queues`: what waits where, and holding it back.

use axum::Json;
use axum::extract::State;
use backstop::store::QueueView;
use utoipa_axum::routes;

use crate::access::{Caller, Scope};
use crate::api::Api;
use crate::body::{Body, Path};
use crate::error::ApiError;
use crate::routes::{Needs, Routes};
use crate::shape::{Changed, Items, Note};

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .add(Needs::Right(Scope::Read), routes!(list))
        .add(Needs::Right(Scope::Operate), routes!(pause))
        .add(Needs::Right(Scope::Operate), routes!(resume))
}

/// Every queue with its counts, which are kept, not counted.
#[utoipa::path(get, path = "/api/v1/queues", tag = "queues", responses((status = 200, body = Items<QueueView>)))]
async fn list(State(api): State<Api>, caller: Caller) -> Result<Json<Items<QueueView>>, ApiError> {
    let queues = api.engine().queues().await?;
    let seen = queues.into_iter().filter_map(|queue| {
        let name = caller.sees(&queue.name)?.to_owned();
        Some(QueueView { name, ..queue })
    });
    Ok(Json(Items::all(seen)))
}

/// Lets nothing be claimed from a queue until it is resumed.
#[utoipa::path(post, path = "/api/v1/queues/{name}/pause", tag = "queues",
    params(("name" = String, Path, description = "The queue.")),
    request_body = Option<Note>,
    responses((status = 200, body = Changed), (status = 422, body = crate::shape::Failed)))]
async fn pause(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
    note: Option<Body<Note>>,
) -> Result<Json<Changed>, ApiError> {
    let queue = caller.queue(&name)?;
    let note = note.and_then(|Body(said)| said.note).unwrap_or_else(|| caller.name().to_owned());
    let changed = api.engine().pause_queue_because(&queue, &note).await?;
    Ok(Json(Changed { changed, status: "paused".to_owned() }))
}

/// Lets a queue go again.
#[utoipa::path(post, path = "/api/v1/queues/{name}/resume", tag = "queues",
    params(("name" = String, Path, description = "The queue.")),
    responses((status = 200, body = Changed), (status = 422, body = crate::shape::Failed)))]
async fn resume(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Changed>, ApiError> {
    let changed = api.engine().resume_queue(&caller.queue(&name)?).await?;
    Ok(Json(Changed { changed, status: "running".to_owned() }))
}
