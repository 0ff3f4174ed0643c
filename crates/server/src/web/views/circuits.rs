//! Circuits: which dependencies are left alone for now, and who waits for them.

use axum::response::Response;
use backstop::circuits::CircuitState;
use maud::{Markup, html};

use crate::shape::{CircuitJson, Items};
use crate::web::actions::{CIRCUIT_CLOSE, CIRCUIT_OPEN};
use crate::web::call::PageProblem;
use crate::web::form;
use crate::web::frame::{PagePlace, heading, no_rows, pages};
use crate::web::visit::PageVisit;
use crate::web::words::{counted, mark, number, short, when_if};

pub(in crate::web) async fn list(visit: PageVisit) -> Response {
    let body = body(&visit).await;
    visit.show(PagePlace::Circuits, "Circuits", body)
}

async fn body(visit: &PageVisit) -> Result<Markup, PageProblem> {
    let found: Items<CircuitJson> =
        visit.calls.get(&visit.path("/api/v1/circuits", &["cursor"], &[("limit", "100")])).await?;
    Ok(html! {
        (heading(
            "Circuits",
            &html! { "A dependency that keeps failing is left alone for a while; its jobs wait, uncharged." },
            &html! {},
        ))
        @if found.items.is_empty() { (no_rows("circuits", "No dependency has been called yet.")) }
        @else { div.wide tabindex="0" { table {
            thead {
                tr {
                    th { "Dependency" } th { "State" } th { "Since" } th { "Tried again" } th.n { "Calls" }
                    th.n { "Failed" } th.n { "Parked" } th { "Change" }
                }
            }
            tbody data-rows="circuits" { @for one in &found.items { (row(visit, one)) } }
        } } }
        (pages(visit, "/circuits", &[], found.next_cursor.as_deref()))
    })
}

fn row(visit: &PageVisit, one: &CircuitJson) -> Markup {
    let at = [("key", one.key.as_str())];
    let is_closed = one.state == CircuitState::Closed;
    let word = serde_json::to_value(one.state)
        .ok()
        .and_then(|word| word.as_str().map(str::to_owned))
        .unwrap_or_default();
    html! {
        tr data-key=(one.key) {
            td { b { (short(&one.key, 80)) } @if let Some(by) = &one.by { " " span.dim { "by " (short(by, 40)) } } }
            td { (mark(&word, if is_closed { "quiet" } else { "paused" })) }
            td { (when_if(visit.now, one.since)) } td { (when_if(visit.now, one.until)) }
            td.n { (number(one.calls)) } td.n { (one.failure_rate) " %" } td.n { (number(one.parked)) }
            td { @if is_closed {
                    (visit.confirmed(
                        &CIRCUIT_OPEN,
                        &at,
                        "Open",
                        "Nothing that needs it starts until it is closed or tried again.",
                        &form::text("for_ms", "For how long, in milliseconds", "", "as its settings say"),
                    ))
                } @else {
                    (visit.confirmed(
                        &CIRCUIT_CLOSE,
                        &at,
                        "Close",
                        &format!("{} that wait for it go on at once.", counted(one.parked, "job")),
                        &html! {},
                    ))
                } }
        }
    }
}
