//! Webhooks: who is told of events.

use axum::response::Response;
use maud::{Markup, html};

use crate::shape::{Items, WebhookView};
use crate::web::actions::WEBHOOK_DELETE;
use crate::web::call::PageProblem;
use crate::web::frame::{PagePlace, empty, heading, pages};
use crate::web::visit::PageVisit;
use crate::web::words::{short, when};

pub(in crate::web) async fn list(visit: PageVisit) -> Response {
    let body = body(&visit).await;
    visit.show(PagePlace::Webhooks, "Webhooks", body)
}

async fn body(visit: &PageVisit) -> Result<Markup, PageProblem> {
    let found: Items<WebhookView> =
        visit.calls.get(&visit.path("/api/v1/webhooks", &["cursor"], &[("limit", "100")])).await?;
    let words = |some: &Option<Vec<String>>| {
        some.as_ref().map_or_else(|| "all".to_owned(), |some| short(&some.join(", "), 120))
    };
    Ok(html! {
        (heading("Webhooks", &html! { "Addresses that are told of events, each message signed." }, &html! {}))
        @if found.items.is_empty() { (empty("No webhooks yet.")) }
        @else { div.wide tabindex="0" { table {
            thead { tr { th { "Address" } th { "Events" } th { "Queues" } th { "Made" } th { "Change" } } }
            tbody data-rows="webhooks" { @for one in &found.items {
                tr data-key=(one.id) {
                    td.what { code { (short(&one.address, 120)) } }
                    td { (words(&one.events)) } td { (words(&one.queues)) }
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
    })
}
