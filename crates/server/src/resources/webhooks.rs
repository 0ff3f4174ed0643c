//! `/api/v1/webhooks`: who is told of events by HTTP (V2).

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstop::sinks::{SinkProblem, SinkView};
use backstop::{EventKind, Webhook};
use serde_json::json;
use utoipa_axum::routes;

use crate::access::{Caller, Scope};
use crate::api::Api;
use crate::body::{JsonBody, PathParams, QueryParams};
use crate::error::{ApiError, internal};
use crate::page::{behind, page};
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{Changed, Items, NewWebhook, PageQuery, WebhookMade, WebhookStanding, WebhookView};
use crate::webhooks::subscription::{self, MOST, Subscription};

/// Names in one list at most.
const MOST_NAMES: usize = 100;

pub(crate) fn routes(routes: Routes) -> Routes {
    // A receiver's address is reached from this machine's own network, so no tenant may name one.
    let needs = RouteNeeds::RightOverAll(Scope::Admin);
    routes.add(needs, routes!(list, make)).add(needs, routes!(remove))
}

/// Every webhook, without secrets, and what waits for each.
#[utoipa::path(get, path = "/api/v1/webhooks", tag = "webhooks", params(PageQuery),
    responses((status = 200, body = Items<WebhookView>), (status = 422, body = crate::shape::ErrorBody)))]
async fn list(
    State(api): State<Api>,
    QueryParams(PageQuery { limit, cursor }): QueryParams<PageQuery>,
) -> Result<Response, ApiError> {
    let engine = api.engine();
    let sinks = engine.sinks().webhooks().await?;
    let of_webhook = |sink: SinkView| Some((sink.sink.webhook()?.to_owned(), WebhookStanding::from(sink)));
    let mut standing: BTreeMap<String, WebhookStanding> = sinks.into_iter().filter_map(of_webhook).collect();
    let stored = subscription::all(&**engine.store()).await?;
    let rows = stored.into_iter().map(|one| {
        // One without a sink is a moment old, or was made by an older server: nothing waits for it yet.
        let standing = standing.remove(&one.id).unwrap_or_default();
        view(one, standing)
    });
    let rows = rows.collect();
    page(behind(rows, cursor.as_deref(), |last| last.id.clone())?, limit.unwrap_or_default(), |last| {
        last.id.clone()
    })
}

/// Makes a webhook. The secret is in this answer and in no other.
#[utoipa::path(post, path = "/api/v1/webhooks", tag = "webhooks", request_body = NewWebhook,
    responses((status = 201, body = WebhookMade), (status = 400, body = crate::shape::ErrorBody),
        (status = 409, body = crate::shape::ErrorBody), (status = 415, body = crate::shape::ErrorBody),
        (status = 422, body = crate::shape::ErrorBody)))]
async fn make(
    State(api): State<Api>,
    caller: Caller,
    JsonBody(wanted): JsonBody<NewWebhook>,
) -> Result<(StatusCode, Json<WebhookMade>), ApiError> {
    let store = &**api.engine().store();
    check(&wanted)?;
    let secret = Webhook::new_secret().ok_or_else(|| {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "this machine returned no random bytes")
    })?;
    Webhook::new(&wanted.url, &[&secret]).map_err(|problem| invalid("url", problem.to_string()))?;
    let way_out = &api.settings().reporting.webhooks;
    way_out.admits(wanted.url.trim()).map_err(|problem| invalid("url", problem))?;
    if subscription::all(store).await?.len() >= MOST {
        return Err(too_many());
    }
    let qualify = |name: String| match &wanted.tenant {
        Some(tenant) => format!("{tenant}/{name}"),
        None => name,
    };
    let made = Subscription {
        id: format!("wh_{}", backstop::job_id()),
        url: wanted.url.trim().to_owned(),
        secret: secret.clone(),
        events: wanted.events,
        queues: wanted.queues.map(|names| names.into_iter().map(qualify).collect()),
        tenant: wanted.tenant.clone(),
        created_at: store.now().await?,
        created_by: caller.name().to_owned(),
    };
    subscription::add(api.engine().sinks(), &made).await.map_err(|problem| match problem {
        SinkProblem::Store(error) => error.into(),
        SinkProblem::TooMany => too_many(),
        other => internal(&other),
    })?;
    // What happens after the answer is told.
    api.reporting().webhooks.reload().await;
    Ok((StatusCode::CREATED, Json(WebhookMade { webhook: view(made, WebhookStanding::default()), secret })))
}

/// Removes a webhook, with what waits for it. Deliveries that are jobs already are canceled when their turn comes.
#[utoipa::path(delete, path = "/api/v1/webhooks/{id}", tag = "webhooks",
    params(("id" = String, Path, description = "The webhook.")),
    responses((status = 200, body = Changed), (status = 404, body = crate::shape::ErrorBody)))]
async fn remove(
    State(api): State<Api>,
    PathParams(id): PathParams<String>,
) -> Result<Json<Changed>, ApiError> {
    if subscription::one(&**api.engine().store(), &id).await?.is_none() {
        return Err(ApiError::not_found("no_such_webhook", "there is no such webhook")
            .hint("GET /api/v1/webhooks lists them"));
    }
    subscription::remove(api.engine().sinks(), &id).await?;
    api.reporting().webhooks.reload().await;
    Ok(Json(Changed { changed: true, status: "removed".to_owned() }))
}

fn too_many() -> ApiError {
    let message = format!("there are {MOST} webhooks already");
    ApiError::new(StatusCode::CONFLICT, "too_many_webhooks", message).hint("remove one first")
}

fn view(subscription: Subscription, standing: WebhookStanding) -> WebhookView {
    let address = Webhook::new(&subscription.url, &[&subscription.secret]);
    WebhookView {
        id: subscription.id,
        address: address.map(|webhook| webhook.shown()).unwrap_or_default(),
        events: subscription.events,
        queues: subscription.queues,
        tenant: subscription.tenant,
        created_at: subscription.created_at,
        created_by: subscription.created_by,
        standing,
    }
}

fn check(wanted: &NewWebhook) -> Result<(), ApiError> {
    for (field, list) in [("events", &wanted.events), ("queues", &wanted.queues)] {
        let Some(list) = list else { continue };
        if list.is_empty() || list.len() > MOST_NAMES {
            return Err(invalid(field, format!("it needs 1 to {MOST_NAMES} names; leave it out for all")));
        }
        if list.iter().any(|name| name.is_empty() || name.chars().count() > 255) {
            return Err(invalid(field, "it has a name that is empty or too long".to_owned()));
        }
    }
    if let Some(unknown) =
        wanted.events.iter().flatten().find(|name| !EventKind::NAMES.contains(&name.as_str()))
    {
        let shown: String = unknown.chars().take(40).collect();
        let details = json!({ "field": "events", "known": EventKind::NAMES });
        return Err(ApiError::invalid(format!("there is no event `{shown}`")).details(details));
    }
    let letters =
        |tenant: &str| tenant.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if wanted.tenant.as_ref().is_some_and(|tenant| !(1..=32).contains(&tenant.len()) || !letters(tenant)) {
        return Err(invalid("tenant", "a tenant's name has 1 to 32 of a-z, 0-9 and -".to_owned()));
    }
    Ok(())
}

fn invalid(field: &'static str, problem: String) -> ApiError {
    ApiError::invalid(format!("{field} is invalid: {problem}")).details(json!({ "field": field }))
}
