//! What was sent to webhooks: each message is a job of our own, and what became of it is what became of the job.

use std::collections::HashMap;

use backstop::State;
use backstop_core::job::JobJson;
use maud::{Markup, html};
use serde_json::Value;

use crate::shape::{Items, WebhookView};
use crate::web::call::PageProblem;
use crate::web::frame::no_rows;
use crate::web::visit::PageVisit;
use crate::web::words::{none, number, short, short_id, state, when};

/// The kind of the jobs that deliver.
const KIND: &str = "backstop.webhook";

/// How the type of every message begins.
const EVENT: &str = "backstop.event.";

/// The latest messages to all of them, whoever they were for.
pub(super) async fn deliveries(visit: &PageVisit, webhooks: &[WebhookView]) -> Result<Markup, PageProblem> {
    // A message is shown by its type alone: that stands in its beginning, but JSON that was cut is none.
    let path = visit.path("/api/v1/jobs", &[], &[("kind", KIND), ("limit", "25"), ("data_limit", "65536")]);
    let found: Items<JobJson> = visit.calls.get(&path).await?;
    let addresses: HashMap<&str, &str> =
        webhooks.iter().map(|one| (one.id.as_str(), one.address.as_str())).collect();
    Ok(html! {
        h2 { "What was sent" }
        @if found.items.is_empty() { (no_rows("deliveries", "No message was sent yet.")) }
        @else {
            div.wide tabindex="0" { table {
                thead {
                    tr {
                        th { "Message" } th { "Event" } th { "To" } th { "Outcome" } th { "Answer" } th.n { "Tries" }
                        th { "Sent, or tried again" }
                    }
                }
                tbody data-rows="deliveries" { @for job in &found.items { (row(visit, job, &addresses)) } }
            } }
            p { a href={ "/jobs?kind=" (KIND) } { "All messages" } }
        }
    })
}

fn row(visit: &PageVisit, job: &JobJson, addresses: &HashMap<&str, &str>) -> Markup {
    let said = |pointer: &str| job.payload.pointer(pointer).and_then(Value::as_str);
    let event = said("/message/type").map(|event| event.strip_prefix(EVENT).unwrap_or(event));
    let webhook = said("/webhook").unwrap_or_default();
    html! {
        tr data-key=(job.id) {
            td { a href={ "/jobs/" (job.id) } { code { (short_id(&job.id.to_string())) } } }
            td { @if let Some(event) = event { (short(event, 60)) } @else { (none()) } }
            td.what { code { (short(addresses.get(webhook).copied().unwrap_or(webhook), 120)) } }
            td { (state(job.status)) }
            td.what { (answer(job)) }
            td.n { (number(u64::from(job.runs))) }
            td { (when(visit.now, job.finished_at.unwrap_or(job.run_at))) }
        }
    }
}

/// What its receiver answered last.
fn answer(job: &JobJson) -> Markup {
    html! {
        @if let Some(error) = &job.last_error { (short(error, 200)) }
        @else if job.status == State::Succeeded { "taken" }
        @else { (none()) }
    }
}
