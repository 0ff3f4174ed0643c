//! `/api/v1/retention`: how long what is over is kept, and what the next round of maintenance takes (L16, D5). It is
//! about everybody's jobs.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use backstop::{Backstop, Config};
use backstop_store::{Error as StoreError, JobFilter};
use utoipa_axum::routes;

use crate::access::Scope;
use crate::api::Api;
use crate::body::QueryParams;
use crate::error::ApiError;
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{ErrorBody, Items, RetentionJson, RetentionOf, RetentionQuery};

/// Jobs that one round of maintenance takes at most: 20 batches of 500. More are not counted.
const ROUND: usize = 10_000;

pub(crate) fn routes(routes: Routes) -> Routes {
    routes.add(RouteNeeds::RightOverAll(Scope::Read), routes!(list))
}

/// How long everything is kept that is over, by what this server was told; workers with other settings keep it by
/// theirs.
///
/// With `count=true` it is said of jobs how many the next round takes. That reads the jobs, unlike the rest.
#[utoipa::path(get, path = "/api/v1/retention", tag = "retention", params(RetentionQuery),
    responses((status = 200, body = Items<RetentionJson>), (status = 422, body = ErrorBody)))]
async fn list(
    State(api): State<Api>,
    QueryParams(RetentionQuery { count }): QueryParams<RetentionQuery>,
) -> Result<Json<Items<RetentionJson>>, ApiError> {
    let engine = api.engine();
    let mut rows = Vec::new();
    for (what, keep) in spans(engine.config()) {
        let due = if count { due(engine, what, keep).await? } else { None };
        let keep_ms = keep.map(|keep| u64::try_from(keep.as_millis()).unwrap_or(u64::MAX));
        rows.push(RetentionJson { what, keep_ms, due });
    }
    Ok(Json(Items::all(rows)))
}

/// Everything that has an end, and how long it stays after that; none for ever.
fn spans(config: &Config) -> [(RetentionOf, Option<Duration>); 11] {
    let (jobs, over) = (config.retention, config.retirement);
    [
        (RetentionOf::Succeeded, jobs.succeeded),
        (RetentionOf::Canceled, jobs.canceled),
        (RetentionOf::Failed, jobs.failed),
        (RetentionOf::Archived, jobs.archive),
        (RetentionOf::Plans, over.plans),
        (RetentionOf::Incidents, over.incidents),
        (RetentionOf::Queues, over.queues),
        (RetentionOf::Workflows, over.workflows),
        (RetentionOf::Rejects, over.rejects),
        (RetentionOf::Signals, Some(config.signals.keep)),
        (RetentionOf::AuditLog, config.audit_retention),
    ]
}

/// How many jobs of a sort the next round takes; none for what is not counted.
async fn due(
    engine: &Backstop,
    what: RetentionOf,
    keep: Option<Duration>,
) -> Result<Option<u64>, StoreError> {
    let Some(state) = what.state() else {
        if what != RetentionOf::Archived {
            return Ok(None);
        }
        let Some(keep) = keep else { return Ok(Some(0)) };
        let jobs = engine.archive().prunable(keep, ROUND).await?;
        return Ok(Some(u64::try_from(jobs).unwrap_or(u64::MAX)));
    };
    let now = engine.store().now().await?;
    let Some(cutoff) = engine.config().retention.cutoff(state, now) else { return Ok(Some(0)) };
    // Whose time is over this very moment goes, too.
    let before = cutoff.after(Duration::from_micros(1));
    let filter = JobFilter { state: Some(state), finished_before: Some(before), ..JobFilter::default() };
    Ok(Some(engine.archive().survey(filter, ROUND).await?.jobs()))
}
