//! `/api/v1/alerts`: what each channel was told of each incident, and what it has yet to be told (D3).

use axum::extract::State;
use axum::response::Response;
use backstop::IncidentAlertLog;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use crate::access::Scope;
use crate::api::Api;
use crate::body::{PageLimit, QueryParams, wrong_field};
use crate::error::ApiError;
use crate::page::whole;
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{Alert, ErrorBody, Items};

/// No key of an account is longer.
const LONGEST_CURSOR: usize = 300;

pub(crate) fn routes(routes: Routes) -> Routes {
    routes.add(RouteNeeds::RightOverAll(Scope::Read), routes!(list))
}

/// Which page of the alerts.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Page {
    /// How many rows at most.
    limit: PageLimit,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
}

/// What each channel was told of each incident: by channel, and first what has yet to be told.
#[utoipa::path(get, path = "/api/v1/alerts", tag = "alerts", params(Page),
    responses((status = 200, body = Items<Alert>), (status = 422, body = ErrorBody)))]
async fn list(State(api): State<Api>, QueryParams(page): QueryParams<Page>) -> Result<Response, ApiError> {
    if page.cursor.as_ref().is_some_and(|cursor| cursor.is_empty() || cursor.len() > LONGEST_CURSOR) {
        return Err(wrong_field("cursor", "it is not a next_cursor of this list"));
    }
    let mut limit = page.limit.rows();
    loop {
        let found = api.engine().incidents().alerts(page.cursor.clone(), limit).await?;
        let rows: Vec<Alert> = found.items.into_iter().map(shown).collect();
        match whole(&rows, limit, found.next)? {
            Ok(answer) => return Ok(answer),
            Err(fewer) => limit = fewer,
        }
    }
}

fn shown(account: IncidentAlertLog) -> Alert {
    let IncidentAlertLog { incident, log, .. } = account;
    Alert {
        incident,
        channel: log.channel,
        told: log.told,
        told_at: log.told_at,
        suppressed: log.suppressed,
        muted: log.muted,
        dropped: log.dropped,
        waiting: log.waiting,
        failures: log.failures,
        next_try: log.next_try,
        trouble: log.trouble,
    }
}
