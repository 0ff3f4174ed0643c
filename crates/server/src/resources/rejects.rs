//! `/api/v1/rejects` and `/api/v1/reject-groups`: items that runs could not handle; `/api/v1/work/reject`: how remote
//! workers tell of them (W9).

use std::io;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use backstop::RemoteReject;
use backstop::rejects::{RejectCursor, RejectFilter, RejectGroup, RejectView};
use tokio::sync::mpsc;
use utoipa_axum::routes;

use super::json_lines::{JsonLines, line};
use super::names::may_reveal;
use crate::access::{Caller, Scope};
use crate::api::Api;
use crate::body::{JsonBody, QueryParams, wrong_field};
use crate::error::ApiError;
use crate::lease::stale;
use crate::page::PageText;
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{
    ErrorBody, Items, RejectAnswer, RejectExportQuery, RejectGroupQuery, RejectItem, RejectQuery,
    RejectRequest,
};

/// Rejects that are read at once.
const STEP: usize = 100;

/// Times that something is read for one page at most; each of them is bounded too.
const MOST_STEPS: usize = 20;

/// Items in one call at most.
const MOST_ITEMS: usize = 1_000;

/// Characters of a key, of the name of a step and of a cursor.
const KEY_CHARS: usize = 512;
const NAME_CHARS: usize = 128;
const CURSOR_CHARS: usize = 300;

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .add(RouteNeeds::Right(Scope::Read), routes!(list))
        .add(RouteNeeds::Right(Scope::Logs), routes!(export))
        .add(RouteNeeds::Right(Scope::Read), routes!(groups))
        .add(RouteNeeds::Right(Scope::Work), routes!(reject))
}

/// A reject as this caller sees it; none when it is not for its eyes.
fn seen(caller: &Caller, mut reject: RejectView) -> Option<RejectView> {
    let queue = caller.sees(&reject.queue)?.to_owned();
    reject.queue = queue;
    Some(reject)
}

fn cursor(text: Option<&str>) -> Result<Option<RejectCursor>, ApiError> {
    let read = |text: &str| {
        let short = text.chars().count() <= CURSOR_CHARS;
        text.parse()
            .ok()
            .filter(|_| short)
            .ok_or_else(|| wrong_field("cursor", "it is not a cursor of this list"))
    };
    text.map(read).transpose()
}

/// Rejects of items, by job and in the order in which they were written. A page may be short and have more behind it.
#[utoipa::path(get, path = "/api/v1/rejects", tag = "rejects", params(RejectQuery),
    responses((status = 200, body = Items<RejectView>)))]
async fn list(
    State(api): State<Api>,
    caller: Caller,
    QueryParams(query): QueryParams<RejectQuery>,
) -> Result<Response, ApiError> {
    may_reveal(&caller, query.reveal)?;
    let rejects = api.engine().rejects();
    let rejects = if query.reveal { rejects.revealed() } else { rejects };
    let tenant = caller.tenant().map(ToString::to_string);
    let filter = RejectFilter { tenant, job: query.job, fingerprint: query.fingerprint };
    let (mut text, mut after) = (PageText::new(), cursor(query.cursor.as_deref())?);
    let mut left = query.limit.rows();
    // What is read for one page is bounded; so it may be short, or even empty, and have more behind it.
    for _ in 0..MOST_STEPS {
        let found = rejects.page(&filter, after.clone(), left.min(STEP)).await?;
        for reject in found.items {
            let place = RejectCursor::of(&reject);
            if let Some(reject) = seen(&caller, reject)
                && !text.add(&reject)?
            {
                return text.finish(after.map(|after| after.to_string()));
            }
            after = Some(place);
            left -= 1;
        }
        match found.next {
            Some(next) => after = Some(next),
            None => return text.finish(None),
        }
        if left == 0 {
            break;
        }
    }
    text.finish(after.map(|after| after.to_string()))
}

/// All rejects of items, one JSON document a line, with kept items in the clear.
#[utoipa::path(get, path = "/api/v1/rejects/export", tag = "rejects", params(RejectExportQuery),
    responses((status = 200, content_type = "application/x-ndjson", body = String)))]
async fn export(
    State(api): State<Api>,
    caller: Caller,
    QueryParams(query): QueryParams<RejectExportQuery>,
) -> Result<Response, ApiError> {
    let tenant = caller.tenant().map(ToString::to_string);
    let filter = RejectFilter { tenant, job: query.job, fingerprint: query.fingerprint };
    // The first page is read before the answer begins, so that an error has its status.
    let first = api.engine().rejects().revealed().page(&filter, None, STEP).await?;
    let (say, lines) = mpsc::channel(2);
    tokio::spawn(async move {
        let mut page = Ok(first);
        loop {
            let (text, next) = match page {
                Ok(found) => (json_lines(&caller, found.items), found.next),
                Err(error) => {
                    let _ = say.send(Err(io::Error::other(error))).await;
                    return;
                }
            };
            if say.send(Ok(text)).await.is_err() || next.is_none() {
                return;
            }
            page = api.engine().rejects().revealed().page(&filter, next, STEP).await;
        }
    });
    Ok(JsonLines(lines).into_response())
}

fn json_lines(caller: &Caller, rejects: Vec<RejectView>) -> Bytes {
    let shown = rejects.into_iter().filter_map(|reject| seen(caller, reject));
    shown.flat_map(|reject| line(&reject)).collect::<Vec<u8>>().into()
}

/// Rejects counted by what they have in common: kind, class and text of the error.
#[utoipa::path(get, path = "/api/v1/reject-groups", tag = "rejects", params(RejectGroupQuery),
    responses((status = 200, body = Items<RejectGroup>)))]
async fn groups(
    State(api): State<Api>,
    caller: Caller,
    QueryParams(query): QueryParams<RejectGroupQuery>,
) -> Result<Response, ApiError> {
    if caller.is_bound_to_queues() {
        let message = "groups gather rejects of all queues, and this token is for some";
        return Err(ApiError::forbidden(message).hint("use a token without a list of queues"));
    }
    if query.cursor.as_ref().is_some_and(|cursor| cursor.chars().count() > CURSOR_CHARS) {
        return Err(wrong_field("cursor", "it is not a cursor of this list"));
    }
    let rejects = api.engine().rejects();
    let mut text = PageText::new();
    if let Some(fingerprint) = &query.fingerprint {
        if let Some(group) = rejects.group(caller.tenant(), fingerprint).await? {
            text.add(&group_of(&caller, group))?;
        }
        return text.finish(None);
    }
    let found = rejects.groups(caller.tenant(), query.cursor, query.limit.rows()).await?;
    let mut last = None;
    for group in found.items {
        let place = RejectGroup::key(&group.queue, &group.fingerprint);
        if !text.add(&group_of(&caller, group))? {
            return text.finish(last);
        }
        last = Some(place);
    }
    text.finish(found.next)
}

/// A group in the caller's names.
fn group_of(caller: &Caller, mut group: RejectGroup) -> RejectGroup {
    if let Some(queue) = caller.sees(&group.queue) {
        group.queue = queue.to_owned();
    }
    group
}

/// Keeps items that a run of a remote worker has rejected; the run goes on. The same items again count once.
#[utoipa::path(post, path = "/api/v1/work/reject", tag = "work", request_body = RejectRequest,
    responses((status = 200, body = RejectAnswer), (status = 400, body = ErrorBody),
        (status = 409, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn reject(
    State(api): State<Api>,
    caller: Caller,
    JsonBody(request): JsonBody<RejectRequest>,
) -> Result<Json<RejectAnswer>, ApiError> {
    if request.items.len() > MOST_ITEMS {
        return Err(wrong_field("items", &format!("there are more than {MOST_ITEMS}")));
    }
    let items = request.items.into_iter().map(item).collect::<Result<Vec<_>, _>>()?;
    let key = api.leases().key(&**api.engine().store()).await?;
    let grant = key.open(&caller, &request.lease).ok_or_else(stale)?;
    let kept = api.engine().remote().reject(&grant, items, request.seen).await?;
    Ok(Json(RejectAnswer { ok: true, over_limit: kept.map_err(|_| stale())? }))
}

fn item(one: RejectItem) -> Result<RemoteReject, ApiError> {
    let texts = [("items.fingerprint", &one.fingerprint, KEY_CHARS), ("items.step", &one.step, NAME_CHARS)];
    for (field, text, most) in texts {
        if text.as_ref().is_some_and(|text| text.chars().count() > most) {
            return Err(wrong_field(field, &format!("it has more than {most} characters")));
        }
    }
    Ok(RemoteReject {
        error: one.error,
        error_type: one.error_type,
        item: one.item,
        key: one.fingerprint,
        step: one.step,
        keep: one.keep,
        count: one.count,
        retries: one.retries,
        retry_limit: one.retry_limit,
        last: one.r#final,
    })
}
