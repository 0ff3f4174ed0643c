//! One plan: where it is, what it has done, and why it stopped if it did.

use axum::extract::Path;
use axum::response::Response;
use backstop_core::redrive::{Plan, PlanJob, PlanPhase};
use maud::{Markup, html};

use super::redrives::{phase, strip};
use crate::shape::{Items, PlanShown};
use crate::web::actions::{REDRIVE_CANCEL, REDRIVE_PAUSE, REDRIVE_RESUME, REDRIVE_START};
use crate::web::call::PageProblem;
use crate::web::frame::{PagePlace, no_rows, pages, sentence};
use crate::web::visit::{PageVisit, part};
use crate::web::words::{counted, none, number, short, short_id, when, when_if};

pub(in crate::web) async fn show(visit: PageVisit, Path(id): Path<String>) -> Response {
    let body = body(&visit, &id).await;
    visit.show(PagePlace::Redrives, "Plan", body)
}

async fn body(visit: &PageVisit, id: &str) -> Result<Markup, PageProblem> {
    let shown: PlanShown = visit.calls.get(&format!("/api/v1/redrives/{}", part(id))).await?;
    let path = format!("/api/v1/redrives/{}/jobs", part(id));
    let jobs: Items<PlanJob> = visit.calls.get(&visit.path(&path, &["cursor"], &[("limit", "50")])).await?;
    let plan = &shown.plan;
    Ok(html! {
        header.heading data-live="plan" {
            div {
                h1 { "Drive again: " (title(plan)) }
                @if plan.phase != PlanPhase::Halted { p.lead { (sentence(&shown.description)) } }
            }
        }
        div data-live="plan-actions" { (actions(visit, plan)) }
        section.progress data-live="plan-progress" {
            (steps(plan))
            (strip(plan))
            (counts(plan))
        }
        @if let Some(halt) = &plan.halted {
            section.halted data-live="plan-halt" {
                @if plan.phase == PlanPhase::Halted {
                    h2 { "Why it halted" }
                    p {
                        (sentence(&short(&halt.why, 500))) " "
                        a href={ "/jobs/" (halt.job) } { "The job that gave the reason" }
                        ", " (when(visit.now, halt.at)) "."
                    }
                    p { "Next: fix the cause, then resume. It begins again with a canary." }
                } @else {
                    p.lead { "It halted " (when(visit.now, halt.at)) ": " (short(&halt.why, 300)) }
                }
            }
        } @else { section data-live="plan-halt" {} }
        (driven(visit, &jobs.items))
        (pages(visit, &format!("/redrives/{}", part(id)), &[], jobs.next_cursor.as_deref()))
        (history(visit, plan))
    })
}

fn title(plan: &Plan) -> String {
    let about = plan.about.as_deref().filter(|about| !about.is_empty());
    match about {
        Some(about) => short(about, 160),
        None if plan.note.is_empty() => counted(plan.expected, "job"),
        None => short(&plan.note, 160),
    }
}

fn actions(visit: &PageVisit, plan: &Plan) -> Markup {
    let at = [("id", plan.id.as_str())];
    let canary = plan.settings.canary;
    let left = plan.expected.saturating_sub(plan.counts.driven);
    let start = format!(
        "{} go back to their queues: {canary} first, the rest after {} succeeded. It halts if the same error returns.",
        counted(plan.expected, "job"),
        if canary == 1 { "it has" } else { "they have" }
    );
    let again = format!("Begins again: {} first, the rest after that.", counted(u64::from(canary), "job"));
    let on = format!("Goes on where it was: {} are still to be driven.", counted(left, "job"));
    let hold = format!(
        "Drives nothing more until it is resumed; {} wait. What is in flight goes on.",
        counted(left, "job")
    );
    let stop = format!("Drives nothing more; {} stay dead. What is in flight goes on.", counted(left, "job"));
    html! {
        div.actions {
            @match plan.phase {
                PlanPhase::Planned => { (visit.confirmed(&REDRIVE_START, &at, "Start", &start, &html! {})) },
                PlanPhase::Paused => { (visit.confirmed(&REDRIVE_RESUME, &at, "Resume", &on, &html! {})) },
                PlanPhase::Halted => {
                    (visit.confirmed(&REDRIVE_RESUME, &at, "Resume with a canary", &again, &html! {}))
                },
                phase if phase.is_moving() => {
                    (visit.confirmed(&REDRIVE_PAUSE, &at, "Pause", &hold, &html! {}))
                },
                _ => {},
            }
            @if !plan.phase.is_final() {
                (visit.confirmed(
                    &REDRIVE_CANCEL,
                    &at,
                    "Cancel the plan",
                    &stop,
                    &html! {},
                ))
            }
        }
    }
}

/// The way of a plan, with the place where it is.
fn steps(plan: &Plan) -> Markup {
    let stages = [
        PlanPhase::Planned,
        PlanPhase::Canary,
        PlanPhase::Gate,
        PlanPhase::Driving,
        PlanPhase::Draining,
        PlanPhase::Done,
    ];
    // One that has stopped is where it stopped: a plan that has driven no batch has not come past its canary.
    let at = match plan.phase {
        PlanPhase::Halted | PlanPhase::Canceled if plan.batches > 0 => PlanPhase::Driving,
        PlanPhase::Halted => PlanPhase::Canary,
        phase => plan.paused_from.unwrap_or(phase),
    };
    let place = stages.iter().position(|stage| *stage == at);
    let has_stopped = matches!(plan.phase, PlanPhase::Halted | PlanPhase::Paused | PlanPhase::Canceled);
    html! {
        ol.stages {
            @for (number, stage) in stages.iter().enumerate() {
                li.past[place.is_some_and(|place| number < place)]
                    aria-current=[(place == Some(number)).then_some("step")] {
                    (stage.as_str())
                    @if place == Some(number) && has_stopped { " " (phase(plan.phase)) }
                }
            }
            @if place.is_none() { li { (phase(plan.phase)) } }
        }
    }
}

fn counts(plan: &Plan) -> Markup {
    let counts = &plan.counts;
    let shown = [
        ("Expected", plan.expected),
        ("Driven", counts.driven),
        ("Succeeded", counts.succeeded),
        ("In flight", u64::from(plan.open)),
        ("Failed the same", counts.failed_same),
        ("Failed otherwise", counts.failed_other),
        ("Left out", counts.skipped + counts.by_hand + counts.gone + counts.canceled),
    ];
    html! { dl.counts { @for (name, count) in shown { div { dt { (name) } dd { (number(count)) } } } } }
}

fn driven(visit: &PageVisit, jobs: &[PlanJob]) -> Markup {
    html! {
        section {
            h2 { "Jobs of the plan" }
            @if jobs.is_empty() { (no_rows("plan-jobs", "Nothing was driven yet.")) }
            @else { div.wide tabindex="0" { table {
                thead {
                    tr { th { "Job" } th { "Part" } th { "Round" } th { "Outcome" } th { "Driven" } th { "Ended" } }
                }
                tbody data-rows="plan-jobs" { @for one in jobs {
                    tr data-key={ (one.job) "-" (one.round) } {
                        td { a href={ "/jobs/" (one.job) } { code { (short_id(&one.job.to_string())) } } }
                        td { (one.part) } td { (one.round) }
                        td {
                            @if let Some(outcome) = &one.outcome {
                                (outcome.as_str().replace('_', " "))
                            } @else {
                                "in flight"
                            }
                        }
                        td { (when(visit.now, one.driven_at)) } td { (when_if(visit.now, one.ended_at)) }
                    }
                } }
            } } }
        }
    }
}

fn history(visit: &PageVisit, plan: &Plan) -> Markup {
    html! {
        section data-live="plan-history" {
            h2 { "What happened" }
            ol.history { @for entry in plan.history.iter().rev() {
                li {
                    (when(visit.now, entry.at)) " "
                    @if let Some(by) = &entry.by { b { (short(by, 60)) } } @else { (none()) }
                    " " (short(&entry.what, 300))
                }
            } }
        }
    }
}
