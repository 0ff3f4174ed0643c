//! `/api/v1/events`: what happens, as it happens, for whoever listens.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use backstop::{EventKind, JobId};
use serde_json::json;
use utoipa_axum::routes;

use crate::access::{Caller, Scope};
use crate::api::Api;
use crate::body::QueryParams;
use crate::error::ApiError;
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::EventQuery;
use crate::stream::{EventFilter, ResumePoint};

/// Names in one list of a filter at most.
const MOST_NAMES: usize = 100;

pub(crate) fn routes(routes: Routes) -> Routes {
    routes.add(RouteNeeds::Right(Scope::Read), routes!(events))
}

/// Events as server-sent events, from now on or behind `Last-Event-ID`, which any process of the store may have given.
/// It tells of what every process does; when events are missing, an event `gap` says so.
#[utoipa::path(get, path = "/api/v1/events", tag = "events", params(EventQuery,
        ("last-event-id" = Option<String>, Header,
            description = "Continue after this id; takes precedence over `after`.")),
    responses((status = 200, content_type = "text/event-stream", body = String),
        (status = 422, body = crate::shape::ErrorBody), (status = 503, body = crate::shape::ErrorBody)))]
async fn events(
    State(api): State<Api>,
    caller: Caller,
    headers: HeaderMap,
    QueryParams(query): QueryParams<EventQuery>,
) -> Result<Response, ApiError> {
    // A browser that comes back sends the address it was given at first, and a header that is newer.
    let header = headers.get("last-event-id").map(|value| String::from_utf8_lossy(value.as_bytes()).into());
    let after = header.or_else(|| query.after.clone()).map_or(ResumePoint::Now, ResumePoint::Id);
    let filter = filter(&caller, &query)?;
    let watched = api.tokens().watch();
    let subscriber = api.reporting().hub.subscribe(api.engine(), caller, filter, &after).await?;
    let mut response = Body::new(subscriber.watched(watched)).into_response();
    let fixed = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // nginx would hold events back until its buffer is full.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}

fn filter(caller: &Caller, query: &EventQuery) -> Result<EventFilter, ApiError> {
    let queues = names("queue", query.queue.as_deref())?;
    let queues = queues.map(|names| names.iter().map(|name| caller.queue(name)).collect::<Result<_, _>>());
    let events = names("event", query.event.as_deref())?;
    if let Some(unknown) = events.iter().flatten().find(|name| !EventKind::NAMES.contains(&name.as_str())) {
        let message = format!("there is no event `{}`", unknown.chars().take(40).collect::<String>());
        let details = json!({ "field": "event", "known": EventKind::NAMES });
        return Err(ApiError::invalid(message).hint("details.known lists every event").details(details));
    }
    let job = query.job.as_deref().map(|text| {
        text.parse::<JobId>()
            .map_err(|_| ApiError::invalid("`job` is not a job id").details(json!({ "field": "job" })))
    });
    Ok(EventFilter {
        queues: queues.transpose()?,
        kinds: names("kind", query.kind.as_deref())?,
        events,
        job: job.transpose()?,
    })
}

/// The names of a list with commas.
fn names(field: &'static str, list: Option<&str>) -> Result<Option<Vec<String>>, ApiError> {
    let Some(list) = list else { return Ok(None) };
    let names: Vec<String> = list.split(',').map(|name| name.trim().to_owned()).collect();
    let refuse = |message: String| Err(ApiError::invalid(message).details(json!({ "field": field })));
    match names.len() {
        _ if names.iter().any(String::is_empty) => refuse(format!("`{field}` has an empty name")),
        0..=MOST_NAMES => Ok(Some(names)),
        count => refuse(format!("`{field}` has {count} names, the limit is {MOST_NAMES}")),
    }
}
