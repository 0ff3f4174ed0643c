//! Retry budgets: how many retries each kind may have, how many are planned, and how far they were moved.

use axum::response::Response;
use maud::{Markup, html};

use crate::shape::{Items, RetryBudgetJson};
use crate::web::call::PageProblem;
use crate::web::frame::{PagePlace, heading, no_rows, pages};
use crate::web::visit::PageVisit;
use crate::web::words::{none, number, short, span_ms, when_if};

pub(in crate::web) async fn list(visit: PageVisit) -> Response {
    let body = body(&visit).await;
    visit.show(PagePlace::RetryBudgets, "Retry budgets", body)
}

async fn body(visit: &PageVisit) -> Result<Markup, PageProblem> {
    let found: Items<RetryBudgetJson> =
        visit.calls.get(&visit.path("/api/v1/retry-budgets", &["cursor"], &[("limit", "100")])).await?;
    Ok(html! {
        (heading(
            "Retry budgets",
            &html! {
                "A kind may retry as often as a share of its first runs, and a little more. Retries over the cap are "
                "moved to later seconds, on all workers together: none is lost, and no storm follows an outage."
            },
            &html! {},
        ))
        @if found.items.is_empty() {
            (no_rows(
                "retry-budgets",
                "No first run has been counted yet. [retry_budget] in backstop.toml sets the share and the floor.",
            ))
        }
        @else { div.wide tabindex="0" { table {
            thead {
                tr {
                    th { "Kind" } th.n { "First runs, 5 min" } th.n { "Share" } th.n { "Floor" } th.n { "Cap" }
                    th.n { "Planned retries" } th { "The last one" } th { "A retry due now" }
                }
            }
            tbody data-rows="retry-budgets" { @for one in &found.items { (row(visit, one)) } }
        } } }
        (pages(visit, "/retry-budgets", &[], found.next_cursor.as_deref()))
    })
}

fn row(visit: &PageVisit, one: &RetryBudgetJson) -> Markup {
    html! {
        tr data-key=(one.kind) {
            td { code { (short(&one.kind, 80)) } }
            td.n { (number(one.first_runs)) }
            td.n { @if let Some(share) = one.share { (percent(share)) } @else { (none()) } }
            td.n { @if let Some(floor) = one.floor { (number(u64::from(floor))) "/s" } @else { (none()) } }
            td.n { @if let Some(cap) = one.cap { (number(u64::from(cap))) "/s" } @else { "no bound" } }
            td.n { (number(one.planned)) }
            td { (when_if(visit.now, one.planned_until)) }
            td {
                @if one.moved_ms > 0 { span.warn { "is moved by " (span_ms(one.moved_ms)) } }
                @else { "keeps its time" }
            }
        }
    }
}

/// A share as people write it: `20 %`, `12.5 %`.
fn percent(share: f64) -> String {
    format!("{} %", (share * 1_000.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_read_as_people_write_them() {
        for (share, text) in [(0.0, "0 %"), (0.2, "20 %"), (0.125, "12.5 %"), (10.0, "1000 %")] {
            assert_eq!(percent(share), text);
        }
    }
}
