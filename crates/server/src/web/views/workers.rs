//! Workers: who runs jobs, which code they have, and what they need.

use axum::response::Response;
use maud::{Markup, html};

use crate::shape::{Items, Worker};
use crate::web::call::PageProblem;
use crate::web::frame::{PagePlace, heading, no_rows, pages};
use crate::web::visit::PageVisit;
use crate::web::words::{mark, none, number, short, short_id, when};

pub(in crate::web) async fn list(visit: PageVisit) -> Response {
    let body = body(&visit).await;
    visit.show(PagePlace::Workers, "Workers", body)
}

async fn body(visit: &PageVisit) -> Result<Markup, PageProblem> {
    let found: Items<Worker> =
        visit.calls.get(&visit.path("/api/v1/workers", &["cursor"], &[("limit", "100")])).await?;
    Ok(html! {
        (heading(
            "Workers",
            &html! { "Each renews its lease; the jobs of one that falls silent are taken back by others." },
            &html! {},
        ))
        @if found.items.is_empty() {
            (no_rows(
                "workers",
                "No worker has made itself known. Jobs wait until one does: `backstop work` starts one.",
            ))
        }
        @else { div.wide tabindex="0" { table {
            thead {
                tr {
                    th { "Worker" } th { "State" } th { "Version" } th { "Queues" } th.n { "Kinds" }
                    th.n { "Running" } th { "Dependencies" } th { "Since" }
                }
            }
            tbody data-rows="workers" { @for one in &found.items { (row(visit, one)) } }
        } } }
        (pages(visit, "/workers", &[], found.next_cursor.as_deref()))
    })
}

/// Workers, the live ones first, as many as one page of the API has; none for somebody who may not see them. Whatever
/// shows workers beside other things asks with this, so that a look asks once: stores read what each worker holds.
pub(super) async fn known(visit: &PageVisit) -> Result<Option<Items<Worker>>, PageProblem> {
    visit.calls.get_if_allowed("/api/v1/workers?limit=1000").await
}

/// How many jobs a worker runs at once at most, where it says so.
pub(super) fn slots(one: &Worker) -> Option<u64> {
    (!one.slots.is_empty()).then(|| one.slots.values().sum())
}

fn row(visit: &PageVisit, one: &Worker) -> Markup {
    let is_orphan = !one.live && one.running.unwrap_or(0) > 0;
    html! {
        tr data-key=(one.id) {
            td { b { (short(&one.name, 60)) } " " code.dim { (short_id(&one.id.to_string())) } }
            td { @if let Some(paused) = &one.paused {
                    (mark("pausing", "paused")) " until " (when(visit.now, paused.until)) ": " (paused.why)
                }
                @else if one.live { (mark("live", "quiet")) }
                @else {
                    (mark("silent", if is_orphan { "failed" } else { "quiet" })) " since "
                    (when(visit.now, one.expires_at))
                } }
            td { @if let Some(version) = &one.code_version { (short(version, 40)) } @else { (none()) } }
            td.what { (short(&one.queues.join(", "), 120)) }
            td.n
                title=(short(&one.kinds.iter().map(|kind| kind.kind.as_str()).collect::<Vec<_>>().join(", "), 600)) {
                (number(one.kinds.len() as u64))
            }
            td.n {
                @if let Some(running) = one.running { (number(running)) } @else { (none()) }
                @if let Some(slots) = slots(one) { " of " (number(slots)) }
            }
            td {
                @if one.dependencies.is_empty() { (none()) }
                @for need in &one.dependencies {
                    (mark(&short(&need.dependency, 40), if need.ok { "quiet" } else { "failed" })) " "
                }
            }
            td { (when(visit.now, one.started_at)) }
        }
    }
}
