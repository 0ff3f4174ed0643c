//! `/api/v1/workers`: who is there to run jobs.

use axum::Json;
use axum::extract::State;
use utoipa_axum::routes;

use crate::access::{Caller, Scope};
use crate::api::Api;
use crate::error::ApiError;
use crate::routes::{Needs, Routes};
use crate::shape::{Items, Worker};

pub(crate) fn routes(routes: Routes) -> Routes {
    routes.add(Needs::Right(Scope::Read), routes!(list))
}

/// Every worker that is live, or was until it stopped renewing its lease: the live ones first, each by name.
///
/// A caller that sees some queues sees the workers of those.
#[utoipa::path(get, path = "/api/v1/workers", tag = "workers", responses((status = 200, body = Items<Worker>)))]
async fn list(State(api): State<Api>, caller: Caller) -> Result<Json<Items<Worker>>, ApiError> {
    let mut workers = api.engine().workers().await?;
    workers.sort_by(|a, b| (!a.live, &a.name, a.id).cmp(&(!b.live, &b.name, b.id)));
    let seen = workers.into_iter().filter_map(|worker| {
        let queues: Vec<String> =
            worker.queues.iter().filter_map(|queue| caller.sees(queue).map(str::to_owned)).collect();
        (caller.sees_all() || !queues.is_empty()).then(|| Worker::of(worker, queues))
    });
    Ok(Json(Items::all(seen)))
}
