//! `/api/v1/queues`: what waits where, and holding it back.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use backstop_store::{Page, PageRequest, QueueRange, QueueView};
use utoipa_axum::routes;

use crate::access::{Caller, Scope};
use crate::api::Api;
use crate::body::{JsonBody, PathParams, QueryParams};
use crate::error::ApiError;
use crate::limits::room::{self, TenantName};
use crate::page::PageSteps;
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{Changed, Items, OperationNote, PageQuery};

/// About how many bytes a queue has beside its name.
const ROW: usize = 250;

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .add(RouteNeeds::Right(Scope::Read), routes!(list))
        .add(RouteNeeds::Right(Scope::Operate), routes!(pause))
        .add(RouteNeeds::Right(Scope::Operate), routes!(resume))
}

/// Queues by name, with their counts, which are kept, not counted.
#[utoipa::path(get, path = "/api/v1/queues", tag = "queues", params(PageQuery),
    responses((status = 200, body = Items<QueueView>), (status = 422, body = crate::shape::ErrorBody)))]
async fn list(
    State(api): State<Api>,
    caller: Caller,
    QueryParams(PageQuery { limit, cursor }): QueryParams<PageQuery>,
) -> Result<Response, ApiError> {
    let tenant = caller.tenant().map(QueueRange::of_tenant);
    let prefix = tenant.map(|range| range.prefix).unwrap_or_default();
    let mut page = PageSteps::new(limit, cursor);
    while let Some(PageRequest { limit, after }) = page.next() {
        // Only the caller's own are asked for: who has many queues slows nobody else.
        let after = after.map(|name| format!("{prefix}{name}"));
        let range = QueueRange { prefix: prefix.clone(), after, limit: Some(limit) };
        let Page { items, next } = api.engine().queues().page(range).await?;
        let own = |name: &str| name.strip_prefix(&*prefix).unwrap_or(name).to_owned();
        page.take(Page { items, next: next.map(|name| own(&name)) }, |queue| {
            let (name, shown) = (own(&queue.name), caller.sees(&queue.name).map(str::to_owned));
            (name.clone(), name.len() + ROW, shown.map(|name| QueueView { name, ..queue }))
        })?;
    }
    page.finish()
}

/// Lets nothing be claimed from a queue until it is resumed.
#[utoipa::path(post, path = "/api/v1/queues/{name}/pause", tag = "queues",
    params(("name" = String, Path, description = "The queue.")),
    request_body = Option<OperationNote>,
    responses((status = 200, body = Changed), (status = 422, body = crate::shape::ErrorBody),
        (status = 429, description = "`tenant_limit`: the tenant has reached its limit of queues.",
         body = crate::shape::ErrorBody)))]
async fn pause(
    State(api): State<Api>,
    caller: Caller,
    PathParams(name): PathParams<String>,
    note: Option<JsonBody<OperationNote>>,
) -> Result<Json<Changed>, ApiError> {
    let queue = caller.queue(&name)?;
    // A queue that is paused is known from then on.
    room::check(api.engine(), &api.door().tenant_names, &caller, &[TenantName::Queue(&name)]).await?;
    let note = note.and_then(|JsonBody(said)| said.note).unwrap_or_else(|| caller.name().to_owned());
    let changed = api.engine().queues().pause_because(&queue, &note).await?;
    Ok(Json(Changed { changed, status: "paused".to_owned() }))
}

/// Lets a queue go again.
#[utoipa::path(post, path = "/api/v1/queues/{name}/resume", tag = "queues",
    params(("name" = String, Path, description = "The queue.")),
    responses((status = 200, body = Changed), (status = 422, body = crate::shape::ErrorBody)))]
async fn resume(
    State(api): State<Api>,
    caller: Caller,
    PathParams(name): PathParams<String>,
) -> Result<Json<Changed>, ApiError> {
    let changed = api.engine().queues().resume(&caller.queue(&name)?).await?;
    Ok(Json(Changed { changed, status: "running".to_owned() }))
}
