//! Rejected items: by cause, and the items of one cause.

use axum::extract::Path;
use axum::response::Response;
use backstop_core::reject::{RejectGroup, RejectView};
use maud::{Markup, html};

use super::incidents::message;
use crate::shape::Items;
use crate::web::call::PageProblem;
use crate::web::frame::{PagePlace, empty, heading, no_rows, pages};
use crate::web::visit::{PageVisit, part};
use crate::web::words::{number, short, short_id, when};

pub(in crate::web) async fn list(visit: PageVisit) -> Response {
    let body = groups(&visit).await;
    visit.show(PagePlace::Rejects, "Rejected items", body)
}

async fn groups(visit: &PageVisit) -> Result<Markup, PageProblem> {
    let found: Items<RejectGroup> =
        visit.calls.get(&visit.path("/api/v1/reject-groups", &["cursor"], &[("limit", "50")])).await?;
    Ok(html! {
        (heading(
            "Rejected items",
            &html! { "Items that a job could not take, while the job itself went on." },
            &html! {},
        ))
        @if found.items.is_empty() { (no_rows("rejects", "No items have been rejected.")) }
        @else { div.wide tabindex="0" { table {
            thead {
                tr {
                    th { "What" } th { "Kind" } th { "Queue" } th.n { "Items" } th.n { "Kept" } th { "First seen" }
                    th { "Last seen" }
                }
            }
            tbody data-rows="rejects" { @for one in &found.items {
                tr data-key={ (one.queue) " " (one.fingerprint) } {
                    td.what { a href={ "/rejects/" (part(one.fingerprint.as_str())) } { (message(&one.error, 160)) } }
                    td { code { (short(&one.kind, 60)) } } td { (short(&one.queue, 60)) }
                    td.n { (number(one.items)) } td.n { (number(one.stored)) }
                    td { (when(visit.now, one.first_seen)) } td { (when(visit.now, one.last_seen)) }
                }
            } }
        } } }
        (pages(visit, "/rejects", &[], found.next_cursor.as_deref()))
    })
}

pub(in crate::web) async fn show(visit: PageVisit, Path(fingerprint): Path<String>) -> Response {
    let body = items(&visit, &fingerprint).await;
    visit.show(PagePlace::Rejects, "Rejected items", body)
}

async fn items(visit: &PageVisit, fingerprint: &str) -> Result<Markup, PageProblem> {
    let path = visit.path("/api/v1/rejects", &["cursor"], &[("fingerprint", fingerprint), ("limit", "50")]);
    let found: Items<RejectView> = visit.calls.get(&path).await?;
    let title = found.items.first().map_or_else(|| "Rejected items".to_owned(), |one| short(&one.error, 200));
    Ok(html! {
        (heading(&title, &html! { a href="/rejects" { "All causes" } }, &html! {}))
        @if found.items.is_empty() { (empty("No item of this cause is kept.")) }
        @for one in &found.items {
            article.sample {
                h2 {
                    a href={ "/jobs/" (one.job) } { code { (short_id(&one.job.to_string())) } }
                    " "
                    span.dim {
                        "run " (one.run) ", " (when(visit.now, one.at))
                        @if one.count > 1 { ", " (number(one.count)) " times" }
                    }
                }
                pre.error { (short(&one.error, 2_000)) }
                @if let Some(item) = &one.item {
                    pre { (short(&serde_json::to_string_pretty(item).unwrap_or_default(), 2_000)) }
                }
            }
        }
        (pages(visit, &format!("/rejects/{}", part(fingerprint)), &[], found.next_cursor.as_deref()))
    })
}
