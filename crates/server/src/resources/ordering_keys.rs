//! `/api/v1/ordering-keys`: whose turn it is among jobs of one key, and letting a line go on (L21).

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstop::ordering::{LineRange, LineView};
use backstop_store::{Page, PageRequest, QueueRange};
use utoipa_axum::routes;

use super::{jobs, names};
use crate::access::{Caller, Scope};
use crate::api::Api;
use crate::body::{JsonBody, PathParams, QueryParams};
use crate::error::ApiError;
use crate::page::PageSteps;
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{ErrorBody, GivenReason, Items, OrderingKeyJson, OrderingKeysQuery, SkippedJob};

/// About how many bytes a row has beside its names.
const ROW: usize = 150;

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .add(RouteNeeds::Right(Scope::Read), routes!(list_ordering_keys))
        .add(RouteNeeds::Right(Scope::Operate), routes!(skip_head))
}

/// Ordering keys whose jobs wait or run, by key, each with the job whose turn it is.
#[utoipa::path(get, path = "/api/v1/ordering-keys", tag = "ordering-keys", params(OrderingKeysQuery),
    responses((status = 200, body = Items<OrderingKeyJson>), (status = 422, body = ErrorBody)))]
async fn list_ordering_keys(
    State(api): State<Api>,
    caller: Caller,
    QueryParams(OrderingKeysQuery { blocked, limit, cursor }): QueryParams<OrderingKeysQuery>,
) -> Result<Response, ApiError> {
    let prefix = caller.tenant().map(QueueRange::of_tenant).map(|range| range.prefix).unwrap_or_default();
    let mut page = PageSteps::new(limit, cursor);
    while let Some(PageRequest { limit, after }) = page.next() {
        let after = after.map(|key| format!("{prefix}{key}"));
        let range = LineRange { blocked, prefix: prefix.clone(), after, limit };
        let Page { items, next } = api.engine().ordering_keys().list(range).await?;
        let own = |key: &str| names::own_key(&caller, key).to_owned();
        page.take(Page { items, next: next.map(|key| own(&key)) }, |line: LineView| {
            let (key, size) = (own(&line.key), line.key.len() + line.queue.len() + line.kind.len() + ROW);
            let row = caller.sees(&line.queue).map(|queue| OrderingKeyJson {
                key: key.clone(),
                head: line.head,
                status: line.state,
                blocked: line.is_blocked(),
                waiting: line.waiting,
                queue: queue.to_owned(),
                kind: line.kind.to_string(),
            });
            (key, size, row)
        })?;
    }
    page.finish()
}

/// Gives up the job whose turn it is, wherever it is, so that the next one goes: it ends canceled.
#[utoipa::path(post, path = "/api/v1/ordering-keys/{key}/skip", tag = "ordering-keys",
    params(("key" = String, Path, description = "The ordering key.")),
    request_body = Option<GivenReason>,
    responses((status = 200, body = SkippedJob),
        (status = 404, description = "No job with this key waits or runs.", body = ErrorBody)))]
async fn skip_head(
    State(api): State<Api>,
    caller: Caller,
    PathParams(key): PathParams<String>,
    reason: Option<JsonBody<GivenReason>>,
) -> Result<Json<SkippedJob>, ApiError> {
    let stored = names::stored_key(&caller, key.clone());
    let nobody = || {
        let message = format!("no job with the ordering key `{key}` waits or runs");
        ApiError::new(StatusCode::NOT_FOUND, "not_found", message)
            .hint("look at GET /api/v1/ordering-keys for those that do")
    };
    let line = api.engine().ordering_keys().get(&stored).await?.ok_or_else(nobody)?;
    jobs::seen(&api, &caller, line.head).await?;
    let given = reason.and_then(|JsonBody(given)| given.reason);
    let reason = given.unwrap_or_else(|| format!("skipped by {}", caller.name()));
    let skipped = api.engine().ordering_keys().skip(&stored, &reason).await?.ok_or_else(nobody)?;
    Ok(Json(SkippedJob { job: skipped.job, was: skipped.was, changed: skipped.changed }))
}
