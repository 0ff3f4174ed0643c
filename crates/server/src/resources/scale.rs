//! `/api/v1/scale`: the backlog and the number of worker processes it needs, for autoscalers (H9).

use axum::Json;
use axum::extract::State;
use backstop_core::admit::queue_name;
use backstop_store::{QueueRange, QueueView};
use utoipa_axum::routes;

use crate::access::{Caller, Scope};
use crate::api::Api;
use crate::body::QueryParams;
use crate::error::ApiError;
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{ErrorBody, QueueScale, ScaleQuery, ScaleTotal, ScaleView};

pub(crate) fn routes(routes: Routes) -> Routes {
    routes.add(RouteNeeds::Right(Scope::Read), routes!(scale))
}

/// How much waits and runs on each queue, how long the oldest job waits, and how many processes that needs.
///
/// For KEDA's `metrics-api` scaler and the like: `valueLocation` is `total.wanted`, with a target of 1. A queue that
/// has neither jobs nor workers counts as empty.
#[utoipa::path(get, path = "/api/v1/scale", tag = "scale", params(ScaleQuery),
    responses((status = 200, body = ScaleView), (status = 422, body = ErrorBody)))]
async fn scale(
    State(api): State<Api>,
    caller: Caller,
    QueryParams(ScaleQuery { queue, limit, cursor }): QueryParams<ScaleQuery>,
) -> Result<Json<ScaleView>, ApiError> {
    let views = asked_for(&api, &caller, queue.as_deref()).await?;
    let now = api.engine().store().now().await?;
    let held_back = api.engine().queues().held_back(&views).await?;
    let settings = &api.settings().scale;
    let seen = views.iter().filter_map(|view| Some((view, caller.sees(&view.name)?)));
    let limit = limit.unwrap_or_default().rows();
    let mut scale = ScaleView { items: Vec::new(), next_cursor: None, total: ScaleTotal::default() };
    for (view, shown) in seen {
        let held_back = held_back.get(&view.name).copied().unwrap_or_default();
        let row = QueueScale::of(view, held_back, shown, settings, now);
        scale.total.add(&row);
        if cursor.as_deref().is_some_and(|after| shown <= after) {
            continue;
        }
        if scale.items.len() < limit {
            scale.items.push(row);
        } else {
            scale.next_cursor = scale.items.last().map(|last| last.queue.clone());
        }
    }
    Ok(Json(scale))
}

/// The queues by name: one, those of the caller's tenant, or all. The total is of all of them, so all are read; their
/// counts are kept, not counted.
async fn asked_for(api: &Api, caller: &Caller, queue: Option<&str>) -> Result<Vec<QueueView>, ApiError> {
    let Some(queue) = queue else {
        let range = caller.tenant().map(QueueRange::of_tenant).unwrap_or_default();
        return Ok(api.engine().queues().page(range).await?.items);
    };
    queue_name(queue, &api.engine().config().limits)?;
    let name = caller.queue(queue)?;
    // Of all names that begin like this one, it is the first.
    let range = QueueRange { limit: Some(1), ..QueueRange::under(name.as_str()) };
    let mut found = api.engine().queues().page(range).await?.items;
    found.retain(|view| view.name == name);
    Ok(found)
}
