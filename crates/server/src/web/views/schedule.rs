//! One schedule: what came of its last fires, and when the next ones are.

use axum::extract::Path;
use axum::response::Response;
use backstop::State;
use backstop_core::job::JobJson;
use maud::{Markup, html};

use super::schedules::{actions, missed, rhythm};
use crate::shape::{Items, ScheduleJson};
use crate::web::call::PageProblem;
use crate::web::frame::{PagePlace, heading, no_rows, sentence};
use crate::web::visit::{PageVisit, part};
use crate::web::words::{counted, mark, none, number, short, short_id, span, state, when, when_if};

/// Jobs of its kind and queue among which its own are looked for, and those of them that are shown.
const LOOKED_AT: &str = "200";
const SHOWN: usize = 20;

pub(in crate::web) async fn show(visit: PageVisit, Path(name): Path<String>) -> Response {
    let body = body(&visit, &name).await;
    visit.show(PagePlace::Schedules, "Schedule", body)
}

async fn body(visit: &PageVisit, name: &str) -> Result<Markup, PageProblem> {
    let one: ScheduleJson = visit.calls.get(&format!("/api/v1/schedules/{}", part(name))).await?;
    let path =
        visit.path("/api/v1/jobs", &[], &[("kind", &one.kind), ("queue", &one.queue), ("limit", LOOKED_AT)]);
    let found: Items<JobJson> = visit.calls.get(&path).await?;
    let is_of_it = |job: &&JobJson| job.schedule.as_ref().is_some_and(|by| *by.name == *one.name);
    let fired: Vec<&JobJson> = found.items.iter().filter(is_of_it).take(SHOWN).collect();
    let lead = html! {
        (rhythm(&one)) ": a job of " code { (short(&one.kind, 80)) } " on " (short(&one.queue, 60))
        @if one.paused { ". " (mark("paused", "paused")) }
        @if let Some(problem) = &one.problem { ". " span.bad { (sentence(&short(problem, 300))) } }
    };
    Ok(html! {
        (heading(&short(&one.name, 120), &lead, &html! { a href="/schedules" { "All schedules" } }))
        div.actions data-live="schedule-actions" { (actions(visit, &one)) }
        section data-live="schedule-next" {
            h2 { "Next" }
            @if one.next.is_empty() { p { "It fires no more." } }
            ul.plain { @for at in &one.next { li { (when(visit.now, *at)) " " span.dim { (at) } } } }
            (missed(visit, &one))
        }
        h2 { "Last results" }
        @if fired.is_empty() { (no_rows("fires", "No job of it is among the newest of its kind.")) }
        @else {
            (results(&fired))
            (table(visit, &fired))
            p.since {
                "Of the newest " (LOOKED_AT) " jobs of its kind and queue; those in the archive are not among them."
            }
        }
    })
}

/// A mark for each of its last jobs, the latest on the right.
fn results(fired: &[&JobJson]) -> Markup {
    let count = |state: State| fired.iter().filter(|job| job.status == state).count() as u64;
    let label = format!(
        "Of the last {}, {} succeeded and {} failed",
        counted(fired.len() as u64, "job"),
        number(count(State::Succeeded)),
        number(count(State::Failed))
    );
    html! {
        div data-live="schedule-results" {
            svg.results role="img" aria-label=(label) viewBox={ "0 0 " (SHOWN * 10) " 12" } {
                @for (place, job) in fired.iter().rev().enumerate() {
                    rect.(class(job.status)) x=(place * 10 + 1) y="2" width="8" height="8" {
                        title { (job.status) }
                    }
                }
            }
            " " (label) "."
        }
    }
}

const fn class(state: State) -> &'static str {
    match state {
        State::Succeeded => "good",
        State::Failed => "bad",
        State::Running => "open",
        _ => "rest",
    }
}

fn table(visit: &PageVisit, fired: &[&JobJson]) -> Markup {
    html! {
        div.wide tabindex="0" { table {
            thead {
                tr {
                    th { "Fired for" } th { "Job" } th { "State" } th.n { "Runs" } th { "Ended" } th.n { "Took" }
                    th { "Error" }
                }
            }
            tbody data-rows="fires" { @for job in fired {
                tr data-key=(job.id) {
                    td { @if let Some(by) = &job.schedule { (when(visit.now, by.fire_time)) } @else { (none()) } }
                    td { a href={ "/jobs/" (job.id) } { code { (short_id(&job.id.to_string())) } } }
                    td { (state(job.status)) }
                    td.n { (number(u64::from(job.runs))) }
                    td { (when_if(visit.now, job.finished_at)) }
                    td.n {
                        @if let (Some(from), Some(to)) = (job.started_at, job.finished_at) { (span(to.since(from))) }
                        @else { (none()) }
                    }
                    td.what { @if let Some(error) = &job.last_error { (short(error, 120)) } @else { (none()) } }
                }
            } }
        } }
    }
}
