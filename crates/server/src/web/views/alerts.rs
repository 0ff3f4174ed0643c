//! Alerts: what each channel was told of each incident.

use axum::response::Response;
use backstop::TerminalReason;
use maud::{Markup, html};

use crate::shape::{Alert, Items};
use crate::web::call::PageProblem;
use crate::web::frame::{PagePlace, heading, no_rows, pages};
use crate::web::visit::{PageVisit, part};
use crate::web::words::{none, number, short, when_if};

pub(in crate::web) async fn list(visit: PageVisit) -> Response {
    let body = body(&visit).await;
    visit.show(PagePlace::Alerts, "Alerts", body)
}

async fn body(visit: &PageVisit) -> Result<Markup, PageProblem> {
    let found: Items<Alert> =
        visit.calls.get(&visit.path("/api/v1/alerts", &["cursor"], &[("limit", "100")])).await?;
    Ok(html! {
        (heading("Alerts", &html! { "One message for an incident, not one for each failure." }, &html! {}))
        @if found.items.is_empty() {
            (no_rows("alerts", "No alerts sent yet. Channels are configured under [alerts]."))
        }
        @else { div.wide tabindex="0" { table {
            thead {
                tr {
                    th { "Incident" } th { "Channel" } th.n { "Told" } th { "Last told" } th.n { "Held back" }
                    th.n { "Waiting" } th { "Trouble" }
                }
            }
            tbody data-rows="alerts" { @for one in &found.items {
                tr data-key={ (one.channel) " " (one.incident) } {
                    td { a href=(about(visit, &one.incident)) { code { (short(&one.incident, 80)) } } }
                    td { (short(&one.channel, 60)) } td.n { (number(one.told)) }
                    td { (when_if(visit.now, one.told_at)) }
                    td.n { (number(one.suppressed + one.muted + one.dropped)) } td.n { (number(one.waiting)) }
                    td.what { @if let Some(trouble) = &one.trouble { (short(trouble, 200)) } @else { (none()) } }
                }
            } }
        } } }
        (pages(visit, "/alerts", &[], found.next_cursor.as_deref()))
    })
}

/// Where what an alert is about can be seen: an incident, the dead letters of a reason, or a circuit.
fn about(visit: &PageVisit, incident: &str) -> String {
    if incident.starts_with("circuit:") {
        return "/circuits".to_owned();
    }
    match TerminalReason::ALL.iter().find(|reason| reason.as_str() == incident) {
        Some(reason) => visit.path("/jobs", &[], &[("status", "failed"), ("reason", reason.as_str())]),
        None => format!("/incidents/{}", part(incident)),
    }
}
