//! Search by id, key, tag or the text of an error.

use axum::http::StatusCode;
use axum::response::Response;
use backstop::{JobId, State};
use backstop_core::incident::Incident;
use backstop_core::job::JobJson;
use maud::{Markup, html};
use serde::Deserialize;

use super::call::PageProblem;
use super::frame::{PagePlace, empty, heading};
use super::views::jobs;
use super::visit::{PageVisit, go_to, part};
use super::words::{counted, short, state};
use crate::shape::{Items, OrderingKeyJson};

/// What may be the beginning of an id; the API takes its first six characters, too. An id as lists show it has its end
/// behind three dots.
fn id_of(text: &str) -> Option<(&str, &str)> {
    let (beginning, end) = text.split_once('…').unwrap_or((text, ""));
    let is_id = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    ((6..=36).contains(&beginning.len()) && is_id(beginning) && is_id(end)).then_some((beginning, end))
}

pub(super) async fn show(visit: PageVisit) -> Response {
    let wanted = visit.asked("q").unwrap_or_default().trim().to_owned();
    let mut meant = Vec::new();
    if let Some((beginning, end)) = id_of(&wanted) {
        match by_id(&visit, beginning, end).await {
            Ok(IdMeans::One(path)) => return go_to(&path),
            Ok(IdMeans::Several(several)) => meant = several,
            Err(problem) => return visit.refuse(PagePlace::None, &problem),
        }
    }
    let body = body(&visit, &wanted, &meant).await;
    visit.show(PagePlace::None, "Find", body)
}

/// A job that the beginning of an id may mean, as the API names it.
#[derive(Debug, Deserialize)]
struct MeantJob {
    id: JobId,
    kind: String,
    queue: String,
    status: State,
    archived: bool,
}

impl MeantJob {
    fn path(&self) -> String {
        format!("/{}/{}", if self.archived { "archive" } else { "jobs" }, self.id)
    }
}

/// What the beginning of an id means: one job, or none or several.
enum IdMeans {
    One(String),
    Several(Vec<MeantJob>),
}

async fn by_id(visit: &PageVisit, beginning: &str, end: &str) -> Result<IdMeans, PageProblem> {
    let problem = match visit.calls.get::<JobJson>(&format!("/api/v1/jobs/{}", part(beginning))).await {
        Ok(job) => return Ok(IdMeans::One(format!("/jobs/{}", job.id))),
        Err(problem) => problem,
    };
    if let Some(archived) = problem.archived_at() {
        return Ok(IdMeans::One(archived));
    }
    if problem.status.is_server_error() {
        return Err(problem);
    }
    let named = problem.details.get("candidates").cloned().unwrap_or_default();
    let mut meant: Vec<MeantJob> = serde_json::from_value(named).unwrap_or_default();
    meant.retain(|one| one.id.to_string().ends_with(end));
    match &meant[..] {
        [one] => Ok(IdMeans::One(one.path())),
        _ => Ok(IdMeans::Several(meant)),
    }
}

/// The jobs that the beginning of an id may mean.
fn several(meant: &[MeantJob]) -> Markup {
    html! {
        @if !meant.is_empty() {
            h2 { "Jobs whose id begins so" }
            ul.plain { @for one in meant {
                li {
                    a href=(one.path()) { code { (one.id) } }
                    " " (state(one.status)) " " code { (short(&one.kind, 60)) } " on " (short(&one.queue, 60))
                    @if one.archived { ", archived" }
                }
            } }
        }
    }
}

/// Ordering keys that wait for a person and have this name.
async fn blocked_keys(visit: &PageVisit, wanted: &str) -> Result<Vec<OrderingKeyJson>, PageProblem> {
    let keys: Option<Items<OrderingKeyJson>> =
        visit.calls.get_if_allowed("/api/v1/ordering-keys?blocked=true&limit=200").await?;
    Ok(keys
        .map(|found| found.items)
        .unwrap_or_default()
        .into_iter()
        .filter(|one| one.key == wanted)
        .collect())
}

async fn body(visit: &PageVisit, wanted: &str, meant: &[MeantJob]) -> Result<Markup, PageProblem> {
    if wanted.is_empty() {
        return Ok(html! {
            (heading(
                "Find",
                &html! { "A job by its id or the beginning of it, a business key, a tag, or words of an error." },
                &html! {},
            ))
        });
    }
    let by = |name: &str| visit.path("/api/v1/jobs", &[], &[(name, wanted), ("limit", "20")]);
    let keyed = jobs_by(visit, &by("business_key")).await?;
    let tagged = jobs_by(visit, &by("tag")).await?;
    let blocked = blocked_keys(visit, wanted).await?;
    let incidents: Option<Items<Incident>> =
        visit.calls.get_if_allowed("/api/v1/incidents?limit=500").await?;
    let lower = wanted.to_lowercase();
    let says = |one: &Incident| {
        [&one.message, &one.kind, &one.error_type].iter().any(|text| text.to_lowercase().contains(&lower))
            || one.fingerprint.as_str().starts_with(&lower)
    };
    let incidents: Vec<Incident> =
        incidents.map(|found| found.items).unwrap_or_default().into_iter().filter(says).collect();
    Ok(html! {
        (heading(
            &format!("Find “{}”", short(wanted, 80)),
            &html! {
                "Among jobs by id, business key and tag, among blocked ordering keys, and among the latest 500 "
                "incidents."
            },
            &html! {},
        ))
        @if keyed.is_empty() && tagged.is_empty() && incidents.is_empty() && blocked.is_empty() && meant.is_empty() {
            (empty("Nothing was found."))
        }
        (several(meant))
        @for key in &blocked {
            p {
                "The ordering key " code { (short(&key.key, 80)) } " is " a href="/parked" { "blocked" } " by "
                a href={ "/jobs/" (key.head) } { code { (short(&key.kind, 60)) } } "."
            }
        }
        @if !incidents.is_empty() {
            h2 { "Incidents" }
            ul.plain { @for one in incidents.iter().take(20) {
                li {
                    a href={ "/incidents/" (part(one.fingerprint.as_str())) } { (short(&one.message, 160)) }
                    " " span.dim { (counted(one.open, "dead letter")) " of " (short(&one.kind, 60)) }
                }
            } }
        }
        @if !keyed.is_empty() { h2 { "Jobs with this business key" } (jobs::table(visit, &keyed)) }
        @if !tagged.is_empty() { h2 { "Jobs with this tag" } (jobs::table(visit, &tagged)) }
    })
}

/// Jobs by a condition; none where the text can be no such thing. That the store does not answer is no reason to say
/// that there are none.
async fn jobs_by(visit: &PageVisit, path: &str) -> Result<Vec<JobJson>, PageProblem> {
    match visit.calls.get::<Items<JobJson>>(path).await {
        Ok(found) => Ok(found.items),
        Err(problem) if problem.status == StatusCode::UNPROCESSABLE_ENTITY => Ok(Vec::new()),
        Err(problem) => Err(problem),
    }
}
