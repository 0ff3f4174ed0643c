//! Jobs: a list that follows its address.

use axum::response::Response;
use backstop::State;
use backstop_core::job::JobJson;
use maud::{Markup, html};

use super::job_changes::ListChange;
use crate::shape::Items;
use crate::web::call::PageProblem;
use crate::web::form;
use crate::web::frame::{PagePlace, heading, no_rows, pages};
use crate::web::visit::PageVisit;
use crate::web::words::{none, number, short, short_id, state, when};

/// Conditions that the address may hold, as the API knows them.
pub(super) const KEPT: [&str; 11] = [
    "status",
    "queue",
    "kind",
    "tag",
    "business_key",
    "reason",
    "fingerprint",
    "created_after",
    "created_before",
    "finished_after",
    "finished_before",
];

/// Those of them, the first, that have an input of their own; the others have one while the address holds them.
const TYPED: usize = 5;

/// Conditions that a plan to drive again has too, and those that it has not. The fingerprint becomes its incident.
const DRIVEN_BY: [&str; 6] = ["queue", "kind", "tag", "reason", "finished_after", "finished_before"];
const NOT_DRIVEN_BY: [&str; 3] = ["business_key", "created_after", "created_before"];

pub(in crate::web) async fn list(visit: PageVisit) -> Response {
    let body = body(&visit).await;
    visit.show(PagePlace::Jobs, "Jobs", body)
}

async fn body(visit: &PageVisit) -> Result<Markup, PageProblem> {
    let mut kept = KEPT.to_vec();
    kept.push("cursor");
    let found: Items<JobJson> =
        visit.calls.get(&visit.path("/api/v1/jobs", &kept, &[("limit", "50")])).await?;
    let actions = html! {
        @if visit.allows("POST /api/v1/jobs") { a.button href="/jobs/new" { "Submit a job" } }
        (drive(visit))
        (change(visit))
    };
    Ok(html! {
        (heading("Jobs", &html! { "Newest first. The address holds the filter: send it to somebody." }, &actions))
        (filters(visit))
        @if found.items.is_empty() {
            (no_rows(
                "jobs",
                if visit.uri.query().is_some() { "No job is like that." } else { "No job was submitted yet." },
            ))
        } @else { (table(visit, &found.items)) }
        (pages(visit, "/jobs", &KEPT, found.next_cursor.as_deref()))
    })
}

/// Dead letters that were filtered can be driven again as they were filtered: the plan counts them first. Where a plan
/// cannot be as narrow as the list is, it is not begun from here: it would drive what nobody sees.
fn drive(visit: &PageVisit) -> Markup {
    let dead = visit.asked("status").is_some_and(|status| status == "failed");
    if !dead || !visit.allows("POST /api/v1/redrives") {
        return html! {};
    }
    if let Some(name) = NOT_DRIVEN_BY.into_iter().find(|name| visit.asked(name).is_some()) {
        return html! {
            p.dim { "A plan to drive again cannot be narrowed by " (name.replace('_', " ")) "; leave it out first." }
        };
    }
    let to = match visit.asked("fingerprint") {
        Some(fingerprint) => visit.path("/redrives/new", &DRIVEN_BY, &[("incident", &fingerprint)]),
        None => visit.path("/redrives/new", &DRIVEN_BY, &[]),
    };
    html! { a.button href=(to) { "Drive these again…" } }
}

/// What can be done to all jobs of a state, as they were filtered: they are counted first.
fn change(visit: &PageVisit) -> Markup {
    let status: Option<State> = visit.asked("status").and_then(|status| status.parse().ok());
    let changes = status.into_iter().flat_map(ListChange::of);
    let allowed = changes.filter(|change| visit.allows(change.action().route));
    html! { @for change in allowed {
        @let [word, more] = change.words();
        a.button href=(visit.path("/jobs/change", &KEPT, &[("change", change.name())])) { (word) " these" (more) "…" }
    } }
}

fn filters(visit: &PageVisit) -> Markup {
    let mut states = vec![("", "any")];
    states.extend(State::ALL.iter().map(|state| (state.as_str(), state.as_str())));
    let said = |name: &str| visit.asked(name).unwrap_or_default().into_owned();
    html! {
        form.filters action="/jobs" method="get" {
            (form::choice("status", "State", visit.asked("status").as_deref(), &states))
            (form::text("queue", "Queue", &said("queue"), "any"))
            (form::text("kind", "Kind", &said("kind"), "any"))
            (form::text("tag", "Tag", &said("tag"), "any"))
            (form::text("business_key", "Business key", &said("business_key"), "any"))
            @for name in KEPT.into_iter().skip(TYPED) {
                @if let Some(value) = visit.asked(name) { (form::text(name, &name.replace('_', " "), &value, "")) }
            }
            button { "Filter" }
            @if visit.uri.query().is_some() { a href="/jobs" { "Clear" } }
        }
    }
}

pub(in crate::web) fn table(visit: &PageVisit, jobs: &[JobJson]) -> Markup {
    html! {
        div.wide tabindex="0" { table {
            thead {
                tr {
                    th { "Job" } th { "Kind" } th { "Queue" } th { "State" } th.n { "Runs" } th { "Error" }
                    th { "Created" } th { "Due or ended" }
                }
            }
            tbody data-rows="jobs" { @for job in jobs {
                tr data-key=(job.id) {
                    td { a href={ "/jobs/" (job.id) } { code { (short_id(&job.id.to_string())) } } }
                    td { code { (short(&job.kind, 60)) } }
                    td { (short(&job.queue, 60)) }
                    td { (state(job.status)) }
                    td.n { (number(u64::from(job.runs))) }
                    td.what { @if let Some(error) = &job.last_error { (short(error, 120)) } @else { (none()) } }
                    td { (when(visit.now, job.created_at)) }
                    td { (when(visit.now, job.finished_at.unwrap_or(job.run_at))) }
                }
            } }
        } }
    }
}
