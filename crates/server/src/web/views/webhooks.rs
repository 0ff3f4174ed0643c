//! Webhooks: who is told of events.

use axum::body::Bytes;
use axum::http::Method;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::json;

use super::deliveries::deliveries;
use crate::shape::{Items, WebhookMade, WebhookStanding, WebhookView};
use crate::web::act::check;
use crate::web::actions::{PageFields, WEBHOOK_DELETE};
use crate::web::call::PageProblem;
use crate::web::form;
use crate::web::frame::{PagePlace, heading, no_rows, pages};
use crate::web::visit::PageVisit;
use crate::web::words::{short, when};

pub(in crate::web) async fn list(visit: PageVisit) -> Response {
    let body = body(&visit, None).await;
    visit.show(PagePlace::Webhooks, "Webhooks", body)
}

/// Makes a webhook and shows its secret, once.
pub(in crate::web) async fn make(visit: PageVisit, body_bytes: Bytes) -> Response {
    let form = PageFields::read(&body_bytes);
    let made = async {
        check(&visit, &form)?;
        let mut new = json!({ "url": form.get("url").unwrap_or_default().trim() });
        for name in ["events", "queues"] {
            if let Some(text) = form.get(name) {
                let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
                new[name] = words.collect::<Vec<_>>().into();
            }
        }
        if let Some(tenant) = form.get("tenant") {
            new["tenant"] = tenant.trim().into();
        }
        let answer = visit.calls.change(Method::POST, "/api/v1/webhooks", Some(&new)).await?;
        let made: WebhookMade =
            serde_json::from_value(answer).map_err(|problem| crate::error::internal(&problem))?;
        body(&visit, Some(&made.secret)).await
    };
    let body = made.await;
    visit.show(PagePlace::Webhooks, "Webhooks", body)
}

fn new(visit: &PageVisit) -> Markup {
    html! {
        @if visit.allows("POST /api/v1/webhooks") {
            details.confirm {
                summary { "New webhook…" }
                form.act action="/webhooks" method="post" {
                    input type="hidden" name="proof" value=(visit.proof());
                    p { "It is told of every such event from then on, each message signed." }
                    (form::text("url", "Address", "", "https://…"))
                    (form::text("events", "Events", "", "all; or names between commas"))
                    (form::text("queues", "Queues", "", "all; or names between commas"))
                    (form::text("tenant", "Tenant", "", "all"))
                    button.sure { "Make it" }
                }
            }
        }
    }
}

/// What waits before it becomes a delivery, and what never will.
fn waiting(standing: &WebhookStanding) -> Markup {
    html! {
        (standing.backlog)
        @if standing.refused > 0 { ", " (standing.refused) " refused" }
        @if let Some(error) = &standing.last_error { ": " (short(error, 120)) }
    }
}

async fn body(visit: &PageVisit, secret: Option<&str>) -> Result<Markup, PageProblem> {
    let found: Items<WebhookView> =
        visit.calls.get(&visit.path("/api/v1/webhooks", &["cursor"], &[("limit", "100")])).await?;
    let words = |some: &Option<Vec<String>>| {
        some.as_ref().map_or_else(|| "all".to_owned(), |some| short(&some.join(", "), 120))
    };
    Ok(html! {
        (heading("Webhooks", &html! { "Addresses that are told of events, each message signed." }, &html! {}))
        @if let Some(secret) = secret {
            p.done role="status" {
                "This is the key that its messages are signed with. It is shown now and never again: "
                code data-copy=(secret) { (secret) }
            }
        }
        (new(visit))
        @if found.items.is_empty() { (no_rows("webhooks", "No webhooks yet.")) }
        @else { div.wide tabindex="0" { table {
            thead {
                tr {
                    th { "Address" } th { "Events" } th { "Queues" } th { "Tenant" } th { "Waiting" } th { "Made" }
                    th { "Change" }
                }
            }
            tbody data-rows="webhooks" { @for one in &found.items {
                tr data-key=(one.id) {
                    td.what { code { (short(&one.address, 120)) } }
                    td { (words(&one.events)) } td { (words(&one.queues)) }
                    td { @if let Some(tenant) = &one.tenant { (short(tenant, 40)) } @else { "all" } }
                    td { (waiting(&one.standing)) }
                    td { (when(visit.now, one.created_at)) " by " (short(&one.created_by, 40)) }
                    td {
                        (visit.confirmed(
                            &WEBHOOK_DELETE,
                            &[("id", &one.id)],
                            "Remove",
                            "It is told of nothing more; what was not delivered yet is dropped.",
                            &html! {},
                        ))
                    }
                }
            } }
        } } }
        (pages(visit, "/webhooks", &[], found.next_cursor.as_deref()))
        (deliveries(visit, &found.items).await?)
    })
}
