//! Hand-offs: finished jobs that go on in another Backstop, and what keeps them here.

use axum::response::Response;
use backstop::handoffs::HandOffState;
use maud::{Markup, html};

use crate::shape::{HandOffJson, Items};
use crate::web::actions::{HANDOFF_DELETE, HANDOFF_RETRY};
use crate::web::call::PageProblem;
use crate::web::frame::{PagePlace, heading, no_rows, pages};
use crate::web::visit::PageVisit;
use crate::web::words::{counted, mark, none, number, short, span_ms, when, when_if};

pub(in crate::web) async fn list(visit: PageVisit) -> Response {
    let body = body(&visit).await;
    visit.show(PagePlace::Handoffs, "Hand-off", body)
}

async fn body(visit: &PageVisit) -> Result<Markup, PageProblem> {
    let found: Items<HandOffJson> =
        visit.calls.get(&visit.path("/api/v1/handoffs", &["cursor"], &[("limit", "100")])).await?;
    Ok(html! {
        (heading(
            "Hand-off",
            &html! { "Finished jobs continue in another Backstop. Jobs it has not accepted yet wait here." },
            &html! {},
        ))
        @if found.items.is_empty() {
            (no_rows("handoffs", "No hand-offs yet. [handoff.NAME] in backstop.toml adds one."))
        }
        @else { div.wide tabindex="0" { table {
            thead {
                tr {
                    th { "Hand-off" } th { "State" } th { "To" } th.n { "Backlog" } th.n { "Lag" } th.n { "Admitted" }
                    th.n { "Duplicates" } th.n { "Latency" } th { "Last admitted" } th { "What keeps it" }
                    th { "Change" }
                }
            }
            tbody data-rows="handoffs" { @for one in &found.items { (row(visit, one)) } }
        } } }
        (pages(visit, "/handoffs", &[], found.next_cursor.as_deref()))
    })
}

const fn sort(state: HandOffState) -> &'static str {
    match state {
        HandOffState::Publishing => "running",
        HandOffState::Pressure | HandOffState::Unreachable => "paused",
        _ => "failed",
    }
}

fn row(visit: &PageVisit, one: &HandOffJson) -> Markup {
    let state = serde_json::to_value(one.state).unwrap_or_default();
    html! {
        tr data-key=(one.name) {
            td { b { (short(&one.name, 80)) } }
            td { (mark(state.as_str().unwrap_or_default(), sort(one.state))) }
            td.what { code { (short(&one.to, 100)) } " as " code { (short(&one.kind, 60)) } }
            td.n { (number(one.backlog)) }
            td.n { @if one.lag_ms > 0 { (span_ms(one.lag_ms)) } @else { (none()) } }
            td.n { (number(one.admitted)) } td.n { (number(one.duplicates)) }
            td.n { @if let Some(latency) = one.latency_ms { (span_ms(latency)) } @else { (none()) } }
            td { (when_if(visit.now, one.last_at)) }
            td.what { (kept(visit, one)) }
            td {
                @if one.stopped.is_some() {
                    (visit.confirmed(
                        &HANDOFF_RETRY,
                        &[("name", &one.name)],
                        "Let it go on",
                        &format!(
                            "{} that wait are sent again at once. Fix first what the receiver refused, or it stops \
                             again.",
                            counted(one.backlog, "job")
                        ),
                        &html! {},
                    ))
                }
                // One that a process publishes is refused.
                @if one.publisher.is_none() {
                    (visit.confirmed(
                        &HANDOFF_DELETE,
                        &[("name", &one.name)],
                        "Remove",
                        &format!(
                            "It is forgotten, and {} that wait are never handed over.",
                            counted(one.backlog, "job")
                        ),
                        &html! {},
                    ))
                }
            }
        }
    }
}

/// Why it does not go on, and what to do about it.
fn kept(visit: &PageVisit, one: &HandOffJson) -> Markup {
    html! {
        @if let Some(stop) = &one.stopped {
            "stopped " (when(visit.now, stop.at)) ": " (short(&stop.message, 200)) ". " (short(&stop.way_out, 200))
        } @else if let Some(error) = &one.last_error {
            (short(error, 200))
            @if let Some(next) = one.next_try { ", tried again " (when(visit.now, next)) }
        } @else if one.state == HandOffState::Unserved {
            "no process has its settings"
        }
    }
}
