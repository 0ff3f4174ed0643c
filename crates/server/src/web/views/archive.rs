//! Jobs that ended long ago.

use axum::extract::Path;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value;

use crate::shape::{ArchivedJob, Items};
use crate::web::call::PageProblem;
use crate::web::frame::{PagePlace, heading, no_rows, pages};
use crate::web::visit::{PageVisit, part};
use crate::web::words::{short, short_id, state, when};

pub(in crate::web) async fn list(visit: PageVisit) -> Response {
    let body = body(&visit).await;
    visit.show(PagePlace::Archive, "Archive", body)
}

async fn body(visit: &PageVisit) -> Result<Markup, PageProblem> {
    let found: Items<ArchivedJob> =
        visit.calls.get(&visit.path("/api/v1/archive", &["cursor"], &[("limit", "50")])).await?;
    let text = |one: &ArchivedJob, name: &str| {
        one.job.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    Ok(html! {
        (heading("Archive", &html! { "Jobs that have ended and were moved out of the way of the others." }, &html! {}))
        @if found.items.is_empty() { (no_rows("archive", "Nothing has been archived yet.")) }
        @else { div.wide tabindex="0" { table {
            thead { tr { th { "Job" } th { "Kind" } th { "Queue" } th { "State" } th { "Archived" } } }
            tbody data-rows="archive" { @for one in &found.items {
                tr data-key=(one.id) {
                    td { a href={ "/archive/" (one.id) } { code { (short_id(&one.id.to_string())) } } }
                    td { code { (short(&text(one, "kind"), 60)) } } td { (short(&text(one, "queue"), 60)) }
                    td { (state(one.status)) } td { (when(visit.now, one.archived_at)) }
                }
            } }
        } } }
        (pages(visit, "/archive", &[], found.next_cursor.as_deref()))
    })
}

pub(in crate::web) async fn show(visit: PageVisit, Path(id): Path<String>) -> Response {
    let body = one(&visit, &id).await;
    visit.show(PagePlace::Archive, "Archived job", body)
}

async fn one(visit: &PageVisit, id: &str) -> Result<Markup, PageProblem> {
    let one: ArchivedJob = visit.calls.get(&format!("/api/v1/archive/{}", part(id))).await?;
    let pretty = |value: &Value| short(&serde_json::to_string_pretty(value).unwrap_or_default(), 50_000);
    Ok(html! {
        (heading(
            &one.id.to_string(),
            &html! { (state(one.status)) " archived " (when(visit.now, one.archived_at)) },
            &html! {},
        ))
        h2 { "The job" } pre { (pretty(&one.job)) }
        @if let Some(attempts) = &one.attempts { h2 { "Its runs" } pre { (pretty(attempts)) } }
    })
}
