//! Queues: what waits where, how fast it goes, and holding it back.

use axum::response::Response;
use backstop_store::QueueView;
use maud::{Markup, html};

use super::overview::recent;
use crate::shape::Items;
use crate::web::actions::{QUEUE_PAUSE, QUEUE_RESUME};
use crate::web::call::PageProblem;
use crate::web::chart::spark;
use crate::web::form;
use crate::web::frame::{PagePlace, heading, no_rows, pages};
use crate::web::visit::PageVisit;
use crate::web::words::{counted, mark, none, number, rate, short, span};

pub(in crate::web) async fn list(visit: PageVisit) -> Response {
    let body = body(&visit).await;
    visit.show(PagePlace::Queues, "Queues", body)
}

async fn body(visit: &PageVisit) -> Result<Markup, PageProblem> {
    let found: Items<QueueView> =
        visit.calls.get(&visit.path("/api/v1/queues", &["cursor"], &[("limit", "100")])).await?;
    Ok(html! {
        (heading(
            "Queues",
            &html! { "Counts are kept, not counted: this view costs the store the same whatever it holds." },
            &html! {},
        ))
        @if found.items.is_empty() { (no_rows("queues", "No queues yet. A queue appears with its first job.")) }
        @else {
            div.wide tabindex="0" { table {
                thead {
                    tr {
                        th { "Queue" } th { "State" } th.n { "Waiting" } th { "Trend" } th.n { "Oldest wait" }
                        th.n { "Running" } th.n { "Ended" } th.n { "Parked" } th.n { "Dead" } th.n { "Workers" }
                        th { "Change" }
                    }
                }
                tbody data-rows="queues" { @for queue in &found.items { (row(visit, queue)) } }
            } }
        }
        (pages(visit, "/queues", &[], found.next_cursor.as_deref()))
    })
}

fn row(visit: &PageVisit, queue: &QueueView) -> Markup {
    let history = visit.history();
    let stored = visit.caller.queue(&queue.name).unwrap_or_else(|_| queue.name.clone());
    let waiting = history.level(visit.now, |name| name == stored, |counts| counts.pending);
    let ended = history.ended(visit.now, |name| name == stored);
    let jobs = |status: &str| visit.path("/jobs", &[], &[("queue", &queue.name), ("status", status)]);
    html! {
        tr data-key=(queue.name) {
            td { a href=(visit.path("/jobs", &[], &[("queue", &queue.name)])) { b { (short(&queue.name, 80)) } } }
            td {
                @if queue.paused {
                    (mark("paused", "paused"))
                    @if let Some(note) = &queue.pause_note { " " span.dim { (short(note, 60)) } }
                } @else {
                    (mark("open", "quiet"))
                }
            }
            td.n { (number(queue.pending)) }
            td { (spark(&waiting, "first", "Waiting, the last hour")) }
            td.n { @if let Some(due) = queue.oldest_due { (span(visit.now.since(due))) } @else { (none()) } }
            td.n { (number(queue.running)) }
            td.n { @if let Some(speed) = recent(&ended) { (rate(speed)) } @else { (none()) } }
            td.n { (number(queue.waiting)) }
            td.n.bad[queue.failed > 0] {
                @if queue.failed > 0 { a href=(jobs("failed")) { (number(queue.failed)) } } @else { "0" }
            }
            td.n.bad[queue.workers == 0 && queue.pending > 0] { (number(queue.workers)) }
            td { (change(visit, queue)) }
        }
    }
}

fn change(visit: &PageVisit, queue: &QueueView) -> Markup {
    let at = [("name", queue.name.as_str())];
    if queue.paused {
        let happens = format!("{} that wait are claimed from now on.", counted(queue.pending, "job"));
        return visit.confirmed(&QUEUE_RESUME, &at, "Resume", &happens, &html! {});
    }
    let happens = format!(
        "Nothing is claimed from it until it is resumed: {} wait. What runs goes on.",
        counted(queue.pending, "job")
    );
    visit.confirmed(
        &QUEUE_PAUSE,
        &at,
        "Pause",
        &happens,
        &form::text("note", "Why", "", "shown on the queue while it is paused"),
    )
}
