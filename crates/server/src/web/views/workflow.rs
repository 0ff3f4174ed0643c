//! One workflow: its graph from left to right, and every step as a link to its job.

use axum::extract::Path;
use axum::response::Response;
use maud::{Markup, html};

use super::workflows::{status, strip};
use crate::shape::{WorkflowJson, WorkflowNodeJson};
use crate::web::actions::{WORKFLOW_CANCEL, WORKFLOW_PAUSE, WORKFLOW_RESUME};
use crate::web::call::PageProblem;
use crate::web::form;
use crate::web::frame::PagePlace;
use crate::web::graph::graph;
use crate::web::visit::{PageVisit, part};
use crate::web::words::{counted, none, number, short, state, when};

pub(in crate::web) async fn show(visit: PageVisit, Path(id): Path<String>) -> Response {
    let body = body(&visit, &id).await;
    visit.show(PagePlace::Workflows, "Workflow", body)
}

async fn body(visit: &PageVisit, id: &str) -> Result<Markup, PageProblem> {
    let one: WorkflowJson = visit.calls.get(&format!("/api/v1/workflows/{}", part(id))).await?;
    Ok(html! {
        header.heading data-live="workflow" {
            div {
                h1 { (short(&one.name, 120)) " " (status(&one.status.to_string())) }
                p.lead {
                    (number(one.progress.succeeded)) " of " (counted(one.progress.total, "step")) " succeeded, "
                    (number(one.progress.failed)) " failed; begun " (when(visit.now, one.created_at))
                    @if let Some(at) = one.finished_at { ", ended " (when(visit.now, at)) } }
                (strip(&one.progress))
            }
        }
        div data-live="workflow-actions" { (actions(visit, &one)) }
        div.graph data-live="graph" tabindex="0" role="region" aria-label="The graph" { (graph(&one)) }
        h2 { "Steps" }
        div.wide tabindex="0" { table {
            thead { tr { th { "Step" } th { "State" } th { "After" } th { "Why" } } }
            tbody data-rows="steps" { @for node in &one.nodes {
                tr data-key=(node.name) {
                    td { a href={ "/jobs/" (node.job) } { (short(&node.name, 80)) } }
                    td { (state(node.status)) }
                    td.what { @if node.after.is_empty() { (none()) } @else { (short(&node.after.join(", "), 120)) } }
                    td.what { (why(node)) }
                }
            } }
        } }
    })
}

/// Why a step was canceled, and where the predicate is that it asks.
fn why(node: &WorkflowNodeJson) -> Markup {
    html! {
        @if let Some(reason) = &node.reason { (short(&reason.replace('_', " "), 120)) }
        @if let Some(asked) = &node.asked {
            @if node.reason.is_some() { "; " }
            a href={ "/jobs/" (asked.job) } { "its predicate" } " " (state(asked.status))
        } @else if node.reason.is_none() { (none()) }
    }
}

fn actions(visit: &PageVisit, one: &WorkflowJson) -> Markup {
    let id = one.id.to_string();
    let at = [("id", id.as_str())];
    let left = one
        .progress
        .total
        .saturating_sub(one.progress.succeeded + one.progress.failed + one.progress.canceled);
    let reason = form::text("reason", "Reason", "", "why");
    let is_paused = one.status.to_string() == "paused";
    html! {
        @if one.finished_at.is_none() {
            div.actions {
                @if is_paused {
                    (visit.confirmed(
                        &WORKFLOW_RESUME,
                        &at,
                        "Resume",
                        &format!("{} that have not ended go on, as their turn comes.", counted(left, "step")),
                        &html! {},
                    ))
                } @else {
                    (visit.confirmed(
                        &WORKFLOW_PAUSE,
                        &at,
                        "Pause",
                        &format!(
                            "Of {} that have not ended, those that have not started wait until it is resumed. What \
                             runs goes on.",
                            counted(left, "step")
                        ),
                        &html! {},
                    ))
                }
                (visit.confirmed(
                    &WORKFLOW_CANCEL,
                    &at,
                    "Cancel",
                    &format!("{} that have not ended are canceled for good.", counted(left, "step")),
                    &reason,
                ))
            }
        }
    }
}
