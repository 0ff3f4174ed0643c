//! Workflows: how far each is.

use axum::response::Response;
use maud::{Markup, html};

use crate::shape::{Items, StepCounts, WorkflowJson};
use crate::web::call::PageProblem;
use crate::web::form;
use crate::web::frame::{PagePlace, heading, no_rows, pages};
use crate::web::visit::PageVisit;
use crate::web::words::{mark, number, short, short_id, when, when_if};

pub(in crate::web) async fn list(visit: PageVisit) -> Response {
    let body = body(&visit).await;
    visit.show(PagePlace::Workflows, "Workflows", body)
}

async fn body(visit: &PageVisit) -> Result<Markup, PageProblem> {
    let path = visit.path("/api/v1/workflows", &["status", "name", "cursor"], &[("limit", "50")]);
    let found: Items<WorkflowJson> = visit.calls.get(&path).await?;
    Ok(html! {
        (heading("Workflows", &html! { "Jobs that follow each other, as graphs." }, &html! {}))
        (filters(visit, "/workflows"))
        @if found.items.is_empty() {
            (no_rows("workflows", match visit.uri.query() {
                Some(_) => "No workflow is like that.",
                None => "No workflows yet. A program or the API submits them, as a graph of jobs.",
            }))
        }
        @else { div.wide tabindex="0" { table {
            thead {
                tr {
                    th { "Workflow" } th { "Name" } th { "State" } th { "Progress" } th.n { "Steps" }
                    th.n { "Failed" } th { "Created" } th { "Ended" }
                }
            }
            tbody data-rows="workflows" { @for one in &found.items {
                tr data-key=(one.id) {
                    td { a href={ "/workflows/" (one.id) } { code { (short_id(&one.id.to_string())) } } }
                    td.what { (short(&one.name, 100)) }
                    td { (status(&one.status.to_string())) }
                    td { (strip(&one.progress)) }
                    td.n { (number(one.progress.succeeded)) " of " (number(one.progress.total)) }
                    td.n.bad[one.progress.failed > 0] { (number(one.progress.failed)) }
                    td { (when(visit.now, one.created_at)) }
                    td { (when_if(visit.now, one.finished_at)) }
                }
            } }
        } } }
        (pages(visit, "/workflows", &["status", "name"], found.next_cursor.as_deref()))
    })
}

/// The form that narrows a list of workflows or batches down.
pub(super) fn filters(visit: &PageVisit, path: &str) -> Markup {
    let states = ["", "running", "paused", "succeeded", "failed", "canceled"];
    let states = states.map(|state| (state, if state.is_empty() { "any" } else { state }));
    html! {
        form.filters action=(path) method="get" {
            (form::choice("status", "State", visit.asked("status").as_deref(), &states))
            (form::text("name", "Name", &visit.asked("name").unwrap_or_default(), "any"))
            button { "Filter" }
            @if visit.uri.query().is_some() { a href=(path) { "Clear" } }
        }
    }
}

/// Where a workflow is, as a mark.
pub(super) fn status(word: &str) -> Markup {
    let sort = match word {
        "failed" => "failed",
        "running" => "running",
        "paused" => "paused",
        _ => "quiet",
    };
    mark(word, sort)
}

/// How far a workflow is.
pub(super) fn strip(steps: &StepCounts) -> Markup {
    let total = steps.total.max(1);
    let share = |count: u64| 1_000 * count / total;
    let (good, bad) = (share(steps.succeeded), share(steps.failed));
    let label = format!("{} of {} steps succeeded, {} failed", steps.succeeded, steps.total, steps.failed);
    html! {
        svg.strip role="img" aria-label=(label) viewBox="0 0 1000 10" preserveAspectRatio="none" {
            rect.rest width="1000" height="10" {}
            rect.good width=(good) height="10" {}
            rect.bad x=(good) width=(bad) height="10" {}
            rect.open x=(good + bad) width=(share(steps.running.unwrap_or(0))) height="10" {}
        }
    }
}
