//! `/api/v1/workers`: who is there to run jobs.

use axum::extract::State;
use axum::response::Response;
use backstop_core::WorkerId;
use backstop_store::WorkerView;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use crate::access::{Caller, Scope};
use crate::api::Api;
use crate::body::{PageLimit, QueryParams, wrong_field};
use crate::error::ApiError;
use crate::page::page;
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{ErrorBody, Items, Worker, cursor};

pub(crate) fn routes(routes: Routes) -> Routes {
    routes.add(RouteNeeds::Right(Scope::Read), routes!(list))
}

/// Which workers, and which page of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct WorkersQuery {
    /// Only those that are live, or only those that are not.
    live: Option<bool>,
    /// Rows of the page at most.
    #[param(inline)]
    limit: Option<PageLimit>,
    /// Go on after this row: `next_cursor` of the page before.
    #[param(max_length = 300)]
    #[serde(deserialize_with = "cursor")]
    cursor: Option<String>,
}

/// Every worker that is live, or was until it stopped renewing its lease: the live ones first, each by name.
///
/// A caller that sees some queues sees the workers of those.
#[utoipa::path(get, path = "/api/v1/workers", tag = "workers", params(WorkersQuery),
    responses((status = 200, body = Items<Worker>), (status = 422, body = ErrorBody)))]
async fn list(
    State(api): State<Api>,
    caller: Caller,
    QueryParams(WorkersQuery { live, limit, cursor }): QueryParams<WorkersQuery>,
) -> Result<Response, ApiError> {
    let after = cursor.as_deref().map(place).transpose()?;
    let mut workers = api.engine().workers().await?;
    workers.retain(|worker| live.is_none_or(|live| worker.live == live));
    let mut reports = api.engine().worker_reports(&workers).await?;
    workers.sort_by(|a, b| (!a.live, &a.name, a.id).cmp(&(!b.live, &b.name, b.id)));
    let behind =
        |worker: &WorkerView| after.is_none_or(|after| (!worker.live, &*worker.name, worker.id) > after);
    let seen = workers.into_iter().filter(behind).filter_map(|worker| {
        let queues: Vec<String> =
            worker.queues.iter().filter_map(|queue| caller.sees(queue).map(str::to_owned)).collect();
        let mut report = reports.remove(&worker.id).unwrap_or_default();
        let slots = std::mem::take(&mut report.slots).into_iter();
        report.slots =
            slots.filter_map(|(queue, slots)| Some((caller.sees(&queue)?.to_owned(), slots))).collect();
        (caller.sees_all() || !queues.is_empty()).then(|| Worker::of(worker, queues, report))
    });
    page(seen, limit.unwrap_or_default(), |last| {
        format!("{}.{}.{}", u8::from(!last.live), last.id, last.name)
    })
}

/// Where a page ended, as its cursor says.
fn place(cursor: &str) -> Result<(bool, &str, WorkerId), ApiError> {
    let read = || {
        let (gone, rest) = cursor.split_once('.')?;
        let (id, name) = rest.split_once('.')?;
        Some((gone == "1", name, id.parse().ok()?))
    };
    read().ok_or_else(|| wrong_field("cursor", "it is not a cursor of this list"))
}
