//! Plans to drive dead letters again.

use axum::response::Response;
use backstop_core::redrive::{Plan, PlanPhase};
use maud::{Markup, html};

use crate::shape::{Items, PlanShown};
use crate::web::call::PageProblem;
use crate::web::frame::{PagePlace, heading, no_rows, pages};
use crate::web::visit::{PageVisit, part};
use crate::web::words::{mark, number, short, short_id, when};

pub(in crate::web) async fn list(visit: PageVisit) -> Response {
    let body = body(&visit).await;
    visit.show(PagePlace::Redrives, "Drive again", body)
}

async fn body(visit: &PageVisit) -> Result<Markup, PageProblem> {
    let path = visit.path("/api/v1/redrives", &["cursor"], &[("limit", "50")]);
    let found: Items<PlanShown> = visit.calls.get(&path).await?;
    let new =
        html! { @if visit.allows("POST /api/v1/redrives") { a.button href="/redrives/new" { "New plan" } } };
    Ok(html! {
        (heading(
            "Drive again",
            &html! { "Plans that put dead letters back, a few first and the rest when those succeeded." },
            &new,
        ))
        @if found.items.is_empty() { (no_rows("plans", "No plan yet. Begin with an incident: its button makes one.")) }
        @else {
            div.wide tabindex="0" { table {
                thead {
                    tr {
                        th { "Plan" } th { "About" } th { "Phase" } th { "Progress" } th.n { "Driven" }
                        th.n { "Succeeded" } th.n { "Failed" } th { "Made" }
                    }
                }
                tbody data-rows="plans" { @for one in &found.items {
                    @let plan = &one.plan;
                    tr data-key=(plan.id) {
                        td {
                            a href={ "/redrives/" (part(plan.id.as_str())) } {
                                code { (short_id(plan.id.as_str())) }
                            }
                        }
                        td.what { (short(plan.about.as_deref().unwrap_or(&plan.note), 100)) }
                        td { (phase(plan.phase)) }
                        td { (strip(plan)) }
                        td.n { (number(plan.counts.driven)) " of " (number(plan.expected)) }
                        td.n { (number(plan.counts.succeeded)) }
                        td.n { (number(plan.counts.failed_same + plan.counts.failed_other)) }
                        td { (when(visit.now, plan.created_at)) " by " (short(&plan.created_by, 40)) }
                    }
                } }
            } }
        }
        (pages(visit, "/redrives", &[], found.next_cursor.as_deref()))
    })
}

/// Where a plan is, as a mark.
pub(super) fn phase(phase: PlanPhase) -> Markup {
    let sort = match phase {
        PlanPhase::Halted => "failed",
        PlanPhase::Paused | PlanPhase::Gate => "paused",
        PlanPhase::Canary | PlanPhase::Driving | PlanPhase::Draining => "running",
        _ => "quiet",
    };
    mark(phase.as_str(), sort)
}

/// How far a plan is: what succeeded, what failed, what is under way, and what is still to come.
pub(super) fn strip(plan: &Plan) -> Markup {
    let (total, counts) = (plan.expected.max(plan.counts.driven).max(1), &plan.counts);
    let failed = counts.failed_same + counts.failed_other;
    let share = |count: u64| 1_000 * count / total;
    let (good, bad, open) = (share(counts.succeeded), share(failed), share(u64::from(plan.open)));
    let label =
        format!("{} of {} succeeded, {} failed, {} under way", counts.succeeded, total, failed, plan.open);
    html! {
        svg.strip role="img" aria-label=(label) viewBox="0 0 1000 10" preserveAspectRatio="none" {
            rect.rest width="1000" height="10" {}
            rect.good width=(good) height="10" {}
            rect.bad x=(good) width=(bad) height="10" {}
            rect.open x=(good + bad) width=(open) height="10" {}
        }
    }
}
