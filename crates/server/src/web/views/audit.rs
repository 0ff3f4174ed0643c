//! The audit log: who changed what, when, and from where.

use axum::response::Response;
use maud::{Markup, html};

use crate::shape::{AuditLine, Items};
use crate::web::call::PageProblem;
use crate::web::frame::{PagePlace, heading, no_rows, pages};
use crate::web::visit::PageVisit;
use crate::web::words::{none, number, short, when};

pub(in crate::web) async fn list(visit: PageVisit) -> Response {
    let body = body(&visit).await;
    visit.show(PagePlace::Audit, "Audit", body)
}

async fn body(visit: &PageVisit) -> Result<Markup, PageProblem> {
    let found: Items<AuditLine> =
        visit.calls.get(&visit.path("/api/v1/audit", &["cursor"], &[("limit", "100")])).await?;
    Ok(html! {
        (heading(
            "Audit",
            &html! { "Every change over HTTP, from this page too. Lines are only ever added." },
            &html! {},
        ))
        @if found.items.is_empty() { (no_rows("audit", "No changes yet.")) }
        @else { div.wide tabindex="0" { table {
            thead { tr { th { "When" } th { "Who" } th { "What" } th.n { "Answer" } th.n { "Times" } th { "From" } } }
            tbody data-rows="audit" { @for one in &found.items {
                tr data-key={ (one.at) " " (one.who) " " (one.method) " " (one.path) } {
                    td { (when(visit.now, one.at)) }
                    td { (short(&one.who, 60)) @if let Some(tenant) = &one.tenant { " of " (short(tenant, 40)) } }
                    td.what {
                        @if let Some(what) = &one.what {
                            (short(what, 200))
                        } @else {
                            code { (one.method) " " (short(&one.path, 160)) }
                        }
                    }
                    td.n { (one.status) } td.n { (number(one.count)) }
                    td { @if let Some(from) = &one.from { (from) } @else { (none()) } }
                }
            } }
        } } }
        (pages(visit, "/audit", &[], found.next_cursor.as_deref()))
    })
}
