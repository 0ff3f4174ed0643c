//! Schedules: when each fires next, what came of it last, and holding it back.

use axum::response::Response;
use backstop::Timestamp;
use maud::{Markup, html};

use crate::shape::{Items, ScheduleJson, ScheduleOwnerKind};
use crate::web::actions::{
    SCHEDULE_BACKFILL, SCHEDULE_DELETE, SCHEDULE_PAUSE, SCHEDULE_RESUME, SCHEDULE_RUN,
};
use crate::web::call::PageProblem;
use crate::web::form;
use crate::web::frame::{PagePlace, heading, no_rows, pages};
use crate::web::visit::{PageVisit, part};
use crate::web::words::{counted, mark, none, short, span_ms, when};

/// What stands where no schedule is.
const NO_SCHEDULES: &str =
    "No schedules yet. [schedules.NAME] in backstop.toml adds one; so do programs and the API.";

pub(in crate::web) async fn list(visit: PageVisit) -> Response {
    let body = body(&visit).await;
    visit.show(PagePlace::Schedules, "Schedules", body)
}

async fn body(visit: &PageVisit) -> Result<Markup, PageProblem> {
    let found: Items<ScheduleJson> =
        visit.calls.get(&visit.path("/api/v1/schedules", &["cursor"], &[("limit", "100")])).await?;
    Ok(html! {
        (heading("Schedules", &html! { "Jobs that are submitted by the clock." }, &html! {}))
        @if found.items.is_empty() { (no_rows("schedules", NO_SCHEDULES)) }
        @else { div.wide tabindex="0" { table {
            thead {
                tr {
                    th { "Schedule" } th { "Rhythm" } th { "Job" } th { "Next" } th { "The next five" }
                    th { "Last" } th { "State" } th { "Change" }
                }
            }
            tbody data-rows="schedules" { @for one in &found.items { (row(visit, one)) } }
        } } }
        (pages(visit, "/schedules", &[], found.next_cursor.as_deref()))
    })
}

/// When it fires.
pub(super) fn rhythm(one: &ScheduleJson) -> Markup {
    html! {
        @if let Some(cron) = &one.cron { code { (short(cron, 60)) } }
        @else if let Some(every) = one.every_ms { "every " (span_ms(every)) }
        @if let Some(zone) = &one.time_zone { " " span.dim { (short(zone, 40)) } }
    }
}

fn row(visit: &PageVisit, one: &ScheduleJson) -> Markup {
    html! {
        tr data-key=(one.name) {
            td { a href={ "/schedules/" (part(&one.name)) } { b { (short(&one.name, 80)) } } }
            td { (rhythm(one)) }
            td { code { (short(&one.kind, 60)) } " on " (short(&one.queue, 40)) }
            td { @if let Some(next) = one.next.first() { (when(visit.now, *next)) } @else { (none()) } }
            td { (fires(visit.now, &one.next)) }
            td {
                @if let Some(last) = &one.last { a href={ "/jobs/" (last.job) } { (when(visit.now, last.fire_time)) } }
                @else { (none()) }
                @if let Some(problem) = &one.problem { " " span.bad { (short(problem, 120)) } }
                (missed(visit, one)) }
            td {
                @if one.paused {
                    (mark("paused", "paused"))
                    @if let Some(by) = &one.paused_by { " " span.dim { "by " (short(by, 40)) } }
                } @else {
                    (mark("on", "quiet"))
                }
            }
            td.acts { (actions(visit, one)) }
        }
    }
}

/// What can be done with a schedule.
pub(super) fn actions(visit: &PageVisit, one: &ScheduleJson) -> Markup {
    let at = [("name", one.name.as_str())];
    html! {
        (hold(visit, one))
        (visit.confirmed(
            &SCHEDULE_RUN,
            &at,
            "Run now",
            "One job of it is submitted at once; its rhythm stays as it is.",
            &html! {},
        ))
        (backfill(visit, one))
        @if one.owner == ScheduleOwnerKind::Api {
            (visit.confirmed(
                &SCHEDULE_DELETE,
                &at,
                "Remove",
                "It is gone for good and fires no more. Jobs that it has submitted stay.",
                &html! {},
            ))
        }
    }
}

/// Fires that wait or were passed over, and what becomes of such by its settings.
pub(super) fn missed(visit: &PageVisit, one: &ScheduleJson) -> Markup {
    let settings = format!(
        "Missed fires: {}. While the last job has not ended: {}.",
        one.misfire.to_string().replace('_', " "),
        one.overlap.as_str()
    );
    html! {
        @if one.queued > 0 { div.dim title=(settings) { (counted(one.queued, "fire")) " waiting" } }
        @if let Some(passed) = &one.passed {
            @let reason = serde_json::to_value(passed.reason).unwrap_or_default();
            div.dim title=(settings) {
                "passed over: " (when(visit.now, passed.fire_time)) ", "
                (reason.as_str().unwrap_or_default().replace('_', " "))
            }
        }
    }
}

/// The jobs that it would have submitted in a time that has passed.
fn backfill(visit: &PageVisit, one: &ScheduleJson) -> Markup {
    let fields = html! {
        (form::text("from", "From", "", "such as 2026-01-31T08:00:00Z"))
        (form::text("to", "To, both included", "", "a moment that has passed"))
    };
    visit.confirmed(
        &SCHEDULE_BACKFILL,
        &[("name", one.name.as_str())],
        "Backfill",
        "One job is submitted for each fire time of that range that has none yet, all at once.",
        &fields,
    )
}

/// Holding it back, and letting it go on: what is passed over meanwhile is up to its misfire policy.
fn hold(visit: &PageVisit, one: &ScheduleJson) -> Markup {
    let at = [("name", one.name.as_str())];
    let next =
        one.next.first().map_or_else(|| "none is due".to_owned(), |at| format!("the next is due {at}"));
    if one.paused {
        let happens = format!("It submits jobs again as its rhythm says; {next}.");
        return visit.confirmed(&SCHEDULE_RESUME, &at, "Resume", &happens, &html! {});
    }
    let happens = format!("It submits no job until it is resumed; {next}. Its jobs that are there go on.");
    visit.confirmed(&SCHEDULE_PAUSE, &at, "Pause", &happens, &html! {})
}

/// The next fires on a line from now to the last of them.
fn fires(now: Timestamp, next: &[Timestamp]) -> Markup {
    let Some(last) = next.last() else { return none() };
    let whole = (last.as_micros() - now.as_micros()).max(1);
    let place = |at: &Timestamp| 4 + (at.as_micros() - now.as_micros()).max(0) * 192 / whole;
    html! {
        svg.fires role="img" aria-label={ (next.len()) " fires" } viewBox="0 0 200 12" {
            path.grid d="M0 6H200" {}
            @for at in next { rect x=(place(at) - 2) y="3" width="4" height="6" { title { (at) } } }
        }
    }
}
