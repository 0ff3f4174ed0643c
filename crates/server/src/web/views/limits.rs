//! Limits of runs, and how much of each is used.

use axum::response::Response;
use maud::{Markup, html};

use crate::shape::{Items, LimitJson};
use crate::web::actions::{LIMIT_DELETE, LIMIT_SET};
use crate::web::call::PageProblem;
use crate::web::form;
use crate::web::frame::{PagePlace, heading, no_rows, pages};
use crate::web::visit::PageVisit;
use crate::web::words::{counted, none, number, short, span, when_if};

pub(in crate::web) async fn list(visit: PageVisit) -> Response {
    let body = body(&visit).await;
    visit.show(PagePlace::Limits, "Limits", body)
}

async fn body(visit: &PageVisit) -> Result<Markup, PageProblem> {
    let found: Items<LimitJson> =
        visit.calls.get(&visit.path("/api/v1/limits", &["cursor"], &[("limit", "100")])).await?;
    Ok(html! {
        (heading("Limits", &html! { "How many runs of what may go at once, on all workers together." }, &html! {}))
        (new(visit))
        @if found.items.is_empty() { (no_rows("limits", "No limits are set: only worker slots bound what runs.")) }
        @else { div.wide tabindex="0" { table {
            thead {
                tr {
                    th { "Limit" } th { "About" } th.n { "At once" } th { "Rate" } th.n { "Permits" }
                    th.n { "In use" } th.n { "Parked" } th { "Next start" } th { "Change" }
                }
            }
            tbody data-rows="limits" { @for one in &found.items {
                tr data-key=(one.name) {
                    td { b { (short(&one.name, 80)) } }
                    td {
                        @if let Some(queue) = &one.queue { "queue " code { (short(queue, 40)) } " " }
                        @if let Some(kind) = &one.kind { "kind " code { (short(kind, 40)) } }
                        @if one.queue.is_none() && one.kind.is_none() { "everything" }
                    }
                    td.n { @if let Some(most) = one.concurrency { (number(most)) } @else { (none()) } }
                    td {
                        @if let Some(rate) = &one.rate {
                            (number(rate.count)) " in " (span(rate.per))
                        } @else {
                            (none())
                        }
                    }
                    td.n { @if let Some(permits) = one.permits { (number(u64::from(permits))) } @else { (none()) } }
                    td.n { (number(one.in_use)) }
                    td.n { @if let Some(parked) = one.parked { (number(parked)) } @else { (none()) } }
                    td { (when_if(visit.now, one.next_start)) }
                    td { (remove(visit, one)) }
                }
            } }
        } } }
        (pages(visit, "/limits", &[], found.next_cursor.as_deref()))
    })
}

fn remove(visit: &PageVisit, one: &LimitJson) -> Markup {
    let happens = match one.parked {
        Some(parked) => format!("{} that it holds back may start at once.", counted(parked, "job")),
        None => "What it holds back may start at once; how much that is is not counted by key.".to_owned(),
    };
    visit.confirmed(&LIMIT_DELETE, &[("name", &one.name)], "Remove", &happens, &html! {})
}

/// A form that makes a limit, or changes the one of that name.
fn new(visit: &PageVisit) -> Markup {
    let ways = [("all", "all runs together"), ("key", "the runs of each limit key apart")];
    let fields = html! {
        (form::text("at.name", "Name", "", "such as partner-api"))
        (form::text("queue", "Queue", "", "all"))
        (form::text("kind", "Kind", "", "all"))
        (form::choice("by", "Counts", None, &ways))
        (form::whole_if("concurrency", "Runs at once", 1, 1_000_000))
        (form::whole_if("rate.count", "Starts", 1, 1_000_000))
        (form::whole_if("rate.per_ms", "in so many milliseconds", 1, 31_622_400_000))
        (form::whole_if("permits", "Permits of a pool", 1, 1_000_000))
    };
    let happens = "It holds on every worker within seconds, without a restart. Runs that are under way go on; what \
                   finds no room waits and is charged nothing. A limit of the same name is replaced.";
    visit.confirmed(&LIMIT_SET, &[], "Set a limit", happens, &fields)
}
