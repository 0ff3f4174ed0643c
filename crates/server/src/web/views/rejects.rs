//! Rejected items: by cause, and the items of one cause, to look at or to take along.

use axum::body::Bytes;
use axum::extract::Path;
use axum::response::Response;
use backstop_core::reject::{RejectGroup, RejectView};
use maud::{Markup, html};

use super::incidents::message;
use crate::shape::Items;
use crate::web::act::check;
use crate::web::actions::PageFields;
use crate::web::call::PageProblem;
use crate::web::frame::{PagePlace, empty, heading, no_rows, pages};
use crate::web::visit::{PageVisit, as_file, part};
use crate::web::words::{counted, number, short, short_id, when};

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
            &html! {
                @if !found.items.is_empty() { (take_along(visit, "/rejects/export", "The items of every cause")) }
            },
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
    let groups = visit.path("/api/v1/reject-groups", &[], &[("fingerprint", fingerprint)]);
    let group: Option<Items<RejectGroup>> = visit.calls.get_if_allowed(&groups).await?;
    let group = group.and_then(|found| found.items.into_iter().next());
    let title = found.items.first().map_or_else(|| "Rejected items".to_owned(), |one| short(&one.error, 200));
    let lead = html! {
        @if let Some(group) = &group { (story(visit, group)) ". " }
        a href="/rejects" { "All causes" }
    };
    let action = format!("/rejects/{}/export", part(fingerprint));
    let count = group.as_ref().map_or_else(|| "All items".to_owned(), |group| counted(group.stored, "item"));
    Ok(html! {
        (heading(&title, &lead, &take_along(visit, &action, &format!("{count} of this cause"))))
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

/// How many, of what, since when.
fn story(visit: &PageVisit, group: &RejectGroup) -> Markup {
    html! {
        (counted(group.items, "item")) " of " code { (short(&group.kind, 60)) } " on " (short(&group.queue, 60))
        ", " (number(group.stored)) " of them kept; first " (when(visit.now, group.first_seen)) ", last "
        (when(visit.now, group.last_seen))
    }
}

/// Items as a file, for whoever mends them elsewhere.
fn take_along(visit: &PageVisit, action: &str, what: &str) -> Markup {
    html! {
        @if visit.allows("GET /api/v1/rejects/export") {
            details.confirm {
                summary { "Export…" }
                form.act action=(action) method="post" {
                    input type="hidden" name="proof" value=(visit.proof());
                    p { (what) ", one JSON document a line, in the clear. The audit log says who took them." }
                    button.sure { "Export" }
                }
            }
        }
    }
}

/// The items of one cause as a file, in the clear, which is written into the audit log.
pub(in crate::web) async fn export(
    visit: PageVisit,
    Path(fingerprint): Path<String>,
    form: Bytes,
) -> Response {
    let path = visit.path("/api/v1/rejects/export", &[], &[("fingerprint", &fingerprint)]);
    file(&visit, &form, &path).await
}

/// The items of every cause, likewise.
pub(in crate::web) async fn export_all(visit: PageVisit, form: Bytes) -> Response {
    file(&visit, &form, "/api/v1/rejects/export").await
}

async fn file(visit: &PageVisit, form: &Bytes, path: &str) -> Response {
    let file = async {
        check(visit, &PageFields::read(form))?;
        visit.calls.file(path).await
    };
    match file.await {
        Ok(file) => as_file(file, "attachment; filename=\"rejects.ndjson\""),
        Err(problem) => visit.refuse(PagePlace::Rejects, &problem),
    }
}
