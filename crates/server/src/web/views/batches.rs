//! Batches: jobs that are counted together.

use axum::extract::Path;
use axum::response::Response;
use maud::{Markup, html};

use super::workflows::{filters, status};
use crate::shape::{BatchJson, Items};
use crate::web::actions::{BATCH_CANCEL, BATCH_PAUSE, BATCH_RESUME, BATCH_SEAL};
use crate::web::call::PageProblem;
use crate::web::form;
use crate::web::frame::{PagePlace, heading, no_rows, pages};
use crate::web::visit::{PageVisit, part};
use crate::web::words::{counted, number, short, short_id, when, when_if};

pub(in crate::web) async fn list(visit: PageVisit) -> Response {
    let body = body(&visit).await;
    visit.show(PagePlace::Batches, "Batches", body)
}

async fn body(visit: &PageVisit) -> Result<Markup, PageProblem> {
    let path = visit.path("/api/v1/batches", &["status", "name", "cursor"], &[("limit", "50")]);
    let found: Items<BatchJson> = visit.calls.get(&path).await?;
    Ok(html! {
        (heading(
            "Batches",
            &html! { "Jobs that are counted together, and what follows when all have ended." },
            &html! {},
        ))
        (filters(visit, "/batches"))
        @if found.items.is_empty() {
            (no_rows("batches", match visit.uri.query() {
                Some(_) => "No batch is like that.",
                None => "No batches yet. A program or the API submits them: jobs that are counted together.",
            }))
        }
        @else { div.wide tabindex="0" { table {
            thead {
                tr {
                    th { "Batch" } th { "Name" } th { "State" } th { "Progress" } th.n { "Succeeded" }
                    th.n { "Failed" } th { "Created" } th { "Ended" }
                }
            }
            tbody data-rows="batches" { @for one in &found.items {
                tr data-key=(one.id) {
                    td { a href={ "/batches/" (one.id) } { code { (short_id(&one.id.to_string())) } } }
                    td.what { (short(&one.name, 100)) }
                    td { (status(&one.status.to_string())) }
                    td { (strip(one)) }
                    td.n { (number(one.succeeded)) " of " (number(one.total)) }
                    td.n.bad[one.failed > 0] { (number(one.failed)) }
                    td { (when(visit.now, one.created_at)) }
                    td { (when_if(visit.now, one.finished_at)) }
                }
            } }
        } } }
        (pages(visit, "/batches", &["status", "name"], found.next_cursor.as_deref()))
    })
}

/// How far a batch is.
fn strip(one: &BatchJson) -> Markup {
    let share = |count: u64| 1_000 * count / one.total.max(1);
    let label = format!("{} of {} jobs succeeded, {} failed", one.succeeded, one.total, one.failed);
    html! {
        svg.strip role="img" aria-label=(label) viewBox="0 0 1000 10" preserveAspectRatio="none" {
            rect.rest width="1000" height="10" {}
            rect.good width=(share(one.succeeded)) height="10" {}
            rect.bad x=(share(one.succeeded)) width=(share(one.failed)) height="10" {}
        }
    }
}

pub(in crate::web) async fn show(visit: PageVisit, Path(id): Path<String>) -> Response {
    let body = batch(&visit, &id).await;
    visit.show(PagePlace::Batches, "Batch", body)
}

async fn batch(visit: &PageVisit, id: &str) -> Result<Markup, PageProblem> {
    let one: BatchJson = visit.calls.get(&format!("/api/v1/batches/{}", part(id))).await?;
    Ok(html! {
        header.heading data-live="batch" {
            div {
                h1 { (short(&one.name, 120)) " " (status(&one.status.to_string())) }
                p.lead {
                    (number(one.succeeded)) " of " (counted(one.total, "job")) " succeeded, "
                    (number(one.failed)) " failed, " (number(one.canceled)) " canceled; begun "
                    (when(visit.now, one.created_at))
                    @if let Some(at) = one.finished_at { ", ended " (when(visit.now, at)) }
                    @if !one.sealed { "; more jobs may be added" }
                }
                (strip(&one))
                p.id { code data-copy=(one.id) data-copy-main="" { (one.id) } }
            }
        }
        div data-live="batch-actions" { (actions(visit, &one)) }
    })
}

fn actions(visit: &PageVisit, one: &BatchJson) -> Markup {
    let id = one.id.to_string();
    let at = [("id", id.as_str())];
    let left = counted(one.total.saturating_sub(one.succeeded + one.failed + one.canceled), "job");
    let reason = form::text("reason", "Reason", "", "why, kept with the jobs");
    let held = format!("Those of {left} that have not started are held back until they are resumed.");
    let canceled = format!("{left} that have not ended are canceled for good.");
    let sealed = "No more jobs are added: when all that it has have ended, the batch has.";
    html! {
        @if one.finished_at.is_none() {
            div.actions {
                @if one.status.to_string() == "paused" {
                    (visit.confirmed(&BATCH_RESUME, &at, "Resume", "What was held back goes on.", &html! {}))
                } @else {
                    (visit.confirmed(&BATCH_PAUSE, &at, "Pause", &held, &html! {}))
                }
                @if !one.sealed { (visit.confirmed(&BATCH_SEAL, &at, "Seal", sealed, &html! {})) }
                (visit.confirmed(&BATCH_CANCEL, &at, "Cancel", &canceled, &reason))
            }
        }
    }
}
