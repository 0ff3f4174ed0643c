//! Jobs that ended long ago: found by how they ended, and removed for good by those who may.

use axum::body::Bytes;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::shape::{ArchivedJob, Items, PruneAnswer};
use crate::web::act::check;
use crate::web::actions::{ARCHIVE_PRUNE, PageFields};
use crate::web::call::PageProblem;
use crate::web::form;
use crate::web::frame::{PagePlace, heading, no_rows, pages};
use crate::web::visit::{PageVisit, part};
use crate::web::words::{counted, none, short, short_id, span_ms, state, when};

/// Conditions that the address may hold.
const KEPT: [&str; 4] = ["status", "kind", "queue", "created_before"];

/// A day, and the most of them that archived jobs are kept for, longer than anybody asks for.
const DAY_MS: u64 = 24 * 3_600_000;
const MOST_DAYS: u64 = 36_500;

/// As many as the API removes in one go.
const AT_ONCE: u64 = 500;

pub(in crate::web) async fn list(visit: PageVisit) -> Response {
    let body = body(&visit, None).await;
    visit.show(PagePlace::Archive, "Archive", body)
}

/// Counts what would go, and removes nothing.
pub(in crate::web) async fn count(visit: PageVisit, form: Bytes) -> Response {
    let form = PageFields::read(&form);
    let counted = async {
        check(&visit, &form)?;
        let days: Option<u64> = form.get("days").and_then(|days| days.trim().parse().ok());
        let days = days.filter(|days| *days <= MOST_DAYS).ok_or_else(|| {
            let message = "the field `days` is not a whole number up to 36,500";
            PageProblem::new(StatusCode::UNPROCESSABLE_ENTITY, message, "go back and correct it")
        })?;
        let asked = json!({ "keep_ms": days * DAY_MS, "dry_run": true });
        let found: PruneAnswer = visit.calls.ask("/api/v1/archive/prune", &asked).await?;
        body(&visit, Some(&found)).await
    };
    let body = counted.await;
    visit.show(PagePlace::Archive, "Archive", body)
}

async fn body(visit: &PageVisit, old: Option<&PruneAnswer>) -> Result<Markup, PageProblem> {
    let mut kept = KEPT.to_vec();
    kept.push("cursor");
    let found: Items<ArchivedJob> =
        visit.calls.get(&visit.path("/api/v1/archive", &kept, &[("limit", "50")])).await?;
    let lead = html! {
        "Jobs that have ended and were moved out of the way of the others, newest first."
        @if visit.allows("GET /api/v1/retention") { " " a href="/retention" { "How long they are kept" } "." }
    };
    Ok(html! {
        (heading("Archive", &lead, &ask_to_prune(visit)))
        @if let Some(old) = old { (prune(visit, old)) }
        (filters(visit))
        @if found.items.is_empty() { (nothing(visit, &found)) }
        @else { div.wide tabindex="0" { table {
            thead {
                tr {
                    th { "Job" } th { "Kind" } th { "Queue" } th { "State" } th { "Error" } th { "Archived" }
                }
            }
            tbody data-rows="archive" { @for one in &found.items { (row(visit, one)) } }
        } } }
        (pages(visit, "/archive", &KEPT, found.next_cursor.as_deref()))
    })
}

fn row(visit: &PageVisit, one: &ArchivedJob) -> Markup {
    let text = |name: &str| one.job.get(name).and_then(Value::as_str);
    html! {
        tr data-key=(one.id) {
            td { a href={ "/archive/" (one.id) } { code { (short_id(&one.id.to_string())) } } }
            td { code { (short(text("kind").unwrap_or_default(), 60)) } }
            td { (short(text("queue").unwrap_or_default(), 60)) }
            td { (state(one.status)) }
            td.what { @if let Some(error) = text("last_error") { (short(error, 120)) } @else { (none()) } }
            td { (when(visit.now, one.archived_at)) }
        }
    }
}

/// Why a page has no rows: there are none, or none among those that were looked at.
fn nothing(visit: &PageVisit, found: &Items<ArchivedJob>) -> Markup {
    let text = match (&found.next_cursor, visit.uri.query()) {
        (Some(_), _) => "None of the thousand jobs that were looked at is like that; the next page goes on.",
        (None, Some(_)) => "No archived job is like that.",
        (None, None) => "Nothing has been archived yet.",
    };
    no_rows("archive", text)
}

fn filters(visit: &PageVisit) -> Markup {
    let states = ["", "succeeded", "failed", "canceled"];
    let states = states.map(|state| (state, if state.is_empty() { "any" } else { state }));
    let said = |name: &str| visit.asked(name).unwrap_or_default().into_owned();
    html! {
        form.filters action="/archive" method="get" {
            (form::choice("status", "State", visit.asked("status").as_deref(), &states))
            (form::text("kind", "Kind", &said("kind"), "any"))
            (form::text("queue", "Queue", &said("queue"), "any"))
            (form::text("created_before", "Submitted before", &said("created_before"), "2026-01-31T08:00:00Z"))
            button { "Filter" }
            @if visit.uri.query().is_some() { a href="/archive" { "Clear" } }
        }
    }
}

/// Asks how old; what would go is counted before anything does.
fn ask_to_prune(visit: &PageVisit) -> Markup {
    html! {
        @if visit.allows(ARCHIVE_PRUNE.route) {
            details.confirm {
                summary { "Remove old ones…" }
                form.act action="/archive" method="post" {
                    input type="hidden" name="proof" value=(visit.proof());
                    p { "They are counted first; nothing is removed yet. A job that never ran stays in any case." }
                    (form::whole("days", "Archived at least so many days ago", 365, 0, MOST_DAYS))
                    button { "Count them" }
                }
            }
        }
    }
}

/// What will happen to how many, and the button that does it.
fn prune(visit: &PageVisit, old: &PruneAnswer) -> Markup {
    let jobs = old.jobs.unwrap_or_default();
    let said = counted(jobs, "job");
    let fields = html! { input type="hidden" name="keep_ms" value=(old.keep_ms); };
    html! {
        section.will {
            h2 { "What will happen" }
            @if jobs == 0 {
                p.lead { "Nothing: no job that ran was archived at least " (span_ms(old.keep_ms)) " ago." }
            }
            @else {
                p.lead {
                    "Remove " (said) " that "
                    @if jobs == 1 { "was" } @else { "were" }
                    " archived at least " (span_ms(old.keep_ms)) " ago. This cannot be undone: nothing is left but "
                    "idempotency keys. `backstop archive export` keeps a copy elsewhere."
                }
                @if jobs > AT_ONCE { p { "The first " (AT_ONCE) " go at once; do it again for the others." } }
                (visit.form_then(&ARCHIVE_PRUNE, &fields, "/archive", &format!("Remove {said} for good")))
            }
        }
    }
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
