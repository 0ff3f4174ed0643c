//! `/api/v1/bridges`: brokers whose messages become jobs, and that are told what became of jobs; whichever process runs
//! them. A bridge is about everybody's jobs.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use backstop::bridges::{BridgeRefusal, InvalidMessage};
use backstop_store::Page;
use tokio::sync::mpsc;
use utoipa_axum::routes;

use super::json_lines::{JsonLines, line};
use super::names::may_reveal;
use crate::access::{Caller, Scope};
use crate::api::Api;
use crate::body::{JsonBody, PathParams, QueryParams, wrong_field};
use crate::error::ApiError;
use crate::page::{PageSteps, behind, page};
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{
    BridgeJson, BridgeTestJson, DeletedJson, ErrorBody, InvalidJson, InvalidPurge, InvalidPurged,
    InvalidQuery, Items, PageQuery, PlanActor,
};

/// Messages that are removed in one call at most.
const MOST_PURGED: usize = 500;

/// Messages that an export reads at once: each may have four megabytes.
const EXPORT_STEP: usize = 4;

/// Characters of a key and of a cursor.
const KEY_CHARS: usize = 300;

pub(crate) fn routes(routes: Routes) -> Routes {
    let (look, change) = (RouteNeeds::RightOverAll(Scope::Read), RouteNeeds::RightOverAll(Scope::Operate));
    routes
        .add(look, routes!(list_bridges))
        .add(look, routes!(show_bridge))
        .add(RouteNeeds::RightOverAll(Scope::Admin), routes!(remove_bridge))
        .add(change, routes!(pause_bridge))
        .add(change, routes!(resume_bridge))
        .add(change, routes!(test_bridge))
        .add(look, routes!(invalid_messages))
        .add(RouteNeeds::RightOverAll(Scope::Logs), routes!(export_invalid))
        .add(RouteNeeds::RightOverAll(Scope::Admin), routes!(purge_invalid))
}

fn no_such_bridge(name: &str) -> ApiError {
    BridgeRefusal::Unknown(name.to_owned()).into()
}

/// Every bridge that a process runs or has run, by name.
#[utoipa::path(get, path = "/api/v1/bridges", tag = "bridges", params(PageQuery),
    responses((status = 200, body = Items<BridgeJson>), (status = 422, body = ErrorBody)))]
async fn list_bridges(
    State(api): State<Api>,
    QueryParams(PageQuery { limit, cursor }): QueryParams<PageQuery>,
) -> Result<Response, ApiError> {
    let rows = api.engine().bridges().list().await?;
    let rows: Vec<BridgeJson> = rows.into_iter().map(BridgeJson::from).collect();
    let name = |row: &BridgeJson| row.name.clone();
    page(behind(rows, cursor.as_deref(), name)?, limit.unwrap_or_default(), name)
}

/// One bridge.
#[utoipa::path(get, path = "/api/v1/bridges/{name}", tag = "bridges",
    params(("name" = String, Path, description = "The bridge.")),
    responses((status = 200, body = BridgeJson),
        (status = 404, description = "No process has run it.", body = ErrorBody)))]
async fn show_bridge(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
) -> Result<Json<BridgeJson>, ApiError> {
    let found = api.engine().bridges().show(&name).await?;
    found.map(|view| Json(view.into())).ok_or_else(|| no_such_bridge(&name))
}

/// Removes a bridge that no process runs, with the messages that wait to be published for it. A process whose settings
/// still have it makes it known again when it starts.
#[utoipa::path(delete, path = "/api/v1/bridges/{name}", tag = "bridges",
    params(("name" = String, Path, description = "The bridge.")),
    responses((status = 200, body = DeletedJson),
        (status = 404, description = "No process has run it.", body = ErrorBody),
        (status = 409, description = "A process runs it, or it keeps messages that could not become jobs.",
            body = ErrorBody)))]
async fn remove_bridge(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
) -> Result<Json<DeletedJson>, ApiError> {
    let dropped = api.engine().bridges().remove(&name).await?;
    Ok(Json(DeletedJson { name, dropped }))
}

/// Pauses a bridge in every process, within five seconds: it takes no messages and publishes none.
#[utoipa::path(post, path = "/api/v1/bridges/{name}/pause", tag = "bridges",
    params(("name" = String, Path, description = "The bridge.")), request_body = Option<PlanActor>,
    responses((status = 200, body = BridgeJson),
        (status = 404, description = "No process has run it.", body = ErrorBody)))]
async fn pause_bridge(
    State(api): State<Api>,
    caller: Caller,
    PathParams(name): PathParams<String>,
    body: Option<JsonBody<PlanActor>>,
) -> Result<Json<BridgeJson>, ApiError> {
    let by = caller.signs(body.and_then(|JsonBody(body)| body.by).as_deref());
    Ok(Json(api.engine().bridges().pause(&name, &by).await?.into()))
}

/// Resumes a bridge in every process, within five seconds.
#[utoipa::path(post, path = "/api/v1/bridges/{name}/resume", tag = "bridges",
    params(("name" = String, Path, description = "The bridge.")),
    responses((status = 200, body = BridgeJson),
        (status = 404, description = "No process has run it.", body = ErrorBody)))]
async fn resume_bridge(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
) -> Result<Json<BridgeJson>, ApiError> {
    Ok(Json(api.engine().bridges().resume(&name).await?.into()))
}

/// Tests a bridge: its broker is reached, takes the credentials and has the queues. No message is taken or sent. It is
/// answered at once when this process runs the bridge, and by one that does otherwise, within 25 seconds.
#[utoipa::path(post, path = "/api/v1/bridges/{name}/test", tag = "bridges",
    params(("name" = String, Path, description = "The bridge.")),
    responses((status = 200, body = BridgeTestJson),
        (status = 404, description = "No process has run it.", body = ErrorBody),
        (status = 409, description = "No process runs it.", body = ErrorBody)))]
async fn test_bridge(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
) -> Result<Json<BridgeTestJson>, ApiError> {
    Ok(Json(api.engine().bridges().test(&name).await?.into()))
}

/// Messages that could not become jobs, by key. A page may be short and have more behind it.
#[utoipa::path(get, path = "/api/v1/bridges/{name}/invalid", tag = "bridges",
    params(("name" = String, Path, description = "The bridge."), InvalidQuery),
    responses((status = 200, body = Items<InvalidJson>),
        (status = 404, description = "No process has run it.", body = ErrorBody)))]
async fn invalid_messages(
    State(api): State<Api>,
    caller: Caller,
    PathParams(name): PathParams<String>,
    QueryParams(query): QueryParams<InvalidQuery>,
) -> Result<Response, ApiError> {
    may_reveal(&caller, query.reveal)?;
    if query.cursor.as_ref().is_some_and(|cursor| cursor.chars().count() > KEY_CHARS) {
        return Err(wrong_field("cursor", "it is not a cursor of this list"));
    }
    known(&api, &name).await?;
    let channel = api.engine().bridges().invalid();
    let mut steps = PageSteps::<String>::new(Some(query.limit), query.cursor);
    while let Some(request) = steps.next() {
        let found = channel.page(&name, request.after.as_deref(), request.limit).await?;
        let found = Page { items: found.items, next: found.next };
        steps.take(found, |message: InvalidMessage| {
            let (key, bytes) = (message.key.clone(), message.body.len());
            (key, bytes, Some(InvalidJson::of(message, query.reveal)))
        })?;
    }
    steps.finish()
}

/// All messages that could not become jobs, one JSON document a line, with their raw bytes in base64.
#[utoipa::path(get, path = "/api/v1/bridges/{name}/invalid/export", tag = "bridges",
    params(("name" = String, Path, description = "The bridge.")),
    responses((status = 200, content_type = "application/x-ndjson", body = String),
        (status = 404, description = "No process has run it.", body = ErrorBody)))]
async fn export_invalid(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
) -> Result<Response, ApiError> {
    known(&api, &name).await?;
    let channel = api.engine().bridges().invalid();
    // The first page is read before the answer begins, so that an error has its status.
    let first = channel.page(&name, None, EXPORT_STEP).await?;
    let (say, lines) = mpsc::channel(2);
    tokio::spawn(async move {
        let mut page = Ok(first);
        loop {
            let (text, next) = match page {
                Ok(found) => {
                    let shown = found.items.into_iter().map(|message| InvalidJson::of(message, true));
                    (shown.flat_map(|message| line(&message)).collect::<Vec<u8>>(), found.next)
                }
                Err(error) => {
                    let _ = say.send(Err(std::io::Error::other(error))).await;
                    return;
                }
            };
            if say.send(Ok(text.into())).await.is_err() || next.is_none() {
                return;
            }
            page = channel.page(&name, next.as_deref(), EXPORT_STEP).await;
        }
    });
    Ok(JsonLines(lines).into_response())
}

/// Removes messages from an invalid channel: a source whose channel is full goes on when there is room.
#[utoipa::path(post, path = "/api/v1/bridges/{name}/invalid/purge", tag = "bridges",
    params(("name" = String, Path, description = "The bridge.")), request_body = InvalidPurge,
    responses((status = 200, body = InvalidPurged), (status = 422, body = ErrorBody),
        (status = 404, description = "No process has run it.", body = ErrorBody)))]
async fn purge_invalid(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
    JsonBody(InvalidPurge { keys }): JsonBody<InvalidPurge>,
) -> Result<Json<InvalidPurged>, ApiError> {
    if keys.is_empty() || keys.len() > MOST_PURGED {
        return Err(wrong_field("keys", &format!("give between 1 and {MOST_PURGED} of them")));
    }
    known(&api, &name).await?;
    let mut keys: Vec<String> = keys.into_iter().filter(|key| key.len() <= KEY_CHARS).collect();
    keys.sort_unstable();
    keys.dedup();
    let removed = api.engine().bridges().invalid().remove(&name, &keys).await?;
    Ok(Json(InvalidPurged { removed }))
}

/// A channel may outlive what is known of its bridge: nothing in it is lost then.
async fn known(api: &Api, name: &str) -> Result<(), ApiError> {
    let bridges = api.engine().bridges();
    let is_known = bridges.invalid().count(name).await? > 0 || bridges.show(name).await?.is_some();
    if is_known { Ok(()) } else { Err(no_such_bridge(name)) }
}

impl From<BridgeRefusal> for ApiError {
    fn from(refusal: BridgeRefusal) -> Self {
        let message = refusal.to_string();
        match refusal {
            BridgeRefusal::Store(error) => error.into(),
            BridgeRefusal::Unknown(_) => Self::not_found("no_such_bridge", message)
                .hint("a bridge is known when a process that has it in its settings has started"),
            BridgeRefusal::NotRunning { .. } => {
                Self::new(StatusCode::CONFLICT, "bridge_not_running", message).hint(
                    "start a process that has the bridge in its settings: `backstop up` or `backstop work`",
                )
            }
            BridgeRefusal::NoAnswer(_) => Self::new(StatusCode::SERVICE_UNAVAILABLE, "no_answer", message)
                .hint("look at the processes of the bridge, and try again")
                .retry_after(5),
            BridgeRefusal::Running { .. } => Self::new(StatusCode::CONFLICT, "bridge_running", message)
                .hint("take it out of the settings of every process that runs it, restart those, and try again"),
            BridgeRefusal::KeepsInvalid { .. } => {
                Self::new(StatusCode::CONFLICT, "bridge_keeps_invalid", message).hint(
                    "export them with `backstop bridge invalid NAME --export`, remove them with --purge-all, and try \
                     again",
                )
            }
            _ => Self::new(StatusCode::CONFLICT, "bridge_changing", message),
        }
    }
}
