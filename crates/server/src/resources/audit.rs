//! `/api/v1/audit`: who changed what. There is no route that changes or removes a line.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use crate::access::Scope;
use crate::api::Api;
use crate::audit::{AuditEntry, AuditPosition};
use crate::body::{PageLimit, QueryParams, wrong_field};
use crate::error::ApiError;
use crate::page::whole;
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{AuditLine, Items};

pub(crate) fn routes(routes: Routes) -> Routes {
    routes.add(RouteNeeds::RightOverAll(Scope::Admin), routes!(list))
}

/// Which page of the log.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Page {
    /// How many lines at most.
    limit: PageLimit,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
}

/// Every call that changed something, newest first.
#[utoipa::path(get, path = "/api/v1/audit", tag = "audit", params(Page),
    responses((status = 200, body = Items<AuditLine>), (status = 422, body = crate::shape::ErrorBody)))]
async fn list(State(api): State<Api>, QueryParams(page): QueryParams<Page>) -> Result<Response, ApiError> {
    let after = page.cursor.as_deref().map(place).transpose()?;
    let mut limit = page.limit.rows();
    loop {
        let (lines, next) = api.door().audit.page(after.clone(), limit).await?;
        let rows: Vec<AuditLine> = lines.into_iter().map(shown).collect();
        let next = next.map(|place| format!("{}.{}", place.key, place.skip));
        match whole(&rows, limit, next)? {
            Ok(answer) => return Ok(answer),
            Err(fewer) => limit = fewer,
        }
    }
}

fn place(cursor: &str) -> Result<AuditPosition, ApiError> {
    let plain = |key: &str| key.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let parsed = cursor.rsplit_once('.').and_then(|(key, skip)| {
        let usable = (1..=100).contains(&key.len()) && plain(key);
        usable.then_some(AuditPosition { key: key.to_owned(), skip: skip.parse().ok()? })
    });
    parsed.ok_or_else(|| wrong_field("cursor", "it is not a next_cursor of this list"))
}

fn shown(line: AuditEntry) -> AuditLine {
    let AuditEntry { at, who, tenant, method, route, path, status, from, count, what } = line;
    let from = from.map(|from| from.to_string());
    AuditLine { at, who, tenant, method, route, path, status, from, count, what }
}
