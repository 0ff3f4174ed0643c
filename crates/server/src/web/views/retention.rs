//! Retention: how long what is over is kept, and what goes next.

use axum::body::Bytes;
use axum::response::Response;
use maud::{Markup, html};

use crate::shape::{Items, RetentionJson, RetentionOf};
use crate::web::act::check;
use crate::web::actions::PageFields;
use crate::web::call::PageProblem;
use crate::web::frame::{PagePlace, heading};
use crate::web::visit::PageVisit;
use crate::web::words::{none, number, span_ms};

/// As many as the API counts: one round takes no more.
const ROUND: u64 = 10_000;

pub(in crate::web) async fn list(visit: PageVisit) -> Response {
    let body = body(&visit, false).await;
    visit.show(PagePlace::Retention, "Retention", body)
}

/// Counts what the next round takes, and removes nothing. An open page does not count again and again.
pub(in crate::web) async fn count(visit: PageVisit, form: Bytes) -> Response {
    let form = PageFields::read(&form);
    let counted = async {
        check(&visit, &form)?;
        body(&visit, true).await
    };
    let body = counted.await;
    visit.show(PagePlace::Retention, "Retention", body)
}

async fn body(visit: &PageVisit, counted: bool) -> Result<Markup, PageProblem> {
    let path = if counted { "/api/v1/retention?count=true" } else { "/api/v1/retention" };
    let found: Items<RetentionJson> = visit.calls.get(path).await?;
    let count = html! {
        form.act action="/retention" method="post" {
            input type="hidden" name="proof" value=(visit.proof());
            button { "Count what goes next" }
        }
    };
    Ok(html! {
        (heading(
            "Retention",
            &html! {
                "How long what is over is kept, as this server is configured. Maintenance does the rest by itself, a "
                "bounded round at a time; jobs that have not ended always stay."
            },
            &count,
        ))
        @if counted {
            p.done role="status" { "Counted, and nothing was changed. One round takes " (number(ROUND)) " at most." }
        }
        div.wide tabindex="0" { table {
            thead { tr { th { "What" } th { "Kept" } th { "Counted from" } th { "Then" } th.n { "Goes next" } } }
            tbody data-rows="retention" { @for one in &found.items { (row(one)) } }
        } }
        p.since {
            "Archived jobs that never ran, and idempotency keys, stay for ever. [retention] in backstop.toml sets the "
            "times."
        }
    })
}

fn row(one: &RetentionJson) -> Markup {
    let [what, since, then] = words(one.what);
    html! {
        tr data-key=(what) {
            td { b { (what) } }
            td { @if let Some(keep_ms) = one.keep_ms { (span_ms(keep_ms)) } @else { "for ever" } }
            td { (since) }
            td { @if one.keep_ms.is_some() { (then) } @else { (none()) } }
            td.n {
                @match one.due {
                    Some(due) if due >= ROUND => { (number(due)) " or more" },
                    Some(due) => { (number(due)) },
                    None => { (none()) },
                }
            }
        }
    }
}

/// What it is, from when its time is counted, and what becomes of it then.
const fn words(what: RetentionOf) -> [&'static str; 3] {
    match what {
        RetentionOf::Succeeded => ["Jobs that succeeded", "their end", "archived"],
        RetentionOf::Canceled => ["Jobs that were canceled", "their end", "archived"],
        RetentionOf::Failed => ["Dead letters", "their end", "archived"],
        RetentionOf::Archived => ["Archived jobs that ran", "their archival", "removed for good"],
        RetentionOf::Plans => ["Plans to drive again", "their end", "removed, with a line in the audit log"],
        RetentionOf::Incidents => [
            "Incidents without dead letters",
            "their last failure, or what was last said of them",
            "removed, with a line in the audit log",
        ],
        RetentionOf::Queues => {
            ["Empty queues", "when they were found empty", "left out of lists until their next job"]
        }
        RetentionOf::Workflows => {
            ["Workflows and batches", "their end", "removed; their jobs stay as long as any"]
        }
        RetentionOf::Rejects => ["Rejected items", "when they were written", "removed"],
        RetentionOf::Signals => ["Signals that arrived early", "when they were sent", "removed"],
        RetentionOf::AuditLog => ["The audit log", "when a line was written", "removed"],
    }
}
